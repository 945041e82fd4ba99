//! Replaces template calls by the steps of routines, and inserts probes of required capabilities.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use serde_json::Value;

use super::{
    MAX_TEMPLATE_DEPTH, Pass,
    draft::{
        Context, Draft, DraftLoop, Node, Scope, each_step, join_condition, join_confirmation, step_texts,
    },
    functions, jumps, parallel,
    tokens::replace_arguments,
};
use crate::{
    record::Capability,
    workflow::{
        compiled::{CapabilityNeed, Confirmation, StepProvenance, StepSource},
        ids::SourceOrigin,
        problem::{ProblemCode as Code, item, member, quoted},
        source::{
            self, Body, Format, Instruction, MAX_LOOP_DEPTH, MAX_STEPS, ParallelStep, Source, SourceStep,
            StandardStep, TemplateCall,
        },
    },
};

const PROBE: &str = "wr.templates.capability_probe";

/// The maximum length of an argument, in bytes. It is repeated wherever the routine cites it.
const MAX_ARGUMENT_BYTES: usize = 4096;

pub(super) fn expand(context: &mut Context<'_>, source: &Source) -> Vec<Node> {
    let mut expander = Expander { parsed: BTreeMap::new(), stack: Vec::new(), loops: 0, full: false };
    let authored = StepProvenance { source: StepSource::Authored, origin_id: None, injections: Vec::new() };
    let mut nodes = expander.list(context, &source.steps, "steps", &authored, &mut Vec::new());
    // Routines may require capabilities too, so the probes are created last, but inserted first.
    let required: Vec<Capability> = context
        .capabilities
        .iter()
        .filter(|(_, need)| **need == CapabilityNeed::Required)
        .map(|(capability, _)| *capability)
        .collect();
    let mut probes = Vec::new();
    for capability in required {
        probes.append(&mut expander.probe(context, capability));
    }
    probes.append(&mut nodes);
    probes
}

struct Expander {
    parsed: BTreeMap<String, Option<Rc<Source>>>,
    /// The templates that are being expanded, to detect recursion.
    stack: Vec<String>,
    /// The number of loops around.
    loops: usize,
    full: bool,
}

impl Expander {
    /// `scopes` are the functions of the loops around.
    fn list(
        &mut self,
        context: &mut Context<'_>,
        steps: &[SourceStep],
        path: &str,
        provenance: &StepProvenance,
        scopes: &mut Vec<Scope>,
    ) -> Vec<Node> {
        let bodies = self.named_bodies(context, steps, path);
        // What each step becomes, at its place.
        let mut groups: Vec<Vec<Node>> = Vec::new();
        groups.resize_with(steps.len(), Vec::new);
        for (index, step) in steps.iter().enumerate() {
            let nodes = &mut groups[index];
            if bodies.contains_key(&index) {
                continue;
            }
            context.count += 1;
            if context.count > MAX_STEPS {
                if !std::mem::replace(&mut self.full, true) {
                    let message =
                        format!("the workflow has more than {MAX_STEPS} steps once templates are expanded");
                    context.problem(&item(path, index), Code::TooLarge, message, "Split the workflow.");
                }
                return groups.into_iter().flatten().collect();
            }
            // Steps of a template have the path of the call.
            let own = if self.stack.is_empty() { item(path, index) } else { path.to_owned() };
            match step {
                SourceStep::Standard(step) => {
                    self.standard(context, step, own, provenance, scopes, nodes);
                }
                SourceStep::Parallel(step) => {
                    nodes.push(Node::Step(delegating(step, own, provenance, scopes)));
                }
                SourceStep::Loop(step) => {
                    if self.loops == MAX_LOOP_DEPTH {
                        let message = format!("loops are nested deeper than {MAX_LOOP_DEPTH} levels");
                        context.problem(&own, Code::LoopTooDeep, message, "Flatten the innermost loops.");
                        continue;
                    }
                    let inner = scopes.len();
                    functions::declare_loop(context, step, &own, scopes);
                    self.loops += 1;
                    let body = match &step.body {
                        Body::Steps(steps) => {
                            let below =
                                if self.stack.is_empty() { member(&own, "body") } else { own.clone() };
                            self.list(context, steps, &below, provenance, scopes)
                        }
                        Body::Step(_) => {
                            let named =
                                bodies.iter().find(|(_, looped)| **looped == index).map(|(body, _)| *body);
                            let below = |body: usize| {
                                if self.stack.is_empty() { item(path, body) } else { own.clone() }
                            };
                            named.map_or_else(Vec::new, |body| match &steps[body] {
                                SourceStep::Standard(step) => {
                                    vec![Node::Step(draft(context, step, below(body), provenance, scopes))]
                                }
                                SourceStep::Parallel(step) => {
                                    vec![Node::Step(delegating(step, below(body), provenance, scopes))]
                                }
                                SourceStep::Loop(_) => Vec::new(),
                            })
                        }
                    };
                    self.loops -= 1;
                    scopes.truncate(inner);
                    let mut step = step.clone();
                    step.body = Body::Steps(Vec::new());
                    let provenance = provenance.clone();
                    let looped = DraftLoop { path: own, step: *step, body, provenance, is_jump: false };
                    nodes.push(parallel::join(context, looped));
                }
            }
        }
        let is_authored = self.stack.is_empty();
        let path_of = |index: usize| if is_authored { item(path, index) } else { path.to_owned() };
        jumps::wrap(context, steps, groups, path_of, self.loops, provenance)
    }

