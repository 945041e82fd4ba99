//! The kinds of interrupts.

use crate::run::RunStatus;
use crate::wire_enum::wire_enum;

wire_enum! {
    /// What an interrupt waits for.
    pub enum InterruptKind {
        /// A person must approve.
        Approval => "approval",
        /// A person must answer questions.
        Clarification => "clarification",
        /// An external event must happen.
        ExternalEvent => "external-event",
        /// Defined by the author.
        Custom => "custom",
        /// A conversation must be started.
        ConversationStart => "conversation.start",
        /// A turn of a conversation.
        ConversationExchange => "conversation.exchange",
        /// A conversation must be ended.
        ConversationClose => "conversation.close",
        /// The confidence of an agent's decision was too low.
        LowConfidence => "low-confidence",
    }
}

impl InterruptKind {
    /// The status of a run that waits for this kind of interrupt.
    pub const fn waiting(self) -> RunStatus {
        match self {
            Self::Approval | Self::LowConfidence | Self::ConversationExchange => RunStatus::WaitingApproval,
            Self::ExternalEvent => RunStatus::WaitingExternal,
            Self::Clarification | Self::Custom | Self::ConversationStart | Self::ConversationClose => {
                RunStatus::WaitingInput
            }
        }
    }
}
