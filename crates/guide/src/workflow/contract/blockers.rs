//! Messages about artifacts that do not match a contract, always within their budgets.

use canon::canonical;
use serde_json::{Map, Value};

use super::form::{form, form_of};
use super::issues::fit;
use super::{ContractVerdict, check};
use crate::record::budgets::{BLOCKER_MESSAGE_BYTES, SUGGESTED_FIX_BYTES};
use crate::record::{Blocker, BlockerCode, Pointer};
use crate::workflow::compiled::ContractPack;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem<'a> {
    /// No artifact has the kind.
    Missing {
        /// The kinds that were sent.
        submitted: &'a [String],
    },
    /// The artifact does not match the contract.
    Invalid {
        /// One issue for each violation.
        issues: &'a [String],
    },
}

/// The texts of a blocker, within the budgets of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockerTexts {
    pub message: String,
    /// What to do, with an artifact to copy.
    pub suggested_fix: String,
}

/// The blocker for a missing artifact.
pub fn missing_blocker(pack: &ContractPack, submitted: &[String]) -> Blocker {
    blocker(pack, BlockerCode::MissingRequiredOutput, Problem::Missing { submitted })
}

/// The blocker for an artifact that does not match its contract.
pub fn invalid_blocker(pack: &ContractPack, issues: &[String]) -> Blocker {
    blocker(pack, BlockerCode::InvalidRequiredOutput, Problem::Invalid { issues })
}

fn blocker(pack: &ContractPack, code: BlockerCode, problem: Problem<'_>) -> Blocker {
    let BlockerTexts { message, suggested_fix } = blocker_texts(pack, problem);
    Blocker {
        code,
        pointer: Pointer::OutputContract { contract_ref: pack.contract_ref.clone() },
        message,
        suggested_fix: Some(suggested_fix),
    }
}

/// The texts for a problem with a contract. They fit the budgets for any input and any contract.
pub fn blocker_texts(pack: &ContractPack, problem: Problem<'_>) -> BlockerTexts {
    let kind = fit(&pack.artifact_kind, 96);
    let message = match problem {
        Problem::Missing { submitted: [] } => format!(
            "The step requires an artifact of kind `{kind}` (contract {}), but `output.artifacts` was empty.",
            fit(&pack.contract_ref, 128)
        ),
        Problem::Missing { submitted } => {
            let near = canon::nearest::nearest(&pack.artifact_kind, submitted, 1);
            let hint = match near.first() {
                Some(near) => format!(" `{}` is similar, but the kind must match exactly.", fit(near, 96)),
                None => String::new(),
            };
            let opening =
                format!("The step requires an artifact of kind `{kind}`, but the kinds sent were: ");
            let quoted = submitted.iter().map(|kind| format!("`{}`", fit(kind, 96)));
            listed(&opening, quoted, ", ", &format!(".{hint}"), BLOCKER_MESSAGE_BYTES)
        }
        Problem::Invalid { issues } => {
            let opening = format!("The artifact of kind `{kind}` does not match its contract: ");
            listed(&opening, issues.iter().cloned(), "; ", ".", BLOCKER_MESSAGE_BYTES)
        }
    };
    let opening = match problem {
        Problem::Missing { .. } => {
            "Make the call in `nextCall` with this in `output.artifacts`, with your own values in place of the placeholders: "
        }
        Problem::Invalid { .. } => {
            "Fix the listed issues, then make the call in `nextCall` with the complete artifact in this form, \
             with your own values in place of the placeholders: "
        }
    };
    let suggested_fix = match pasteable(pack, SUGGESTED_FIX_BYTES - opening.len()) {
        Some(example) => format!("{opening}{example}"),
        None => format!(
            "Make the call in `nextCall` with an artifact of kind `{kind}` in `output.artifacts`. \
             The step's prompt shows one."
        ),
    };
    BlockerTexts { message: fit(&message, BLOCKER_MESSAGE_BYTES), suggested_fix }
}

/// The form of an artifact that matches the contract, as JSON of at most `bytes` bytes: with all fields of the
/// example, or the required ones. It is never truncated.
pub(super) fn pasteable(pack: &ContractPack, bytes: usize) -> Option<String> {
    let whole = canonical::to_string(&form(pack)).ok()?;
    if whole.len() <= bytes {
        return Some(whole);
    }
    let least = least(&pack.schema, &pack.example);
    let text = canonical::to_string(&form_of(&pack.schema, &least)).ok()?;
    let keeps = || matches!(check(pack, std::slice::from_ref(&least)), ContractVerdict::Satisfied { .. });
    (text.len() <= bytes && keeps()).then_some(text)
}

