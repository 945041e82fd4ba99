//! Checks that everything that is referred to exists, and inserts named conditions.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    MAX_COMPILED_BYTES,
    draft::{Context, Draft, DraftLoop, Node},
};
use crate::workflow::{
    condition, criteria,
    problem::{ProblemCode as Code, item, member, quoted},
    source::{ConditionSource, ConditionTest},
};

/// Checks the expanded workflow.
pub(super) fn check(context: &mut Context<'_>, nodes: &mut [Node]) {
    let mut ids = BTreeMap::new();
    named_conditions(context);
    walk(context, nodes, &mut ids);
}

fn walk(context: &mut Context<'_>, nodes: &mut [Node], ids: &mut BTreeMap<String, String>) {
    for node in nodes {
        let (id, path) = match node {
            Node::Step(draft) => (draft.step.id.clone(), draft.path.clone()),
            Node::Loop(looped) => (looped.step.id.clone(), looped.path.clone()),
        };
        if let Some(first) = ids.insert(id.clone(), path.clone()) {
            let message = format!("the id `{}` is already used by `{first}`", quoted(&id));
            context.problem(&member(&path, "id"), Code::DuplicateId, message, "Use a different id.");
        }
        match node {
            Node::Step(draft) => step(context, draft),
            Node::Loop(looped) => {
                looping(context, looped);
                walk(context, &mut looped.body, ids);
            }
        }
    }
}

fn step(context: &mut Context<'_>, draft: &mut Draft) {
    let path = draft.path.clone();
    if let Some(contract) = &draft.step.output_contract {
        let place = member(&member(&path, "outputContract"), "contractRef");
        self::contract(context, &contract.contract_ref, &place);
    }
    assessments(context, draft);
    let mut seen = BTreeSet::new();
    for (index, fragment) in draft.step.prompt_fragments.iter().enumerate() {
        if !seen.insert(&fragment.id) {
            let place = member(&item(&member(&path, "promptFragments"), index), "id");
            let message = format!("the id `{}` is already used by another fragment", quoted(&fragment.id));
            context.problem(&place, Code::DuplicateId, message, "Use a different id.");
        }
    }

    let mut asked = BTreeSet::new();
    for (index, dependency) in draft.step.user_dependencies.iter_mut().enumerate() {
        let place = item(&member(&path, "userDependencies"), index);
        if !asked.insert(dependency.id.clone()) {
            let message =
                format!("the id `{}` is already used by another dependency", quoted(&dependency.id));
            context.problem(&member(&place, "id"), Code::DuplicateId, message, "Use a different id.");
        }
        if let Some(condition) = &mut dependency.condition {
            resolve(context, &mut condition.0, &member(&place, "condition"));
        }
    }

    if let Some(condition) = &mut draft.step.run_condition {
        resolve(context, &mut condition.0, &member(&path, "runCondition"));
    }
    if let Some(condition) =
        draft.step.require_confirmation.as_mut().and_then(|needed| needed.condition.as_mut())
    {
        resolve(context, &mut condition.0, &member(&path, "requireConfirmation"));
    }
    for (index, fragment) in draft.step.prompt_fragments.iter_mut().enumerate() {
        if let Some(when) = &mut fragment.when {
            resolve(context, &mut when.0, &member(&item(&member(&path, "promptFragments"), index), "when"));
        }
    }
    for (index, delegation) in draft.delegations.iter_mut().enumerate() {
        if let Some(condition) = &mut delegation.run_condition {
            let place = item(&member(&path, "parallelDelegations"), index);
            resolve(context, &mut condition.0, &member(&place, "runCondition"));
        }
    }
    if let Some(criteria) = &mut draft.step.validation_criteria {
        let mut conditions = Vec::new();
        criteria::conditions_mut(&mut criteria.0, &mut conditions);
        for condition in conditions {
            resolve(context, condition, &member(&path, "validationCriteria"));
        }
    }
}

fn looping(context: &mut Context<'_>, looped: &mut DraftLoop) {
    let path = looped.path.clone();
    if let Some(condition) = &mut looped.step.run_condition {
        resolve(context, &mut condition.0, &member(&path, "runCondition"));
    }
    if let Some(condition) =
        looped.step.require_confirmation.as_mut().and_then(|needed| needed.condition.as_mut())
    {
        resolve(context, &mut condition.0, &member(&path, "requireConfirmation"));
    }
    let place = looped.condition_path();
    // The control of a loop may be a complete named condition, which keeps its name; parts of it do not.
    let source = match &mut looped.step.control.condition_source {
        Some(ConditionSource::ContextVariable { condition }) => Some(condition),
        _ => None,
    };
    if let Some(condition) = source.or(looped.step.control.condition.as_mut())
        && condition::reference(&condition.0).is_none()
    {
        resolve(context, &mut condition.0, &place);
    }
}

pub(super) fn contract(context: &mut Context<'_>, contract_ref: &str, path: &str) -> bool {
    if context.registries.contract(contract_ref).is_some() {
        return true;
    }
    let known = context.registries.contract_refs();
    context.unknown(path, Code::UnknownContract, "contract", contract_ref, &known);
    false
}

