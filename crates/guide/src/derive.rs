//! How ids are derived from other ids.
//!
//! Only a session id needs entropy. Every other id is computed from ids in the log. So a repeated call refers
//! to the same ids, a lost reply can be reproduced exactly, and every issued token can be computed again.
//!
//! | id | derived from |
//! |---|---|
//! | [`session_id`] | 16 bytes of entropy |
//! | [`child_session_id`] | delegating session, node, index of the delegation |
//! | [`event_id`] | session, index |
//! | [`run_id`] | session, number of runs before it |
//! | [`root_node_id`] | session, run |
//! | [`advance_node_id`] | session, run, node advanced from, attempt |
//! | [`checkpoint_node_id`] | session, run, bookmarked node, checkpoint attempt |
//! | [`attempt_id`] | session, node, number of `advance_recorded` events on the node |
//! | [`checkpoint_attempt_id`] | session, node, number of `checkpoint` edges from the node |
//! | [`recap_output_id`], [`artifact_output_id`], [`correction_output_id`] | attempt (and index of the artifact) |
//! | [`gap_id`] | [`Cause`], index |
//! | [`trace_id`], [`context_id`], [`preference_change_id`] | [`Cause`] |
//! | [`validation_id`], [`capability_observation_id`], [`divergence_id`] | attempt, index |
//!
//! The first part of each recipe is a unique word, so that two recipes for one kind of id never collide: a
//! node that an advance created cannot have the id of a checkpoint. The recipes are part of the format.
//! Changing one would invalidate tokens; golden values in the tests guard them.
//!
//! # Attempts
//! The n-th attempt on a node is `attempt_id(session, node, n)`, where n is the number of attempts recorded
//! there before. So the attempt that a reply offers is always the one for the *current* number: rehydrating
//! computes it without writing, and a fork after an advance gets a new id because the advance was counted.
//! Retries use the same recipe. A blocked attempt is a node of its own, so its retry is attempt 0 *of that
//! node*; a snapshot's `retryAttemptId` is [`retry_attempt_id`], which has the same value.
//!
//! Checkpoints are counted separately from advances. With a shared counter, a checkpoint would silently
//! invalidate the tokens that the caller holds for advancing.
//!
//! An import under a new session id keeps the recorded ids (see [`crate::bundle`]); later attempts are
//! derived from the new session id. To find the attempts of a node, read the recorded ones from the log and
//! compute only the next.

use crate::record::{
    AttemptId, ContextId, EventId, EventIndex, GapId, NodeId, OutputId, RunId, SessionId, TraceId, derive_id,
};

