//! Emits the compiled workflow: flat, sorted where order has no meaning, and within the limits.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    MAX_COMPILED_BYTES, MAX_WARNINGS, Pass,
    draft::{Context, Draft, DraftLoop, Node, join_confirmation},
    functions, lints, loops,
};
use crate::{
    record::{DelimiterSafe, StepName},
    workflow::{
        compiled::{
            COMPILED_VERSION, CompiledWorkflow, Condition, Confirmation, ContractPack, Count, Loop,
            LoopControl, NamedCondition, SequenceItem, Step,
        },
        condition,
        positions::PositionIndex,
        problem::{ProblemCode as Code, member, quoted},
        source::{Instruction, Source},
    },
};

const ASSESSMENT: &str = "wr.contracts.assessment";

/// Emits the workflow; `None` if there is a problem.
pub(super) fn emit(context: &mut Context<'_>, source: &Source, nodes: Vec<Node>) -> Option<CompiledWorkflow> {
    lints::before(context, source, &nodes);
    let mut emitter = Emitter::default();
    let sequence = emitter.sequence(context, nodes, &Inherited::default());
    let Emitter { steps, mut loops, conditions, functions, contracts, assessments } = emitter;
    loops.sort_by(|a, b| a.loop_id.cmp(&b.loop_id));
    let by_id: BTreeMap<&StepName, &Step> = steps.iter().map(|step| (&step.step_id, step)).collect();
    if !sequence.iter().any(|item| can_run(item, &by_id, &loops)) && context.problems.is_empty() {
        let message = "no step can ever run: all steps have a condition that never holds or are in a loop without iterations";
        context.problem("steps", Code::NotStartable, message, "Remove the condition of the first step.");
    }
    let mut warnings = std::mem::take(&mut context.warnings);
    warnings.sort();
    warnings.dedup();
    warnings.truncate(MAX_WARNINGS);
    let packs = contracts.iter().filter_map(|id| context.registries.contract(id)).cloned();
    let mut packs: Vec<ContractPack> = packs.collect();
    packs.sort_by(|a, b| a.contract_ref.cmp(&b.contract_ref));
    let preferences = source.recommended_preferences.unwrap_or_default();
    let workflow = CompiledWorkflow {
        schema_version: COMPILED_VERSION,
        workflow_id: source.id.clone(),
        name: source.name.clone(),
        description: source.description.clone(),
        version: source.version.clone(),
        agent_role: source.agent_role.clone(),
        preconditions: source.preconditions.clone(),
        clarification_prompts: source.clarification_prompts.clone(),
        meta_guidance: context.meta_guidance.clone(),
        model_tier: source.model_tier,
        inputs: source.inputs.clone(),
        capabilities: context.capabilities.clone(),
        recommended_autonomy: preferences.recommended_autonomy,
        recommended_risk_policy: preferences.recommended_risk_policy,
        features: context.features.keys().cloned().collect(),
        contracts: packs,
        assessments: assessments
            .iter()
            .filter_map(|id| context.assessments.get(id))
            .map(|defined| defined.value.clone())
            .collect(),
        references: context.references.clone(),
        functions: functions::compiled(context, &functions),
        conditions: conditions
            .into_iter()
            .map(|(condition_id, condition)| NamedCondition { condition_id, condition })
            .collect(),
        loops,
        steps,
        sequence,
        bindings: context.bindings.clone(),
        compiled_warnings: warnings,
        positions: PositionIndex::default(),
    };
    if !context.problems.is_empty() {
        return None;
    }
    match canon::canonical::to_vec(&workflow) {
        Ok(bytes) if bytes.len() <= MAX_COMPILED_BYTES => Some(workflow),
        Ok(bytes) => {
            let message =
                format!("the compiled workflow has {} bytes; the limit is {MAX_COMPILED_BYTES}", bytes.len());
            context.problem(
                "",
                Code::TooLarge,
                message,
                "Split the workflow, or use fewer features and refs.",
            );
            None
        }
        Err(error) => {
            let message = format!("the compiled workflow has no canonical form: {error}");
            context.problem("", Code::TooLarge, message, "Reduce the nesting of conditions and arguments.");
            None
        }
    }
}

/// What the steps of a body inherit from their loop.
#[derive(Clone, Default)]
struct Inherited {
    notes_optional: Option<bool>,
}

#[derive(Default)]
struct Emitter {
    steps: Vec<Step>,
    loops: Vec<Loop>,
    conditions: BTreeMap<DelimiterSafe, Condition>,
    functions: BTreeSet<String>,
    contracts: BTreeSet<String>,
    assessments: BTreeSet<String>,
}

impl Emitter {
    fn sequence(
        &mut self,
        context: &mut Context<'_>,
        nodes: Vec<Node>,
        inherited: &Inherited,
    ) -> Vec<SequenceItem> {
        let mut sequence = Vec::new();
        for node in nodes {
            match node {
                Node::Step(draft) => {
                    sequence.extend(
                        self.step(context, *draft, inherited).map(|step_id| SequenceItem::Step { step_id }),
                    );
                }
                Node::Loop(looped) => {
                    sequence.extend(
                        self.looped(context, *looped, inherited)
                            .map(|loop_id| SequenceItem::Loop { loop_id }),
                    );
                }
            }
        }
        sequence
    }

