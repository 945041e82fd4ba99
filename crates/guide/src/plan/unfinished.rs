//! An advance is told whole: with the node that it leads to, and the edge to it.

use std::collections::BTreeSet;

use crate::record::{AdvanceOutcome, EdgeKind, Event, EventData, EventIndex, NodeId};

/// The outcome of an attempt, without what it led to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("event {} advances to node {node_id}, and no {missing} of the same append makes that true", index.0)]
pub struct UnfinishedAdvance {
    /// The event that tells of the advance.
    pub index: EventIndex,
    /// Where it leads.
    pub node_id: NodeId,
    /// The kind of event that is not there.
    pub missing: &'static str,
}

/// The first advance among the events of *one append* that is not told whole.
///
/// An append is all or nothing, so what is not there will not come: the attempt would have an outcome
/// for ever, and nobody could go on from it. The rule needs no state, because the node of an advance
/// never exists before it.
pub fn unfinished_advance(events: &[Event]) -> Option<UnfinishedAdvance> {
    let mut made = BTreeSet::new();
    let mut reached = BTreeSet::new();
    for event in events {
        match &event.data {
            EventData::NodeCreated { .. } => made.extend(event.scope.node_id()),
            EventData::EdgeCreated { edge_kind: EdgeKind::AckedStep, to_node_id, .. } => {
                reached.insert(to_node_id);
            }
            _ => {}
        }
    }
    events.iter().find_map(|event| {
        let EventData::AdvanceRecorded { outcome: AdvanceOutcome::Advanced { to_node_id }, .. } = &event.data
        else {
            return None;
        };
        let missing = if !made.contains(to_node_id) {
            "node_created"
        } else if !reached.contains(to_node_id) {
            "edge_created"
        } else {
            return None;
        };
        Some(UnfinishedAdvance { index: event.event_index, node_id: to_node_id.clone(), missing })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{AppendPlan, PlanError, Planned};
    use crate::record::NodeKind;
    use crate::state::testing::Log;

    /// A started session, and the events of an advance that follow it.
    fn advance() -> (Log, Vec<Event>) {
        let mut log = Log::start("unfinished");
        let started = log.events.len();
        log.advance(0, NodeKind::Step);
        let advance = log.events.split_off(started);
        (log, advance)
    }

    /// The events that are left of an advance, numbered as the log asks for.
    fn without(events: &[Event], kind: &str) -> Vec<Event> {
        let first = events[0].event_index.0;
        let kept = events.iter().filter(|event| event.data.kind() != kind).cloned();
        kept.zip(first..).map(|(event, index)| Event { event_index: EventIndex(index), ..event }).collect()
    }

    #[test]
    fn an_advance_without_its_node_or_its_edge_is_no_plan() {
        let (log, events) = advance();
        for (gone, missing) in
            [(&["node_created", "edge_created"][..], "node_created"), (&["edge_created"], "edge_created")]
        {
            let kept = gone.iter().fold(events.clone(), |events, kind| without(&events, kind));
            let mut state = log.state();
            state.clone().apply(&kept[0]).expect("the fold alone takes what is told");
            let refusal = AppendPlan::new(&mut state, kept).unwrap_err();
            assert!(
                matches!(&refusal, PlanError::Unfinished { cause } if cause.missing == missing),
                "{gone:?}: {refusal:?}"
            );
            assert!(
                refusal.envelope().details()["cause"].as_str().is_some_and(|cause| cause.contains(missing))
            );
            assert_eq!(state, log.state(), "{gone:?}: nothing was folded");
        }
        assert!(matches!(AppendPlan::new(&mut log.state(), events), Ok(Planned::Append(_))));
    }

    #[test]
    fn what_a_later_append_makes_does_not_count() {
        let (_, events) = advance();
        assert_eq!(unfinished_advance(&events), None);
        for cut in 1..events.len() {
            let told = unfinished_advance(&events[..cut]).expect("the append ends too early");
            assert_eq!(told.index, events[0].event_index, "cut after {cut}");
            assert_eq!(unfinished_advance(&events[cut..]), None, "who tells nothing owes nothing");
        }
    }

    #[test]
    fn a_bookmark_is_not_where_an_advance_leads() {
        let (_, mut events) = advance();
        for event in &mut events {
            if let EventData::EdgeCreated { edge_kind, .. } = &mut event.data {
                *edge_kind = EdgeKind::Checkpoint;
            }
        }
        assert_eq!(unfinished_advance(&events).map(|told| told.missing), Some("edge_created"));
    }
}
