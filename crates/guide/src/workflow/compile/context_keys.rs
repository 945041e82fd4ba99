//! Declared context keys: one type for each key, and no condition that reads an undeclared key.
//!
//! A run condition that reads an input, or a key that an earlier step produces, *requires* that key: without
//! a value the condition cannot be decided, and the step must not be skipped. The compiler records these
//! requirements in the step.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::draft::{Context, Draft, DraftLoop, Node};
use super::virtual_steps::METRICS;
use crate::workflow::{
    compiled::{Condition, Count, WarningCode},
    condition,
    context_keys::{ContextKeys, ContextType},
    criteria,
    problem::{ProblemCode as Code, item, member, quoted},
    source::{ConditionSource, ConditionTest, LoopType},
};

/// Checks the declarations of the expanded workflow, and adds what its steps require.
pub(super) fn check(context: &mut Context<'_>, inputs: &ContextKeys, nodes: &mut [Node]) {
    let mut declared: Declared = inputs
        .iter()
        .map(|(key, declaration)| (key.clone(), (declaration.clone(), member("inputs", key))))
        .collect();
    collect(context, nodes, &mut declared);
    // The start provides the inputs, so they exist before every step.
    let given: BTreeSet<String> = inputs.keys().cloned().collect();
    complete(nodes, &declared, &mut given.clone());
    produced_later(context, nodes, &declared, &mut given.clone());
    let mut known: BTreeSet<String> = declared.into_keys().collect();
    // The program declares the metrics itself, so they do not oblige the author to declare all keys.
    let declares = known.iter().any(|key| !key.starts_with(METRICS));
    known.insert("goal".to_owned());
    loop_inputs(nodes, &mut known);
    Readers { declares, known }.walk(context, nodes);
}

/// The type of each key, and where it was first declared.
type Declared = BTreeMap<String, (ContextType, String)>;

fn collect(context: &mut Context<'_>, nodes: &[Node], declared: &mut Declared) {
    for node in nodes {
        let lists: &[(&str, &ContextKeys)] = match node {
            Node::Step(draft) => &[
                ("requiresContext", &draft.step.requires_context),
                ("producesContext", &draft.step.produces_context),
            ],
            Node::Loop(looped) => &[("requiresContext", &looped.step.requires_context)],
        };
        let path = match node {
            Node::Step(draft) => &draft.path,
            Node::Loop(looped) => &looped.path,
        };
        for (list, keys) in lists {
            for (key, declaration) in *keys {
                let place = member(&member(path, list), key);
                match declared.get(key) {
                    None => {
                        declared.insert(key.clone(), (declaration.clone(), place));
                    }
                    Some((first, _)) if first == declaration => {}
                    Some((first, earlier)) => {
                        let message = format!(
                            "the context key `{}` must be {} here, but {} at `{earlier}`",
                            quoted(key),
                            declaration.words(),
                            first.words()
                        );
                        context.problem(
                            &place,
                            Code::ContextKeyConflict,
                            message,
                            "Declare the same type in both.",
                        );
                    }
                }
            }
        }
        if let Node::Loop(looped) = node {
            collect(context, &looped.body, declared);
        }
    }
}

/// Adds to each step and loop the produced keys that its run condition reads. `produced` are those of the
/// earlier steps, in the order of the file.
fn complete(nodes: &mut [Node], declared: &Declared, produced: &mut BTreeSet<String>) {
    for node in nodes {
        let (condition, requires) = match node {
            Node::Step(draft) => (&draft.step.run_condition, &mut draft.step.requires_context),
            Node::Loop(looped) => (&looped.step.run_condition, &mut looped.step.requires_context),
        };
        for key in condition.iter().flat_map(|condition| keys_of(&condition.0)) {
            if let Some((declaration, _)) = declared.get(key).filter(|_| produced.contains(key)) {
                requires.entry(key.to_owned()).or_insert_with(|| declaration.clone());
            }
        }
        match node {
            Node::Step(draft) => produced.extend(draft.step.produces_context.keys().cloned()),
            Node::Loop(looped) => complete(&mut looped.body, declared, produced),
        }
    }
}

/// Warns of conditions that are evaluated at a step, but read a key that only a later step produces.
fn produced_later(
    context: &mut Context<'_>,
    nodes: &[Node],
    declared: &Declared,
    produced: &mut BTreeSet<String>,
) {
    for node in nodes {
        let draft = match node {
            Node::Step(draft) => draft,
            Node::Loop(looped) => {
                produced_later(context, &looped.body, declared, produced);
                continue;
            }
        };
        let step = &draft.step;
        produced.extend(step.produces_context.keys().cloned());
        for (place, condition) in evaluated_at(draft) {
            let later = keys_of(&condition).filter(|key| {
                declared.contains_key(*key)
                    && !produced.contains(*key)
                    && !step.requires_context.contains_key(*key)
            });
            for key in later {
                let message = format!(
                    "the condition reads the context key `{}`, which only a later step produces: it counts as null here. \
                     Produce it in an earlier step, or add it to `requiresContext` of this step",
                    quoted(key)
                );
                context.advise(WarningCode::ContextKeyProducedLater, &place, message);
            }
        }
    }
}