    fn step(&mut self, context: &mut Context<'_>, draft: Draft, inherited: &Inherited) -> Option<StepName> {
        let (names, keys) = functions::cited(context, &draft);
        self.functions.extend(keys);
        let Draft { path, step, delegations, provenance, .. } = draft;
        let Ok(step_id) = StepName::parse(&step.id) else {
            let message = format!("{:?} is not a valid step id", quoted(&step.id));
            context.problem(&member(&path, "id"), Code::InvalidName, message, "Use a-z, 0-9, `_` and `-`.");
            return None;
        };
        let Instruction::Prompt(prompt) = step.instruction else { return None };
        if step.output_contract.is_some() || !step.assessment_refs.is_empty() {
            self.contracts.extend(step.output_contract.iter().map(|contract| contract.contract_ref.clone()));
            if !step.assessment_refs.is_empty() {
                self.contracts.insert(ASSESSMENT.to_owned());
            }
        }
        self.assessments.extend(step.assessment_refs.iter().cloned());
        let needs_user = step.require_confirmation.is_some() || !step.user_dependencies.is_empty();
        if step.require_person == Some(true) && !needs_user {
            let message = "`requirePerson` is set, but the step needs nothing from the user";
            let fix = "Add `requireConfirmation` or `userDependencies`, or remove `requirePerson`.";
            context.problem(&member(&path, "requirePerson"), Code::MissingMember, message, fix);
        }
        self.steps.push(Step {
            step_id: step_id.clone(),
            title: step.title,
            prompt,
            prompt_fragments: step.prompt_fragments,
            agent_role: step.agent_role,
            guidance: step.guidance,
            run_condition: step.run_condition,
            requires_context: step.requires_context,
            produces_context: step.produces_context,
            require_confirmation: step.require_confirmation,
            user_dependencies: step.user_dependencies,
            validation_criteria: step.validation_criteria,
            output_contract: step.output_contract,
            assessment_refs: step.assessment_refs,
            assessment_consequences: step.assessment_consequences,
            notes_optional: step.notes_optional.or(inherited.notes_optional).unwrap_or(false),
            require_person: step.require_person.unwrap_or(false),
            read_only: step.read_only.unwrap_or(false),
            evidence: step.evidence,
            function_references: names,
            model_tier: step.model_tier,
            delegations,
            provenance,
        });
        Some(step_id)
    }

    fn looped(
        &mut self,
        context: &mut Context<'_>,
        mut looped: DraftLoop,
        inherited: &Inherited,
    ) -> Option<DelimiterSafe> {
        let Ok(loop_id) = DelimiterSafe::parse(&looped.step.id) else {
            let message = format!("{:?} is not a valid loop id", quoted(&looped.step.id));
            context.problem(
                &member(&looped.path, "id"),
                Code::InvalidName,
                message,
                "Use a-z, 0-9, `_` and `-`.",
            );
            return None;
        };
        if looped.body.is_empty() && context.problems.is_empty() {
            let message = "the body of the loop is empty";
            context.problem(&member(&looped.path, "body"), Code::InvalidBody, message, "Add a step.");
        }
        let control = loops::control(context, &looped, &loop_id, &mut self.conditions);
        if let Some(LoopControl::Decision { contract_ref }) = &control {
            self.contracts.insert(contract_ref.clone());
        }
        if let Some(confirmation) = looped.step.require_confirmation.take() {
            confirm_first(&mut looped.body, &confirmation);
        }
        let below = Inherited { notes_optional: looped.step.notes_optional.or(inherited.notes_optional) };
        let spec = looped.step.control;
        let title = looped.step.title;
        let body = self.sequence(context, looped.body, &below);
        context.note(
            Pass::Loops,
            loop_id.as_str(),
            None,
            format!("repeats {} items, at most {} iterations", body.len(), spec.max_iterations),
        );
        self.loops.push(Loop {
            loop_id: loop_id.clone(),
            title,
            control: control?,
            max_iterations: spec.max_iterations,
            body,
            run_condition: looped.step.run_condition,
            requires_context: looped.step.requires_context,
            iteration_var: spec.iteration_var.unwrap_or_else(|| "currentIteration".to_owned()),
            provenance: looped.provenance,
        });
        Some(loop_id)
    }
}

/// Adds the confirmation of a loop to the first step of its body.
fn confirm_first(body: &mut [Node], confirmation: &Confirmation) {
    match body.first_mut() {
        Some(Node::Step(draft)) => join_confirmation(&mut draft.step.require_confirmation, confirmation),
        Some(Node::Loop(looped)) => confirm_first(&mut looped.body, confirmation),
        None => {}
    }
}

/// Whether an item can ever run. The depth of loops is limited, so the recursion is too.
fn can_run(item: &SequenceItem, steps: &BTreeMap<&StepName, &Step>, loops: &[Loop]) -> bool {
    let may =
        |condition: &Option<Condition>| !condition.as_ref().is_some_and(|it| condition::never_holds(&it.0));
    match item {
        SequenceItem::Step { step_id } => steps.get(step_id).is_some_and(|step| may(&step.run_condition)),
        SequenceItem::Loop { loop_id } => {
            loops.binary_search_by(|looped| looped.loop_id.cmp(loop_id)).is_ok_and(|index| {
                let looped = &loops[index];
                let turns = !matches!(looped.control, LoopControl::Count { count: Count::Number(0) });
                turns
                    && may(&looped.run_condition)
                    && looped.body.iter().any(|item| can_run(item, steps, loops))
            })
        }
    }
}
