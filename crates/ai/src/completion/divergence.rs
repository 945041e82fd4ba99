//! A replay that is refused where the run was not, or the other way round.

use crate::event::{EventKind, RunEvent};
use crate::provider::Reply;
use crate::redact::Redactor;

/// Where the two differ.
#[derive(Clone, Copy, Debug)]
pub struct At<'a> {
    /// The run that is replayed.
    pub source_run_id: &'a str,
    /// The event of that run at which they differ, by its place in the log.
    pub sequence: u64,
    /// The node.
    pub node_id: &'a str,
}

/// The event of a divergence; none where both were refused, or neither. The replay then fails with
/// `replay_diverged_at_refusal`: a refusal never quietly takes the place of a value.
pub fn at_refusal(at: At<'_>, original: &Reply, replay: &Reply, redactor: &Redactor) -> Option<RunEvent> {
    if original.is_refusal() == replay.is_refusal() {
        return None;
    }
    let word = |reply: &Reply| if reply.is_refusal() { "refusal" } else { "valid" };
    let refused = if replay.is_refusal() { replay } else { original };
    let reason = refused.refusal.as_ref().and_then(|refusal| refusal.text.as_deref());
    let reason = reason.map(|text| redactor.clean(&canon::budget::truncate(text, 1024)));
    Some(RunEvent::new(
        EventKind::DivergedAtRefusal,
        [
            ("sourceRunId", at.source_run_id.into()),
            ("atSequence", at.sequence.into()),
            ("nodeId", at.node_id.into()),
            ("originalEnvelopeKind", word(original).into()),
            ("replayEnvelopeKind", word(replay).into()),
            ("refusalReason", reason.into()),
        ],
    ))
}
