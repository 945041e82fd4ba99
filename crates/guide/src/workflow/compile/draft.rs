//! A workflow between the passes.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use serde_json::Value;

use super::{MAX_WARNINGS, Pass, PassNote, Registries};
use crate::{
    record::Capability,
    workflow::{
        compiled::{
            Assessment, CapabilityNeed, CompiledWarning, Condition, Confirmation, ConfirmationKind,
            Delegation, Injection, Reference, StepProvenance, WarningCode,
        },
        problem::{MAX_COLLECTED, Problem, ProblemCode, item, member},
        source::{
            BlockPart, BlockText, ConditionTest, FunctionDefinition, Instruction, LoopStep, PromptBlocks,
            Source, StandardStep, Synthesis,
        },
    },
};

/// The functions of one loop or step: name to key. Shared, because those of a loop apply to every step of its
/// body.
pub(super) type Scope = Rc<BTreeMap<String, String>>;

/// A step or a loop.
pub(super) enum Node {
    Step(Box<Draft>),
    Loop(Box<DraftLoop>),
}

/// A step.
pub(super) struct Draft {
    /// The path in the source; for a step of a template, that of the call.
    pub(super) path: String,
    /// The rest of the author's step. A parallel step has a prompt and delegations.
    pub(super) step: StandardStep,
    pub(super) delegations: Vec<Delegation>,
    pub(super) synthesis: Option<Synthesis>,
    pub(super) provenance: StepProvenance,
    /// The number of characters that the author wrote, before insertions.
    pub(super) authored_characters: usize,
    /// The visible functions, from the outermost scope inwards.
    pub(super) scopes: Vec<Scope>,
}

pub(super) struct DraftLoop {
    pub(super) path: String,
    /// The author's loop; its body is in `body` instead.
    pub(super) step: LoopStep,
    pub(super) body: Vec<Node>,
    /// Where the loop comes from.
    pub(super) provenance: StepProvenance,
    /// Whether it was made of a `jumpIf`.
    pub(super) is_jump: bool,
}

impl DraftLoop {
    /// Where the author wrote what decides it.
    pub(super) fn condition_path(&self) -> String {
        let holder = if self.is_jump { self.path.clone() } else { member(&self.path, "loop") };
        member(&holder, "condition")
    }
}

/// A definition with its path.
pub(super) struct Defined<T> {
    pub(super) path: String,
    pub(super) value: T,
}

/// The state that the passes share.
pub(super) struct Context<'r> {
    pub(super) registries: &'r dyn Registries,
    pub(super) problems: Vec<Problem>,
    pub(super) notes: Vec<PassNote>,
    pub(super) warnings: Vec<CompiledWarning>,
    /// Warnings that are not part of the compiled workflow, so that they do not change its hash.
    pub(super) advice: Vec<CompiledWarning>,
    /// The number of steps and loops so far.
    pub(super) count: usize,
    pub(super) assessments: BTreeMap<String, Defined<Assessment>>,
    pub(super) conditions: BTreeMap<String, Defined<ConditionTest>>,
    pub(super) functions: BTreeMap<String, Defined<FunctionDefinition>>,
    /// The default of each slot.
    pub(super) slots: BTreeMap<String, Defined<String>>,
    pub(super) references: Vec<Reference>,
    pub(super) features: BTreeMap<String, String>,
    pub(super) capabilities: BTreeMap<Capability, CapabilityNeed>,
    pub(super) meta_guidance: Vec<String>,
    pub(super) bindings: BTreeMap<String, String>,
    /// The bytes of inserted named conditions.
    pub(super) inlined: usize,
}

impl<'r> Context<'r> {
    /// Collects the definitions of the workflow itself.
    pub(super) fn new(source: &Source, registries: &'r dyn Registries) -> Self {
        let mut context = Self {
            registries,
            problems: Vec::new(),
            notes: Vec::new(),
            warnings: Vec::new(),
            advice: Vec::new(),
            count: 0,
            assessments: BTreeMap::new(),
            conditions: BTreeMap::new(),
            functions: BTreeMap::new(),
            slots: BTreeMap::new(),
            references: Vec::new(),
            features: BTreeMap::new(),
            capabilities: source.capabilities.clone(),
            meta_guidance: source.meta_guidance.clone(),
            bindings: BTreeMap::new(),
            inlined: 0,
        };
        context.adopt(source, None);
        context
    }