    /// Finds the step that is the body of each loop that refers to its body by id.
    fn named_bodies(
        &self,
        context: &mut Context<'_>,
        steps: &[SourceStep],
        path: &str,
    ) -> BTreeMap<usize, usize> {
        let mut bodies = BTreeMap::new();
        let named = steps.iter().enumerate().filter_map(|(index, step)| match step {
            SourceStep::Loop(step) => match &step.body {
                Body::Step(id) => Some((index, id)),
                Body::Steps(_) => None,
            },
            _ => None,
        });
        let named: Vec<(usize, &String)> = named.collect();
        if named.is_empty() {
            return bodies;
        }
        let places: BTreeMap<&str, usize> =
            steps.iter().enumerate().rev().map(|(index, step)| (step.id(), index)).collect();
        for (index, id) in named {
            let own =
                if self.stack.is_empty() { member(&item(path, index), "body") } else { path.to_owned() };
            let Some(place) = places.get(id.as_str()).copied() else {
                let known: Vec<String> = places.keys().map(|id| (*id).to_owned()).collect();
                context.unknown(&own, Code::InvalidBody, "step next to the loop:", id, &known);
                continue;
            };
            let reason = match &steps[place] {
                SourceStep::Loop(_) => Some("is itself a loop"),
                SourceStep::Standard(step) if matches!(step.instruction, Instruction::TemplateCall(_)) => {
                    Some("calls a template")
                }
                SourceStep::Standard(step) if step.verification.is_some() || step.audit.is_some() => {
                    Some("adds further steps with `verification` or `audit`")
                }
                SourceStep::Parallel(step) if step.synthesis.is_some() => {
                    Some("adds a further step with `synthesis`")
                }
                _ if bodies.contains_key(&place) => Some("is the body of another loop"),
                _ => None,
            };
            if let Some(reason) = reason {
                let message = format!("`{}` cannot be the body, because it {reason}", quoted(id));
                context.problem(
                    &own,
                    Code::InvalidBody,
                    message,
                    "Write the body inline as a list of steps.",
                );
            }
            bodies.insert(place, index);
        }
        bodies
    }

