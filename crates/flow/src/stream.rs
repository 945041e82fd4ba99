//! Which events a stream shows.

use crate::event::EventKind;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamMode {
    /// The changes of the run.
    Updates,
    /// The snapshot after each change.
    Values,
    /// Chunks of model output.
    Messages,
    /// Everything.
    Debug,
}

impl StreamMode {
    pub const ALL: [Self; 4] = [Self::Updates, Self::Values, Self::Messages, Self::Debug];

    /// The spelling in a request.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Updates => "updates",
            Self::Values => "values",
            Self::Messages => "messages",
            Self::Debug => "debug",
        }
    }
}

/// The modes of one stream: `values` alone, or any of the others together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamModes(Vec<StreamMode>);

/// The `streamMode` of a request is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`streamMode` must be `values` alone, or a comma-separated list of `updates`, `messages` and `debug`"
)]
pub struct UnsupportedMode;

impl StreamModes {
    /// Parses a list such as `updates,debug`. The default is `updates`.
    ///
    /// # Errors
    /// A mode is unknown, or `values` is combined with other modes.
    pub fn parse(text: Option<&str>) -> Result<Self, UnsupportedMode> {
        let Some(text) = text else { return Ok(Self(vec![StreamMode::Updates])) };
        let mode = |name: &str| StreamMode::ALL.into_iter().find(|mode| mode.as_str() == name.trim());
        let modes: Vec<_> = text.split(',').map(mode).collect::<Option<_>>().ok_or(UnsupportedMode)?;
        if modes.contains(&StreamMode::Values) && modes.iter().any(|mode| *mode != StreamMode::Values) {
            return Err(UnsupportedMode);
        }
        Ok(Self(modes))
    }

    /// Whether the stream shows snapshots instead of events.
    pub fn is_values(&self) -> bool {
        self.0.contains(&StreamMode::Values)
    }

    /// Whether the stream shows events of that kind. For `values`: whether an event of that kind is followed by a snapshot.
    pub fn show(&self, kind: &EventKind) -> bool {
        self.0.iter().any(|mode| match mode {
            StreamMode::Debug => true,
            StreamMode::Updates => is_update(kind),
            StreamMode::Values => is_update(kind) || *kind == EventKind::NodeStarted,
            StreamMode::Messages => *kind == EventKind::OutputChunk,
        })
    }
}

fn is_update(kind: &EventKind) -> bool {
    match kind {
        EventKind::RunStarted
        | EventKind::RunCompleted
        | EventKind::RunFailed
        | EventKind::RunCancelled
        | EventKind::RunPaused
        | EventKind::RunResumed
        | EventKind::PauseRequested
        | EventKind::NodeCompleted
        | EventKind::NodeFailed
        | EventKind::NodeSuspended
        | EventKind::NodeResumed
        | EventKind::NodeSkipped
        | EventKind::NodeCancelled
        | EventKind::NodeDispatched
        | EventKind::ApprovalRequested
        | EventKind::ApprovalReceived
        | EventKind::ApprovalGranted
        | EventKind::ApprovalRejected
        | EventKind::ApprovalOverridden
        | EventKind::ClarificationRequested
        | EventKind::ClarificationResolved
        | EventKind::InterruptRequested
        | EventKind::InterruptResolved
        | EventKind::ArtifactCreated
        | EventKind::CapBreached => true,
        EventKind::Other(kind) => {
            ["run.", "approval.", "clarification.", "interrupt.", "eval.", "deployment."]
                .iter()
                .any(|p| kind.starts_with(p))
                || &**kind == "workspace.updated"
        }
        EventKind::NodeStarted
        | EventKind::NodeRetried
        | EventKind::ChannelWritten
        | EventKind::OutputChunk
        | EventKind::VariableChanged
        | EventKind::LogAppended
        | EventKind::VersionPinned
        | EventKind::LoopbackLimit
        | EventKind::ReplayDiverged
        | EventKind::AgentReasoned
        | EventKind::AgentReasoningDelta
        | EventKind::AgentToolCalled
        | EventKind::AgentToolReturned
        | EventKind::AgentHandoff
        | EventKind::AgentDecided
        | EventKind::OrchestratorDecided
        | EventKind::ConversationOpened
        | EventKind::ConversationExchanged
        | EventKind::ConversationClosed
        | EventKind::WorkflowChainEvent
        | EventKind::ConfidenceEscalated
        | EventKind::DispatchFanOut
        | EventKind::DispatchJoin
        | EventKind::ModelCapabilityInsufficient
        | EventKind::ModelCapabilitySubstituted
        | EventKind::ProviderUsage
        | EventKind::EnvelopeRetryAttempted
        | EventKind::EnvelopeRetryExhausted
        | EventKind::EnvelopeRefusal
        | EventKind::EnvelopeTruncated
        | EventKind::EnvelopeNlToFormatEngaged
        | EventKind::EnvelopeRecoveryApplied
        | EventKind::AgentPromptResolved
        | EventKind::PromptComposed => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_parsed_and_select_events() {
        let cases = [
            (None, true, false, false),
            (Some("updates"), true, false, false),
            (Some("debug"), true, true, true),
            (Some("messages"), false, false, true),
            (Some("updates,messages"), true, false, true),
            (Some("values"), true, true, false),
        ];
        for (text, completed, started, chunk) in cases {
            let modes = StreamModes::parse(text).unwrap();
            assert_eq!(modes.show(&EventKind::RunCompleted), completed, "{text:?}");
            assert_eq!(modes.show(&EventKind::NodeStarted), started, "{text:?}");
            assert_eq!(modes.show(&EventKind::OutputChunk), chunk, "{text:?}");
        }
        let shown = [
            "run.paused",
            "run.resumed",
            "node.skipped",
            "node.cancelled",
            "node.suspended",
            "node.dispatched",
        ];
        let shown =
            shown.into_iter().chain(["approval.requested", "clarification.resolved", "interrupt.requested"]);
        let shown = shown.chain(["artifact.created", "workspace.updated", "eval.started", "deployment.done"]);
        let hidden = ["node.started", "node.retried", "variable.changed", "version.pinned", "lease.acquired"];
        let hidden = hidden.into_iter().chain(["log.appended", "acme.thing"]);
        let updates = StreamModes::parse(None).unwrap();
        let debug = StreamModes::parse(Some("debug")).unwrap();
        for (kind, expected) in shown.map(|kind| (kind, true)).chain(hidden.map(|kind| (kind, false))) {
            assert_eq!(updates.show(&EventKind::parse(kind)), expected, "{kind}");
            assert!(debug.show(&EventKind::parse(kind)), "{kind}");
        }
        for text in ["", "all", "updates,all", "values,updates", "debug,values"] {
            assert_eq!(StreamModes::parse(Some(text)), Err(UnsupportedMode), "{text}");
        }
    }
}
