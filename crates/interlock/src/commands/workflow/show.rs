//! `interlock workflow show`.

use std::fmt::Write as _;

use catalogue::ResolvedWorkflow;
use guide::workflow::compiled::{
    CompiledWorkflow, Condition, Loop, SequenceItem, Step, StepProvenance, StepSource,
};
use guide::workflow::condition;
use guide::workflow::source::MAX_LOOP_DEPTH;
use serde_json::json;

use super::wire;
use crate::api::{Api, block_on};
use crate::arguments::{Globals, WorkflowShow};
use crate::failure::{ExitStatus, Failure};
use crate::output::{self, DIM, HEADING, Layout, WARNING};
use crate::settings::Settings;

pub(super) fn run(
    arguments: &WorkflowShow,
    globals: &Globals,
    settings: Settings,
) -> Result<ExitStatus, Failure> {
    if arguments.target.context.is_some() {
        return registered(&Api::connect(&arguments.target, globals)?, arguments);
    }
    let (catalogue, workspace) = super::catalogue(&arguments.sources, settings);
    let found = match catalogue.find(workspace.as_deref(), &arguments.id) {
        Ok(found) => found,
        // It may be a run workflow of a server.
        Err(refusal) => match Api::connect(&arguments.target, globals) {
            Ok(api) => return registered(&api, arguments),
            Err(_) => return Err(refusal.into()),
        },
    };
    if arguments.target.answering.json {
        output::json(
            &json!({
                "workflowHash": found.hash,
                "sourceKind": found.source_kind,
                "sourceRef": found.source_ref,
                "source": found.source,
                "file": found.path,
                "reason": found.reason,
                "notTaken": found.explanation,
                "warnings": found.warnings,
                "tags": found.tags,
                "examples": found.examples,
                "workflow": *found.workflow,
            }),
            Layout::Compact,
        )?;
    } else {
        output::text(&words(&found))?;
    }
    Ok(ExitStatus::Success)
}

/// Shows a run workflow as it was registered.
fn registered(api: &Api, arguments: &WorkflowShow) -> Result<ExitStatus, Failure> {
    let document = block_on(api.workflow(&arguments.id))?;
    let layout = if arguments.target.answering.json { Layout::Compact } else { Layout::Indented };
    output::json(&document, layout)?;
    Ok(ExitStatus::Success)
}

fn words(found: &ResolvedWorkflow) -> String {
    let workflow = &*found.workflow;
    let mut words = String::new();
    let _ = writeln!(
        words,
        "{HEADING}{}{HEADING:#} {}  {}",
        output::clean(&workflow.workflow_id),
        output::clean(&workflow.version),
        output::clean(&workflow.name)
    );
    let _ = writeln!(words, "{}\n", output::clean(&workflow.description));
    let mut fact = |name: &str, value: &str| {
        if !value.is_empty() {
            let _ = writeln!(words, "{DIM}{name:12}{DIM:#} {}", output::clean(value));
        }
    };
    fact("hash", &found.hash.to_string());
    fact("source", &format!("{} {}", wire(&found.source_kind), found.source_ref));
    fact("why", &found.reason);
    fact("tags", &found.tags.join(", "));
    fact("features", &workflow.features.join(", "));
    let needs: Vec<String> = workflow
        .capabilities
        .iter()
        .map(|(capability, need)| format!("{} {}", wire(capability), wire(need)))
        .collect();
    fact("capabilities", &needs.join(", "));
    fact("autonomy", &workflow.recommended_autonomy.as_ref().map(wire).unwrap_or_default());
    for example in &found.examples {
        fact("example", example);
    }
    for loser in &found.explanation {
        fact("shadowed", &format!("{} ({})", loser.path, loser.reason));
    }
    for warning in &found.warnings {
        let _ = writeln!(words, "{WARNING}warning{WARNING:#} {}", output::clean(warning));
    }
    let _ = writeln!(words, "\n{HEADING}Steps{HEADING:#}");
    sequence(workflow, &workflow.sequence, 1, &mut words);
    if !workflow.contracts.is_empty() {
        let _ = writeln!(words, "\n{HEADING}Contracts{HEADING:#}");
        for contract in &workflow.contracts {
            let _ = writeln!(
                words,
                "  {}  {DIM}artifacts of kind {}{DIM:#}",
                contract.contract_ref, contract.artifact_kind
            );
        }
    }
    for warning in &workflow.compiled_warnings {
        words.push_str(&super::warning_words(
            &workflow.workflow_id,
            &wire(&warning.code),
            &warning.path,
            &warning.message,
        ));
    }
    words
}

