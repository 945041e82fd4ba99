//! Actions on a run. Each posts a form and redirects to the run.

use std::sync::Arc;

use flow::engine::DrainPolicy;
use flow::id::RunId;
use runs::fork::{ForkWay, NewFork, Overlay};
use runs::{ApiCode, Direct, Refusal};

use super::run_list::RUN;
use crate::call::PageRequest;
use crate::mount::BASE;
use crate::page::PageResponse;
use crate::parts;

/// The longest reason, in characters; the API has the same limit.
const MAX_REASON: usize = 1024;

pub(crate) async fn cancel(call: Arc<PageRequest>) -> Result<PageResponse, Refusal> {
    let run_id = &call.run_id()?;
    call.runs().commands().cancel(&call.caller, run_id, reason(&call)?, Direct).await?;
    back(&call, run_id, "cancelled")
}

pub(crate) async fn pause(call: Arc<PageRequest>) -> Result<PageResponse, Refusal> {
    let run_id = &call.run_id()?;
    call.runs()
        .commands()
        .pause(&call.caller, run_id, reason(&call)?, DrainPolicy::default(), Direct)
        .await?;
    back(&call, run_id, "paused")
}

pub(crate) async fn resume(call: Arc<PageRequest>) -> Result<PageResponse, Refusal> {
    let run_id = &call.run_id()?;
    call.runs().commands().resume(&call.caller, run_id, reason(&call)?, Direct).await?;
    back(&call, run_id, "resumed")
}

pub(crate) async fn fork(call: Arc<PageRequest>) -> Result<PageResponse, Refusal> {
    let run_id = &call.run_id()?;
    let Some(from) = call.form.number("from") else {
        return Err(Refusal::new(ApiCode::ValidationError, "Enter the event number to fork from."));
    };
    let way = match call.form.text("mode") {
        None | Some("branch") => ForkWay::Branch(Overlay::default()),
        Some("replay") => ForkWay::Replay,
        Some(_) => {
            return Err(Refusal::new(
                ApiCode::ValidationError,
                "The fork mode must be `branch` or `replay`.",
            ));
        }
    };
    let forked = call.runs().commands().fork(&call.caller, run_id, NewFork { from, way }, Direct).await?;
    back(&call, &forked.run_id, "forked")
}

fn reason(call: &PageRequest) -> Result<Option<String>, Refusal> {
    match call.form.text("reason") {
        Some(reason) if reason.chars().count() > MAX_REASON => {
            let message = format!("The reason is too long; the limit is {MAX_REASON} characters.");
            Err(Refusal::new(ApiCode::ValidationError, message))
        }
        reason => Ok(reason.map(str::to_owned)),
    }
}

/// Redirects to the run's page with a notice.
pub(super) fn back(call: &PageRequest, run_id: &RunId, done: &str) -> Result<PageResponse, Refusal> {
    let path = call.link(RUN, &[("runId", run_id.as_str())]).unwrap_or_else(|| BASE.to_owned());
    Ok(PageResponse::See(format!("{path}{}", parts::query(&[("done", done)]))))
}
