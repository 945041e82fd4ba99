//! The required output of a step.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::{Occasion, resolve};
use crate::interpret::pointer_key;
use crate::record::{Blocker, BlockerCode, Pointer};
use crate::verification;
use crate::visit::Visit;
use crate::workflow::compiled::{CompiledWorkflow, Step};
use crate::workflow::context_keys::shortened;
use crate::workflow::contract::{self, assessment};
use crate::workflow::criteria;
use crate::workflow::needs::{self, Giver};

/// The blockers in the same reply. The prompt omits requirements that they already state.
#[derive(Clone, Copy)]
pub(super) struct ShownBlockers<'a>(pub(super) &'a [Blocker]);

impl ShownBlockers<'_> {
    fn says(self, words: &str) -> bool {
        self.0.iter().any(|blocker| blocker.message.contains(words))
    }

    fn has(self, code: BlockerCode) -> bool {
        self.0.iter().any(|blocker| blocker.code == code)
    }

    fn shows(self, contract_ref: &str) -> bool {
        self.0.iter().any(|blocker| {
            matches!(&blocker.pointer, Pointer::OutputContract { contract_ref: other } if other == contract_ref)
        })
    }

    fn asks_for(self, key: &str) -> bool {
        self.0.iter().any(|blocker| {
            matches!(&blocker.pointer, Pointer::ContextKey { key: other } if other.as_str() == pointer_key(key))
        })
    }
}

/// The validation rules of the output: the contract, or else the criteria.
pub(super) fn output(
    workflow: &CompiledWorkflow,
    step: &Step,
    context: &Map<String, Value>,
    shown: ShownBlockers<'_>,
) -> Option<String> {
    if let Some(contract) = &step.output_contract {
        let pack = workflow.contract(&contract.contract_ref)?;
        let need = if contract.required { "This step is blocked without it" } else { "Optional" };
        let is_shown = shown.shows(&contract.contract_ref);
        let mut lines = vec!["**OUTPUT REQUIREMENTS (System):**".to_owned()];
        if !is_shown {
            let kind = &pack.artifact_kind;
            lines.push(format!("- Put one artifact of kind `{kind}` into `output.artifacts`. {need}."));
        }
        lines.extend(pack.guidance.iter().map(|line| format!("- {line}")));
        if !is_shown {
            lines.push(format!("- Example: `{}`", canon::canonical::string_of(&contract::form(pack))));
        }
        return (lines.len() > 1).then(|| lines.join("\n"));
    }
    let requirements = criteria::requirements(step.validation_criteria.as_ref()?, context);
    let not_shown = requirements
        .into_iter()
        .filter(|requirement| !requirement.messages.iter().all(|message| shown.says(message)));
    let lines: Vec<String> = not_shown.map(|requirement| format!("- {}", requirement.text)).collect();
    (!lines.is_empty()).then(|| {
        format!(
            "**OUTPUT REQUIREMENTS:** your notes are validated against these rules.\n{}",
            lines.join("\n")
        )
    })
}

/// The assessments that the step requires.
pub(super) fn assessments(
    workflow: &CompiledWorkflow,
    step: &Step,
    shown: ShownBlockers<'_>,
) -> Option<String> {
    let asked: Vec<_> = workflow
        .assessments
        .iter()
        .filter(|assessment| step.assessment_refs.contains(&assessment.id))
        .collect();
    if asked.is_empty() {
        return None;
    }
    let mut lines =
        vec!["**ASSESSMENT REQUIRED (System):** one artifact of kind `wr.assessment` each.".to_owned()];
    for asked in asked {
        lines.push(format!("- `{}`: {}", asked.id, asked.purpose));
        let mut dimensions = Map::new();
        for dimension in &asked.dimensions {
            let need = if dimension.required { "" } else { " (optional)" };
            lines.push(format!(
                "  - `{}`{need}: {} One of: {}.",
                dimension.id,
                dimension.purpose,
                dimension.levels.join(", ")
            ));
            dimensions.insert(dimension.id.clone(), Value::String(assessment::level_placeholder(dimension)));
        }
        let example = serde_json::json!({
            "kind": "wr.assessment", "assessmentId": asked.id, "dimensions": dimensions,
        });
        if !shown.shows("wr.contracts.assessment") {
            lines.push(format!("  - Example: `{}`", canon::canonical::string_of(&example)));
        }
    }
    Some(lines.join("\n"))
}