    fn standard(
        &mut self,
        context: &mut Context<'_>,
        step: &StandardStep,
        path: String,
        provenance: &StepProvenance,
        scopes: &mut Vec<Scope>,
        nodes: &mut Vec<Node>,
    ) {
        let Instruction::TemplateCall(call) = &step.instruction else {
            nodes.push(Node::Step(draft(context, step, path, provenance, scopes)));
            return;
        };
        self.refuse_companions(context, step, &path);
        let mut expanded = self.call(context, &step.id, call, &path, scopes);
        let last = expanded.len();
        for (index, node) in expanded.iter_mut().enumerate() {
            if let Some(condition) = &step.run_condition {
                match node {
                    Node::Step(draft) => draft.require(condition),
                    Node::Loop(looped) => join_condition(&mut looped.step.run_condition, condition),
                }
            }
            // The confirmation of a call applies to its last step.
            if index + 1 == last
                && let Some(confirmation) = &step.require_confirmation
            {
                confirm_last(node, confirmation);
            }
        }
        each_step(&mut expanded, &mut |draft| {
            let own = std::mem::take(&mut draft.step.guidance);
            draft.step.guidance = step.guidance.iter().cloned().chain(own).collect();
            let inner = &mut draft.step;
            inner.agent_role = inner.agent_role.take().or_else(|| step.agent_role.clone());
            inner.model_tier = inner.model_tier.or(step.model_tier);
            inner.notes_optional = inner.notes_optional.or(step.notes_optional);
            if inner.require_confirmation.is_some() || !inner.user_dependencies.is_empty() {
                inner.require_person = inner.require_person.or(step.require_person);
            }
            inner.read_only = inner.read_only.or(step.read_only);
        });
        nodes.append(&mut expanded);
    }

    /// Rejects fields that a call would silently ignore.
    fn refuse_companions(&self, context: &mut Context<'_>, step: &StandardStep, path: &str) {
        let companions = [
            ("promptFragments", !step.prompt_fragments.is_empty()),
            ("requiresContext", !step.requires_context.is_empty()),
            ("producesContext", !step.produces_context.is_empty()),
            ("userDependencies", !step.user_dependencies.is_empty()),
            ("evidence", step.evidence.is_some()),
            ("validationCriteria", step.validation_criteria.is_some()),
            ("outputContract", step.output_contract.is_some()),
            ("assessmentRefs", !step.assessment_refs.is_empty()),
            ("assessmentConsequences", !step.assessment_consequences.is_empty()),
            ("functionDefinitions", !step.function_definitions.is_empty()),
            ("functionCalls", !step.function_calls.is_empty()),
            ("functionReferences", !step.function_references.is_empty()),
            ("verification", step.verification.is_some()),
            ("audit", step.audit.is_some()),
            ("jumpIf", step.jump_if.is_some()),
        ];
        for (name, _) in companions.into_iter().filter(|(_, given)| *given) {
            let message = format!(
                "`{name}` is not allowed with a `templateCall`, because the template's steps have their own"
            );
            let fix = "Move it to a step after the call.";
            context.problem(&member(path, name), Code::InvalidTemplateCall, message, fix);
        }
    }

    fn call(
        &mut self,
        context: &mut Context<'_>,
        caller: &str,
        call: &TemplateCall,
        path: &str,
        scopes: &mut Vec<Scope>,
    ) -> Vec<Node> {
        let id = &call.template_id;
        let place = if self.stack.is_empty() { member(path, "templateCall") } else { path.to_owned() };
        if self.stack.contains(id) || self.stack.len() == MAX_TEMPLATE_DEPTH {
            let chain = self.stack.join(" → ");
            let message = format!(
                "template calls are circular or nested deeper than {MAX_TEMPLATE_DEPTH} levels: {chain} → {id}"
            );
            context.problem(&place, Code::TemplateRecursion, message, "Call a different template.");
            return Vec::new();
        }
        let Some(routine) = self.routine(context, id, &place) else { return Vec::new() };
        context.adopt(&routine, Some(&place));
        self.stack.push(id.clone());
        let provenance = StepProvenance {
            source: StepSource::TemplateInjected,
            origin_id: Some(id.clone()),
            injections: Vec::new(),
        };
        let arguments = self.arguments(context, call, &place);
        let mut steps = routine.steps.clone();
        let mut usage = Usage { arguments: &arguments, used: BTreeSet::new(), missing: BTreeSet::new() };
        rename(&mut steps, caller, &mut usage);
        let (missing, unused) = (usage.missing, arguments.keys().filter(|name| !usage.used.contains(*name)));
        let known: Vec<String> = missing.iter().cloned().collect();
        for name in unused {
            context.unknown(&place, Code::InvalidTemplateCall, "template argument", name, &known);
        }
        for name in &missing {
            let message = format!("`{id}` requires the argument `{name}`");
            context.problem(&place, Code::InvalidTemplateCall, message, format!("Add `{name}` to `args`."));
        }
        let mut nodes = self.list(context, &steps, path, &provenance, scopes);
        self.stack.pop();
        each_step(&mut nodes, &mut |draft| {
            let own = std::mem::take(&mut draft.step.guidance);
            draft.step.guidance = routine.meta_guidance.iter().cloned().chain(own).collect();
            context.note(Pass::Templates, &draft.step.id, Some(id), format!("replaces `{caller}`"));
        });
        nodes
    }

