//! Answers to what runs wait for.

use host::runs::{ApiCode, Refusal};
use serde_json::Value;

use super::super::answer;
use super::super::exchange::Call;
use super::super::route::Answered;

fn resume_value(body: &Value) -> Result<Value, Refusal> {
    body.get("resumeValue").cloned().ok_or_else(|| {
        let message = "the body has to be an object with `resumeValue`, the answer";
        Refusal::new(ApiCode::ValidationError, message).detail("field", "resumeValue")
    })
}

/// `POST /v1/runs/{runId}/interrupts/{nodeId}`
pub(in super::super) async fn resolve(call: Call) -> Answered {
    let value = resume_value(&call.body)?;
    resolve_with(call, value).await
}

/// `GET /v1/runs/{runId}/interrupts/{nodeId}`
pub(in super::super) async fn inspect(call: Call) -> Answered {
    Ok(answer::json(200, &call.state.runs.connection(&call.caller, &call.run_id(), &call.node_id())?))
}

/// `POST /v1/runs/{runId}/approvals/{nodeId}`: as before interrupts had a name, with the answer as the body itself.
pub(in super::super) async fn approve(call: Call) -> Answered {
    let value = match resume_value(&call.body) {
        Ok(value) => value,
        Err(_) if call.body.is_object() => call.body.clone(),
        Err(refusal) => return Err(refusal),
    };
    resolve_with(call, value).await
}

async fn resolve_with(call: Call, value: Value) -> Answered {
    let (runs, run_id, node_id) = (&call.state.runs, call.run_id(), call.node_id());
    let reply = runs.resolve(&call.caller, &run_id, &node_id, value, call.keyed.as_ref()).await?;
    Ok(answer::reply(reply, call.keyed.is_some()))
}

/// `GET /v1/interrupts/{token}`
pub(in super::super) async fn inspect_token(call: Call) -> Answered {
    Ok(answer::json(200, &call.state.runs.inspect_token(call.param("token"))?))
}

/// `POST /v1/interrupts/{token}`
pub(in super::super) async fn resolve_token(call: Call) -> Answered {
    let value = resume_value(&call.body)?;
    let reply = call.state.runs.resolve_token(call.param("token"), value, call.keyed.as_ref()).await?;
    Ok(answer::reply(reply, call.keyed.is_some()))
}
