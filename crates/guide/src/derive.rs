//! Every id that follows from others, and how.
//!
//! Only a session's id needs entropy. Each other id is computed from ids that are already in the
//! log, so that a call which is made twice names the same things twice, a lost reply can be
//! written again word for word, and every token that was ever handed out can be recomputed.
//!
//! | id | follows from |
//! |---|---|
//! | [`session_id`] | 16 bytes of entropy |
//! | [`child_session_id`] | delegating session, node, place of the delegation |
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
//! The first part of each recipe is a word of its own, so that two recipes of one kind never
//! meet: a node that an advance made cannot have the id of a checkpoint. The recipes are part of
//! the format: changing one would orphan tokens, and golden values in the tests guard them.
//!
//! # Attempts
//! The n-th attempt on a node is `attempt_id(session, node, n)`, where n counts the attempts
//! recorded there before. The attempt that a reply offers is therefore always the one for the
//! number recorded *now*: rehydrating computes it and writes nothing, and a fork after an
//! advance gets a fresh identity because the advance was counted. There is no second recipe for
//! a retry. A blocked attempt is a node of its own, so its retry is attempt 0 *of that node*,
//! and a snapshot's `retryAttemptId` is [`retry_attempt_id`], the same thing by name.
//!
//! Checkpoints are counted apart from advances. If they shared a counter, bookmarking a place
//! would silently retire the tokens that the caller holds for going on from it.
//!
//! After an import under a new session id the recorded ids stay as they are (see
//! [`crate::bundle`]); attempts from then on follow from the new session. Whoever looks for the
//! attempts of a node takes the recorded ones from the log, and computes only the next.

use crate::record::{
    AttemptId, ContextId, EventId, EventIndex, GapId, NodeId, OutputId, RunId, SessionId, TraceId, derive_id,
};

/// What made the engine write something that has no attempt of its own in its recipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause<'a> {
    /// The start of a run.
    Start(&'a RunId),
    /// An attempt to advance, or a checkpoint.
    Attempt(&'a AttemptId),
}

impl<'a> Cause<'a> {
    /// The parts that tell this cause from every other.
    fn parts(self) -> [&'a str; 2] {
        match self {
            Self::Start(run) => ["start", run.as_str()],
            Self::Attempt(attempt) => ["attempt", attempt.as_str()],
        }
    }
}

/// The id of a new session. The caller brings the entropy: this crate has none.
pub fn session_id(entropy: &[u8; 16]) -> SessionId {
    SessionId::derived(&["session", &canon::encoding::hex(entropy)])
}

/// The session of the child that a step hands out at `node`, by the place of its delegation.
pub fn child_session_id(parent: &SessionId, node: &NodeId, index: usize) -> SessionId {
    SessionId::derived(&["child", parent.as_str(), node.as_str(), &index.to_string()])
}

/// The id of the event at `index`.
pub fn event_id(session: &SessionId, index: EventIndex) -> EventId {
    EventId::derived(&["event", session.as_str(), &index.0.to_string()])
}

/// The id of a run, of which `runs_before` came before it in the session.
pub fn run_id(session: &SessionId, runs_before: u64) -> RunId {
    RunId::derived(&["run", session.as_str(), &runs_before.to_string()])
}

/// The id of a run's first node.
pub fn root_node_id(session: &SessionId, run: &RunId) -> NodeId {
    NodeId::derived(&["root", session.as_str(), run.as_str()])
}

/// The id of the node that an attempt on `from` leads to, whether it is the next step or a
/// blocked attempt.
pub fn advance_node_id(session: &SessionId, run: &RunId, from: &NodeId, attempt: &AttemptId) -> NodeId {
    NodeId::derived(&["advance", session.as_str(), run.as_str(), from.as_str(), attempt.as_str()])
}

/// The id of the node that bookmarks `node`.
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

/// The attempt that a snapshot of `blocked` names as its retry: the first on that node.
pub fn retry_attempt_id(session: &SessionId, blocked: &NodeId) -> AttemptId {
    attempt_id(session, blocked, 0)
}

/// The checkpoint of `node` that follows `recorded` earlier ones.
pub fn checkpoint_attempt_id(session: &SessionId, node: &NodeId, recorded: u64) -> AttemptId {
    AttemptId::derived(&["checkpoint", session.as_str(), node.as_str(), &recorded.to_string()])
}

/// The notes of an attempt.
pub fn recap_output_id(attempt: &AttemptId) -> OutputId {
    OutputId::derived(&["recap", attempt.as_str()])
}

/// The artifact at `index` of an attempt.
pub fn artifact_output_id(attempt: &AttemptId, index: usize) -> OutputId {
    OutputId::derived(&["artifact", attempt.as_str(), &index.to_string()])
}

/// The artifact with the whole notes of an attempt, where they are longer than a recap.
pub fn whole_notes_output_id(attempt: &AttemptId) -> OutputId {
    OutputId::derived(&["whole_notes", attempt.as_str()])
}

/// What the host verified for an attempt. The recipe is the proof that no caller sent it.
pub fn verification_output_id(attempt: &AttemptId) -> OutputId {
    OutputId::derived(&["verification", attempt.as_str()])
}

/// The notes that an attempt puts in place of those of the step before.
pub fn correction_output_id(attempt: &AttemptId) -> OutputId {
    OutputId::derived(&["correction", attempt.as_str()])
}

/// The answer that a person gave in the console about a node that has `outputs` artifacts already.
pub fn console_answer_id(node: &NodeId, outputs: usize) -> OutputId {
    OutputId::derived(&["console_answer", node.as_str(), &outputs.to_string()])
}

/// The gap at `index` among those that `cause` discloses.
pub fn gap_id(cause: Cause<'_>, index: usize) -> GapId {
    let [kind, id] = cause.parts();
    GapId::derived(&[kind, id, &index.to_string()])
}

/// The decision trace of `cause`: there is one at most.
pub fn trace_id(cause: Cause<'_>) -> TraceId {
    TraceId::derived(&cause.parts())
}

/// The context after `cause` changed it.
pub fn context_id(cause: Cause<'_>) -> ContextId {
    ContextId::derived(&cause.parts())
}

/// The change of preferences that came with `cause`.
pub fn preference_change_id(cause: Cause<'_>) -> String {
    derive_id("prefchg_", &cause.parts())
}

/// The check at `index` of an attempt.
pub fn validation_id(attempt: &AttemptId, index: usize) -> String {
    derive_id("validation_", &[attempt.as_str(), &index.to_string()])
}

/// The capability observation at `index` of an attempt.
pub fn capability_observation_id(attempt: &AttemptId, index: usize) -> String {
    derive_id("capobs_", &[attempt.as_str(), &index.to_string()])
}

/// The divergence at `index` of an attempt.
pub fn divergence_id(attempt: &AttemptId, index: usize) -> String {
    derive_id("divergence_", &[attempt.as_str(), &index.to_string()])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_recipes_meet() {
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
