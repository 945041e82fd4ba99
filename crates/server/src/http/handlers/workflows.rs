//! Workflows: registered, listed, read.

use flow::id::WorkflowId;
use host::runs::read::MAX_LISTED;
use serde_json::{Value, json};

use super::super::answer;
use super::super::exchange::Call;
use super::super::route::Answered;

/// How many workflows a list shows where nobody says.
const DEFAULT_LISTED: u64 = 100;

/// `POST /v1/workflows`
pub(in super::super) async fn register(call: Call) -> Answered {
    let reply = call.state.runs.register_for(&call.caller, &call.body, call.keyed.as_ref()).await?;
    Ok(answer::reply(reply, call.keyed.is_some()))
}

/// `GET /v1/workflows`
pub(in super::super) async fn list(call: Call) -> Answered {
    let limit = call.query.number("limit", 1..=u64::MAX)?.unwrap_or(DEFAULT_LISTED);
    let limit = usize::try_from(limit).unwrap_or(MAX_LISTED).min(MAX_LISTED);
    let after = call.query.text("cursor").map(WorkflowId::new);
    let page = call.state.runs.workflow_page(&call.caller, after.as_ref(), limit)?;
    // Ids of the caller's own workflows are nothing to hide: the last one says where the next page begins.
    let next = page.last().filter(|_| page.len() == limit).map(|(id, _)| id.clone());
    let workflows: Vec<Value> =
        page.into_iter().map(|(id, digest)| json!({"workflowId": id, "digest": digest.to_hex()})).collect();
    let mut body = json!({"workflows": workflows});
    if let Some(next) = next {
        body["nextCursor"] = next.as_str().into();
    }
    Ok(answer::json(200, &body))
}

/// `GET /v1/workflows/{workflowId}`
pub(in super::super) async fn read(call: Call) -> Answered {
    let document = call.state.runs.workflow(&call.caller, &WorkflowId::new(call.param("workflowId")))?;
    Ok(answer::json_bytes(200, answer::shared(document)))
}
