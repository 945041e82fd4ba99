//! Standard and parallel steps.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    MAX_LOOP_DEPTH, MAX_STEPS, blocks, context_keys, definitions, loops,
    model::{
        Audit, Instruction, JumpIf, ParallelStep, ParallelTag, SourceStep, StandardStep, Synthesis,
        Verification,
    },
    names,
    reader::{MAX_ITEMS, Object, Reader, ValueAt},
    workflow::MODEL_TIERS,
};
use crate::{
    record::{NonAssumableChoiceKind, UserOnlyDependency},
    workflow::{
        compiled::{
            Condition, Confirmation, ConfirmationKind, Delegation, EvidenceDemand, Fragment, UserDependency,
        },
        context_keys::ContextKeys,
        needs::CONFIRMATION,
        problem::{ProblemCode as Code, item, quoted},
    },
};

/// The maximum number of user dependencies of one step: with a confirmation, all of them fit into one report.
const MAX_USER_DEPENDENCIES: usize = 8;

/// The maximum number of commands of one step: if all fail, they fit into one report.
const MAX_COMMANDS: usize = 8;

/// The state of reading steps.
#[derive(Default)]
pub(super) struct Steps {
    loops: usize,
    count: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum StepType {
    Standard,
    Loop,
    Parallel,
}

pub(super) fn read_list(reader: &mut Reader, found: ValueAt<'_>, state: &mut Steps) -> Vec<SourceStep> {
    let path = found.1.clone();
    let items = reader.items(found, 1..=MAX_STEPS);
    state.count += items.len();
    if state.count > MAX_STEPS {
        let message = format!("the workflow has more than {MAX_STEPS} steps");
        reader.report(&path, Code::TooLarge, message, "Split the workflow.");
        return Vec::new();
    }
    items.into_iter().map(|found| step(reader, found, state)).collect()
}

fn step(reader: &mut Reader, found: ValueAt<'_>, state: &mut Steps) -> SourceStep {
    let mut object = reader.object(found);
    let step_type = match object.get("type") {
        None => StepType::Standard,
        Some(found) => {
            let types = [
                ("loop", StepType::Loop),
                ("parallel", StepType::Parallel),
                ("standard", StepType::Standard),
            ];
            match reader.choice(found, &types) {
                Some(step_type) => step_type,
                // The allowed fields depend on the type, so nothing more can be checked.
                None => return SourceStep::Parallel(Box::new(placeholder(reader, &mut object))),
            }
        }
    };
    let step = match step_type {
        StepType::Standard => SourceStep::Standard(Box::new(standard(reader, &mut object))),
        StepType::Parallel => SourceStep::Parallel(Box::new(parallel(reader, &mut object))),
        StepType::Loop => {
            if state.loops == MAX_LOOP_DEPTH {
                let message = format!("loops are nested deeper than {MAX_LOOP_DEPTH} levels");
                reader.report(object.path(), Code::LoopTooDeep, message, "Flatten the innermost loops.");
                return SourceStep::Parallel(Box::new(placeholder(reader, &mut object)));
            }
            state.loops += 1;
            let step = loops::read(reader, &mut object, state);
            state.loops -= 1;
            SourceStep::Loop(Box::new(step))
        }
    };
    reader.finish(&object);
    step
}

fn id(reader: &mut Reader, o: &mut Object<'_>) -> String {
    o.need(reader, "id").map(|found| reader.name(found, &names::STEP_ID)).unwrap_or_default()
}

fn standard(reader: &mut Reader, o: &mut Object<'_>) -> StandardStep {
    StandardStep {
        id: id(reader, o),
        title: o.need_text(reader, "title", names::TITLE),
        instruction: instruction(reader, o),
        prompt_fragments: o.list(reader, "promptFragments", 0..=64, fragment),
        agent_role: o.text(reader, "agentRole", names::AGENT_ROLE),
        guidance: o.texts(reader, "guidance", names::GUIDANCE),
        run_condition: o.condition(reader, "runCondition"),
        requires_context: context_keys::read(reader, o, "requiresContext"),
        produces_context: context_keys::read(reader, o, "producesContext"),
        require_confirmation: confirmation(reader, o),
        user_dependencies: user_dependencies(reader, o),
        validation_criteria: o.get("validationCriteria").map(|found| reader.criteria(found)),
        output_contract: o.get("outputContract").map(|found| definitions::output_contract(reader, found)),
        assessment_refs: o.texts(reader, "assessmentRefs", 1..=64),
        assessment_consequences: o.list(reader, "assessmentConsequences", 0..=10, definitions::consequence),
        notes_optional: o.flag(reader, "notesOptional"),
        require_person: o.flag(reader, "requirePerson"),
        read_only: o.flag(reader, "readOnly"),
        evidence: evidence(reader, o),
        function_definitions: definitions::functions(reader, o),
        function_calls: o.list(reader, "functionCalls", 0..=MAX_ITEMS, definitions::call),
        function_references: o.list(reader, "functionReferences", 0..=MAX_ITEMS, function_reference),
        verification: o.get("verification").map(|found| verification(reader, found)),
        audit: o.get("audit").map(|found| audit(reader, found)),
        jump_if: o.get("jumpIf").map(|found| jump(reader, found)),
        model_tier: o.choice(reader, "modelTier", &MODEL_TIERS),
        ask_for_files: o.flag(reader, "askForFiles"),
        has_validation: o.flag(reader, "hasValidation"),
    }
}

fn instruction(reader: &mut Reader, o: &mut Object<'_>) -> Instruction {
    let (prompt, blocks, call) = (o.get("prompt"), o.get("promptBlocks"), o.get("templateCall"));
    let given =
        [prompt.is_some(), blocks.is_some(), call.is_some()].into_iter().filter(|given| *given).count();
    if given != 1 {
        let message =
            if given == 0 { "the step has no instruction" } else { "the step has more than one instruction" };
        let fix = "Add exactly one of `prompt`, `promptBlocks` and `templateCall`.";
        reader.report(o.path(), Code::PromptChoice, message, fix);
    }
    let prompt = prompt.map(|found| Instruction::Prompt(prompt_text(reader, found)));
    let blocks = blocks.map(|found| Instruction::PromptBlocks(blocks::read(reader, found)));
    let call = call.map(|found| Instruction::TemplateCall(blocks::template_call(reader, found)));
    prompt.or(blocks).or(call).unwrap_or(Instruction::Prompt("-".to_owned()))
}

fn prompt_text(reader: &mut Reader, found: ValueAt<'_>) -> String {
    let path = found.1.clone();
    let text = reader.text(found, 0..=*names::PROMPT.end());
    if found_blank(&text, reader, &path) {
        reader.report(&path, Code::EmptyPrompt, "the prompt is empty", "Describe what to do.");
    }
    text
}

/// Whether a text is blank without another reported problem.
fn found_blank(text: &str, reader: &Reader, path: &str) -> bool {
    text.trim().is_empty() && reader.problems.last().is_none_or(|problem| problem.path != path)
}

fn fragment(reader: &mut Reader, found: ValueAt<'_>) -> Fragment {
    let mut o = reader.object(found);
    let fragment = Fragment {
        id: o.need(reader, "id").map(|found| reader.name(found, &names::PART_ID)).unwrap_or_default(),
        when: o.condition(reader, "when"),
        text: o.need_text(reader, "text", names::FRAGMENT),
    };
    reader.finish(&o);
    fragment
}

/// `true`, a condition, or an object that says who must approve.
pub(super) fn confirmation(reader: &mut Reader, o: &mut Object<'_>) -> Option<Confirmation> {
    const KINDS: [(&str, ConfirmationKind); 2] = [
        ("coordinator_eval", ConfirmationKind::CoordinatorEval),
        ("human_approval", ConfirmationKind::HumanApproval),
    ];
    let found = o.get("requireConfirmation")?;
    if let Value::Bool(needed) = found.0 {
        return needed.then_some(Confirmation { kind: ConfirmationKind::HumanApproval, condition: None });
    }
    let kind = found.0.get("kind").and_then(Value::as_str);
    if found.0.is_object() && kind.is_none_or(|kind| kind == "condition_ref") {
        let condition = Some(reader.condition(found));
        return Some(Confirmation { kind: ConfirmationKind::HumanApproval, condition });
    }
    let mut o = reader.object(found);
    let kind = o.need(reader, "kind").and_then(|found| reader.choice(found, &KINDS));
    let condition = o.condition(reader, "condition");
    reader.finish(&o);
    kind.map(|kind| Confirmation { kind, condition })
}

/// What only the user can give.
fn user_dependencies(reader: &mut Reader, o: &mut Object<'_>) -> Vec<UserDependency> {
    let dependencies = o.list(reader, "userDependencies", 0..=MAX_USER_DEPENDENCIES, user_dependency);
    dependencies.into_iter().flatten().collect()
}

fn user_dependency(reader: &mut Reader, found: ValueAt<'_>) -> Option<UserDependency> {
    let mut o = reader.object(found);
    let id = o.need(reader, "id").map(|found| reader.name(found, &names::PART_ID)).unwrap_or_default();
    let reason = o.need(reader, "reason").and_then(|found| reader.choice(found, UserOnlyDependency::ALL));
    let what = o.need_text(reader, "what", names::SHORT);
    let condition = o.condition(reader, "condition");
    let is_choice = reason == Some(UserOnlyDependency::NeedsUserChoice);
    let choice_kind = o.choice(reader, "choiceKind", NonAssumableChoiceKind::ALL);
    let path = o.path_of("choiceKind");
    let kinds = || NonAssumableChoiceKind::ALL.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    match (is_choice, o.has("choiceKind"), reason) {
        (true, false, _) => {
            let message = "`choiceKind` is required with the reason `needs_user_choice`";
            reader.report(&path, Code::MissingMember, message, format!("Add one of: {}.", kinds()));
        }
        (false, true, Some(_)) => {
            let message = "`choiceKind` is only allowed with the reason `needs_user_choice`";
            reader.report(&path, Code::UnknownMember, message, "Remove it, or change the reason.");
        }
        _ => {}
    }
    if id == CONFIRMATION {
        let message = format!("the id `{CONFIRMATION}` is reserved for `requireConfirmation`");
        reader.report(&o.path_of("id"), Code::DuplicateId, message, "Use a different id.");
    }
    reader.finish(&o);
    reason.map(|reason| UserDependency { id, reason, choice_kind, what, condition })
}

/// What the host verifies. Rejects an empty demand, which is probably a mistake.
fn evidence(reader: &mut Reader, o: &mut Object<'_>) -> Option<EvidenceDemand> {
    let found = o.get("evidence")?;
    let before = reader.problems.len();
    let mut o = reader.object(found);
    let commands =
        o.list(reader, "commands", 0..=MAX_COMMANDS, |reader, found| reader.name(found, &names::COMMAND));
    let citations = o.flag(reader, "citations").unwrap_or(false);
    for (index, name) in commands.iter().enumerate() {
        if commands[..index].contains(name) {
            let message = format!("the command `{}` is listed twice", quoted(name));
            reader.report(&item(&o.path_of("commands"), index), Code::DuplicateId, message, "List it once.");
        }
    }
    if commands.is_empty() && !citations && reader.problems.len() == before {
        let message = "`evidence` is empty";
        let fix = "Add `commands` that the operator allows, or set `citations` to true.";
        reader.report(o.path(), Code::MissingMember, message, fix);
    }
    reader.finish(&o);
    Some(EvidenceDemand { commands, citations })
}

fn function_reference(reader: &mut Reader, found: ValueAt<'_>) -> String {
    let path = found.1.clone();
    let before = reader.problems.len();
    let text = reader.text(found, 3..=66);
    let name = text.strip_suffix("()").unwrap_or_default();
    if reader.problems.len() == before && !names::is_variable(name) {
        let message = format!("{:?} is not a function reference", quoted(&text));
        reader.report(&path, Code::InvalidName, message, "Write the function's name and `()`.");
    }
    name.to_owned()
}

fn verification(reader: &mut Reader, found: ValueAt<'_>) -> Verification {
    let mut o = reader.object(found);
    let verification = Verification {
        command: o.text(reader, "command", 1..=1024),
        prompt: o.get("prompt").map(|found| prompt_text(reader, found)),
    };
    reader.finish(&o);
    verification
}

fn audit(reader: &mut Reader, found: ValueAt<'_>) -> Audit {
    let mut o = reader.object(found);
    let audit = Audit {
        prompt: o.get("prompt").map(|found| prompt_text(reader, found)),
        rubric: o.texts(reader, "rubric", names::GUIDANCE),
    };
    reader.finish(&o);
    audit
}

fn jump(reader: &mut Reader, found: ValueAt<'_>) -> JumpIf {
    let mut o = reader.object(found);
    let jump = JumpIf {
        condition: match o.need(reader, "condition") {
            Some(found) => reader.condition(found),
            None => Condition(Value::Bool(false)),
        },
        target: o.need_text(reader, "target", 1..=64),
        max_jumps: o.need(reader, "maxJumps").map_or(1, |found| reader.number(found, 1..=999)),
    };
    reader.finish(&o);
    jump
}

fn parallel(reader: &mut Reader, o: &mut Object<'_>) -> ParallelStep {
    ParallelStep {
        id: id(reader, o),
        step_type: ParallelTag::Parallel,
        title: o.need_text(reader, "title", names::TITLE),
        parallel_delegations: match o.need(reader, "parallelDelegations") {
            Some(found) => {
                let items = reader.items(found, 1..=64);
                items.into_iter().map(|found| delegation(reader, found)).collect()
            }
            None => Vec::new(),
        },
        synthesis: o.get("synthesis").map(|found| synthesis(reader, found)),
        run_condition: o.condition(reader, "runCondition"),
        requires_context: context_keys::read(reader, o, "requiresContext"),
        produces_context: context_keys::read(reader, o, "producesContext"),
        require_confirmation: confirmation(reader, o),
        user_dependencies: user_dependencies(reader, o),
        notes_optional: o.flag(reader, "notesOptional"),
        require_person: o.flag(reader, "requirePerson"),
        read_only: o.flag(reader, "readOnly"),
    }
}

/// Replaces a step whose type is unknown.
fn placeholder(reader: &mut Reader, o: &mut Object<'_>) -> ParallelStep {
    ParallelStep {
        id: id(reader, o),
        step_type: ParallelTag::Parallel,
        title: String::new(),
        parallel_delegations: Vec::new(),
        synthesis: None,
        run_condition: None,
        requires_context: ContextKeys::new(),
        produces_context: ContextKeys::new(),
        require_confirmation: None,
        user_dependencies: Vec::new(),
        notes_optional: None,
        require_person: None,
        read_only: None,
    }
}

fn delegation(reader: &mut Reader, found: ValueAt<'_>) -> Delegation {
    let mut o = reader.object(found);
    let delegation = Delegation {
        workflow_id: o.need_text(reader, "workflowId", 3..=128),
        goal: o.text(reader, "goal", 1..=1024),
        run_condition: o.condition(reader, "runCondition"),
        context_mapping: {
            let entries = o.entries(reader, "contextMapping");
            let mut mapping = BTreeMap::new();
            for (key, found) in entries {
                mapping.insert(key.to_owned(), reader.name(found, &names::VARIABLE));
            }
            mapping
        },
        args: definitions::values(reader, &mut o, "args"),
        model_tier: o.choice(reader, "modelTier", &MODEL_TIERS),
        for_each: None,
        allowed_tools: o.texts(reader, "allowedTools", 1..=128),
    };
    reader.finish(&o);
    delegation
}

fn synthesis(reader: &mut Reader, found: ValueAt<'_>) -> Synthesis {
    let mut o = reader.object(found);
    let synthesis = Synthesis {
        prompt: o.get("prompt").map(|found| prompt_text(reader, found)),
        output_contract: o.get("outputContract").map(|found| definitions::output_contract(reader, found)),
    };
    reader.finish(&o);
    synthesis
}