/// The conditions of a step that decide what it needs, with their places.
fn evaluated_at(draft: &Draft) -> Vec<(String, Value)> {
    let (step, path) = (&draft.step, &draft.path);
    let mut found = Vec::new();
    let confirmed = step.require_confirmation.as_ref().and_then(|needed| needed.condition.as_ref());
    found.extend(confirmed.map(|condition| (member(path, "requireConfirmation"), condition.0.clone())));
    for (index, needed) in step.user_dependencies.iter().enumerate() {
        let place = member(&item(&member(path, "userDependencies"), index), "condition");
        found.extend(needed.condition.as_ref().map(|condition| (place, condition.0.clone())));
    }
    if let Some(rules) = &step.validation_criteria {
        let (mut rules, mut conditions) = (rules.0.clone(), Vec::new());
        criteria::conditions_mut(&mut rules, &mut conditions);
        let place = || member(path, "validationCriteria");
        found.extend(conditions.into_iter().map(|condition| (place(), condition.clone())));
    }
    found
}

/// The keys that a condition reads as a whole. Paths into a value are not declared.
fn keys_of(condition: &Value) -> impl Iterator<Item = &str> {
    let mut variables = Vec::new();
    condition::variables(condition, &mut variables);
    variables.into_iter().filter(|variable| !variable.contains('.'))
}

/// The keys that control loops. They are lists and counts, and are checked where the loop starts.
fn loop_inputs(nodes: &[Node], known: &mut BTreeSet<String>) {
    for node in nodes {
        if let Node::Loop(looped) = node {
            let spec = &looped.step.control;
            known.extend(spec.items.clone());
            if let Some(Count::Key(key)) = &spec.count {
                known.insert(key.clone());
            }
            loop_inputs(&looped.body, known);
        }
    }
}

/// Checks every condition for undeclared keys.
struct Readers {
    /// Whether the file declares any keys. If not, an undeclared key is only a warning.
    declares: bool,
    /// The declared keys, and the variables of the loops around.
    known: BTreeSet<String>,
}

impl Readers {
    fn walk(&mut self, context: &mut Context<'_>, nodes: &[Node]) {
        for node in nodes {
            match node {
                Node::Step(draft) => self.step(context, draft),
                Node::Loop(looped) => self.looped(context, looped),
            }
        }
    }

    fn step(&self, context: &mut Context<'_>, draft: &Draft) {
        let (step, path) = (&draft.step, &draft.path);
        self.optional(context, step.run_condition.as_ref(), &member(path, "runCondition"));
        for (place, condition) in evaluated_at(draft) {
            self.read(context, &condition, &place);
        }
        for (index, fragment) in step.prompt_fragments.iter().enumerate() {
            let place = member(&item(&member(path, "promptFragments"), index), "when");
            self.optional(context, fragment.when.as_ref(), &place);
        }
        for (index, delegation) in draft.delegations.iter().enumerate() {
            let place = member(&item(&member(path, "parallelDelegations"), index), "runCondition");
            self.optional(context, delegation.run_condition.as_ref(), &place);
        }
    }

    fn looped(&mut self, context: &mut Context<'_>, looped: &DraftLoop) {
        let (step, path) = (&looped.step, &looped.path);
        self.optional(context, step.run_condition.as_ref(), &member(path, "runCondition"));
        let confirmed = step.require_confirmation.as_ref().and_then(|needed| needed.condition.as_ref());
        self.optional(context, confirmed, &member(path, "requireConfirmation"));
        let spec = &step.control;
        let mut names = vec![spec.iteration_var.as_deref().unwrap_or("currentIteration")];
        if spec.loop_type == LoopType::ForEach {
            names.push(spec.item_var.as_deref().unwrap_or("currentItem"));
            names.push(spec.index_var.as_deref().unwrap_or("currentIndex"));
        }
        let added: Vec<String> =
            names.into_iter().map(str::to_owned).filter(|name| self.known.insert(name.clone())).collect();
        let decides = match &spec.condition_source {
            Some(ConditionSource::ContextVariable { condition }) => Some(condition),
            Some(ConditionSource::ArtifactContract { .. }) | None => spec.condition.as_ref(),
        };
        if let Some(decides) = decides {
            let named = condition::reference(&decides.0).and_then(|id| context.conditions.get(id));
            let decides = match named.map(|defined| &defined.value) {
                Some(ConditionTest::Condition(named)) => named.0.clone(),
                Some(ConditionTest::ContractRef(_)) => Value::Null,
                None => decides.0.clone(),
            };
            self.read(context, &decides, &looped.condition_path());
        }
        self.walk(context, &looped.body);
        for name in added {
            self.known.remove(&name);
        }
    }

    fn optional(&self, context: &mut Context<'_>, condition: Option<&Condition>, path: &str) {
        if let Some(condition) = condition {
            self.read(context, &condition.0, path);
        }
    }

    fn read(&self, context: &mut Context<'_>, condition: &Value, path: &str) {
        for key in keys_of(condition).filter(|key| !self.known.contains(*key)) {
            let fix = match canon::nearest::nearest(key, &self.known, 1).first() {
                Some(near) => format!("Did you mean `{near}`?"),
                None => format!(
                    "Add `producesContext: {{\"{key}\": …}}` to the step that sends it, or declare it in the workflow's \
                     `inputs` if `start_workflow` brings it."
                ),
            };
            let message = format!(
                "the condition reads the context key `{}`, which neither a step nor `inputs` declares",
                quoted(key)
            );
            if self.declares {
                context.problem(path, Code::UndeclaredContextKey, message, fix);
            } else {
                context.advise(WarningCode::UndeclaredContextKey, path, format!("{message}. {fix}"));
            }
        }
    }
}
