//! Functions: their scopes, citations and calls.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use serde_json::Value;

use super::draft::{Context, Defined, Draft, Scope};
use crate::{
    record::{DelimiterSafe, StepName},
    workflow::{
        compiled::{Function, FunctionParameter, FunctionScope},
        problem::{ProblemCode as Code, item, member, quoted},
        source::{
            FunctionCall, FunctionDefinition, Instruction, LoopStep, Parameter, ParameterType, ScopeName,
            StandardStep,
        },
    },
};

/// The key of a function that every step can cite. Keys sort by scope, as in the compiled workflow.
pub(super) fn workflow_key(name: &str) -> String {
    format!("workflow//{name}")
}

/// Declares the functions of a loop for the steps of its body.
pub(super) fn declare_loop(context: &mut Context<'_>, step: &LoopStep, path: &str, scopes: &mut Vec<Scope>) {
    declare(context, &step.function_definitions, path, ScopeName::Loop, &format!("loop/{}", step.id), scopes);
}

/// Declares the functions of a step.
pub(super) fn declare_step(
    context: &mut Context<'_>,
    step: &StandardStep,
    path: &str,
    scopes: &mut Vec<Scope>,
) {
    declare(context, &step.function_definitions, path, ScopeName::Step, &format!("step/{}", step.id), scopes);
}

fn declare(
    context: &mut Context<'_>,
    definitions: &[FunctionDefinition],
    path: &str,
    place: ScopeName,
    prefix: &str,
    scopes: &mut Vec<Scope>,
) {
    let mut own = BTreeMap::new();
    for (index, function) in definitions.iter().enumerate() {
        let below = item(&member(path, "functionDefinitions"), index);
        // A definition is visible in its own scope, or everywhere if it says so.
        let key = if function.scope == Some(ScopeName::Workflow) && place != ScopeName::Workflow {
            workflow_key(&function.name)
        } else {
            format!("{prefix}/{}", function.name)
        };
        match context.functions.get(&key) {
            Some(known) if known.value != *function || known.path != below => {
                let message = format!("duplicate function `{}`", quoted(&function.name));
                context.problem(&below, Code::DuplicateId, message, "Rename one of them.");
            }
            Some(_) => {}
            None => {
                context.functions.insert(key.clone(), Defined { path: below, value: function.clone() });
            }
        }
        own.insert(function.name.clone(), key);
    }
    if !own.is_empty() {
        scopes.push(Rc::new(own));
    }
}

/// Checks the functions that a step cites, and returns their names, sorted, and their keys.
pub(super) fn cited(context: &mut Context<'_>, draft: &Draft) -> (Vec<String>, BTreeSet<String>) {
    let functions = &context.functions;
    // Inner scopes come later and take precedence.
    let visible = |name: &str| -> Option<&String> {
        let scoped = draft.scopes.iter().rev().find_map(|scope| scope.get(name));
        let key = scoped.cloned().unwrap_or_else(|| workflow_key(name));
        functions.get_key_value(&key).map(|(key, _)| key)
    };
    let mut names = BTreeSet::new();
    let mut strangers = Vec::new();
    let mut misfits = Vec::new();
    for (index, name) in draft.step.function_references.iter().enumerate() {
        if visible(name).is_some() {
            names.insert(name.clone());
        } else {
            strangers.push((item(&member(&draft.path, "functionReferences"), index), name.clone()));
        }
    }
    for (index, call) in draft.step.function_calls.iter().enumerate() {
        let path = item(&member(&draft.path, "functionCalls"), index);
        match visible(&call.name).and_then(|key| functions.get(key)) {
            Some(function) => {
                names.insert(call.name.clone());
                misfits
                    .extend(misfit(call, &function.value).into_iter().map(|message| (path.clone(), message)));
            }
            None => strangers.push((path, call.name.clone())),
        }
    }
    if let Instruction::Prompt(prompt) = &draft.step.instruction {
        names.extend(called_in(prompt).filter(|name| visible(name).is_some()).map(str::to_owned));
    }
    let keys = names.iter().filter_map(|name| visible(name)).cloned().collect();
    let known = if strangers.is_empty() { Vec::new() } else { names_in_sight(context, draft) };
    for (path, name) in strangers {
        context.unknown(&path, Code::UnknownFunction, "function", &name, &known);
    }
    for (path, message) in misfits {
        context.problem(
            &path,
            Code::InvalidFunctionCall,
            message,
            "Change the call, or the function's parameters.",
        );
    }
    (names.into_iter().collect(), keys)
}

