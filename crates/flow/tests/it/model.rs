//! Random workflows, compared with a model that computes each node separately.

use flow::run::RunStatus;
use flow::state::NodeStatus;
use proptest::prelude::*;
use serde_json::json;

use crate::driver::{World, workflow};

#[derive(Clone, Debug)]
struct Plan {
    /// For each node: whether it fails, and its trigger rule.
    nodes: Vec<(bool, usize)>,
    /// For each pair of an earlier and a later node: no edge, an edge, or an edge whose condition is false.
    edges: Vec<u8>,
}

const RULES: [&str; 5] = ["all_success", "any_success", "all_complete", "none_failed", "any_failed"];

fn plans() -> impl Strategy<Value = Plan> {
    (1_usize..8).prop_flat_map(|count| {
        let nodes = prop::collection::vec((prop::bool::weighted(0.25), 0..RULES.len()), count);
        let edges =
            prop::collection::vec(prop_oneof![3 => Just(0_u8), 3 => Just(1), 1 => Just(2)], count * count);
        (nodes, edges).prop_map(|(nodes, edges)| Plan { nodes, edges })
    })
}

impl Plan {
    fn incoming(&self, node: usize) -> Vec<(usize, bool)> {
        let edge = |source: usize| match self.edges[source * self.nodes.len() + node] {
            0 => None,
            kind => Some((source, kind == 1)),
        };
        (0..node).filter_map(edge).collect()
    }

    /// The statuses of all nodes, if nothing ends the run early.
    fn states(&self) -> Vec<NodeStatus> {
        let mut states: Vec<NodeStatus> = Vec::new();
        for (node, (fails, rule)) in self.nodes.iter().enumerate() {
            let incoming = self.incoming(node);
            let counted: Vec<NodeStatus> =
                incoming.iter().filter(|(_, holds)| *holds).map(|(source, _)| states[*source]).collect();
            let is = |wanted: NodeStatus| counted.iter().filter(move |status| **status == wanted).count();
            let begins = incoming.is_empty()
                || !counted.is_empty()
                    && match RULES[*rule] {
                        "all_success" => is(NodeStatus::Completed) == counted.len(),
                        "any_success" => is(NodeStatus::Completed) > 0,
                        "all_complete" => true,
                        "none_failed" => is(NodeStatus::Failed) == 0,
                        _ => is(NodeStatus::Failed) > 0,
                    };
            states.push(match (begins, fails) {
                (false, _) => NodeStatus::Skipped,
                (true, true) => NodeStatus::Failed,
                (true, false) => NodeStatus::Completed,
            });
        }
        states
    }

    /// Whether a successor handles every failure.
    fn succeeds(&self, states: &[NodeStatus]) -> bool {
        let taken_on = |failed: usize| {
            (failed + 1..self.nodes.len()).any(|node| {
                let tolerant = !matches!(RULES[self.nodes[node].1], "all_success" | "none_failed");
                let counts = self.incoming(node).contains(&(failed, true));
                tolerant && counts && states[node] != NodeStatus::Skipped
            })
        };
        (0..self.nodes.len()).filter(|node| states[*node] == NodeStatus::Failed).all(taken_on)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_run_matches_the_model(plan in plans()) {
        let ids: Vec<String> = (0..plan.nodes.len()).map(|node| format!("n{node}")).collect();
        let nodes: Vec<_> = plan
            .nodes
            .iter()
            .zip(&ids)
            .map(|((fails, _), id)| (id.as_str(), if *fails { "core.fail" } else { "core.noop" }, json!({})))
            .collect();
        let mut document = workflow("w", &nodes, &[]);
        let mut edges = Vec::new();
        for (node, (_, rule)) in plan.nodes.iter().enumerate() {
            for (source, holds) in plan.incoming(node) {
                let mut edge = json!({
                    "id": format!("e{node}-{source}"), "sourceNodeId": ids[source], "targetNodeId": ids[node],
                    "triggerRule": RULES[*rule],
                });
                if !holds {
                    edge["condition"] = json!({"type": "equals", "left": "status", "right": "never"});
                }
                edges.push(edge);
            }
        }
        document["edges"] = edges.into();
        let mut world = World::new(&[document]);
        let run = world.create("w");
        let expected = plan.states();
        let succeeds = plan.succeeds(&expected);
        prop_assert_eq!(run.state.status, if succeeds { RunStatus::Completed } else { RunStatus::Failed });
        for (node, state) in run.state.nodes.iter().enumerate() {
            // A failed run may have ended before it reached a node. The nodes that it reached must match.
            if succeeds || state.status != NodeStatus::Pending {
                prop_assert_eq!(state.status, expected[node], "n{}", node);
            }
        }
    }
}
