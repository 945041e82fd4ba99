//! Jumps back, as counted loops.
//!
//! A step with `jumpIf` goes back to an earlier step of its list as long as a condition holds. The steps from the target to the step
//! become the body of a loop that runs at least once: its condition also holds before the first time round, when the loop's counter
//! is not set. So a jump needs no member of its own in the compiled workflow or in snapshots, and its number is bounded like that of
//! every loop.

use std::collections::BTreeMap;

use serde_json::json;

use super::draft::{Context, DraftLoop, Node};
use crate::workflow::{
    compiled::{Condition, StepProvenance},
    problem::{ProblemCode as Code, member, quoted},
    source::{
        Body, ConditionSource, JumpIf, LoopSpec, LoopStep, LoopTag, LoopType, MAX_LOOP_DEPTH, SourceStep,
    },
};

/// A jump of a list of steps.
struct Jump<'s> {
    /// The places of the target and of the step that jumps, in the author's list.
    from: usize,
    to: usize,
    step_id: &'s str,
    title: &'s str,
    path: String,
    jump: &'s JumpIf,
}

/// Puts the steps that a jump repeats into loops. `groups` has what each step of the list became, `depth` is how many loops are
/// around the list.
pub(super) fn wrap(
    context: &mut Context<'_>,
    steps: &[SourceStep],
    mut groups: Vec<Vec<Node>>,
    path_of: impl Fn(usize) -> String,
    depth: usize,
    provenance: &StepProvenance,
) -> Vec<Node> {
    let mut jumps = find(context, steps, path_of);
    // Inner jumps first: they become part of the body of outer ones.
    jumps.sort_by_key(|jump| (jump.to - jump.from, jump.from));
    let mut wrapped: Vec<(usize, usize)> = Vec::new();
    for jump in jumps {
        let crosses = |(from, to): &(usize, usize)| {
            let is_apart = jump.to < *from || *to < jump.from;
            let is_around = jump.from <= *from && *to <= jump.to;
            !is_apart && !is_around
        };
        if wrapped.iter().any(crosses) {
            let message = format!("the jump back to `{}` overlaps another jump", quoted(&jump.jump.target));
            let fix =
                "Let the later step jump back to the same step as the other jump, or to an earlier one.";
            context.problem(&jump.path, Code::InvalidJump, message, fix);
            continue;
        }
        wrapped.push((jump.from, jump.to));
        let body: Vec<Node> = groups[jump.from..=jump.to].iter_mut().flat_map(std::mem::take).collect();
        if depth + depth_of(&body) >= MAX_LOOP_DEPTH {
            let message = format!("loops and jumps are nested more than {MAX_LOOP_DEPTH} levels deep");
            context.problem(&jump.path, Code::LoopTooDeep, message, "Flatten the innermost ones.");
        } else {
            groups[jump.from] = vec![Node::Loop(Box::new(looped(&jump, body, provenance)))];
        }
    }
    groups.into_iter().flatten().collect()
}

/// The jumps of a list that lead somewhere.
fn find<'s>(
    context: &mut Context<'_>,
    steps: &'s [SourceStep],
    path_of: impl Fn(usize) -> String,
) -> Vec<Jump<'s>> {
    let places: BTreeMap<&str, usize> =
        steps.iter().enumerate().rev().map(|(place, step)| (step.id(), place)).collect();
    let mut found = Vec::new();
    for (to, step) in steps.iter().enumerate() {
        let SourceStep::Standard(step) = step else { continue };
        let Some(jump) = &step.jump_if else { continue };
        let path = member(&path_of(to), "jumpIf");
        match places.get(jump.target.as_str()).copied() {
            Some(from) if from <= to => {
                let title = match &steps[from] {
                    SourceStep::Standard(step) => &step.title,
                    SourceStep::Parallel(step) => &step.title,
                    SourceStep::Loop(step) => &step.title,
                };
                found.push(Jump { from, to, step_id: &step.id, title, path, jump });
            }
            Some(_) => {
                let message = format!("`{}` comes after this step", quoted(&jump.target));
                let fix =
                    "Jump back to this step or an earlier one. To skip steps, give them a `runCondition`.";
                context.problem(&member(&path, "target"), Code::InvalidJump, message, fix);
            }
            None => {
                let known: Vec<String> = places
                    .iter()
                    .filter(|(_, place)| **place <= to)
                    .map(|(id, _)| (*id).to_owned())
                    .collect();
                let path = member(&path, "target");
                context.unknown(
                    &path,
                    Code::InvalidJump,
                    "step in this list with the id",
                    &jump.target,
                    &known,
                );
            }
        }
    }
    found
}

fn looped(jump: &Jump<'_>, body: Vec<Node>, provenance: &StepProvenance) -> DraftLoop {
    // Steps of templates have dots in their ids, which loops cannot have, and variables have neither these nor hyphens.
    let id = format!("{}__jump", jump.step_id.replace('.', "__"));
    let counter = format!("pass_{}", id.replace('-', "_"));
    let is_first = json!({"var": counter, "equals": null});
    let condition = Condition(json!({"or": [is_first, jump.jump.condition.0]}));
    let control = LoopSpec {
        loop_type: LoopType::While,
        max_iterations: jump.jump.max_jumps + 1,
        condition: None,
        condition_source: Some(ConditionSource::ContextVariable { condition }),
        count: None,
        items: None,
        iteration_var: Some(counter),
        item_var: None,
        index_var: None,
        parallel: None,
    };
    let step = LoopStep {
        id,
        step_type: LoopTag::Loop,
        title: format!("Again from “{}”", jump.title),
        control,
        body: Body::Steps(Vec::new()),
        function_definitions: Vec::new(),
        require_confirmation: None,
        run_condition: None,
        requires_context: BTreeMap::new(),
        notes_optional: None,
    };
    DraftLoop { path: jump.path.clone(), step, body, provenance: provenance.clone(), is_jump: true }
}

/// The nesting depth of loops.
fn depth_of(nodes: &[Node]) -> usize {
    let depth = |node: &Node| match node {
        Node::Step(_) => 0,
        Node::Loop(looped) => 1 + depth_of(&looped.body),
    };
    nodes.iter().map(depth).max().unwrap_or_default()
}
