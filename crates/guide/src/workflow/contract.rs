//! Validates the artifacts of a call against the contract of a step.
//!
//! A contract is checked against the schema in the compiled workflow, never against the registry: a run keeps
//! the rules that it was started with. Nothing is fetched, patterns run in linear time, and schemas that
//! could recurse are rejected.
//!
//! ```
//! use guide::workflow::{contract, contract::ContractVerdict, registry};
//! use serde_json::json;
//!
//! let pack = registry::contract("wr.contracts.loop_control").unwrap();
//! let verdict = contract::check(pack, &[json!({"kind": "wr.loop_control", "decision": "perhaps"})]);
//! let ContractVerdict::Invalid { issues } = verdict else { panic!("perhaps is not a decision") };
//! assert_eq!(issues, ["artifacts[0].decision: must be one of \"continue\", \"stop\""]);
//! ```

pub mod assessment;
mod blockers;
mod decision;
mod form;
mod issues;

use std::collections::BTreeSet;

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;

pub use blockers::{BlockerTexts, Problem, blocker_texts, invalid_blocker, missing_blocker};
pub use decision::{LoopDecision, loop_decision, loop_decision_of};
pub use form::form;

#[cfg(test)]
use self::blockers::pasteable;
use self::issues::Issues;
use super::compiled::ContractPack;
use crate::record::budgets;

/// The maximum number of values in a schema. The largest bundled one has about a hundred.
pub const SCHEMA_VALUES: usize = 4096;
/// The maximum nesting depth of a schema.
pub const SCHEMA_DEPTH: usize = 32;
/// The maximum memory of one compiled pattern, in bytes.
const PATTERN_BYTES: usize = 1 << 20;
/// The kind of a decision about a loop.
const LOOP_CONTROL: &str = "wr.loop_control";
/// How many characters of an artifact's `kind` a message repeats.
const KIND_CHARACTERS: usize = 64;

/// The result of checking artifacts against a contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContractVerdict {
    /// Every artifact of the kind matches the contract.
    Satisfied {
        /// The index of the last one.
        index: usize,
    },
    /// No artifact has the contract's kind.
    Missing {
        /// The kinds that were sent, without duplicates, in order.
        submitted_kinds: Vec<String>,
    },
    /// An artifact of the kind does not match the contract, or two of them contradict each other.
    Invalid {
        /// One issue for each violation: its path and the rule.
        issues: Vec<String>,
    },
    /// The contract itself cannot be checked. A retry does not help: the author must fix the workflow.
    Unusable { reason: String },
}

/// Checks the artifacts of one call against a contract.
///
/// All artifacts of the kind are recorded, so each of them must match, and those with a `verdict` must agree.
/// Otherwise a valid artifact would let one pass that the contract forbids. The decision about a loop is the
/// exception that the locks make: the last valid one counts. The issues of all artifacts are reported, within the
/// budgets of a validation.
pub fn check(pack: &ContractPack, artifacts: &[Value]) -> ContractVerdict {
    let of_kind =
        |artifact: &Value| artifact.get("kind").and_then(Value::as_str) == Some(&pack.artifact_kind);
    if !artifacts.iter().any(of_kind) {
        return ContractVerdict::Missing { submitted_kinds: submitted_kinds(artifacts) };
    }
    let validator = match validator(&pack.schema) {
        Ok(validator) => validator,
        Err(reason) => return ContractVerdict::Unusable { reason },
    };
    let candidates = || artifacts.iter().enumerate().filter(|(_, artifact)| of_kind(artifact));
    let matches =
        |artifact: &Value| validator.is_valid(artifact) && form::placeholders_left(pack, artifact).is_empty();
    let last = if pack.artifact_kind == LOOP_CONTROL {
        candidates().rfind(|(_, artifact)| matches(artifact))
    } else {
        let agree = contradiction(candidates()).is_none();
        candidates().next_back().filter(|_| agree && candidates().all(|(_, artifact)| matches(artifact)))
    };
    if let Some((index, _)) = last {
        return ContractVerdict::Satisfied { index };
    }
    let mut issues = Issues::default();
    for (index, artifact) in candidates() {
        issues.add_schema_errors(index, &pack.schema, validator.iter_errors(artifact));
        for path in form::placeholders_left(pack, artifact) {
            issues.add(&format!("artifacts[{index}]{path}"), "is still the placeholder; send your own value");
        }
    }
    if let Some((first, index)) = contradiction(candidates()) {
        let rule = format!("contradicts artifacts[{first}]; send one verdict");
        issues.add(&format!("artifacts[{index}].verdict"), &rule);
    }
    ContractVerdict::Invalid { issues: issues.finish() }
}

