//! Workflows: register, list, read.

use flow::id::WorkflowId;
use runs::definitions::RegisteredWorkflow;
use runs::read::MAX_LISTED;

use super::super::bodies::workflows::{Registered, Workflows};
use super::super::bodies::written;
use super::super::exchange::CheckedRequest;
use super::super::response;
use super::super::route::HandlerResult;

/// The default page size of a list of workflows.
const DEFAULT_LISTED: u64 = 100;

/// `POST /v1/workflows`
pub(in super::super) async fn register(call: CheckedRequest) -> HandlerResult {
    let respond = call.respond(|workflow: RegisteredWorkflow| {
        let RegisteredWorkflow { workflow_id, digest, is_new } = workflow;
        written(if is_new { 201 } else { 200 }, &Registered::of(workflow_id, digest))
    });
    Ok(call.reply(call.state.runs.definitions().register_for(&call.caller, &call.body, respond).await?))
}

/// `GET /v1/workflows`
pub(in super::super) async fn list(call: CheckedRequest) -> HandlerResult {
    let limit = call.query.number("limit", 1..=u64::MAX)?.unwrap_or(DEFAULT_LISTED);
    let limit = usize::try_from(limit).unwrap_or(MAX_LISTED).min(MAX_LISTED);
    let after = call.query.text("cursor").map(WorkflowId::new);
    let page = call.state.runs.definitions().workflow_page(&call.caller, after.as_ref(), limit).await?;
    // Ids of the caller's own workflows are not secret, so the last id is the cursor of the next page.
    let next_cursor = page.last().filter(|_| page.len() == limit).map(|(id, _)| id.clone());
    let workflows = page.into_iter().map(|(id, digest)| Registered::of(id, digest)).collect();
    Ok(response::body_of(200, &Workflows { next_cursor, workflows }))
}

/// `GET /v1/workflows/{workflowId}`
pub(in super::super) async fn read(call: CheckedRequest) -> HandlerResult {
    let document = call
        .state
        .runs
        .definitions()
        .workflow(&call.caller, &WorkflowId::new(call.param("workflowId")))
        .await?;
    Ok(response::json_bytes(200, response::shared(document)))
}