/// The functions that a step can cite.
fn names_in_sight(context: &Context<'_>, draft: &Draft) -> Vec<String> {
    let scoped = draft.scopes.iter().flat_map(|scope| scope.keys().cloned());
    let prefix = workflow_key("");
    let all = context.functions.range(prefix.clone()..).filter_map(|(key, _)| key.strip_prefix(&prefix));
    scoped.chain(all.take(256).map(str::to_owned)).collect()
}

/// The names before `(` in a text.
fn called_in(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices('(').filter_map(|(at, _)| {
        let head = &text[..at];
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        // Names have at most 64 characters, which limits the search backwards.
        let length = head.chars().rev().take(65).take_while(|c| is_name(*c)).count();
        let name = &head[at - length..];
        (length > 0 && length <= 64).then_some(name)
    })
}

/// The problems of a call.
fn misfit(call: &FunctionCall, function: &FunctionDefinition) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, value) in &call.args {
        match function.parameters.iter().find(|parameter| parameter.name == *name) {
            None => wrong.push(format!("`{}` has no parameter `{}`", function.name, quoted(name))),
            Some(parameter) => wrong.extend(unfit(parameter, value, &function.name)),
        }
    }
    for parameter in &function.parameters {
        if parameter.required && parameter.default.is_none() && !call.args.contains_key(&parameter.name) {
            wrong.push(format!("`{}` requires `{}`", function.name, parameter.name));
        }
    }
    wrong
}

fn unfit(parameter: &Parameter, value: &Value, function: &str) -> Option<String> {
    let fits = match parameter.value_type {
        ParameterType::String => value.is_string(),
        ParameterType::Number => value.is_number(),
        ParameterType::Boolean => value.is_boolean(),
        ParameterType::Array => value.is_array(),
        ParameterType::Object => value.is_object(),
        ParameterType::Any => true,
    };
    if !fits {
        let wanted = type_name(parameter.value_type);
        return Some(format!("`{}` of `{function}` must have the type {wanted}", parameter.name));
    }
    let offered = parameter.choices.is_empty() || parameter.choices.contains(value);
    (!offered).then(|| format!("`{}` of `{function}` does not have an allowed value", parameter.name))
}

const fn type_name(value_type: ParameterType) -> &'static str {
    match value_type {
        ParameterType::String => "string",
        ParameterType::Number => "number",
        ParameterType::Boolean => "boolean",
        ParameterType::Array => "array",
        ParameterType::Object => "object",
        ParameterType::Any => "any",
    }
}

/// The functions that are cited somewhere, sorted by scope and name.
pub(super) fn compiled(context: &Context<'_>, keys: &BTreeSet<String>) -> Vec<Function> {
    let mut functions: Vec<Function> = keys
        .iter()
        .filter_map(|key| {
            let mut parts = key.splitn(3, '/');
            let scope = match (parts.next()?, parts.next()?) {
                ("step", id) => FunctionScope::Step { step_id: StepName::parse(id).ok()? },
                ("loop", id) => FunctionScope::Loop { loop_id: DelimiterSafe::parse(id).ok()? },
                _ => FunctionScope::Workflow,
            };
            let function = &context.functions.get(key)?.value;
            Some(Function {
                scope,
                name: function.name.clone(),
                definition: function.definition.clone(),
                parameters: function.parameters.iter().map(parameter).collect(),
            })
        })
        .collect();
    functions.sort_by(|a, b| (&a.scope, &a.name).cmp(&(&b.scope, &b.name)));
    functions
}

fn parameter(parameter: &Parameter) -> FunctionParameter {
    FunctionParameter {
        name: parameter.name.clone(),
        value_type: type_name(parameter.value_type).to_owned(),
        required: parameter.required,
        description: parameter.description.clone(),
    }
}
