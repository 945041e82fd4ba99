//! Detects a replay that the provider refused where the original run was not refused, or the reverse.

use crate::event::{EventKind, RunEvent};
use crate::provider::Reply;
use crate::redact::Redactor;

/// The point at which replay and run differ.
#[derive(Clone, Copy, Debug)]
pub struct DivergencePoint<'a> {
    /// The original run.
    pub source_run_id: &'a str,
    /// The sequence number of the original event.
    pub sequence: u64,
    pub node_id: &'a str,
}

/// Returns the divergence event, or `None` if both or neither were refused. The replay then fails with
/// `replay_diverged_at_refusal`: a refusal never silently replaces a value.
pub fn at_refusal(
    at: DivergencePoint<'_>,
    original: &Reply,
    replay: &Reply,
    redactor: &Redactor,
) -> Option<RunEvent> {
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
