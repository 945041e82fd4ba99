//! Whether a loop goes round once more, read from the artifacts of one call.

use serde_json::Value;

use super::{ContractVerdict, check};
use crate::workflow::compiled::ContractPack;
use crate::workflow::registry;

/// What the caller decided about a loop.
///
/// Whatever is not a decision stays visible as such: a missing or malformed artifact neither goes
/// on nor leaves the loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoopDecision {
    /// Once more.
    Continue,
    /// Leave the loop.
    Stop,
    /// There is no decision among the artifacts.
    Missing,
    /// There is one, and it does not keep its contract.
    Invalid {
        /// Each failing leaf.
        issues: Vec<String>,
    },
}

/// The decision among the artifacts of one call, by the contract that comes with the program.
///
/// A run uses [`loop_decision_of`] with the contract it was compiled with.
pub fn loop_decision(artifacts: &[Value]) -> LoopDecision {
    let pack =
        registry::contract("wr.contracts.loop_control").expect("the registry holds it; a test asks for it");
    loop_decision_of(pack, artifacts)
}

/// The decision among the artifacts of one call, by this contract. The last well-formed one counts.
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
        // Only a contract of another author lets this pass.
        _ => LoopDecision::Invalid {
            issues: vec![format!("artifacts[{index}].decision: has to be one of \"continue\", \"stop\"")],
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_well_formed_decision_counts_and_nothing_else_decides() {
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
                    issues: vec!["artifacts[0].decision: has to be one of \"continue\", \"stop\"".to_owned()],
                },
            ),
        ];
        for (name, artifacts, expected) in cases {
            assert_eq!(loop_decision(&artifacts), expected, "{name}");
        }
    }
}
