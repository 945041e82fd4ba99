//! The gaps of a run, for a reply.

use guide::record::{AdvanceOutcome, GapDetail, GapReason};
use guide::state::{Gap, Node, SessionState};

use super::api::{GapWords, OpenGaps};
use super::reply::{Ingredients, Moment};

/// The maximum number of gaps in a reply. The command line shows all of them.
const NAMED: usize = 10;

/// The warnings of this call. They are derived from the log, so a replay returns the same.
pub(super) fn warnings(ingredients: &Ingredients<'_>) -> Vec<String> {
    let of_call = of_call(ingredients).into_iter().filter(|gap| is_warning(gap));
    of_call.map(|gap| gap.summary.clone()).collect()
}

/// The gaps that this call opened. For a rehydrate call, and at the end of a run, all open gaps.
pub(super) fn open(ingredients: &Ingredients<'_>) -> Option<OpenGaps> {
    let Ingredients { session, run, node, snapshot, moment, .. } = *ingredients;
    let state = &session.state;
    let gaps_of_reply: Vec<&Gap> = match moment {
        Moment::Return => guide::project::open_gaps(state, run).collect(),
        // A replay shows the gaps that were open then, even if they were closed since.
        Moment::Advance if snapshot.state().is_complete() => {
            state.gaps_of_run(run).filter(|gap| was_open_at(state, gap, node)).collect()
        }
        Moment::Start | Moment::Advance => of_call(ingredients),
    };
    let gaps_of_reply: Vec<&Gap> =
        gaps_of_reply.into_iter().filter(|gap| is_gap(gap) && !is_warning(gap)).collect();
    if gaps_of_reply.is_empty() {
        return None;
    }
    let gaps = gaps_of_reply.iter().skip(gaps_of_reply.len().saturating_sub(NAMED)).map(|gap| GapWords {
        gap_id: gap.id.to_string(),
        severity: gap.severity,
        reason: gap.reason,
        summary: gap.summary.clone(),
    });
    Some(OpenGaps { count: gaps_of_reply.len(), gaps: gaps.collect() })
}

/// The gap records in the log that this call added.
fn of_call<'s>(ingredients: &Ingredients<'s>) -> Vec<&'s Gap> {
    let Ingredients { session, node, moment, .. } = *ingredients;
    let state = &session.state;
    match moment {
        Moment::Start => state.gaps_of(node).collect(),
        Moment::Advance => {
            // They are recorded at the parent node, possibly together with those of other attempts.
            let Some(parent) = state.parent_of(node) else { return Vec::new() };
            let made = |outcome: &AdvanceOutcome| matches!(outcome, AdvanceOutcome::Advanced { to_node_id } if *to_node_id == node.id);
            let Some((_, advance)) = parent.advances().find(|(_, advance)| made(&advance.outcome)) else {
                return Vec::new();
            };
            let of_this = |gap: &&Gap| advance.index < gap.index && gap.index < node.created_index;
            state.gaps_of(parent).filter(of_this).collect()
        }
        Moment::Return => Vec::new(),
    }
}

/// Whether a gap was open when a node was created.
fn was_open_at(state: &SessionState, gap: &Gap, node: &Node) -> bool {
    let before = |gap: &Gap| gap.index < node.created_index;
    before(gap) && !gap.resolved_by.as_ref().and_then(|id| state.gap(id)).is_some_and(before)
}

/// Whether a record opens a gap, as opposed to closing one.
const fn is_gap(gap: &Gap) -> bool {
    matches!(gap.resolution, guide::record::GapResolution::Unresolved)
}

/// Whether a gap concerns only preferences. Such a gap is shown once, as a warning.
fn is_warning(gap: &Gap) -> bool {
    gap.reason == GapReason::Unexpected(GapDetail::PreferencesExceedRecommendation)
}