/// Steps and loops, indented by depth.
fn sequence(workflow: &CompiledWorkflow, items: &[SequenceItem], depth: usize, words: &mut String) {
    // The compiler limits the depth, but data from other sources must not overflow the stack
    // either.
    if depth > MAX_LOOP_DEPTH + 1 {
        return;
    }
    let indent = depth * 2;
    for item in items {
        match item {
            SequenceItem::Step { step_id } => {
                if let Some(step) = workflow.step(step_id) {
                    let _ = writeln!(words, "{:indent$}{}", "", step_words(step));
                }
            }
            SequenceItem::Loop { loop_id } => {
                if let Some(found) = workflow.loop_of(loop_id) {
                    let _ = writeln!(words, "{:indent$}{}", "", loop_words(workflow, found));
                    sequence(workflow, &found.body, depth + 1, words);
                }
            }
        }
    }
}

fn step_words(step: &Step) -> String {
    let mut marks = Vec::new();
    if let Some(contract) = &step.output_contract {
        let required = if contract.required { "" } else { "optional " };
        marks.push(format!("submits {required}{}", contract.contract_ref));
    }
    if step.validation_criteria.is_some() && step.output_contract.is_none() {
        marks.push("notes are checked".to_owned());
    }
    for assessment in &step.assessment_refs {
        marks.push(format!("assesses {assessment}"));
    }
    if let Some(confirmation) = &step.require_confirmation {
        marks.push(format!("waits for {}", wire(&confirmation.kind)));
    }
    for dependency in &step.user_dependencies {
        marks.push(format!("{} ({})", wire(&dependency.reason), dependency.id));
    }
    marks.extend(condition_mark(step.run_condition.as_ref()));
    for (key, allowed) in &step.produces_context {
        marks.push(format!("sets {key} ({})", allowed.words()));
    }
    if step.read_only {
        marks.push("read-only".to_owned());
    }
    marks.extend(step.delegations_in_words());
    marks.extend(origin(&step.provenance));
    line(step.step_id.as_str(), &step.title, &marks)
}

fn loop_words(workflow: &CompiledWorkflow, found: &Loop) -> String {
    let control = workflow.loop_in_words(found);
    let mut marks = vec![format!("loop {control}"), format!("at most {}", found.max_iterations)];
    marks.extend(condition_mark(found.run_condition.as_ref()));
    marks.extend(origin(&found.provenance));
    line(found.loop_id.as_str(), &found.title, &marks)
}

fn condition_mark(condition: Option<&Condition>) -> Option<String> {
    condition.map(|condition| format!("if {}", condition::words(condition)))
}

fn origin(provenance: &StepProvenance) -> Option<String> {
    let behind = provenance.origin_id.as_deref().unwrap_or("the compiler");
    match provenance.source {
        StepSource::Authored => None,
        StepSource::TemplateInjected => Some(format!("from template {behind}")),
        StepSource::FeatureInjected => Some(format!("added by {behind}")),
    }
}

fn line(id: &str, title: &str, marks: &[String]) -> String {
    let marks = if marks.is_empty() {
        String::new()
    } else {
        format!("  {DIM}[{}]{DIM:#}", output::clean(&marks.join("; ")))
    };
    format!("{HEADING}{id}{HEADING:#}  {}{marks}", output::clean(title))
}