/// The indexes of two artifacts with different verdicts.
fn contradiction<'a>(artifacts: impl Iterator<Item = (usize, &'a Value)>) -> Option<(usize, usize)> {
    let mut verdicts = artifacts.filter_map(|(index, artifact)| Some((index, artifact.get("verdict")?)));
    let (first, verdict) = verdicts.next()?;
    verdicts.find(|(_, other)| *other != verdict).map(|(index, _)| (first, index))
}

/// The kinds of artifacts for a message: shortened, without duplicates, in order.
pub fn submitted_kinds(artifacts: &[Value]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    artifacts
        .iter()
        .map(|artifact| match artifact {
            Value::Object(members) => match members.get("kind") {
                Some(Value::String(kind)) => issues::clipped(kind, KIND_CHARACTERS),
                Some(_) => "(a kind that is not a string)".to_owned(),
                None => "(no kind)".to_owned(),
            },
            _ => "(not an object)".to_owned(),
        })
        .filter(|kind| seen.insert(kind.clone()))
        .take(budgets::ARTIFACTS)
        .collect()
}

/// A validator for a schema that is limited in size and has no references.
fn validator(schema: &Value) -> Result<Validator, String> {
    bounded(schema)?;
    jsonschema::options()
        .with_draft(Draft::Draft202012)
        .offline()
        .with_pattern_options(PatternOptions::regex().size_limit(PATTERN_BYTES))
        .build(schema)
        .map_err(|error| {
            let path = issues::clipped(error.instance_path().as_str(), 120);
            format!("the schema of the contract is not valid at {path:?} (rule `{}`)", error.kind().keyword())
        })
}

