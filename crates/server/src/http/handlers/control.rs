//! Runs: ended, one or many, halted, continued.

use flow::engine::DrainPolicy;
use host::runs::{ApiCode, Refusal};
use serde_json::Value;

use super::super::answer;
use super::super::exchange::Call;
use super::super::route::Answered;

/// `POST /v1/runs/{runId}/cancel`, and `:cancel`.
pub(in super::super) async fn cancel(call: Call) -> Answered {
    call.only(&["reason"])?;
    let reason = call.body_text("reason")?;
    let (runs, run_id) = (&call.state.runs, call.run_id());
    let reply = runs.cancel(&call.caller, &run_id, reason, call.keyed.as_ref()).await?;
    Ok(answer::reply(reply, call.keyed.is_some()))
}

/// `POST /v1/runs:bulk-cancel`
pub(in super::super) async fn bulk_cancel(call: Call) -> Answered {
    let reply = call.state.runs.bulk_cancel(&call.caller, &call.body, call.keyed.as_ref()).await?;
    Ok(answer::reply(reply, call.keyed.is_some()))
}

/// `POST /v1/runs/{runId}:pause`
pub(in super::super) async fn pause(call: Call) -> Answered {
    call.only(&["reason", "drainPolicy"])?;
    let reason = call.body_text("reason")?;
    let policy = match call.body.get("drainPolicy") {
        None | Some(Value::Null) => DrainPolicy::default(),
        Some(Value::String(text)) if text == "immediate" => DrainPolicy::Immediate,
        Some(Value::String(text)) if text == "drain-current-node" => DrainPolicy::DrainCurrentNode,
        Some(_) => {
            let message = "`drainPolicy` is `immediate` or `drain-current-node`";
            return Err(Refusal::new(ApiCode::ValidationError, message).detail("field", "drainPolicy"));
        }
    };
    let (runs, run_id) = (&call.state.runs, call.run_id());
    let reply = runs.pause(&call.caller, &run_id, reason, policy, call.keyed.as_ref()).await?;
    Ok(answer::reply(reply, call.keyed.is_some()))
}

/// `POST /v1/runs/{runId}:resume`
pub(in super::super) async fn resume(call: Call) -> Answered {
    call.only(&["reason"])?;
    let reason = call.body_text("reason")?;
    let (runs, run_id) = (&call.state.runs, call.run_id());
    let reply = runs.resume(&call.caller, &run_id, reason, call.keyed.as_ref()).await?;
    Ok(answer::reply(reply, call.keyed.is_some()))
}
