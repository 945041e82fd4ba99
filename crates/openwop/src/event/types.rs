//! The table of event types: the names in both versions, and what happens to the members of the payload.

use Extra::{Closed, Hatch, Open};
use Rule::{
    Announcement, Asked, AtLeastOne, AtMost, Below, Decision, Default, Error, Interrupt, OneOf, Owner,
    Question, Reducer, Renamed, Run, Runs, Same, SameAgent, Subject, TypeName,
};

/// Which members beside the listed ones a payload may have in version 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extra {
    /// None.
    Closed,
    /// Members whose names begin with `x-`, `openwop-` or `vendor.`.
    Hatch,
    /// Any.
    Open,
}

/// What happens to a member of the payload. A member without a rule keeps its name, if the type has it in version 2, and becomes an
/// extension member otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// The id of a run.
    Run(&'static str),
    /// A list of ids of runs.
    Runs(&'static str),
    /// The id of an interrupt. The id of version 1 is kept as `x-interlock-key`.
    Interrupt(&'static str),
    /// A principal, and the member that has its subject.
    Subject(&'static str, &'static str),
    /// The owner of the run.
    Owner(&'static str),
    /// An error with a code.
    Error(&'static str),
    /// Another name.
    Renamed(&'static str, &'static str),
    /// A member that is inside of another one in version 2.
    Below(&'static str, &'static str, &'static str),
    /// Left out if it equals another member.
    Same(&'static str, &'static str),
    /// Left out if it is an object with only `agentId`, which equals another member.
    SameAgent(&'static str, &'static str),
    /// Required in version 2.
    Default(&'static str, DefaultValue),
    /// A count that is not 0 in version 2; otherwise it becomes an extension member.
    AtLeastOne(&'static str),
    /// A text with at most so many characters in version 2; otherwise it becomes an extension member.
    AtMost(&'static str, usize),
    /// One of these texts in version 2; otherwise it becomes an extension member.
    OneOf(&'static str, &'static [&'static str]),
    /// The name of an event type.
    TypeName(&'static str),
    /// The name of a reducer. `message` exists in version 1 only.
    Reducer(&'static str),
    /// A question: `interruptId`, `nodeId`, `runId` and `requestedAt` are derived from the envelope and from `node.suspended`.
    Question,
    /// The announcement of a question of this kind: its members are in `data`.
    Announcement(&'static str),
    /// An answer to the open question of the node: the kind of the question, and the decision if the type implies one.
    Asked(&'static str, Option<&'static str>),
    /// The action and the decision of a resolved approval, computed from the answer.
    Decision,
}

/// The value of a member that version 1 left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DefaultValue {
    EmptyObject,
}

/// The actions that resolve an approval.
pub(super) const ACTIONS: [&str; 5] = ["accept", "reject", "refine", "edit-accept", "timeout"];
const LEVELS: [&str; 4] = ["debug", "info", "warn", "error"];

/// A row of the table.
#[derive(Debug)]
pub struct EventType {
    /// The name in version 1.
    pub v1: &'static str,
    /// The name in version 2.
    pub v2: &'static str,
    pub extra: Extra,
    /// The members in version 2. `None` for types that this program does not write: their payloads pass unchanged.
    pub members: Option<&'static [&'static str]>,
    pub(super) rules: &'static [Rule],
}

const fn written(
    v1: &'static str,
    v2: &'static str,
    extra: Extra,
    members: &'static [&'static str],
    rules: &'static [Rule],
) -> EventType {
    EventType { v1, v2, extra, members: Some(members), rules }
}

const fn known(v1: &'static str, v2: &'static str) -> EventType {
    EventType { v1, v2, extra: Closed, members: None, rules: &[] }
}

/// Every registered type.
pub static TYPES: &[EventType] = &[
    written(
        "run.started",
        "run.started",
        Hatch,
        &["workflowId", "inputs", "transport", "engineVersion", "owner", "tags", "metadata"],
        &[Owner("owner")],
    ),
    written(
        "run.completed",
        "run.completed",
        Hatch,
        &["outputs", "durationMs"],
        &[Default("outputs", DefaultValue::EmptyObject)],
    ),
    written("run.failed", "run.failed", Hatch, &["error", "failedNodeId", "durationMs"], &[Error("error")]),
    written(
        "run.cancelled",
        "run.cancelled",
        Hatch,
        &["reason", "cancelledBy", "durationMs", "parentRunId"],
        &[Run("parentRunId")],
    ),
    written(
        "run.paused",
        "run.paused",
        Hatch,
        &["reason", "drainPolicy", "interruptedNodeId", "interruptedAttempt"],
        &[],
    ),
    written("run.resumed", "run.resumed", Open, &[], &[]),
    known("run.restored-from-snapshot", "run.restored-from-snapshot"),
    written("node.started", "node.started", Hatch, &["nodeId", "typeId", "attempt"], &[]),
    written("node.completed", "node.completed", Hatch, &["nodeId", "outputs", "durationMs"], &[]),
    written(
        "node.failed",
        "node.failed",
        Hatch,
        &["nodeId", "error", "attempts"],
        &[Error("error"), AtLeastOne("attempts")],
    ),
    written(
        "node.suspended",
        "node.suspended",
        Hatch,
        &["nodeId", "interruptId", "kind", "reason", "key"],
        &[Interrupt("interruptId"), AtMost("reason", 64)],
    ),
    known("node.suspend-failed", "node.suspend-failed"),
    written(
        "node.resumed",
        "node.resumed",
        Hatch,
        &["nodeId", "interruptId", "resumeValue"],
        &[Interrupt("interruptId")],
    ),
    written(
        "node.retried",
        "node.retried",
        Hatch,
        &["nodeId", "attempt", "delayMs", "lastError"],
        &[Error("lastError"), AtLeastOne("attempt")],
    ),
    written("node.skipped", "node.skipped", Hatch, &["nodeId", "reason"], &[]),
    written("node.cancelled", "node.cancelled", Hatch, &["nodeId", "reason"], &[]),
    written(
        "approval.requested",
        "approval.requested",
        Closed,
        &["kind", "key", "data", "resumeSchema", "timeoutMs"],
        &[Announcement("approval")],
    ),
    written(
        "approval.received",
        "approval.received",
        Hatch,
        &[
            "nodeId",
            "interruptId",
            "kind",
            "reason",
            "resumeValue",
            "resolvedBy",
            "decision",
            "action",
            "refineFeedback",
            "editedArtifactData",
        ],
        &[Subject("decidedBy", "resolvedBy"), Asked("approval", None), OneOf("action", &ACTIONS)],
    ),
    written(
        "approval.granted",
        "approval.granted",
        Hatch,
        &[
            "nodeId",
            "interruptId",
            "kind",
            "reason",
            "resumeValue",
            "resolvedBy",
            "decision",
            "action",
            "refineFeedback",
            "editedArtifactData",
        ],
        &[
            Renamed("gateId", "nodeId"),
            Subject("principal", "resolvedBy"),
            Asked("approval", Some("granted")),
        ],
    ),
    written(
        "approval.rejected",
        "approval.rejected",
        Hatch,
        &[
            "nodeId",
            "interruptId",
            "kind",
            "reason",
            "resumeValue",
            "resolvedBy",
            "decision",
            "action",
            "refineFeedback",
            "editedArtifactData",
        ],
        &[
            Renamed("gateId", "nodeId"),
            Subject("principal", "resolvedBy"),
            Asked("approval", Some("rejected")),
            Renamed("reason", "x-interlock-comment"),
        ],
    ),
    written(
        "approval.overridden",
        "approval.overridden",
        Hatch,
        &[
            "nodeId",
            "interruptId",
            "kind",
            "reason",
            "resumeValue",
            "resolvedBy",
            "decision",
            "action",
            "refineFeedback",
            "editedArtifactData",
        ],
        &[
            Renamed("gateId", "nodeId"),
            Subject("principal", "resolvedBy"),
            Asked("approval", Some("overridden")),
            Renamed("reason", "x-interlock-comment"),
        ],
    ),
    written(
        "clarification.requested",
        "clarification.requested",
        Closed,
        &["kind", "key", "data", "resumeSchema", "timeoutMs"],
        &[Announcement("clarification")],
    ),
    written(
        "clarification.resolved",
        "clarification.resolved",
        Hatch,
        &[
            "nodeId",
            "interruptId",
            "kind",
            "reason",
            "resumeValue",
            "resolvedBy",
            "decision",
            "action",
            "refineFeedback",
            "editedArtifactData",
        ],
        &[
            Subject("answeredBy", "resolvedBy"),
            Asked("clarification", None),
            Below("answers", "resumeValue", "answers"),
        ],
    ),
    written(
        "interrupt.requested",
        "interrupt.requested",
        Closed,
        &["kind", "key", "data", "resumeSchema", "timeoutMs"],
        &[Question],
    ),
    written(
        "interrupt.resolved",
        "interrupt.resolved",
        Hatch,
        &[
            "nodeId",
            "interruptId",
            "kind",
            "reason",
            "resumeValue",
            "resolvedBy",
            "decision",
            "action",
            "refineFeedback",
            "editedArtifactData",
        ],
        &[Interrupt("interruptId"), Subject("resolvedBy", "resolvedBy"), Decision],
    ),
    written(
        "channel.written",
        "channel.written",
        Closed,
        &[
            "channel",
            "value",
            "reducer",
            "writtenAt",
            "nodeId",
            "schemaVersion",
            "sourceEngineId",
            "sourceRunId",
        ],
        &[Reducer("reducer")],
    ),
    known("channel.presence", "channel.presence"),
    known("context.summarized", "context.summarized"),
    written(
        "artifact.created",
        "artifact.created",
        Hatch,
        &["artifactId", "artifactType", "nodeId", "version", "summary", "registered", "registrationSource"],
        &[],
    ),
    written(
        "output.chunk",
        "output.chunk",
        Hatch,
        &["nodeId", "runId", "chunk", "isLast", "channel", "meta"],
        &[Run("runId")],
    ),
    written("variable.changed", "variable.changed", Hatch, &["name", "previous", "next", "nodeId"], &[]),
    written(
        "log.appended",
        "log.appended",
        Hatch,
        &["level", "message", "nodeId", "fields"],
        &[OneOf("level", &LEVELS)],
    ),
    written("version.pinned", "version.pinned", Hatch, &["changeId", "version", "nodeId"], &[]),
    known("workflow.restored", "workflow.restored"),
    written(
        "workflow.loopback-limit",
        "workflow.loopback-limit",
        Hatch,
        &["nodeId", "iterations", "limit"],
        &[],
    ),
    known("workflow.stalled", "workflow.stalled"),
    written("cap.breached", "cap.breached", Hatch, &["kind", "limit", "observed", "nodeId"], &[]),
    known("lease.acquired", "lease.acquired"),
    known("lease.renewed", "lease.renewed"),
    known("lease.lost", "lease.lost"),
    known("lease.handed-off", "lease.handed-off"),
    written(
        "replay.diverged",
        "replay.diverged",
        Hatch,
        &["sourceRunId", "atSequence", "originalEventId", "divergenceKind", "divergencePoint"],
        &[Run("sourceRunId"), TypeName("divergencePoint")],
    ),
    written(
        "agent.reasoned",
        "agent.reasoned",
        Hatch,
        &["agentId", "reasoning", "verbosity", "causationHostId"],
        &[],
    ),
    written(
        "provider.usage",
        "provider.usage",
        Closed,
        &[
            "provider",
            "model",
            "inputTokens",
            "outputTokens",
            "totalTokens",
            "costEstimateUsd",
            "currency",
            "cacheHit",
            "cacheReadTokens",
            "cacheWriteTokens",
            "nodeId",
            "traceId",
        ],
        &[],
    ),
    written(
        "prompt.composed",
        "prompt.composed",
        Closed,
        &[
            "nodeId",
            "refs",
            "kind",
            "hash",
            "composed",
            "systemPrompt",
            "userPrompt",
            "variableBindings",
            "variableHashes",
            "contentTrust",
            "causationHostId",
        ],
        &[],
    ),
    written(
        "envelope.refusal",
        "envelope.refusal",
        Closed,
        &["nodeId", "provider", "model", "refusalText", "safetyCategory"],
        &[],
    ),
    written(
        "envelope.truncated",
        "envelope.truncated",
        Closed,
        &["nodeId", "provider", "model", "stopReason", "partialPayloadAvailable", "outputTokenCount"],
        &[],
    ),
    written(
        "agent.handoff",
        "agent.handoff",
        Hatch,
        &["fromAgentId", "toAgentId", "reason", "causationHostId"],
        &[Same("agentId", "fromAgentId"), SameAgent("from", "fromAgentId"), SameAgent("to", "toAgentId")],
    ),
    written(
        "agent.decided",
        "agent.decided",
        Hatch,
        &["agentId", "decision", "confidence", "causationHostId"],
        &[],
    ),
    known("agent.verified", "agent.verified"),
    known("eval.started", "eval.started"),
    known("eval.scored", "eval.scored"),
    known("eval.completed", "eval.completed"),
    known("deployment.promoted", "deployment.promoted"),
    known("deployment.rolled-back", "deployment.rolled-back"),
    known("egress.decided", "egress.decided"),
    known("budget.reserved", "budget.reserved"),
    known("budget.consumed", "budget.consumed"),
    known("budget.exhausted", "budget.exhausted"),
    written(
        "node.dispatched",
        "node.dispatched",
        Closed,
        &["childRunId", "childWorkflowId", "childStatus"],
        &[Run("childRunId")],
    ),
    written(
        "conversation.opened",
        "conversation.opened",
        Hatch,
        &["conversationId", "openedBy", "agentId", "participants", "initialTurn", "schema", "capabilities"],
        &[],
    ),
    written(
        "conversation.exchanged",
        "conversation.exchanged",
        Hatch,
        &["conversationId", "turnIndex", "turn", "outcome"],
        &[],
    ),
    written(
        "conversation.closed",
        "conversation.closed",
        Hatch,
        &["conversationId", "reason", "turnCount"],
        &[],
    ),
    known("memory.compacted", "memory.compacted"),
    known("memory.written", "memory.written"),
    known("commitment.fired", "commitment.fired"),
    known("workspace.updated", "workspace.updated"),
    known("connector.authorized", "connector.authorized"),
    known("authorization.decided", "authorization.decided"),
    known("proposal.created", "proposal.created"),
    known("proposal.activated", "proposal.activated"),
    known("goal.evaluated", "goal.evaluated"),
    known("goal.closed", "goal.closed"),
    known("import.applied", "import.applied"),
    known("voice.transcript", "voice.transcript"),
    known("voice.cancelled", "voice.cancelled"),
    known("compensation.requested", "compensation.requested"),
    known("compensation.started", "compensation.started"),
    known("compensation.completed", "compensation.completed"),
    known("compensation.failed", "compensation.failed"),
    known("compensation.paused", "compensation.paused"),
    known("run.resuming", "run.resume-started"),
    known("run.dead_lettered", "run.dead-lettered"),
    written(
        "replay.divergedAtRefusal",
        "replay.diverged-at-refusal",
        Closed,
        &[
            "sourceRunId",
            "atSequence",
            "originalEnvelopeKind",
            "replayEnvelopeKind",
            "originalEventId",
            "nodeId",
            "refusalReason",
        ],
        &[Run("sourceRunId")],
    ),
    written(
        "agent.reasoning.delta",
        "agent.reasoning-delta",
        Hatch,
        &["agentId", "delta", "sequence", "verbosity"],
        &[],
    ),
    written(
        "agent.promptResolved",
        "agent.prompt-resolved",
        Closed,
        &["nodeId", "kind", "chain", "resolved", "agentId", "causationHostId"],
        &[],
    ),
    written(
        "model.capability.substituted",
        "model.capability-substituted",
        Closed,
        &[
            "nodeId",
            "originalProvider",
            "originalModel",
            "fallbackProvider",
            "fallbackModel",
            "missingCapabilities",
        ],
        &[],
    ),
    written(
        "model.capability.insufficient",
        "model.capability-insufficient",
        Closed,
        &["nodeId", "provider", "model", "missingCapabilities", "fallbackAttempted"],
        &[],
    ),
    written(
        "envelope.retry.attempted",
        "envelope.retry-attempted",
        Closed,
        &["nodeId", "attempt", "reason", "previousError"],
        &[],
    ),
    written(
        "envelope.retry.exhausted",
        "envelope.retry-exhausted",
        Closed,
        &["nodeId", "totalAttempts", "finalReason", "finalError"],
        &[],
    ),
    written(
        "envelope.nlToFormat.engaged",
        "envelope.nl-to-format-engaged",
        Closed,
        &["nodeId", "originalEnvelopeType", "fallbackCalls"],
        &[],
    ),
    written(
        "envelope.recovery.applied",
        "envelope.recovery-applied",
        Closed,
        &["nodeId", "path", "byteOffset"],
        &[],
    ),
    written(
        "agent.toolCalled",
        "agent.tool-called",
        Hatch,
        &["agentId", "toolName", "callId", "inputs", "argsHash", "principal", "transport", "causationHostId"],
        &[Same("toolId", "toolName"), Same("arguments", "inputs")],
    ),
    written(
        "agent.toolReturned",
        "agent.tool-returned",
        Hatch,
        &["agentId", "toolName", "callId", "outcome", "error", "status", "durationMs", "causationHostId"],
        &[Same("toolId", "toolName"), Same("result", "outcome")],
    ),
    known("agent.invocation.started", "agent.invocation-started"),
    known("agent.invocation.completed", "agent.invocation-completed"),
    known("deployment.canary.adjusted", "deployment.canary-adjusted"),
    known("deployment.state.changed", "deployment.state-changed"),
    known("roster.run.initiated", "roster.run-initiated"),
    known("tool.session.opened", "tool.session-opened"),
    known("tool.session.closed", "tool.session-closed"),
    known("trigger.subscription.state.changed", "trigger.subscription-state-changed"),
    known("trigger.delivery.attempted", "trigger.delivery-attempted"),
    known("budget.threshold.crossed", "budget.threshold-crossed"),
    written(
        "runOrchestrator.decided",
        "orchestrator.decided",
        Closed,
        &["agentId", "decision", "iteration", "causationHostId"],
        &[],
    ),
    written(
        "core.dispatch.fanOut",
        "dispatch.fanned-out",
        Closed,
        &["fanOutPolicy", "childCount", "maxConcurrency", "joinMode"],
        &[],
    ),
    written(
        "core.dispatch.join",
        "dispatch.joined",
        Closed,
        &["joinOutcome", "completedCount", "failedCount", "mergeOrder", "cancelledCount"],
        &[Runs("mergeOrder")],
    ),
    known("agent.memory.consolidated", "agent.memory-consolidated"),
    written(
        "core.workflowChain.event",
        "workflow-chain.event",
        Closed,
        &[
            "phase",
            "workerId",
            "parentRunId",
            "childRunId",
            "harvestedKeys",
            "attestation",
            "error",
            "causationHostId",
        ],
        &[Run("parentRunId"), Run("childRunId"), Error("error")],
    ),
    written(
        "core.workflowChain.confidence-escalated",
        "workflow-chain.confidence-escalated",
        Closed,
        &[
            "confidence",
            "floor",
            "escalationKind",
            "parentRunId",
            "workerId",
            "originalDecision",
            "causationHostId",
        ],
        &[Run("parentRunId")],
    ),
    known("connector.auth_expired", "connector.auth-expired"),
    known("voice.speech_start", "voice.speech-start"),
    known("voice.endpoint_candidate", "voice.endpoint-candidate"),
    known("voice.turn_commit", "voice.turn-commit"),
    known("voice.synthesis_chunk", "voice.synthesis-chunk"),
    known("voice.barge_in", "voice.barge-in"),
    known("compensation.manual_intervention_required", "compensation.manual-intervention-required"),
    known("negotiation.decided", "negotiation.decided"),
];
