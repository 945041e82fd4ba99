//! Interrupts: inspect and resolve.

use runs::StoredReply;
use runs::interrupts::AnsweredInterrupt;
use serde_json::Value;

use super::super::bodies::interrupts::{Inspected, Resolution, ResolvedInterrupt as Body};
use super::super::bodies::written;
use super::super::exchange::CheckedRequest;
use super::super::response;
use super::super::route::HandlerResult;

/// `POST /v1/runs/{runId}/interrupts/{nodeId}`
pub(in super::super) async fn resolve(mut call: CheckedRequest) -> HandlerResult {
    let Resolution { resume_value } = call.read_body()?;
    resolve_with(call, resume_value.0).await
}

/// `GET /v1/runs/{runId}/interrupts/{nodeId}`
pub(in super::super) async fn inspect(call: CheckedRequest) -> HandlerResult {
    Ok(response::json(
        200,
        &call.state.runs.connections().of(&call.caller, &call.run_id(), &call.node_id()).await?,
    ))
}

/// `POST /v1/runs/{runId}/approvals/{nodeId}`: the older form of resolving an interrupt. The body itself is the answer.
pub(in super::super) async fn approve(mut call: CheckedRequest) -> HandlerResult {
    let is_bare = call.body.as_object().is_some_and(|body| !body.contains_key("resumeValue"));
    let value = match is_bare {
        true => std::mem::take(&mut call.body),
        false => call.read_body::<Resolution>()?.resume_value.0,
    };
    resolve_with(call, value).await
}

async fn resolve_with(call: CheckedRequest, value: Value) -> HandlerResult {
    let (runs, run_id, node_id) = (&call.state.runs, call.run_id(), call.node_id());
    Ok(call.reply(
        runs.commands()
            .resolve(&call.caller, &run_id, &node_id, value, call.respond(|made| answered(&made)))
            .await?,
    ))
}

fn answered(answered: &AnsweredInterrupt) -> StoredReply {
    written(200, &Body::of(answered))
}

/// `GET /v1/interrupts/{token}`
pub(in super::super) async fn inspect_token(call: CheckedRequest) -> HandlerResult {
    let inspected = call.state.runs.commands().inspect_token(call.param("token")).await?;
    Ok(response::body_of(200, &Inspected::of(&inspected)))
}

/// `POST /v1/interrupts/{token}`
pub(in super::super) async fn resolve_token(mut call: CheckedRequest) -> HandlerResult {
    let Resolution { resume_value } = call.read_body()?;
    let token = call.param("token");
    Ok(call.reply(
        call.state
            .runs
            .commands()
            .resolve_token(token, resume_value.0, call.respond(|made| answered(&made)))
            .await?,
    ))
}
