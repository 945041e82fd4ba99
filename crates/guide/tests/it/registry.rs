//! The bundled sources follow their own rules, and require nothing that their prompts do not mention.

use std::collections::BTreeSet;

use guide::workflow::compile::{self, Bindings};
use guide::workflow::compiled::Criteria;
use guide::workflow::ids::SourceOrigin;
use guide::workflow::source::{self, Format};
use guide::workflow::{criteria, registry};
use serde_json::{Map, Value, json};

/// All bundled sources: id and text.
fn sources() -> Vec<(&'static str, &'static str)> {
    let workflows = registry::bundled().iter().map(|workflow| (workflow.id, workflow.source));
    let routines = registry::routines().iter().map(|routine| (routine.template_id, routine.source));
    workflows.chain(routines).collect()
}

/// All steps of a source, including those of loop bodies.
fn steps(source: &Value) -> Vec<&Value> {
    let mut found = Vec::new();
    let mut waiting: Vec<&Value> =
        source["steps"].as_array().expect("a source has steps").iter().rev().collect();
    while let Some(step) = waiting.pop() {
        found.push(step);
        waiting.extend(step["body"].as_array().into_iter().flatten().rev());
    }
    found
}

#[test]
fn every_source_is_in_the_authoring_format() {
    for (id, text) in sources() {
        if let Err(problems) = source::parse_from(text.as_bytes(), Format::Json, SourceOrigin::Bundled) {
            panic!("{id}: {problems:#?}");
        }
    }
}

/// Finding R9: two bundled workflows were both named "Implement a feature".
#[test]
fn no_two_bundled_workflows_have_the_same_name() {
    let mut names = std::collections::BTreeMap::new();
    for workflow in registry::bundled() {
        let source: Value = serde_json::from_str(workflow.source).unwrap();
        let name = source["name"].as_str().unwrap().to_lowercase();
        if let Some(other) = names.insert(name, workflow.id) {
            panic!("{other} and {} have the same name", workflow.id);
        }
    }
}

#[test]
fn workflows_and_routines_are_found_by_their_ids() {
    assert!(registry::bundled().is_sorted_by(|one, other| one.id < other.id));
    for workflow in registry::bundled() {
        let source: Value = serde_json::from_str(workflow.source).unwrap();
        assert_eq!(source["id"], workflow.id);
        assert!(source["examples"].is_array(), "{} has examples", workflow.id);
        assert_eq!(registry::bundled_workflow(workflow.id), Some(workflow));
    }
    assert!(registry::routine_ids().is_sorted_by(|one, other| one < other));
    for routine in registry::routines() {
        assert_eq!(registry::routine(routine.template_id), Some(routine.source));
        let source: Value = serde_json::from_str(routine.source).unwrap();
        let id = source["id"].as_str().unwrap();
        // A routine that needs arguments cannot run on its own.
        assert_eq!(registry::bundled_workflow(id).is_some(), routine.arguments.is_empty(), "{id}");
    }
    assert_eq!(registry::routine("wr.templates.routine.unheard-of"), None);
    assert_eq!(registry::bundled_workflow("wr.unheard_of"), None);
}

#[test]
fn a_routine_takes_exactly_the_arguments_it_names() {
    for routine in registry::routines() {
        let mut rest = routine.source;
        let mut used = BTreeSet::new();
        // A brace directly before a letter opens an argument; in the JSON itself it never does.
        while let Some(start) = rest.find('{') {
            rest = &rest[start + 1..];
            if let Some((name, _)) = rest.split_once('}')
                && rest.starts_with(|first: char| first.is_ascii_lowercase())
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            {
                used.insert(name);
            }
        }
        assert_eq!(used, routine.arguments.iter().copied().collect(), "{}", routine.template_id);
    }
}

#[test]
fn every_step_requires_evidence() {
    for (id, text) in sources() {
        let source: Value = serde_json::from_str(text).unwrap();
        for step in steps(&source) {
            let has = |member: &str| step.get(member).is_some();
            let delegated = has("templateCall") || has("body") || has("parallelDelegations");
            assert!(delegated || has("outputContract") || has("validationCriteria"), "{id}: {}", step["id"]);
        }
    }
}

