//! Reads the decision about a loop from the artifacts of one call.

use serde_json::Value;

use super::{ContractVerdict, check};
use crate::workflow::compiled::ContractPack;
use crate::workflow::registry;

/// The caller's decision about a loop.
///
/// A missing or invalid artifact is reported as such: it neither continues nor stops the loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoopDecision {
    /// Run the loop body again.
    Continue,
    /// Leave the loop.
    Stop,
    /// No decision was sent.
    Missing,
    /// The decision does not match its contract.
    Invalid {
        /// One issue for each violation.
        issues: Vec<String>,
    },
}

/// The decision among the artifacts of one call, by the bundled contract.
///
/// A run uses [`loop_decision_of`] with the contract that it was compiled with.
pub fn loop_decision(artifacts: &[Value]) -> LoopDecision {
    let pack =
        registry::contract("wr.contracts.loop_control").expect("the registry holds it; a test asks for it");
    loop_decision_of(pack, artifacts)
}

/// The decision among the artifacts of one call, by this contract. The last valid one counts.
pub fn loop_decision_of(pack: &ContractPack, artifacts: &[Value]) -> LoopDecision {
    let index = match check(pack, artifacts) {
        ContractVerdict::Satisfied { index } => index,
        ContractVerdict::Missing { .. } => return LoopDecision::Missing,
        ContractVerdict::Invalid { issues } => return LoopDecision::Invalid { issues },
        ContractVerdict::Unusable { reason } => return LoopDecision::Invalid { issues: vec![reason] },
    };
    match artifacts[index].get("decision").and_then(Value::as_str) {
        Some("continue") => LoopDecision::Continue,
        Some("stop") => LoopDecision::Stop,
        // Only a contract from elsewhere can allow other values.
        _ => LoopDecision::Invalid {
            issues: vec![format!("artifacts[{index}].decision: must be one of \"continue\", \"stop\"")],
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_valid_decision_counts() {
        let go = json!({"kind": "wr.loop_control", "decision": "continue"});
        let stop = json!({"kind": "wr.loop_control", "decision": "stop", "metadata": {"reason": "clean"}});
        let odd = json!({"kind": "wr.loop_control", "decision": "Stop"});
        let other = json!({"kind": "wr.assessment", "decision": "stop"});
        let cases = [
            ("nothing", vec![], LoopDecision::Missing),
            ("something else", vec![other], LoopDecision::Missing),
            ("go on", vec![go.clone()], LoopDecision::Continue),
            ("changed their mind", vec![go.clone(), stop.clone()], LoopDecision::Stop),
            ("and back", vec![stop.clone(), go], LoopDecision::Continue),
            ("a malformed one after it", vec![stop, odd.clone()], LoopDecision::Stop),
            (
                "only a malformed one",
                vec![odd],
                LoopDecision::Invalid {
                    issues: vec!["artifacts[0].decision: must be one of \"continue\", \"stop\"".to_owned()],
                },
            ),
        ];
        for (name, artifacts, expected) in cases {
            assert_eq!(loop_decision(&artifacts), expected, "{name}");
        }
    }
}
