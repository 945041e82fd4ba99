//! Warnings for the author. They never prevent a workflow from running. Their messages are part of the hash.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    draft::{Context, Draft, Node},
    tokens::tokens,
};
use crate::workflow::{
    compiled::{Count, StepSource, WarningCode},
    condition, criteria,
    ids::{self, IdStatus, SourceOrigin},
    problem::{member, quoted},
    source::{Instruction, LoopType, Source},
};

/// Longer prompts are hard to follow, in characters of the author's own text.
const LONG_PROMPT: usize = 1500;
/// More iterations are rarely intended.
const MANY_ITERATIONS: u32 = 100;

/// Checks the workflow before it is emitted.
pub(super) fn before(context: &mut Context<'_>, source: &Source, nodes: &[Node]) {
    // This applies to bundled workflows too: a legacy id is one without a dot.
    if ids::check(&source.id, SourceOrigin::Bundled) == Ok(IdStatus::Legacy) {
        let message =
            format!("`{}` has no namespace: `namespace.name` cannot be mistaken for another", source.id);
        context.warn(WarningCode::LegacyId, "id", message);
    }
    let mut words = BTreeSet::from(["goal".to_owned()]);
    words.extend(source.inputs.keys().cloned());
    for text in source.preconditions.iter().chain(&source.clarification_prompts).chain(&source.meta_guidance)
    {
        collect_words(text, &mut words);
    }
    gather(nodes, &mut words);
    walk(context, nodes, &mut words);
}

/// Collects all names that the texts mention or that are set.
fn gather(nodes: &[Node], words: &mut BTreeSet<String>) {
    for node in nodes {
        match node {
            Node::Loop(looped) => {
                let spec = &looped.step.control;
                words.extend(spec.items.clone());
                words.extend(looped.step.requires_context.keys().cloned());
                if let Some(Count::Key(key)) = &spec.count {
                    words.insert(key.clone());
                }
                for condition in spec.condition.iter().chain(&looped.step.run_condition) {
                    read_by(&condition.0, words);
                }
                gather(&looped.body, words);
            }
            Node::Step(draft) => {
                let declared = [&draft.step.requires_context, &draft.step.produces_context];
                words.extend(declared.into_iter().flat_map(|keys| keys.keys().cloned()));
                for text in texts(draft) {
                    collect_words(text, words);
                }
                draft.step.guidance.iter().for_each(|text| collect_words(text, words));
                let needed =
                    draft.step.user_dependencies.iter().filter_map(|needed| needed.condition.as_ref());
                for condition in needed.chain(&draft.step.run_condition) {
                    read_by(&condition.0, words);
                }
                for delegation in &draft.delegations {
                    words.extend(delegation.context_mapping.keys().cloned());
                }
            }
        }
    }
}

fn read_by(condition: &Value, words: &mut BTreeSet<String>) {
    let mut variables = Vec::new();
    condition::variables(condition, &mut variables);
    words.extend(variables.into_iter().map(|variable| root(variable).to_owned()));
}

fn root(variable: &str) -> &str {
    variable.split('.').next().unwrap_or(variable)
}

fn texts(draft: &Draft) -> impl Iterator<Item = &str> {
    let prompt = match &draft.step.instruction {
        Instruction::Prompt(prompt) => prompt.as_str(),
        _ => "",
    };
    let fragments = draft.step.prompt_fragments.iter().map(|fragment| fragment.text.as_str());
    let dependencies = draft.step.user_dependencies.iter().map(|dependency| dependency.what.as_str());
    [draft.step.title.as_str(), prompt].into_iter().chain(fragments).chain(dependencies)
}

/// The words of a text outside of its tokens.
fn collect_words(text: &str, words: &mut BTreeSet<String>) {
    let mut from = 0;
    let mut outside = Vec::new();
    for (range, _) in tokens(text) {
        outside.push(&text[from..range.start]);
        from = range.end;
    }
    outside.push(&text[from..]);
    for part in outside {
        let found =
            part.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(|word| word.len() > 1);
        words.extend(found.filter(|word| word.len() <= 64).map(str::to_owned));
    }
}

/// `set` contains what a step can read: the words, and the variables of the loops around it.
fn walk(context: &mut Context<'_>, nodes: &[Node], set: &mut BTreeSet<String>) {
    for node in nodes {
        match node {
            Node::Step(draft) => step(context, draft, set),
            Node::Loop(looped) => {
                let spec = &looped.step.control;
                if spec.max_iterations > MANY_ITERATIONS {
                    let message = format!("the loop may go round {} times", spec.max_iterations);
                    let path = member(&member(&looped.path, "loop"), "maxIterations");
                    context.warn(WarningCode::ManyIterations, &path, message);
                }
                let mut names = vec![spec.iteration_var.as_deref().unwrap_or("currentIteration")];
                if spec.loop_type == LoopType::ForEach {
                    names.push(spec.item_var.as_deref().unwrap_or("currentItem"));
                    names.push(spec.index_var.as_deref().unwrap_or("currentIndex"));
                }
                let added: Vec<String> =
                    names.into_iter().map(str::to_owned).filter(|name| set.insert(name.clone())).collect();
                walk(context, &looped.body, set);
                for name in added {
                    set.remove(&name);
                }
            }
        }
    }
}

fn step(context: &mut Context<'_>, draft: &Draft, set: &BTreeSet<String>) {
    if draft.authored_characters > LONG_PROMPT && draft.provenance.source == StepSource::Authored {
        let message = format!(
            "the prompt has {} characters; beyond {LONG_PROMPT} it is hard to follow",
            draft.authored_characters
        );
        context.warn(WarningCode::LongPrompt, &draft.path, message);
    }
    if draft.step.validation_criteria.as_ref().is_some_and(|criteria| criteria::is_flag_only(&criteria.0)) {
        let message = "a flag would satisfy these criteria: ask for the evidence instead";
        context.warn(WarningCode::FlagOnlyCriteria, &member(&draft.path, "validationCriteria"), message);
    }
    let mut unset = BTreeSet::new();
    for text in texts(draft) {
        for (_, token) in tokens(text) {
            let name = root(token);
            if !name.is_empty() && !set.contains(name) {
                unset.insert(name);
            }
        }
    }
    for name in unset {
        let message = format!("nothing in the workflow sets `{{{{{}}}}}`", quoted(name));
        context.warn(WarningCode::UndefinedVariable, &draft.path, message);
    }
}