#[test]
fn notes_that_only_claim_the_work_are_rejected() {
    for (id, text) in sources() {
        let source: Value = serde_json::from_str(text).unwrap();
        for step in steps(&source) {
            let Some(rules) = step.get("validationCriteria") else { continue };
            let rules = Criteria(rules.clone());
            for claim in ["", "Done.", "complete = true", &"All of it was done and checked. ".repeat(40)] {
                let verdict = criteria::evaluate(&rules, claim, &Map::new()).unwrap();
                assert!(!verdict.passed(), "{id}: {} accepts {claim:?}", step["id"]);
            }
        }
    }
}

#[test]
fn notes_that_follow_the_required_output_literally_pass() {
    let mut refused = Vec::new();
    for (id, text) in sources() {
        let source: Value = serde_json::from_str(text).unwrap();
        for step in steps(&source) {
            let Some(rules) = step.get("validationCriteria") else { continue };
            let verdict =
                criteria::evaluate(&Criteria(rules.clone()), &literal_notes(step), &Map::new()).unwrap();
            refused.extend(
                verdict.failures.iter().map(|failure| format!("{id}: {}: {}", step["id"], failure.message)),
            );
        }
    }
    assert!(refused.is_empty(), "{refused:#?}");
}

#[test]
fn every_source_compiles_without_a_warning() {
    for (id, text) in sources() {
        let validation =
            compile::validate(text.as_bytes(), Format::Json, SourceOrigin::Bundled, &Bindings::default());
        assert!(validation.problems.is_empty(), "{id}: {:#?}", validation.problems);
        let compiled = validation.compiled.unwrap();
        assert!(
            compiled.workflow.compiled_warnings.is_empty(),
            "{id}: {:#?}",
            compiled.workflow.compiled_warnings
        );
    }
}

#[test]
fn every_routine_can_be_called() {
    for routine in registry::routines() {
        let arguments: Map<String, Value> =
            routine.arguments.iter().map(|&name| (name.to_owned(), Value::from("delegation"))).collect();
        let caller = json!({
            "id": "project.caller", "name": "Caller", "description": "Calls a routine.", "version": "1.0.0",
            "steps": [{
                "id": "call", "title": "Call",
                "templateCall": {"templateId": routine.template_id, "args": arguments},
            }],
        });
        let bytes = serde_json::to_vec(&caller).unwrap();
        let validation = compile::validate(&bytes, Format::Json, SourceOrigin::Project, &Bindings::default());
        assert!(validation.problems.is_empty(), "{}: {:#?}", routine.template_id, validation.problems);
        for step in validation.compiled.unwrap().workflow.steps {
            assert!(step.step_id.as_str().starts_with("call."), "{}", step.step_id);
            assert!(!step.prompt.contains("{capability}"), "{}", step.prompt);
        }
    }
}

#[test]
fn every_contract_of_a_bundled_workflow_is_embedded_completely() {
    for workflow in registry::bundled() {
        let bytes = workflow.source.as_bytes();
        let compiled = compile::validate(bytes, Format::Json, SourceOrigin::Bundled, &Bindings::default())
            .compiled
            .unwrap();
        for step in &compiled.workflow.steps {
            let Some(contract) = &step.output_contract else { continue };
            let embedded = compiled.workflow.contract(&contract.contract_ref);
            assert_eq!(
                embedded,
                registry::contract(&contract.contract_ref),
                "{}: {}",
                workflow.id,
                step.step_id
            );
        }
    }
}

/// The notes of an agent that follows the prompt of a step without knowing its criteria.
fn literal_notes(step: &Value) -> String {
    let mut notes = String::new();
    let blocks = &step["promptBlocks"];
    for (heading, form) in blocks["outputRequired"].as_object().into_iter().flatten() {
        let form = form.as_str().expect("our own are plain texts");
        notes.push_str(&format!("{heading}: {form}\n"));
        for quoted in form.split('`').skip(1).step_by(2) {
            for number in 1..=4 {
                notes.push_str(&quoted.replace(" N", &format!(" {number}")));
                notes.push('\n');
            }
        }
    }
    let prompt = blocks.to_string();
    if prompt.contains("starting with `$ `") {
        notes.push_str("$ cargo test\n12 passed\n");
    }
    if prompt.contains("path:line") {
        notes.push_str("src/cache.rs:88 holds the lock\n");
    }
    // Enough text for the rules about length.
    format!("{notes}{}", "The reason is in the place named above. ".repeat(14))
}