/// The part of an example that the schema requires: required fields, and the minimum number of items.
fn least(schema: &Value, example: &Value) -> Value {
    match example {
        Value::Object(members) => {
            let required: Vec<&str> =
                schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            let kept: Map<String, Value> = members
                .iter()
                .filter(|(name, _)| required.contains(&name.as_str()))
                .map(|(name, value)| (name.clone(), least(&schema["properties"][name], value)))
                .collect();
            // A map with free names requires none, but an empty one would not help.
            if kept.is_empty() { example.clone() } else { Value::Object(kept) }
        }
        Value::Array(items) => {
            let fewest = schema["minItems"].as_u64().unwrap_or(0).max(1);
            let fewest = usize::try_from(fewest).unwrap_or(usize::MAX);
            Value::Array(items.iter().take(fewest).map(|item| least(&schema["items"], item)).collect())
        }
        other => other.clone(),
    }
}

/// `opening`, as many items as fit, the number of omitted items, and `ending`.
fn listed(
    opening: &str,
    items: impl ExactSizeIterator<Item = String>,
    separator: &str,
    ending: &str,
    bytes: usize,
) -> String {
    // The maximum length of that number.
    const REST: usize = 24;
    let total = items.len();
    let mut text = opening.to_owned();
    for (index, item) in items.enumerate() {
        let between = if index == 0 { "" } else { separator };
        let room = bytes.saturating_sub(text.len() + between.len() + ending.len() + REST);
        if item.len() > room {
            // Always include the beginning of the first item, so that the caller knows where to look.
            let shown = if index == 0 { fit(&item, room) } else { String::new() };
            let rest = total - index - usize::from(!shown.is_empty());
            text.push_str(&shown);
            if rest > 0 {
                text.push_str(&format!(
                    "{}and {rest} more",
                    if text.len() == opening.len() { "" } else { separator }
                ));
            }
            break;
        }
        text.push_str(between);
        text.push_str(&item);
    }
    text.push_str(ending);
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::record::BlockerReport;
    use crate::workflow::registry;

    #[test]
    fn every_contract_has_a_complete_and_a_minimal_example_that_fits() {
        for pack in registry::contracts() {
            let name = &pack.contract_ref;
            let whole = canonical::string_of(&form(pack));
            assert!(whole.len() <= SUGGESTED_FIX_BYTES - 160, "{name}: {} bytes", whole.len());
            let least = least(&pack.schema, &pack.example);
            assert_eq!(check(pack, &[least]), ContractVerdict::Satisfied { index: 0 }, "{name}");
        }
    }

    #[test]
    fn messages_list_the_kinds_that_were_sent() {
        let pack = registry::contract("wr.contracts.gate_verdict").unwrap();
        let many: Vec<String> = (0..32).map(|index| format!("kind-{index}-{}", "x".repeat(40))).collect();
        let cases: [(&str, &[String], &str); 4] = [
            ("nothing", &[], "but `output.artifacts` was empty."),
            ("another", &["wr.notes".to_owned()], "but the kinds sent were: `wr.notes`."),
            (
                "nearly",
                &["gate_verdict".to_owned()],
                "were: `gate_verdict`. `gate_verdict` is similar, but the kind must match exactly.",
            ),
            ("many", &many, ", and 25 more."),
        ];
        for (name, submitted, ending) in cases {
            let message = missing_blocker(pack, submitted).message;
            assert!(message.ends_with(ending), "{name}: {message}");
        }
        let issues = ["artifacts[0].verdict: is missing".to_owned()];
        assert_eq!(
            invalid_blocker(pack, &issues).message,
            "The artifact of kind `wr.gate_verdict` does not match its contract: artifacts[0].verdict: is missing."
        );
    }

    #[test]
    fn a_long_example_is_replaced_by_its_required_part_or_omitted() {
        let mut pack = registry::contract("wr.contracts.loop_control").unwrap().clone();
        pack.example["metadata"] = json!({"x".repeat(1000): 1});
        let fix = missing_blocker(&pack, &[]).suggested_fix.unwrap();
        assert!(fix.ends_with(r#": {"decision":"<continue | stop>","kind":"wr.loop_control"}"#), "{fix}");

        pack.schema = json!({"required": ["metadata"]});
        let fix = missing_blocker(&pack, &[]).suggested_fix.unwrap();
        assert!(fix.ends_with("The step's prompt shows one."), "{fix}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn blockers_of_every_contract_fit_a_report(
            texts in proptest::collection::vec(".{0,700}", 0..40),
            kind in ".{0,600}",
        ) {
            let mut strange = registry::contracts()[0].clone();
            strange.artifact_kind = kind;
            strange.example = json!({"kind": strange.artifact_kind.repeat(3)});
            for pack in registry::contracts().iter().chain([&strange]) {
                let blockers = vec![missing_blocker(pack, &texts), invalid_blocker(pack, &texts)];
                prop_assert!(BlockerReport::new(blockers.clone()).is_ok(), "{:?}", blockers);
                for blocker in blockers {
                    let fix = blocker.suggested_fix.unwrap();
                    // The kind of the strange one may look like an example itself.
                    if let Some(start) = fix.find(": {") && *pack != strange {
                        prop_assert!(serde_json::from_str::<Value>(&fix[start + 2..]).is_ok(), "whole JSON: {}", fix);
                    }
                }
            }
        }
    }
}
