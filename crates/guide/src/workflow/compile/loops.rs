//! The control of each loop.

use std::collections::BTreeMap;

use super::{
    Pass, checks,
    draft::{Context, DraftLoop, Node},
    tokens::tokens,
};
use crate::{
    record::DelimiterSafe,
    workflow::{
        compiled::{Condition, ConditionMode, LoopControl, WarningCode},
        condition,
        problem::{ProblemCode as Code, member},
        source::{ConditionSource, ConditionTest, Instruction, LoopType},
    },
};

const LOOP_CONTROL: &str = "wr.contracts.loop_control";

/// The control of a loop; `None` if there is a problem.
pub(super) fn control(
    context: &mut Context<'_>,
    looped: &DraftLoop,
    loop_id: &DelimiterSafe,
    conditions: &mut BTreeMap<DelimiterSafe, Condition>,
) -> Option<LoopControl> {
    let spec = &looped.step.control;
    let path = member(&looped.path, "loop");
    let mode = match spec.loop_type {
        LoopType::For => return Some(LoopControl::Count { count: spec.count.clone()? }),
        LoopType::ForEach => {
            let item_var = spec.item_var.clone().unwrap_or_else(|| "currentItem".to_owned());
            return Some(LoopControl::ForEach {
                items: spec.items.clone()?,
                object_items: cites_field(&looped.body, &item_var),
                item_var,
                index_var: spec.index_var.clone().unwrap_or_else(|| "currentIndex".to_owned()),
            });
        }
        LoopType::While => ConditionMode::While,
        LoopType::Until => ConditionMode::Until,
    };
    let condition = match (&spec.condition_source, &spec.condition) {
        (Some(ConditionSource::ArtifactContract { contract_ref, loop_id: named }), _) => {
            if let Some(named) = named.as_ref().filter(|named| *named != &looped.step.id) {
                let message =
                    format!("`loopId` is `{named}`, but the id of the loop is `{}`", looped.step.id);
                context.problem(
                    &member(&path, "conditionSource"),
                    Code::InvalidLoop,
                    message,
                    "Remove `loopId`.",
                );
            }
            return decision(context, looped, contract_ref, &path);
        }
        // By default, a decision step in the body decides. It is safer than a condition.
        (None, _) if decides(&looped.body) => return decision(context, looped, LOOP_CONTROL, &path),
        (Some(ConditionSource::ContextVariable { condition }), _) | (None, Some(condition)) => condition,
        (None, None) => {
            let message = "the loop has no condition and no decision step";
            let fix = format!(
                "Add the contract `{LOOP_CONTROL}` to a step of the body, or a `condition` to the loop."
            );
            context.problem(&path, Code::InvalidLoop, message, fix);
            return None;
        }
    };
    let condition_id = match condition::reference(&condition.0) {
        None => {
            let condition_id = DelimiterSafe::parse(&format!("{loop_id}__condition")).ok()?;
            conditions.insert(condition_id.clone(), condition.clone());
            condition_id
        }
        Some(id) => match context.conditions.get(id).map(|defined| defined.value.clone()) {
            Some(ConditionTest::ContractRef(contract_ref)) => {
                return decision(context, looped, &contract_ref, &path);
            }
            Some(ConditionTest::Condition(named)) => {
                let condition_id = DelimiterSafe::parse(id).ok()?;
                conditions.insert(condition_id.clone(), named);
                condition_id
            }
            None => {
                let known: Vec<String> = context.conditions.keys().cloned().collect();
                context.unknown(&path, Code::UnknownCondition, "condition", id, &known);
                return None;
            }
        },
    };
    // The author of a jump has chosen a condition.
    if !looped.is_jump {
        let message =
            "the loop reads the context to decide: what nobody set ends or prolongs it without a word";
        context.warn(WarningCode::LoopReadsContext, &path, message);
    }
    Some(LoopControl::Condition { condition_id, mode })
}

fn decision(
    context: &mut Context<'_>,
    looped: &DraftLoop,
    contract_ref: &str,
    path: &str,
) -> Option<LoopControl> {
    if contract_ref != LOOP_CONTROL {
        if checks::contract(context, contract_ref, path) {
            let message = format!("artifacts of `{contract_ref}` do not contain a decision");
            context.problem(path, Code::InvalidLoop, message, format!("Use `{LOOP_CONTROL}`."));
        }
        return None;
    }
    if !checks::contract(context, contract_ref, path) {
        return None;
    }
    if !decides(&looped.body) {
        let message =
            format!("no step of the body has the contract `{LOOP_CONTROL}`, so the loop would never end");
        let fix = format!(
            "Add a step with \"outputContract\": {{\"contractRef\": \"{LOOP_CONTROL}\"}} to the body."
        );
        context.problem(path, Code::LoopWithoutDecision, message, fix);
        return None;
    }
    if !looped.body.last().is_some_and(|last| decides(std::slice::from_ref(last))) {
        let message =
            "the decision step is not the last step of the body, so the loop would be decided before the steps \
             after it are done"
                .to_owned();
        let fix = format!("Move the step with the contract `{LOOP_CONTROL}` to the end of the body.");
        context.problem(path, Code::LoopWithoutDecision, message, fix);
        return None;
    }
    context.note(
        Pass::Loops,
        &looped.step.id,
        Some(contract_ref),
        "a decision step in the body controls the loop",
    );
    Some(LoopControl::Decision { contract_ref: contract_ref.to_owned() })
}

/// Whether a step of the body itself decides. Steps of inner loops decide about those.
fn decides(body: &[Node]) -> bool {
    body.iter().any(|node| match node {
        Node::Step(draft) => {
            let never = draft
                .step
                .run_condition
                .as_ref()
                .is_some_and(|condition| condition::never_holds(&condition.0));
            !never
                && draft
                    .step
                    .output_contract
                    .as_ref()
                    .is_some_and(|contract| contract.contract_ref == LOOP_CONTROL)
        }
        Node::Loop(_) => false,
    })
}

/// Whether a text of the body cites a field of the item.
fn cites_field(body: &[Node], item_var: &str) -> bool {
    body.iter().any(|node| match node {
        Node::Loop(looped) => cites_field(&looped.body, item_var),
        Node::Step(draft) => {
            let prompt = match &draft.step.instruction {
                Instruction::Prompt(prompt) => prompt.as_str(),
                _ => "",
            };
            let fragments = draft.step.prompt_fragments.iter().map(|fragment| fragment.text.as_str());
            [prompt, &draft.step.title].into_iter().chain(fragments).any(|text| {
                tokens(text)
                    .into_iter()
                    .any(|(_, token)| token.strip_prefix(item_var).is_some_and(|rest| rest.starts_with('.')))
            })
        }
    })
}
