//! What can be done to a run: a form each, and back to the run.

use std::sync::Arc;

use flow::engine::DrainPolicy;
use flow::id::RunId;
use host::runs::{ApiCode, Refusal};
use serde_json::{Value, json};

use super::run_list::RUN;
use crate::call::Call;
use crate::page::Answer;
use crate::parts;

/// The longest reason, in characters, as for callers of the protocol.
const MAX_REASON: usize = 1024;

pub(crate) async fn cancel(call: Arc<Call>) -> Result<Answer, Refusal> {
    let run_id = &call.run_id()?;
    call.runs().cancel(&call.caller, run_id, reason(&call)?, None).await?;
    back(&call, run_id, "cancelled")
}

pub(crate) async fn pause(call: Arc<Call>) -> Result<Answer, Refusal> {
    let run_id = &call.run_id()?;
    call.runs().pause(&call.caller, run_id, reason(&call)?, DrainPolicy::default(), None).await?;
    back(&call, run_id, "paused")
}

pub(crate) async fn resume(call: Arc<Call>) -> Result<Answer, Refusal> {
    let run_id = &call.run_id()?;
    call.runs().resume(&call.caller, run_id, reason(&call)?, None).await?;
    back(&call, run_id, "resumed")
}

pub(crate) async fn fork(call: Arc<Call>) -> Result<Answer, Refusal> {
    let run_id = &call.run_id()?;
    let Some(from) = call.form.number("from") else {
        return Err(Refusal::new(ApiCode::ValidationError, "say from which event on, as a number"));
    };
    let body = json!({"fromSeq": from, "mode": call.form.text("mode").unwrap_or("branch")});
    let reply = call.runs().fork(&call.caller, run_id, &body, None).await?;
    let forked: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    let forked = forked.get("runId").and_then(Value::as_str).map(RunId::new);
    back(&call, forked.as_ref().unwrap_or(run_id), "forked")
}

fn reason(call: &Call) -> Result<Option<String>, Refusal> {
    match call.form.text("reason") {
        Some(reason) if reason.chars().count() > MAX_REASON => {
            let message = format!("a reason has at most {MAX_REASON} characters");
            Err(Refusal::new(ApiCode::ValidationError, message))
        }
        reason => Ok(reason.map(str::to_owned)),
    }
}

/// To the page of a run, with what was done.
pub(super) fn back(call: &Call, run_id: &RunId, done: &str) -> Result<Answer, Refusal> {
    let path = call.link(RUN, &[("runId", run_id.as_str())]).unwrap_or_else(|| "/".to_owned());
    Ok(Answer::See(format!("{path}{}", parts::query(&[("done", done)]))))
}
