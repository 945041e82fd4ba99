//! The kinds of interrupts.

use crate::run::RunStatus;
use crate::wire_enum::wire_enum;

wire_enum! {
    /// What an interrupt waits for.
    pub enum InterruptKind {
        /// A person has to approve.
        Approval => "approval",
        /// A person has to answer questions.
        Clarification => "clarification",
        /// Something outside has to happen.
        ExternalEvent => "external-event",
        /// Whatever the author says.
        Custom => "custom",
        /// A conversation is to begin.
        ConversationStart => "conversation.start",
        /// A turn of a conversation.
        ConversationExchange => "conversation.exchange",
        /// A conversation is to end.
        ConversationClose => "conversation.close",
        /// An agent was too unsure of what it decided.
        LowConfidence => "low-confidence",
    }
}

impl InterruptKind {
    /// The status of a run that waits for it.
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