/// What only the user can give, and how to report the answers.
pub(super) fn user(step: &Step, context: &Map<String, Value>, shown: ShownBlockers<'_>) -> Option<String> {
    let mut needs = needs::needs(step, context);
    needs.retain(|need| !shown.says(&format!("(`{}`)", need.id)));
    let first = needs.first()?;
    let lead = "**USER NEEDED (System):** this step is not accepted without the answers below. ";
    let how = if step.require_person && first.giver == Giver::User {
        "Only a person can give them, directly: do the step, then advance without an answer. A client that supports \
         elicitation asks the user itself; otherwise the reply says where the user answers. Do not send a `wr.user_answer`."
    } else {
        "Ask before you do what depends on an answer, and WAIT. Do not answer for the user. Then send each answer as an \
         artifact in `output.artifacts`. A client that supports elicitation asks the user itself when you advance."
    };
    let mut lines =
        vec![format!("{lead}{how} A run that never stops continues without them and records a gap.")];
    for need in &needs {
        let whose = match need.giver {
            Giver::User => "only the user can give it",
            Giver::Coordinator => "the coordinator can give it, or the user",
        };
        let (what, caution) = (resolve(need.what, context), need.caution().trim_end());
        let caution = if caution.is_empty() { String::new() } else { format!(" {caution}") };
        lines.push(format!("- `{}` ({}; {whose}): {what}{caution}", need.id, need.kind()));
    }
    let sendable = needs.iter().find(|need| !step.require_person || need.giver == Giver::Coordinator);
    if let Some(need) = sendable {
        lines.push(format!("- Example: `{}`", need.example()));
        lines.push(
            "- `outcome` is `given` or `refused`. After a refusal, change what was refused and ask again."
                .to_owned(),
        );
    }
    Some(lines.join("\n"))
}

/// What the host verifies itself.
pub(super) fn evidence(step: &Step, shown: ShownBlockers<'_>) -> Option<String> {
    let demand = step.evidence.as_ref()?;
    let not_shown = |name: &&String| !shown.says(&format!("command `{name}`"));
    let commands: Vec<String> =
        demand.commands.iter().filter(not_shown).map(|name| format!("`{name}`")).collect();
    let mut lines = vec!["**VERIFIED BY THE HOST (System):** your own claims are not accepted.".to_owned()];
    if !commands.is_empty() {
        lines.push(format!(
            "- When you advance, the host runs {} in the workspace. The step is accepted only if each ends with exit code 0.",
            commands.join(", ")
        ));
    }
    if demand.citations {
        lines.push(
            "- The host checks the citations in your output: `path/file.ext:line` relative to the root of the repository, `commit \
             <id>`, and branches written as branch `` `name` ``. Each must exist."
                .to_owned(),
        );
    }
    (lines.len() > 1).then(|| lines.join("\n"))
}