    /// Collects the definitions of a workflow, or of the template that a step calls.
    ///
    /// A template may repeat a definition but not change it.
    pub(super) fn adopt(&mut self, source: &Source, call: Option<&str>) {
        let at = |list: &str, index: usize| call.map_or_else(|| item(list, index), str::to_owned);
        let mut taken: Vec<(String, String)> = Vec::new();
        for (index, assessment) in source.assessments.iter().enumerate() {
            let path = at("assessments", index);
            let mut seen = BTreeSet::new();
            for dimension in &assessment.dimensions {
                if !seen.insert(&dimension.id) {
                    taken.push((path.clone(), format!("dimension `{}`", dimension.id)));
                }
            }
            define(
                &mut self.assessments,
                &assessment.id,
                path,
                assessment.clone(),
                call,
                "assessment",
                &mut taken,
            );
        }
        for (index, condition) in source.conditions.iter().enumerate() {
            let (path, test) = (at("conditions", index), condition.test.clone());
            define(&mut self.conditions, &condition.condition_id, path, test, call, "condition", &mut taken);
        }
        for (index, function) in source.function_definitions.iter().enumerate() {
            let path = at("functionDefinitions", index);
            let key = super::functions::workflow_key(&function.name);
            define(&mut self.functions, &key, path, function.clone(), call, "function", &mut taken);
        }
        for (index, point) in source.extension_points.iter().enumerate() {
            let path = at("extensionPoints", index);
            define(&mut self.slots, &point.slot_id, path, point.default.clone(), call, "slot", &mut taken);
        }
        for (index, reference) in source.references.iter().enumerate() {
            match self.references.iter().find(|known| known.id == reference.id) {
                None => self.references.push(reference.clone()),
                Some(known) if call.is_some() && known == reference => {}
                Some(_) => taken.push((at("references", index), format!("reference `{}`", reference.id))),
            }
        }
        for (index, feature) in source.features.iter().enumerate() {
            self.features.entry(feature.clone()).or_insert_with(|| at("features", index));
        }
        if call.is_some() {
            for (capability, need) in &source.capabilities {
                let known = self.capabilities.entry(*capability).or_insert(*need);
                // A routine may require more capabilities, but cannot enable what the workflow disables.
                if *known == CapabilityNeed::Preferred && *need == CapabilityNeed::Required {
                    *known = *need;
                }
            }
        }
        for (path, what) in taken {
            let message = format!("duplicate {what}");
            self.problem(&path, ProblemCode::DuplicateId, message, "Rename one of them.");
        }
    }

    pub(super) fn problem(
        &mut self,
        path: &str,
        code: ProblemCode,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) {
        if self.problems.len() < MAX_COLLECTED {
            self.problems.push(Problem::new(path, code, message, fix));
        }
    }

    /// Reports an unknown name, with the most similar known one.
    pub(super) fn unknown(
        &mut self,
        path: &str,
        code: ProblemCode,
        what: &str,
        name: &str,
        known: &[String],
    ) {
        if self.problems.len() >= MAX_COLLECTED {
            return;
        }
        let fix = match canon::nearest::nearest(name, known, 1).first() {
            Some(near) => format!("Did you mean `{near}`?"),
            None if known.is_empty() => format!("Define the {what}, or remove this."),
            None if known.len() <= 20 => format!("Known: {}.", known.join(", ")),
            None => format!("Use one of the {} known ones.", known.len()),
        };
        let message = format!("unknown {what} `{}`", crate::workflow::problem::quoted(name));
        self.problem(path, code, message, fix);
    }

    pub(super) fn note(
        &mut self,
        pass: Pass,
        step_id: &str,
        origin_id: Option<&str>,
        note: impl Into<String>,
    ) {
        self.notes.push(PassNote {
            pass,
            step_id: (!step_id.is_empty()).then(|| step_id.to_owned()),
            lines: None,
            origin_id: origin_id.map(str::to_owned),
            note: note.into(),
        });
    }

    pub(super) fn advise(&mut self, code: WarningCode, path: &str, message: String) {
        if self.advice.len() < MAX_WARNINGS {
            self.advice.push(CompiledWarning { code, path: path.to_owned(), message });
        }
    }

    pub(super) fn warn(&mut self, code: WarningCode, path: &str, message: impl Into<String>) {
        self.warnings.push(CompiledWarning { code, path: path.to_owned(), message: message.into() });
    }
}

fn define<T: PartialEq>(
    map: &mut BTreeMap<String, Defined<T>>,
    key: &str,
    path: String,
    value: T,
    call: Option<&str>,
    what: &str,
    taken: &mut Vec<(String, String)>,
) {
    match map.get(key) {
        None => {
            map.insert(key.to_owned(), Defined { path, value });
        }
        Some(known) if call.is_some() && known.value == value => {}
        Some(_) => {
            let name = key.rsplit('/').next().unwrap_or(key);
            taken.push((path, format!("{what} `{name}`")));
        }
    }
}

