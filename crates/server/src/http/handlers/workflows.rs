//! Workflows: registered, listed, read.

use serde_json::{Value, json};

use super::super::answer;
use super::super::exchange::Call;
use super::super::route::Answered;

/// `POST /v1/workflows`
pub(in super::super) async fn register(call: Call) -> Answered {
    let reply = call.state.runs.register_for(&call.caller, &call.body, call.keyed.as_ref()).await?;
    Ok(answer::reply(reply, call.keyed.is_some()))
}

/// `GET /v1/workflows`
pub(in super::super) async fn list(call: Call) -> Answered {
    let workflows = call.state.runs.workflows(&call.caller)?;
    let workflows: Vec<Value> = workflows
        .into_iter()
        .map(|(id, digest)| json!({"workflowId": id, "digest": digest.to_hex()}))
        .collect();
    Ok(answer::json(200, &json!({"workflows": workflows})))
}

/// `GET /v1/workflows/{workflowId}`
pub(in super::super) async fn read(call: Call) -> Answered {
    let document = call.state.runs.workflow(&call.caller, call.param("workflowId"))?;
    Ok(answer::json_bytes(200, answer::shared(document)))
}