/// The context keys that the step produces: those that it must send, and those that are already recorded.
pub(super) fn context(
    step: &Step,
    visit: &Visit,
    context: &Map<String, Value>,
    shown: ShownBlockers<'_>,
) -> Option<String> {
    let (mut recorded, mut missing) = (String::new(), String::new());
    for (key, declared) in &step.produces_context {
        let words = declared.words();
        let value = context.get(key).filter(|value| declared.accepts(key, value));
        // The matching allowed value instead of the caller's own spelling.
        let shortened =
            |value| declared.choice(value).map_or_else(|| shortened(value), |choice| format!("{choice:?}"));
        match value {
            Some(value) if visit.has(key) => {
                let _ = write!(recorded, "\n- `{key}` is {} ({words})", shortened(value));
            }
            Some(_) | None if shown.asks_for(key) => {}
            Some(value) => {
                let _ = write!(missing, "\n- `{key}`: {words}; {} was sent earlier", shortened(value));
            }
            None => {
                let _ = write!(missing, "\n- `{key}`: {words}");
            }
        }
    }
    let required = "**CONTEXT REQUIRED (System):** send these keys in `context` with your advance. The step is blocked \
                    without them; a value of an earlier pass or branch does not count.";
    let known = "**CONTEXT RECORDED (System):** send these keys in `context` only to change them.";
    let sections: Vec<String> = [(required, missing), (known, recorded)]
        .into_iter()
        .filter(|(_, lines)| !lines.is_empty())
        .map(|(head, lines)| format!("{head}{lines}"))
        .collect();
    (!sections.is_empty()).then(|| sections.join("\n\n"))
}

/// The notes requirement: explained at the start and on return, otherwise one line.
pub(super) fn notes(step: &Step, occasion: Occasion<'_>, shown: ShownBlockers<'_>) -> Option<String> {
    let is_shown = shown.has(BlockerCode::MissingRequiredNotes);
    if step.notes_optional || step.output_contract.is_some() || is_shown {
        return None;
    }
    Some(match occasion {
        Occasion::Start | Occasion::Return(_) => "**NOTES REQUIRED (System):** send `output.notesMarkdown` with your \
            advance: what you did and decided, what you produced (paths, numbers), and what is open or risky. 10 to 30 \
            lines of Markdown about this step only; earlier notes are kept for you and must not be repeated. Recaps show the \
            first 4,096 bytes; the limit is 65,536."
            .to_owned(),
        Occasion::Advance => {
            "**NOTES REQUIRED (System):** `output.notesMarkdown`, about this step only; recaps show the first 4,096 bytes.".to_owned()
        }
    })
}

/// Delegated work. The engine does not start agents: it tells the caller exactly how to, and checks the
/// results.
pub(super) fn delegations(
    step: &Step,
    visit: &Visit,
    context: &Map<String, Value>,
    shown: ShownBlockers<'_>,
) -> Option<String> {
    let delegations = match visit.delegations(step, context) {
        Ok(delegations) => delegations,
        // The next attempt would be blocked by this, so the caller learns it now.
        Err(fault) => {
            return Some(format!("**DELEGATE (System):** {fault} Send it in `context` with your advance."));
        }
    };
    if delegations.is_empty() || shown.shows(verification::DELEGATION_REF) {
        return None;
    }
    let mut lines = vec![format!(
        "**DELEGATE (System):** delegate these {} tasks to subagents IN PARALLEL, all in one response. Give each \
         subagent its call of `start_workflow` from DELEGATED RUNS below, word for word: it makes the call itself, follows \
         its run to the end, and reports to you. This step is accepted when all these runs are complete. If you cannot start \
         subagents, do the same work yourself: make the calls one after another, follow each run to its end, then come back \
         to this step.",
        delegations.len()
    )];
    for (number, active) in delegations.iter().enumerate() {
        let delegation = active.delegation;
        lines.push(format!("{}. Workflow `{}`.", number + 1, delegation.workflow_id));
        if delegation.goal.is_some() {
            lines.push(format!("   Goal: {}", active.goal()));
        }
        let inputs = active.inputs();
        if !inputs.is_empty() {
            lines.push(format!("   Context: `{}`", canon::canonical::string_of(&Value::Object(inputs))));
        }
        if !delegation.allowed_tools.is_empty() {
            lines.push(format!("   Tools: {}", delegation.allowed_tools.join(", ")));
        }
    }
    Some(lines.join("\n"))
}