    fn routine(&mut self, context: &mut Context<'_>, id: &str, place: &str) -> Option<Rc<Source>> {
        if let Some(known) = self.parsed.get(id) {
            return known.clone();
        }
        let parsed = match context.registries.routine(id) {
            None => {
                let known = context.registries.routine_ids();
                context.unknown(place, Code::UnknownTemplate, "template", id, &known);
                // Not cached, so that every call of it is reported.
                return None;
            }
            Some(text) => match source::parse_from(text.as_bytes(), Format::Json, SourceOrigin::Bundled) {
                Ok(source) => Some(Rc::new(source)),
                Err(problems) => {
                    let first = problems.first().map(ToString::to_string).unwrap_or_default();
                    let message = format!("the template `{id}` is invalid: {first}");
                    context.problem(
                        place,
                        Code::InvalidTemplate,
                        message,
                        "Call a different template, and report this problem.",
                    );
                    None
                }
            },
        };
        self.parsed.insert(id.to_owned(), parsed.clone());
        parsed
    }

    /// The arguments as strings. Only strings, numbers and booleans can be inserted into a prompt.
    fn arguments(
        &self,
        context: &mut Context<'_>,
        call: &TemplateCall,
        place: &str,
    ) -> BTreeMap<String, String> {
        let mut arguments = BTreeMap::new();
        for (name, value) in &call.args {
            let text = match value {
                Value::String(text) => text.clone(),
                Value::Number(_) | Value::Bool(_) => value.to_string(),
                Value::Null | Value::Array(_) | Value::Object(_) => {
                    let message =
                        format!("the argument `{}` must be a string, number or boolean", quoted(name));
                    context.problem(place, Code::InvalidTemplateCall, message, "Write it as a string.");
                    String::new()
                }
            };
            if text.len() > MAX_ARGUMENT_BYTES {
                let message = format!(
                    "the argument `{}` has {} bytes; the limit is {MAX_ARGUMENT_BYTES}",
                    quoted(name),
                    text.len()
                );
                context.problem(place, Code::InvalidTemplateCall, message, "Shorten it.");
                continue;
            }
            arguments.insert(name.clone(), text);
        }
        arguments
    }

    fn probe(&mut self, context: &mut Context<'_>, capability: Capability) -> Vec<Node> {
        let name = match capability {
            Capability::Delegation => "delegation",
            Capability::WebBrowsing => "web_browsing",
        };
        let call = TemplateCall {
            template_id: PROBE.to_owned(),
            args: BTreeMap::from([("capability".to_owned(), Value::from(name))]),
        };
        context.count += 1;
        self.call(context, &format!("probe-{name}"), &call, &member("capabilities", name), &mut Vec::new())
    }
}

