//! The kinds of events.

use std::fmt;
use std::sync::Arc;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident => $text:literal,)+) => {
        /// The kind of an event: one that this program writes, or any other that a log may hold.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum EventKind {
            $($(#[$doc])* $name,)+
            /// A kind that this program does not write. It is kept, and folds to nothing.
            Other(Arc<str>),
        }

        impl EventKind {
            /// Every kind that this program writes.
            pub const WRITTEN: &'static [Self] = &[$(Self::$name),+];

            /// The spelling on the wire.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$name => $text,)+
                    Self::Other(text) => text,
                }
            }

            /// The kind of that spelling.
            pub fn parse(text: &str) -> Self {
                match text {
                    $($text => Self::$name,)+
                    other => Self::Other(other.into()),
                }
            }
        }
    };
}

kinds! {
    /// The run began.
    RunStarted => "run.started",
    /// The run ended as it should.
    RunCompleted => "run.completed",
    /// The run ended with an error.
    RunFailed => "run.failed",
    /// The run was ended by somebody.
    RunCancelled => "run.cancelled",
    /// The run was halted for a while.
    RunPaused => "run.paused",
    /// The run goes on after a pause or a restart.
    RunResumed => "run.resumed",
    /// Somebody wants the run to halt once the nodes that work have ended.
    PauseRequested => "interlock.pauseRequested",
    /// An attempt of a node began.
    NodeStarted => "node.started",
    /// A node is done.
    NodeCompleted => "node.completed",
    /// A node gave up.
    NodeFailed => "node.failed",
    /// A node waits for somebody.
    NodeSuspended => "node.suspended",
    /// What a node waited for is there.
    NodeResumed => "node.resumed",
    /// A node will be tried again.
    NodeRetried => "node.retried",
    /// A node is not needed.
    NodeSkipped => "node.skipped",
    /// A node was ended by somebody.
    NodeCancelled => "node.cancelled",
    /// A node started a child run, or learnt that it waits for somebody, goes on, or ended.
    NodeDispatched => "node.dispatched",
    /// Somebody has to approve.
    ApprovalRequested => "approval.requested",
    /// Somebody decided.
    ApprovalReceived => "approval.received",
    /// A governance gate was granted.
    ApprovalGranted => "approval.granted",
    /// A governance gate was rejected.
    ApprovalRejected => "approval.rejected",
    /// A governance gate was overridden.
    ApprovalOverridden => "approval.overridden",
    /// Somebody has to answer questions.
    ClarificationRequested => "clarification.requested",
    /// The questions were answered.
    ClarificationResolved => "clarification.resolved",
    /// The run waits for something from outside.
    InterruptRequested => "interrupt.requested",
    /// What the run waited for is there.
    InterruptResolved => "interrupt.resolved",
    /// A channel was written to.
    ChannelWritten => "channel.written",
    /// An artifact was made.
    ArtifactCreated => "artifact.created",
    /// A piece of output of a model.
    OutputChunk => "output.chunk",
    /// A variable has another value.
    VariableChanged => "variable.changed",
    /// A line for the log.
    LogAppended => "log.appended",
    /// A change was pinned for this run.
    VersionPinned => "version.pinned",
    /// A loop went round too often.
    LoopbackLimit => "workflow.loopback-limit",
    /// A limit was reached.
    CapBreached => "cap.breached",
    /// A replay did not do what was recorded.
    ReplayDiverged => "replay.diverged",
    /// An agent told its reasoning.
    AgentReasoned => "agent.reasoned",
    /// A piece of an agent's reasoning.
    AgentReasoningDelta => "agent.reasoning.delta",
    /// An agent called a tool.
    AgentToolCalled => "agent.toolCalled",
    /// A tool answered an agent.
    AgentToolReturned => "agent.toolReturned",
    /// An agent handed over to another.
    AgentHandoff => "agent.handoff",
    /// An agent decided.
    AgentDecided => "agent.decided",
    /// The supervisor decided what is next.
    OrchestratorDecided => "runOrchestrator.decided",
    /// A conversation began.
    ConversationOpened => "conversation.opened",
    /// A turn of a conversation.
    ConversationExchanged => "conversation.exchanged",
    /// A conversation ended.
    ConversationClosed => "conversation.closed",
    /// A step of a handoff to a child run.
    WorkflowChainEvent => "core.workflowChain.event",
    /// A decision was too unsure to act on.
    ConfidenceEscalated => "core.workflowChain.confidence-escalated",
    /// Several child runs were started at once.
    DispatchFanOut => "core.dispatch.fanOut",
    /// Several child runs were joined.
    DispatchJoin => "core.dispatch.join",
    /// A model cannot do what a node needs.
    ModelCapabilityInsufficient => "model.capability.insufficient",
    /// What a call to a provider used.
    ProviderUsage => "provider.usage",
    /// A model of the host cannot do what the node needs, and another one can.
    ModelCapabilitySubstituted => "model.capability.substituted",
    /// A model is asked again.
    EnvelopeRetryAttempted => "envelope.retry.attempted",
    /// A model was asked as often as it may be.
    EnvelopeRetryExhausted => "envelope.retry.exhausted",
    /// A model refused.
    EnvelopeRefusal => "envelope.refusal",
    /// The answer of a model was cut off.
    EnvelopeTruncated => "envelope.truncated",
    /// A model was asked to put its own words into a form.
    EnvelopeNlToFormatEngaged => "envelope.nlToFormat.engaged",
    /// The answer of a model was read with some leniency.
    EnvelopeRecoveryApplied => "envelope.recovery.applied",
    /// It was decided which prompt a node uses.
    AgentPromptResolved => "agent.promptResolved",
    /// A prompt was put together.
    PromptComposed => "prompt.composed",
}

impl EventKind {
    /// Whether nothing can follow.
    pub const fn is_terminal(&self) -> bool {
        matches!(self, Self::RunCompleted | Self::RunFailed | Self::RunCancelled)
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_read_back_as_itself() {
        for kind in EventKind::WRITTEN {
            assert_eq!(EventKind::parse(kind.as_str()), *kind);
        }
        assert_eq!(EventKind::parse("acme.thing").as_str(), "acme.thing");
    }
}
