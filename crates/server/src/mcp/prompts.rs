//! Workflows as prompts, which clients show as slash commands.
//!
//! A prompt does not start anything: it tells the model which call to make, with the person's words as the
//! goal. So the run is like any other, and an unused prompt records nothing.

use catalogue::{Entry, Listing};
use guide::render::quoted;
use rmcp::ErrorData;
use rmcp::model::{
    GetPromptRequestParams, GetPromptResult, ListPromptsResult, Prompt, PromptArgument, PromptMessage, Role,
};
use serde_json::json;

/// The only argument of every prompt.
const GOAL: &str = "goal";
/// The maximum length of a goal, in bytes: the same as in `start_workflow`.
const GOAL_BYTES: usize = 4096;

/// The prompts of a listing, one for each workflow.
pub(super) fn list(listing: &Listing) -> ListPromptsResult {
    let prompt = |entry: &Entry| {
        let goal = PromptArgument::new(GOAL)
            .with_description(
                "What you want to achieve, in one \
                                                        sentence.",
            )
            .with_required(true);
        Prompt::new(name(listing, entry), Some(entry.description.clone()), Some(vec![goal]))
            .with_title(entry.name.clone())
    };
    ListPromptsResult::with_all_items(listing.entries.iter().map(prompt).collect())
}

/// The message of a prompt.
///
/// # Errors
/// The prompt is unknown, or its goal is missing or too long.
pub(super) fn get(listing: &Listing, request: &GetPromptRequestParams) -> Result<GetPromptResult, ErrorData> {
    let wanted = request.name.as_str();
    let found = listing
        .entries
        .iter()
        .find(|entry| name(listing, entry) == wanted)
        .or_else(|| listing.entries.iter().find(|entry| entry.workflow_id == wanted));
    let Some(entry) = found else {
        let shown: String = wanted.chars().take(60).collect();
        let message = format!("There is no prompt {shown:?}; prompts/list lists all prompts.");
        return Err(ErrorData::invalid_params(message, None));
    };
    let goal = request.arguments.as_ref().and_then(|arguments| arguments.get(GOAL)?.as_str()).map(str::trim);
    let Some(goal) = goal.filter(|goal| !goal.is_empty()) else {
        return Err(ErrorData::invalid_params(
            "The argument `goal` is missing. Send what you want, in one sentence.",
            None,
        ));
    };
    if goal.len() > GOAL_BYTES {
        let message = format!("The argument `goal` is {} bytes; the limit is {GOAL_BYTES}.", goal.len());
        return Err(ErrorData::invalid_params(message, None));
    }
    let call = json!({"workflowId": entry.workflow_id, "goal": goal});
    let text = format!(
        "Work through the Interlock workflow `{}` ({}) for this goal:\n\n{}\n\nCall start_workflow \
         with\n\n```json\n{call}\n```\n\n\
         and add `workspacePath`, the absolute path of the folder you work in, if there is one. Then do the step that comes \
         back and make the call in its `nextCall`, step by step, until `isComplete` is true.",
        entry.workflow_id,
        entry.name,
        quoted(goal, "> "),
    );
    let message = PromptMessage::new_text(Role::User, text);
    Ok(GetPromptResult::new(vec![message]).with_description(entry.description.clone()))
}

/// The name of a prompt: the workflow's id without its namespace, if that is unique.
fn name<'l>(listing: &'l Listing, entry: &'l Entry) -> &'l str {
    let short = |entry: &'l Entry| entry.workflow_id.rsplit('.').next().unwrap_or(&entry.workflow_id);
    let own = short(entry);
    if listing.entries.iter().filter(|other| short(other) == own).count() == 1 {
        own
    } else {
        &entry.workflow_id
    }
}