/// The origin of an id whose recipe does not include an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause<'a> {
    Start(&'a RunId),
    /// An attempt to advance, or a checkpoint.
    Attempt(&'a AttemptId),
}

impl<'a> Cause<'a> {
    /// The parts that distinguish this cause from every other.
    fn parts(self) -> [&'a str; 2] {
        match self {
            Self::Start(run) => ["start", run.as_str()],
            Self::Attempt(attempt) => ["attempt", attempt.as_str()],
        }
    }
}

/// The id of a new session. The caller provides the entropy, because this crate has no randomness.
pub fn session_id(entropy: &[u8; 16]) -> SessionId {
    SessionId::derived(&["session", &canon::encoding::hex(entropy)])
}

/// The session id of the child that a step at `node` delegates to, by the index of the delegation.
pub fn child_session_id(parent: &SessionId, node: &NodeId, index: usize) -> SessionId {
    SessionId::derived(&["child", parent.as_str(), node.as_str(), &index.to_string()])
}

/// The id of the event at `index`.
pub fn event_id(session: &SessionId, index: EventIndex) -> EventId {
    EventId::derived(&["event", session.as_str(), &index.0.to_string()])
}

/// The id of the run that has `runs_before` runs before it in the session.
pub fn run_id(session: &SessionId, runs_before: u64) -> RunId {
    RunId::derived(&["run", session.as_str(), &runs_before.to_string()])
}

/// The id of a run's first node.
pub fn root_node_id(session: &SessionId, run: &RunId) -> NodeId {
    NodeId::derived(&["root", session.as_str(), run.as_str()])
}

/// The id of the node that an attempt on `from` creates, whether it is the next step or a blocked attempt.
pub fn advance_node_id(session: &SessionId, run: &RunId, from: &NodeId, attempt: &AttemptId) -> NodeId {
    NodeId::derived(&["advance", session.as_str(), run.as_str(), from.as_str(), attempt.as_str()])
}

/// The id of a checkpoint of `node`.
pub fn checkpoint_node_id(session: &SessionId, run: &RunId, node: &NodeId, attempt: &AttemptId) -> NodeId {
    NodeId::derived(&["checkpoint", session.as_str(), run.as_str(), node.as_str(), attempt.as_str()])
}

/// The attempt on `node` that follows `recorded` earlier ones.
///
/// ```
/// use guide::derive::attempt_id;
/// use guide::record::{NodeId, SessionId};
///
/// let (session, node) = (SessionId::derived(&["a"]), NodeId::derived(&["b"]));
/// assert_eq!(attempt_id(&session, &node, 0), attempt_id(&session, &node, 0));
/// assert_ne!(attempt_id(&session, &node, 0), attempt_id(&session, &node, 1));
/// ```
pub fn attempt_id(session: &SessionId, node: &NodeId, recorded: u64) -> AttemptId {
    AttemptId::derived(&["advance", session.as_str(), node.as_str(), &recorded.to_string()])
}

/// The attempt in the `retryAttemptId` of a blocked node's snapshot: the first attempt on that node.
pub fn retry_attempt_id(session: &SessionId, blocked: &NodeId) -> AttemptId {
    attempt_id(session, blocked, 0)
}

/// The checkpoint of `node` that follows `recorded` earlier ones.
pub fn checkpoint_attempt_id(session: &SessionId, node: &NodeId, recorded: u64) -> AttemptId {
    AttemptId::derived(&["checkpoint", session.as_str(), node.as_str(), &recorded.to_string()])
}

/// The id of the notes of an attempt.
pub fn recap_output_id(attempt: &AttemptId) -> OutputId {
    OutputId::derived(&["recap", attempt.as_str()])
}

/// The id of the artifact at `index` of an attempt.
pub fn artifact_output_id(attempt: &AttemptId, index: usize) -> OutputId {
    OutputId::derived(&["artifact", attempt.as_str(), &index.to_string()])
}

/// The id of the artifact with the complete notes of an attempt, if they are longer than a recap.
pub fn whole_notes_output_id(attempt: &AttemptId) -> OutputId {
    OutputId::derived(&["whole_notes", attempt.as_str()])
}

/// The id of the host's verification of an attempt. The recipe proves that no caller sent it.
pub fn verification_output_id(attempt: &AttemptId) -> OutputId {
    OutputId::derived(&["verification", attempt.as_str()])
}

/// The id of the notes with which an attempt replaces those of the previous step.
pub fn correction_output_id(attempt: &AttemptId) -> OutputId {
    OutputId::derived(&["correction", attempt.as_str()])
}

/// The id of the answer that a person gave in the console about a node that already has `outputs` artifacts.
pub fn console_answer_id(node: &NodeId, outputs: usize) -> OutputId {
    OutputId::derived(&["console_answer", node.as_str(), &outputs.to_string()])
}

/// The id of the gap at `index` among those that `cause` discloses.
pub fn gap_id(cause: Cause<'_>, index: usize) -> GapId {
    let [kind, id] = cause.parts();
    GapId::derived(&[kind, id, &index.to_string()])
}

/// The id of the decision trace of `cause`, which has at most one.
pub fn trace_id(cause: Cause<'_>) -> TraceId {
    TraceId::derived(&cause.parts())
}

/// The id of the context after `cause` changed it.
pub fn context_id(cause: Cause<'_>) -> ContextId {
    ContextId::derived(&cause.parts())
}

/// The id of the change of preferences that `cause` contains.
pub fn preference_change_id(cause: Cause<'_>) -> String {
    derive_id("prefchg_", &cause.parts())
}

/// The id of the check at `index` of an attempt.
pub fn validation_id(attempt: &AttemptId, index: usize) -> String {
    derive_id("validation_", &[attempt.as_str(), &index.to_string()])
}

/// The id of the capability observation at `index` of an attempt.
pub fn capability_observation_id(attempt: &AttemptId, index: usize) -> String {
    derive_id("capobs_", &[attempt.as_str(), &index.to_string()])
}

/// The id of the divergence at `index` of an attempt.
pub fn divergence_id(attempt: &AttemptId, index: usize) -> String {
    derive_id("divergence_", &[attempt.as_str(), &index.to_string()])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn recipes_never_collide() {
        let session = session_id(&[7; 16]);
        let run = run_id(&session, 0);
        let root = root_node_id(&session, &run);
        let attempt = attempt_id(&session, &root, 0);
        let nodes = [
            root.clone(),
            advance_node_id(&session, &run, &root, &attempt),
            checkpoint_node_id(&session, &run, &root, &attempt),
        ];
        assert_eq!(nodes.iter().collect::<BTreeSet<_>>().len(), nodes.len());
        let attempts = [
            attempt.clone(),
            attempt_id(&session, &root, 1),
            attempt_id(&session, &nodes[1], 0),
            checkpoint_attempt_id(&session, &root, 0),
            attempt_id(&session_id(&[8; 16]), &root, 0),
        ];
        assert_eq!(attempts.iter().collect::<BTreeSet<_>>().len(), attempts.len());
        assert_eq!(retry_attempt_id(&session, &nodes[1]), attempts[2]);
        assert_ne!(recap_output_id(&attempt), artifact_output_id(&attempt, 0));
        assert_ne!(recap_output_id(&attempt), correction_output_id(&attempt));
        assert_ne!(gap_id(Cause::Attempt(&attempt), 0), gap_id(Cause::Attempt(&attempt), 1));
        assert_ne!(context_id(Cause::Start(&run)), context_id(Cause::Attempt(&attempt)));
    }
}