/// Confirms the last step. In a loop that is the last step of every iteration, because the last iteration is
/// not known beforehand.
fn confirm_last(node: &mut Node, confirmation: &Confirmation) {
    match node {
        Node::Step(draft) => join_confirmation(&mut draft.step.require_confirmation, confirmation),
        Node::Loop(looped) => {
            if let Some(last) = looped.body.last_mut() {
                confirm_last(last, confirmation);
            }
        }
    }
}

fn draft(
    context: &mut Context<'_>,
    step: &StandardStep,
    path: String,
    provenance: &StepProvenance,
    scopes: &[Scope],
) -> Box<Draft> {
    let mut keys = scopes.to_vec();
    functions::declare_step(context, step, &path, &mut keys);
    let mut draft = Draft::new(path, step.clone(), provenance.clone());
    draft.scopes = keys;
    Box::new(draft)
}

fn delegating(
    step: &ParallelStep,
    path: String,
    provenance: &StepProvenance,
    scopes: &[Scope],
) -> Box<Draft> {
    const PROMPT: &str = "Hand out the work below, each piece to an agent of its own, all at once where you can. \
        Give each agent its workflow, its goal and its inputs, and nothing of the others' results. Wait for all of \
        them. What they return is evidence, not truth: note for each piece what came back, and what did not.";
    let mut bare = StandardStep::bare(step.id.clone(), step.title.clone(), PROMPT.to_owned());
    bare.run_condition.clone_from(&step.run_condition);
    bare.requires_context.clone_from(&step.requires_context);
    bare.produces_context.clone_from(&step.produces_context);
    bare.require_confirmation.clone_from(&step.require_confirmation);
    bare.user_dependencies.clone_from(&step.user_dependencies);
    bare.notes_optional = step.notes_optional;
    bare.require_person = step.require_person;
    bare.read_only = step.read_only;
    let mut draft = Draft::new(path, bare, provenance.clone());
    draft.delegations.clone_from(&step.parallel_delegations);
    draft.synthesis.clone_from(&step.synthesis);
    draft.scopes = scopes.to_vec();
    Box::new(draft)
}

struct Usage<'a> {
    arguments: &'a BTreeMap<String, String>,
    used: BTreeSet<String>,
    missing: BTreeSet<String>,
}

impl Usage<'_> {
    fn fill(&mut self, text: &mut String) {
        let filled = replace_arguments(text, |name| match self.arguments.get(name) {
            Some(value) => {
                self.used.insert(name.to_owned());
                Some(value.clone())
            }
            None => {
                self.missing.insert(name.to_owned());
                None
            }
        });
        if let Some(filled) = filled {
            *text = filled;
        }
    }
}

/// Prefixes the ids of a routine's steps with the caller's id, and inserts the arguments.
fn rename(steps: &mut [SourceStep], caller: &str, usage: &mut Usage<'_>) {
    for step in steps {
        match step {
            SourceStep::Standard(step) => {
                step.id = format!("{caller}.{}", step.id);
                if let Some(jump) = &mut step.jump_if {
                    jump.target = format!("{caller}.{}", jump.target);
                }
                step_texts(step, &mut |_, text| usage.fill(text));
            }
            SourceStep::Parallel(step) => {
                step.id = format!("{caller}.{}", step.id);
                usage.fill(&mut step.title);
                step.user_dependencies.iter_mut().for_each(|dependency| usage.fill(&mut dependency.what));
                for delegation in &mut step.parallel_delegations {
                    delegation.goal.iter_mut().for_each(|text| usage.fill(text));
                }
                if let Some(prompt) = step.synthesis.as_mut().and_then(|synthesis| synthesis.prompt.as_mut())
                {
                    usage.fill(prompt);
                }
            }
            SourceStep::Loop(step) => {
                // Loop ids are parts of keys, in which dots would be ambiguous.
                step.id = format!("{}__{}", caller.replace('.', "__"), step.id);
                usage.fill(&mut step.title);
                match &mut step.body {
                    Body::Steps(body) => rename(body, caller, usage),
                    Body::Step(id) => *id = format!("{caller}.{id}"),
                }
            }
        }
    }
}