fn assessments(context: &mut Context<'_>, draft: &Draft) {
    let (step, path) = (&draft.step, &draft.path);
    let known: Vec<String> = context.assessments.keys().cloned().collect();
    let mut referred = BTreeSet::new();
    for (index, id) in step.assessment_refs.iter().enumerate() {
        let place = item(&member(path, "assessmentRefs"), index);
        if !context.assessments.contains_key(id) {
            context.unknown(&place, Code::UnknownAssessment, "assessment", id, &known);
        } else if !referred.insert(id.clone()) {
            let message = format!("`{id}` is listed twice");
            context.problem(&place, Code::DuplicateId, message, "Remove one of them.");
        }
    }
    let mut seen = BTreeSet::new();
    for (index, consequence) in step.assessment_consequences.iter().enumerate() {
        let place = item(&member(path, "assessmentConsequences"), index);
        if step.assessment_refs.is_empty() {
            let message = "the step has consequences but no assessments";
            context.problem(&place, Code::InvalidConsequence, message, "Add `assessmentRefs`.");
            continue;
        }
        let level = consequence.any_equals_level.trim().to_lowercase();
        if !seen.insert((level.clone(), consequence.for_assessment.clone())) {
            let message = format!("another consequence has the same level `{}`", quoted(&level));
            context.problem(&place, Code::InvalidConsequence, message, "Merge their guidance.");
        }
        let scope: Vec<&String> = match &consequence.for_assessment {
            Some(id) if !referred.contains(id) => {
                let known: Vec<String> = referred.iter().cloned().collect();
                let place = member(&member(&place, "when"), "forAssessment");
                context.unknown(&place, Code::UnknownAssessment, "assessment of this step", id, &known);
                continue;
            }
            Some(id) => vec![id],
            None => referred.iter().collect(),
        };
        let levels: BTreeSet<String> = scope
            .iter()
            .filter_map(|id| context.assessments.get(*id))
            .flat_map(|assessment| &assessment.value.dimensions)
            .flat_map(|dimension| dimension.levels.iter().cloned())
            .collect();
        let exists = levels.iter().any(|known| known.trim().to_lowercase() == level);
        // If no assessment exists, that was already reported.
        if !exists && !scope.is_empty() {
            let known: Vec<String> = levels.into_iter().collect();
            let place = member(&member(&place, "when"), "anyEqualsLevel");
            context.unknown(&place, Code::UnknownLevel, "level", &consequence.any_equals_level, &known);
        }
    }
}

/// A named condition must not refer to another, so that inserting them terminates.
fn named_conditions(context: &mut Context<'_>) {
    let referring: Vec<String> = context
        .conditions
        .values()
        .filter(|defined| match &defined.value {
            ConditionTest::Condition(condition) => !references(&condition.0).is_empty(),
            ConditionTest::ContractRef(_) => false,
        })
        .map(|defined| defined.path.clone())
        .collect();
    for path in referring {
        let message = "a named condition must not refer to another";
        context.problem(
            &member(&path, "condition"),
            Code::InvalidCondition,
            message,
            "Write the other condition inline.",
        );
    }
}

fn references(condition: &Value) -> Vec<&str> {
    let mut found = Vec::new();
    let mut waiting = vec![condition];
    while let Some(next) = waiting.pop() {
        if let Some(id) = condition::reference(next) {
            found.push(id);
            continue;
        }
        let Value::Object(members) = next else { continue };
        waiting.extend(members.get("not"));
        for key in ["and", "or"] {
            waiting.extend(members.get(key).and_then(Value::as_array).into_iter().flatten());
        }
    }
    found
}

/// Replaces references by the named conditions.
fn resolve(context: &mut Context<'_>, condition: &mut Value, path: &str) {
    if let Some(id) = condition::reference(condition).map(str::to_owned) {
        match context.conditions.get(&id).map(|defined| defined.value.clone()) {
            Some(ConditionTest::Condition(named)) => {
                let size = named.0.to_string().len();
                let before = context.inlined;
                context.inlined += size;
                if context.inlined <= MAX_COMPILED_BYTES {
                    *condition =
                        if references(&named.0).is_empty() { named.0 } else { serde_json::json!({}) };
                } else if before <= MAX_COMPILED_BYTES {
                    let message =
                        format!("named conditions make the workflow larger than {MAX_COMPILED_BYTES} bytes");
                    context.problem(path, Code::TooLarge, message, "Use shorter conditions.");
                }
            }
            Some(ConditionTest::ContractRef(_)) => {
                let message = format!("`{}` is a loop decision, not a condition on the context", quoted(&id));
                context.problem(
                    path,
                    Code::InvalidCondition,
                    message,
                    "Refer to a named condition that has a `condition`.",
                );
            }
            None => {
                let known: Vec<String> = context.conditions.keys().cloned().collect();
                context.unknown(path, Code::UnknownCondition, "condition", &id, &known);
            }
        }
        return;
    }
    let Value::Object(members) = condition else { return };
    if let Some(part) = members.get_mut("not") {
        resolve(context, part, path);
    }
    for key in ["and", "or"] {
        for part in members.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten() {
            resolve(context, part, path);
        }
    }
}
