//! Selects the function definitions to show, and their order.

use crate::workflow::compiled::{CompiledWorkflow, Function, FunctionScope, Step};

/// A step, and the loops around it, whose functions it can cite.
#[derive(Clone, Copy, Debug)]
pub struct Citing<'a> {
    pub step: &'a Step,
    /// The ids of the loops around it.
    pub loops: &'a [&'a str],
}

/// The definitions of the functions that a step cites: its own first, then those of its loops, then those of
/// the workflow.
pub(super) fn cited_functions(workflow: &CompiledWorkflow, citing: Citing<'_>) -> Vec<String> {
    cited(workflow, citing).into_iter().map(definition).collect()
}

/// The definitions for a caller that resumes: those that the pending step cites, then those that the notes in
/// `downstream` call, from any step.
pub fn recovered_functions(
    workflow: &CompiledWorkflow,
    pending: Option<Citing<'_>>,
    downstream: &str,
) -> Vec<String> {
    let cited = pending.map(|citing| cited(workflow, citing)).unwrap_or_default();
    let mut called: Vec<&Function> = workflow
        .functions
        .iter()
        .filter(|function| calls(downstream, &function.name))
        .filter(|function| !cited.iter().any(|shown| std::ptr::eq(*shown, *function)))
        .collect();
    called.sort_by(|one, other| order(one).cmp(&order(other)));
    let of_another_step = called.into_iter().map(|function| match &function.scope {
        FunctionScope::Step { step_id } => format!("Of step `{step_id}`: {}", definition(function)),
        FunctionScope::Loop { loop_id } => format!("Of loop `{loop_id}`: {}", definition(function)),
        FunctionScope::Workflow => definition(function),
    });
    cited.iter().copied().map(definition).chain(of_another_step).collect()
}

fn cited<'w>(workflow: &'w CompiledWorkflow, citing: Citing<'_>) -> Vec<&'w Function> {
    let Citing { step, loops } = citing;
    let is_visible = |function: &Function| match &function.scope {
        FunctionScope::Step { step_id } => *step_id == step.step_id,
        FunctionScope::Loop { loop_id } => loops.contains(&loop_id.as_str()),
        FunctionScope::Workflow => true,
    };
    let is_cited = |function: &Function| {
        step.function_references.iter().any(|name| name.trim_end_matches("()") == function.name)
    };
    let mut cited: Vec<&Function> =
        workflow.functions.iter().filter(|function| is_cited(function) && is_visible(function)).collect();
    cited.sort_by(|one, other| order(one).cmp(&order(other)));
    cited
}

/// By scope, the nearest first, then by name. The last part separates functions of two steps with the same
/// name.
fn order(function: &Function) -> (u8, &str, &FunctionScope) {
    let nearness = match function.scope {
        FunctionScope::Step { .. } => 0,
        FunctionScope::Loop { .. } => 1,
        FunctionScope::Workflow => 2,
    };
    (nearness, &function.name, &function.scope)
}

fn definition(function: &Function) -> String {
    let parameters: Vec<&str> = function.parameters.iter().map(|parameter| parameter.name.as_str()).collect();
    format!("{}({}) = {}", function.name, parameters.join(", "), function.definition)
}

/// Whether a text calls a function: its complete name followed by `(`. Prompts cite functions in the same
/// way.
fn calls(text: &str, name: &str) -> bool {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices(name).any(|(at, _)| {
        !text[..at].chars().next_back().is_some_and(is_name) && text[at + name.len()..].starts_with('(')
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn workflow() -> CompiledWorkflow {
        let step = |id: &str, cites: &[&str]| {
            json!({"stepId": id, "title": id, "prompt": "p", "functionReferences": cites,
                "provenance": {"source": "authored"}})
        };
        let function = |scope: serde_json::Value, name: &str, definition: &str| json!({"scope": scope, "name": name, "definition": definition});
        serde_json::from_value(json!({
            "schemaVersion": 1, "workflowId": "project.f", "name": "F", "description": "F.", "version": "1.0.0",
            "steps": [step("first", &["zeta", "alpha", "own", "round"]), step("second", &["own"])],
            "sequence": [{"kind": "step", "stepId": "first"}, {"kind": "step", "stepId": "second"}],
            "functions": [
                function(json!({"kind": "loop", "loopId": "rounds"}), "round", "Once more."),
                function(json!({"kind": "step", "stepId": "first"}), "own", "Mine."),
                function(json!({"kind": "step", "stepId": "second"}), "own", "Yours."),
                function(json!({"kind": "workflow"}), "alpha", "A."),
                function(json!({"kind": "workflow"}), "omega", "O."),
                function(json!({"kind": "workflow"}), "zeta", "Z."),
            ],
        }))
        .unwrap()
    }

    #[test]
    fn functions_of_the_step_come_first_then_of_loops_then_of_the_workflow() {
        let workflow = workflow();
        let cited = |loops: &[&str]| cited_functions(&workflow, Citing { step: &workflow.steps[0], loops });
        assert_eq!(
            cited(&["rounds"]),
            ["own() = Mine.", "round() = Once more.", "alpha() = A.", "zeta() = Z."]
        );
        assert_eq!(cited(&[]), ["own() = Mine.", "alpha() = A.", "zeta() = Z."]);
    }

    #[test]
    fn functions_called_in_later_notes_follow_those_of_the_step_without_duplicates() {
        let workflow = workflow();
        let pending = Some(Citing { step: &workflow.steps[0], loops: &[] });
        let cited = ["own() = Mine.", "alpha() = A.", "zeta() = Z."];
        for (downstream, more) in [
            ("", vec![]),
            ("Nothing (at all), and omega without a call.", vec![]),
            ("An `omega()` and alpha(1).", vec!["omega() = O."]),
            ("not_omega() is another one", vec![]),
            ("own(x), omega(y)", vec!["Of step `second`: own() = Yours.", "omega() = O."]),
            ("äomega(", vec!["omega() = O."]),
            ("round() and round()", vec!["Of loop `rounds`: round() = Once more."]),
        ] {
            let expected: Vec<&str> = cited.iter().copied().chain(more).collect();
            assert_eq!(recovered_functions(&workflow, pending, downstream), expected, "{downstream}");
        }
        assert_eq!(recovered_functions(&workflow, None, "zeta()"), ["zeta() = Z."]);
    }
}