/// Rejects a schema that is too large, nested too deeply, or has references.
///
/// A circular reference would never end, and no bundled contract needs references.
fn bounded(schema: &Value) -> Result<(), String> {
    let mut values = 0_usize;
    let mut open = vec![(schema, 1_usize)];
    while let Some((value, depth)) = open.pop() {
        values += 1;
        if values > SCHEMA_VALUES {
            return Err(format!("the schema of the contract has more than {SCHEMA_VALUES} values"));
        }
        if depth > SCHEMA_DEPTH {
            return Err(format!("the schema of the contract is nested deeper than {SCHEMA_DEPTH} levels"));
        }
        match value {
            Value::Object(members) => {
                for reference in ["$ref", "$dynamicRef", "$recursiveRef"] {
                    if members.contains_key(reference) {
                        return Err(format!(
                            "the schema of the contract uses `{reference}`, which is not supported"
                        ));
                    }
                }
                open.extend(members.values().map(|member| (member, depth + 1)));
            }
            Value::Array(items) => open.extend(items.iter().map(|item| (item, depth + 1))),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::workflow::registry;

    fn pack(schema: Value) -> ContractPack {
        ContractPack {
            contract_ref: "wr.contracts.test".to_owned(),
            artifact_kind: "wr.test".to_owned(),
            schema,
            example: json!({"kind": "wr.test"}),
            guidance: Vec::new(),
        }
    }

    /// The example documents the contract. Replies show its [`form`] instead, which is never accepted.
    #[test]
    fn every_example_matches_its_contract() {
        for pack in registry::contracts() {
            assert_eq!(
                check(pack, std::slice::from_ref(&pack.example)),
                ContractVerdict::Satisfied { index: 0 },
                "{}",
                pack.contract_ref
            );
        }
    }

    #[test]
    fn verdicts() {
        let review = registry::contract("wr.contracts.review_verdict").unwrap();
        let good = review.example.clone();
        let bad = json!({"kind": "wr.review_verdict", "verdict": "fine"});
        let missing = |kinds: &[&str]| ContractVerdict::Missing {
            submitted_kinds: kinds.iter().map(|&kind| kind.to_owned()).collect(),
        };
        let cases = [
            ("nothing was sent", vec![], missing(&[])),
            (
                "things of other kinds",
                vec![json!({"kind": "a"}), json!({"kind": "a"}), json!({}), json!(3), json!({"kind": 1})],
                missing(&["a", "(no kind)", "(not an object)", "(a kind that is not a string)"]),
            ),
            (
                "a good one among others",
                vec![json!(null), good.clone()],
                ContractVerdict::Satisfied { index: 1 },
            ),
            // Bug 6: all of them are recorded, so a good one does not excuse a bad one.
            (
                "a bad one after it",
                vec![good.clone(), bad.clone()],
                ContractVerdict::Invalid {
                    issues: [
                        "artifacts[1].confidence: is missing",
                        "artifacts[1].findings: is missing",
                        "artifacts[1].summary: is missing",
                        "artifacts[1].verdict: contradicts artifacts[0]; send one verdict",
                        "artifacts[1].verdict: must be one of \"clean\", \"minor\", \"blocking\"",
                    ]
                    .map(str::to_owned)
                    .to_vec(),
                },
            ),
            ("two good ones", vec![good.clone(), good], ContractVerdict::Satisfied { index: 1 }),
            (
                "a bad one",
                vec![bad],
                ContractVerdict::Invalid {
                    issues: [
                        "artifacts[0].confidence: is missing",
                        "artifacts[0].findings: is missing",
                        "artifacts[0].summary: is missing",
                        "artifacts[0].verdict: must be one of \"clean\", \"minor\", \"blocking\"",
                    ]
                    .map(str::to_owned)
                    .to_vec(),
                },
            ),
        ];
        for (name, artifacts, expected) in cases {
            assert_eq!(check(review, &artifacts), expected, "{name}");
        }
    }

    /// Lock: `failureCode` is required iff the use of a capability was attempted and failed.
    #[test]
    fn a_failed_use_of_a_capability_has_a_failure_code() {
        let pack = registry::contract("wr.contracts.capability_observation").unwrap();
        let missing = "artifacts[0]: `failureCode` is missing: an attempted use that failed needs it";
        let surplus = "artifacts[0]: `failureCode` is only for `unavailable`";
        for (provenance, status, code, expected) in [
            ("attempted_use", "unavailable", None, Some(missing)),
            ("attempted_use", "unavailable", Some("tool_error"), None),
            ("attempted_use", "available", None, None),
            ("attempted_use", "available", Some("tool_error"), Some(surplus)),
            ("probe_step", "unavailable", None, None),
            ("manual_claim", "unavailable", None, None),
        ] {
            let mut artifact = json!({"kind": pack.artifact_kind, "capability": "delegation",
                "provenance": provenance, "status": status});
            if let Some(code) = code {
                artifact["failureCode"] = code.into();
            }
            let issues = match check(pack, &[artifact]) {
                ContractVerdict::Satisfied { index: 0 } => vec![],
                ContractVerdict::Invalid { issues } => issues,
                other => panic!("{other:?}"),
            };
            let expected: Vec<&str> = expected.into_iter().collect();
            assert_eq!(issues, expected, "{provenance}, {status}, {code:?}");
        }
    }

    /// Finding G7: rules between fields, which the guidance of a contract describes, are checked.
    #[test]
    fn rules_between_members_are_checked() {
        let finding = |severity: &str| json!({"severity": severity, "summary": "src/a.rs:1 loses data"});
        let review = |verdict: &str, findings: Vec<Value>| {
            ("review_verdict", json!({"verdict": verdict, "findings": findings}))
        };
        let cases = [
            (
                "clean with data loss",
                review("clean", vec![finding("nit"), finding("critical")]),
                Some("artifacts[0].verdict: has to be `blocking`: a finding is `critical` or `major`"),
            ),
            (
                "minor with a major finding",
                review("minor", vec![finding("major")]),
                Some("artifacts[0].verdict: has to be `blocking`: a finding is `critical` or `major`"),
            ),
            ("blocking with it", review("blocking", vec![finding("critical")]), None),
            ("minor with a minor finding", review("minor", vec![finding("minor")]), None),
            ("clean and empty", review("clean", vec![]), None),
            (
                "minor and empty",
                review("minor", vec![]),
                Some("artifacts[0].verdict: has to be `clean`: `findings` is empty"),
            ),
            (
                "no tests and no limits",
                ("coding_handoff", json!({"testsAdded": [], "knownLimitations": []})),
                Some("artifacts[0].knownLimitations: has to say what is unproven: `testsAdded` is empty"),
            ),
            (
                "no tests and a limit",
                ("coding_handoff", json!({"testsAdded": [], "knownLimitations": ["unproven"]})),
                None,
            ),
            (
                "a signal that says nothing",
                ("coordinator_signal", json!({"payload": {}})),
                Some("artifacts[0].payload: must have at least 1 fields"),
            ),
            (
                "a handoff without an appetite",
                ("differentiation_handoff", json!({"shapingHandoff": {"selectedShape": "x"}})),
                Some("artifacts[0].shapingHandoff.appetite: is missing"),
            ),
        ];
        for (name, (contract, changes), expected) in cases {
            let pack = registry::contract(&format!("wr.contracts.{contract}")).unwrap();
            let mut artifact = pack.example.clone();
            artifact.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
            let found = match check(pack, &[artifact]) {
                ContractVerdict::Invalid { issues } => issues,
                ContractVerdict::Satisfied { .. } => Vec::new(),
                other => panic!("{name}: {other:?}"),
            };
            let expected: Vec<String> = expected.into_iter().map(str::to_owned).collect();
            assert_eq!(found, expected, "{name}");
        }
    }

    /// Bug 6 (finding G7): a second artifact does not bypass the rules of a contract.
    #[test]
    fn two_artifacts_of_a_contract_do_not_contradict_each_other() {
        let review = |verdict: &str, findings: Value| {
            json!({"kind": "wr.review_verdict", "verdict": verdict, "confidence": "high", "findings": findings,
                "summary": "Read it."})
        };
        let critical = || json!([{"severity": "critical", "summary": "src/a.rs:1 loses data"}]);
        let pack = registry::contract("wr.contracts.review_verdict").unwrap();
        let blocking = "artifacts[1].verdict: has to be `blocking`: a finding is `critical` or `major`";
        let contradicts = "artifacts[1].verdict: contradicts artifacts[0]; send one verdict";
        let (clean, forbidden, worst) =
            (review("clean", json!([])), review("clean", critical()), review("blocking", critical()));
        for (name, artifacts, expected) in [
            (
                "a clean verdict with a critical finding beside a valid one",
                vec![clean.clone(), forbidden],
                blocking,
            ),
            ("two valid verdicts that differ", vec![clean.clone(), worst], contradicts),
        ] {
            let expected = ContractVerdict::Invalid { issues: vec![expected.to_owned()] };
            assert_eq!(check(pack, &artifacts), expected, "{name}");
        }
        assert_eq!(check(pack, &[clean.clone(), clean]), ContractVerdict::Satisfied { index: 1 });
        let observed = |capability: &str| {
            json!({"kind": "wr.capability_observation", "capability": capability,
            "status": "available", "provenance": "probe_step"})
        };
        let pack = registry::contract("wr.contracts.capability_observation").unwrap();
        let both = [observed("delegation"), observed("web_browsing")];
        assert_eq!(
            check(pack, &both),
            ContractVerdict::Satisfied { index: 1 },
            "two observations do not conflict"
        );
    }

    #[test]
    fn unusable_schemas_are_rejected_with_the_reason() {
        let mut deep = json!({});
        for _ in 0..SCHEMA_DEPTH {
            deep = json!({"not": deep});
        }
        let wide = json!({"enum": vec![0; SCHEMA_VALUES]});
        for (name, schema, reason) in [
            ("itself", json!({"$ref": "#"}), "$ref"),
            ("elsewhere", json!({"allOf": [{"$ref": "https://example.com/schema"}]}), "$ref"),
            ("deep", deep, "deeper than 32"),
            ("wide", wide, "more than 4096"),
            ("an invalid type", json!({"type": "sequence"}), "not valid"),
            ("a number", json!(7), "not valid"),
            ("a pattern that cannot be read", json!({"pattern": "("}), "not valid"),
            ("a pattern that looks back", json!({"pattern": "(a)\\1"}), "not valid"),
            ("a pattern that explodes", json!({"pattern": "((a{1,900}){1,900}){1,900}"}), "not valid"),
        ] {
            match check(&pack(schema), &[json!({"kind": "wr.test"})]) {
                ContractVerdict::Unusable { reason: found } => {
                    assert!(found.contains(reason), "{name}: {found}");
                }
                other => panic!("{name}: {other:?}"),
            }
        }
    }

    #[test]
    fn many_issues_are_truncated_to_the_budgets() {
        let schema = json!({"properties": {"kind": true}, "additionalProperties": false});
        let mut artifact = json!({"kind": "wr.test"});
        for index in 0..5000 {
            artifact[format!("{index}{}", "é".repeat(400))] = json!(index);
        }
        let ContractVerdict::Invalid { issues } = check(&pack(schema), &[artifact]) else {
            panic!("unknown members")
        };
        assert_eq!(issues.len(), budgets::VALIDATION_ITEMS);
        assert!(issues.iter().all(|issue| issue.len() <= budgets::VALIDATION_ISSUE_BYTES));
        assert_eq!(issues.last().unwrap(), "and 4937 more");
    }
}