impl Draft {
    pub(super) fn new(path: String, step: StandardStep, provenance: StepProvenance) -> Self {
        Self {
            path,
            step,
            delegations: Vec::new(),
            synthesis: None,
            provenance,
            authored_characters: 0,
            scopes: Vec::new(),
        }
    }

    /// All texts that a caller will see, with the names of their fields.
    pub(super) fn texts_mut(&mut self, visit: &mut dyn FnMut(&'static str, &mut String)) {
        step_texts(&mut self.step, visit);
        if let Some(synthesis) = &mut self.synthesis {
            synthesis.prompt.iter_mut().for_each(|text| visit("synthesis", text));
        }
        for delegation in &mut self.delegations {
            visit("parallelDelegations", &mut delegation.workflow_id);
            delegation.goal.iter_mut().for_each(|text| visit("parallelDelegations", text));
        }
    }

    /// Adds a condition that must hold too.
    pub(super) fn require(&mut self, condition: &Condition) {
        join_condition(&mut self.step.run_condition, condition);
    }

    pub(super) fn inject(&mut self, origin_id: &str, text: &str) {
        self.provenance.injections.push(Injection {
            origin_id: origin_id.to_owned(),
            content_hash: canon::digest::Digest::of_bytes(text.as_bytes()),
            bytes: text.len() as u64,
        });
    }
}

/// All texts of a step.
pub(super) fn step_texts(step: &mut StandardStep, visit: &mut dyn FnMut(&'static str, &mut String)) {
    visit("title", &mut step.title);
    match &mut step.instruction {
        Instruction::Prompt(prompt) => visit("prompt", prompt),
        Instruction::PromptBlocks(blocks) => block_texts(blocks, &mut |text| visit("promptBlocks", text)),
        Instruction::TemplateCall(call) => {
            for value in call.args.values_mut() {
                if let Value::String(text) = value {
                    visit("templateCall", text);
                }
            }
        }
    }
    for fragment in &mut step.prompt_fragments {
        visit("promptFragments", &mut fragment.text);
    }
    step.agent_role.iter_mut().for_each(|text| visit("agentRole", text));
    step.guidance.iter_mut().for_each(|text| visit("guidance", text));
    for dependency in &mut step.user_dependencies {
        visit("userDependencies", &mut dependency.what);
    }
    if let Some(verification) = &mut step.verification {
        verification
            .command
            .iter_mut()
            .chain(&mut verification.prompt)
            .for_each(|text| visit("verification", text));
    }
    if let Some(audit) = &mut step.audit {
        audit.prompt.iter_mut().chain(&mut audit.rubric).for_each(|text| visit("audit", text));
    }
}

/// Adds a condition that must hold too, before the existing one.
pub(super) fn join_condition(own: &mut Option<Condition>, other: &Condition) {
    *own = Some(match own.take() {
        None => other.clone(),
        Some(own) => Condition(serde_json::json!({"and": [other.0, own.0]})),
    });
}

/// Merges a confirmation with an existing one. The result is never weaker: it applies if either applies, and
/// requires the stricter approver.
pub(super) fn join_confirmation(own: &mut Option<Confirmation>, other: &Confirmation) {
    *own = Some(match own.take() {
        None => other.clone(),
        Some(own) => Confirmation {
            kind: match (own.kind, other.kind) {
                (ConfirmationKind::CoordinatorEval, ConfirmationKind::CoordinatorEval) => own.kind,
                _ => ConfirmationKind::HumanApproval,
            },
            condition: own.condition.zip(other.condition.as_ref()).map(|(own, other)| {
                if own == *other { own } else { Condition(serde_json::json!({"or": [other.0, own.0]})) }
            }),
        },
    });
}

fn block_texts(blocks: &mut PromptBlocks, visit: &mut dyn FnMut(&mut String)) {
    let PromptBlocks { goal, constraints, procedure, output_required, verify } = blocks;
    let texts = goal
        .iter_mut()
        .chain(constraints)
        .chain(procedure)
        .chain(output_required.iter_mut().map(|(_, text)| text))
        .chain(verify);
    for text in texts {
        match text {
            BlockText::Text(text) => visit(text),
            BlockText::Parts(parts) => {
                for part in parts {
                    if let BlockPart::Text { text } = part {
                        visit(text);
                    }
                }
            }
        }
    }
}

/// Visits all steps in order, including those of loops.
pub(super) fn each_step(nodes: &mut [Node], visit: &mut dyn FnMut(&mut Draft)) {
    for node in nodes {
        match node {
            Node::Step(draft) => visit(draft),
            // The source and the templates limit the depth of loops.
            Node::Loop(looped) => each_step(&mut looped.body, visit),
        }
    }
}
