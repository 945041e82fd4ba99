//! Many runs ended with one request.

use flow::id::RunId;
use flow::run::RunStatus;
use flow::store::CommitError;
use serde_json::{Value, json};

use super::{ApiCode, Caller, Keyed, Refusal, Reply, Runs};

/// The most runs of one request: each is a decision and a commit of its own.
pub const MAX_BULK: usize = 100;
/// The longest reason, in bytes: it is recorded with every run.
const MAX_REASON_BYTES: usize = 4096;

impl Runs {
    /// Ends several runs. Each has its own answer, in the order of the request; one that cannot be ended stops no other.
    ///
    /// # Errors
    /// When the body is not as it has to be.
    pub async fn bulk_cancel(
        &self,
        caller: &Caller,
        body: &Value,
        keyed: Option<&Keyed>,
    ) -> Result<Reply, Refusal> {
        if let Some(reply) = self.replay(keyed)? {
            return Ok(reply);
        }
        let (run_ids, reason) = read(body)?;
        let mut results = Vec::with_capacity(run_ids.len());
        for run_id in run_ids {
            results.push(self.cancel_one(caller, run_id, reason.clone()).await);
        }
        let reply = Reply::new(200, &json!({"results": results}));
        // Each run was ended in a commit of its own, and ending it again changes nothing: a host that stops here is asked again.
        if let Some(answer) = self.record(keyed, &reply) {
            match self.commit(vec![answer]).await {
                Ok(()) => {}
                // The same request was quicker elsewhere: both are answered alike.
                Err(CommitError::KeyTaken) => return Ok(self.replay(keyed)?.unwrap_or(reply)),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(reply)
    }

    async fn cancel_one(&self, caller: &Caller, run_id: &Value, reason: Option<String>) -> Value {
        let refused = |run_id: &Value, code: &str, message: &str| json!({"runId": run_id, "ok": false, "error": {"code": code, "message": message}});
        let Some(id) = run_id.as_str().filter(|id| (1..=128).contains(&id.len())) else {
            return refused(&Value::Null, "validation_error", "an id of a run is a text of 1 to 128 bytes");
        };
        // What the caller sent is repeated as data, and might be a secret in the wrong place.
        let shown = Value::from(flow::redact::text(id));
        match self.cancel(caller, &RunId::new(id), reason, None).await {
            Ok(reply) => {
                let body: Value = serde_json::from_slice(&reply.body).unwrap_or(Value::Null);
                let status = body.get("status").and_then(Value::as_str).and_then(RunStatus::parse);
                match status {
                    Some(status @ (RunStatus::Completed | RunStatus::Failed)) => {
                        let message = format!("the run is {status} already");
                        refused(&shown, "run_terminal", &message)
                    }
                    status => json!({"runId": shown, "ok": true, "status": status}),
                }
            }
            Err(refusal) if refusal.code == ApiCode::RunNotFound => {
                refused(&shown, "not_found", "there is no such run")
            }
            Err(refusal) => refused(&shown, refusal.code.as_str(), &refusal.message),
        }
    }
}

fn read(body: &Value) -> Result<(&[Value], Option<String>), Refusal> {
    let wrong = |message: &str| {
        Refusal::new(ApiCode::ValidationError, message)
            .detail("field", "runIds")
            .detail("maxRunIds", MAX_BULK)
    };
    let run_ids = body.get("runIds").and_then(Value::as_array);
    let run_ids = run_ids.ok_or_else(|| wrong("`runIds`, a list of ids of runs, is required"))?;
    if run_ids.is_empty() || run_ids.len() > MAX_BULK {
        return Err(wrong(&format!("`runIds` has 1 to {MAX_BULK} ids; make several requests")));
    }
    let reason = match body.get("reason") {
        None | Some(Value::Null) => None,
        Some(Value::String(reason)) if reason.len() <= MAX_REASON_BYTES => Some(reason.clone()),
        Some(_) => {
            let message = format!("`reason` is a text of at most {MAX_REASON_BYTES} bytes");
            return Err(Refusal::new(ApiCode::ValidationError, message).detail("field", "reason"));
        }
    };
    Ok((run_ids, reason))
}
