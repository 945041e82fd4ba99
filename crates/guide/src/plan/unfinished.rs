//! Checks that an advance is complete: the same append contains its node and the edge to it.

use std::collections::BTreeSet;

use crate::record::{AdvanceOutcome, EdgeKind, Event, EventData, EventIndex, NodeId};

/// An advance whose node or edge is missing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("event {} advances to node {node_id}, but the same append has no {missing} for it", index.0)]
pub struct UnfinishedAdvance {
    /// The event that records the advance.
    pub index: EventIndex,
    pub node_id: NodeId,
    /// The kind of the missing event.
    pub missing: &'static str,
}

/// The first incomplete advance among the events of *one append*.
///
/// An append is atomic, so a missing event cannot follow later: the attempt would have an outcome that no
/// call could continue from. The check needs no state, because the node of an advance never exists before it.
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

    /// A started session, and the events of the advance after it.
    fn advance() -> (Log, Vec<Event>) {
        let mut log = Log::start("unfinished");
        let started = log.events.len();
        log.advance(0, NodeKind::Step);
        let advance = log.events.split_off(started);
        (log, advance)
    }

    /// The events without those of one kind, numbered again.
    fn without(events: &[Event], kind: &str) -> Vec<Event> {
        let first = events[0].event_index.0;
        let kept = events.iter().filter(|event| event.data.kind() != kind).cloned();
        kept.zip(first..).map(|(event, index)| Event { event_index: EventIndex(index), ..event }).collect()
    }

    #[test]
    fn an_advance_without_its_node_or_edge_is_rejected() {
        let (log, events) = advance();
        for (gone, missing) in
            [(&["node_created", "edge_created"][..], "node_created"), (&["edge_created"], "edge_created")]
        {
            let kept = gone.iter().fold(events.clone(), |events, kind| without(&events, kind));
            let mut state = log.state();
            state.clone().apply(&kept[0]).expect("the state alone accepts the event");
            let refusal = AppendPlan::new(&mut state, kept).unwrap_err();
            assert!(
                matches!(&refusal, PlanError::Unfinished { cause } if cause.missing == missing),
                "{gone:?}: {refusal:?}"
            );
            assert!(
                refusal.envelope().details()["cause"].as_str().is_some_and(|cause| cause.contains(missing))
            );
            assert_eq!(state, log.state(), "{gone:?}: no event was applied");
        }
        assert!(matches!(AppendPlan::new(&mut log.state(), events), Ok(Planned::Append(_))));
    }

    #[test]
    fn events_of_a_later_append_do_not_count() {
        let (_, events) = advance();
        assert_eq!(unfinished_advance(&events), None);
        for cut in 1..events.len() {
            let unfinished = unfinished_advance(&events[..cut]).expect("the append ends too early");
            assert_eq!(unfinished.index, events[0].event_index, "cut after {cut}");
            assert_eq!(unfinished_advance(&events[cut..]), None, "no advance, nothing missing");
        }
    }

    #[test]
    fn a_checkpoint_edge_does_not_complete_an_advance() {
        let (_, mut events) = advance();
        for event in &mut events {
            if let EventData::EdgeCreated { edge_kind, .. } = &mut event.data {
                *edge_kind = EdgeKind::Checkpoint;
            }
        }
        assert_eq!(unfinished_advance(&events).map(|unfinished| unfinished.missing), Some("edge_created"));
    }
}
