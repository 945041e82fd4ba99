//! Draws a workflow: steps, loops, conditions, and where a person is asked.
//!
//! A picture consists of rows, from top to bottom, which each of the three formats draws. The same workflow
//! produces the same bytes.

mod mermaid;
mod svg;
mod text;

use super::compiled::{CompiledWorkflow, ConfirmationKind, Loop, SequenceItem, Step};
use super::condition::words;
use super::source::MAX_LOOP_DEPTH;

pub use mermaid::to_mermaid;
pub use svg::to_svg;
pub use text::to_text;

/// The maximum number of characters drawn of a title or a mark.
const LINE_CHARACTERS: usize = 60;

/// One row of the picture.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Row {
    Step(Drawn),
    LoopBegins(Drawn),
    LoopEnds,
}

/// A step or a loop, described.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Drawn {
    id: String,
    title: String,
    /// When it runs; `None` for always.
    condition: Option<String>,
    /// What it requires, or what repeats it.
    marks: Vec<String>,
    /// Whether a person must answer before it is accepted.
    asks_person: bool,
}

fn rows(workflow: &CompiledWorkflow) -> Vec<Row> {
    let mut rows = Vec::new();
    add(workflow, &workflow.sequence, 0, &mut rows);
    rows
}

fn add(workflow: &CompiledWorkflow, items: &[SequenceItem], depth: usize, rows: &mut Vec<Row>) {
    // The compiler limits the depth. Workflows from elsewhere must not overflow the stack either.
    if depth > MAX_LOOP_DEPTH {
        return;
    }
    for item in items {
        match item {
            SequenceItem::Step { step_id } => {
                rows.extend(workflow.step(step_id).map(|step| Row::Step(describe_step(step))));
            }
            SequenceItem::Loop { loop_id } => {
                if let Some(found) = workflow.loop_of(loop_id) {
                    rows.push(Row::LoopBegins(describe_loop(workflow, found)));
                    add(workflow, &found.body, depth + 1, rows);
                    rows.push(Row::LoopEnds);
                }
            }
        }
    }
}

fn describe_step(step: &Step) -> Drawn {
    let mut marks = Vec::new();
    if let Some(contract) = &step.output_contract {
        let optional = if contract.required { "" } else { "optional " };
        marks.push(format!("artifact: {optional}{}", contract.contract_ref));
    } else if step.validation_criteria.is_some() {
        marks.push("notes are checked".to_owned());
    }
    for assessment in &step.assessment_refs {
        marks.push(format!("assessment: {assessment}"));
    }
    if !step.produces_context.is_empty() {
        let keys: Vec<&str> = step.produces_context.keys().map(AsRef::as_ref).collect();
        marks.push(format!("sets {}", keys.join(", ")));
    }
    if step.read_only {
        marks.push("read-only".to_owned());
    }
    marks.extend(step.delegations_in_words());
    let confirmation = step.require_confirmation.as_ref().map(|confirmation| confirmation.kind);
    match confirmation {
        Some(ConfirmationKind::HumanApproval) => marks.push("a person approves".to_owned()),
        Some(ConfirmationKind::CoordinatorEval) => marks.push("the coordinator approves".to_owned()),
        None => {}
    }
    for dependency in &step.user_dependencies {
        marks.push(format!("asks the user: {}", dependency.what));
    }
    Drawn {
        id: step.step_id.as_str().to_owned(),
        title: one_line(&step.title),
        condition: step.run_condition.as_ref().map(|condition| one_line(&words(condition))),
        marks: marks.iter().map(|mark| one_line(mark)).collect(),
        asks_person: confirmation == Some(ConfirmationKind::HumanApproval)
            || !step.user_dependencies.is_empty(),
    }
}

fn describe_loop(workflow: &CompiledWorkflow, found: &Loop) -> Drawn {
    let control = workflow.loop_in_words(found);
    Drawn {
        id: found.loop_id.as_str().to_owned(),
        title: one_line(&found.title),
        condition: found.run_condition.as_ref().map(|condition| one_line(&words(condition))),
        marks: vec![one_line(&format!("{control}, at most {}", found.max_iterations))],
        asks_person: false,
    }
}

/// A text without control characters, truncated for drawing.
fn one_line(text: &str) -> String {
    let clean = text.chars().map(|character| if character.is_control() { ' ' } else { character });
    let mut drawn: String = clean.clone().take(LINE_CHARACTERS).collect();
    if clean.count() > LINE_CHARACTERS {
        drawn.pop();
        drawn.push('…');
    }
    drawn
}

fn head(workflow: &CompiledWorkflow) -> String {
    one_line(&format!("{} · {}", workflow.workflow_id, workflow.name))
}

#[cfg(test)]
mod tests;
