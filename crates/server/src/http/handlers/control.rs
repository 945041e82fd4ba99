//! Run control: cancel, bulk cancel, pause, resume.

use canon::time::Timestamp;
use flow::id::RunId;
use flow::run::RunStatus;
use runs::Refusal;
use runs::bulk::MAX_BULK;
use runs::interrupts::PausedRun;

use super::super::bodies::runs::{Because, CancelRuns, Cancelled, Item, PauseRun, Paused, Results, Resumed};
use super::super::bodies::written;
use super::super::exchange::CheckedRequest;
use super::super::route::HandlerResult;

/// `POST /v1/runs/{runId}/cancel`, and `:cancel`.
pub(in super::super) async fn cancel(mut call: CheckedRequest) -> HandlerResult {
    let reason = call.read_body::<Because>()?.into_reason();
    let run_id = &call.run_id();
    let respond = call.respond(|status: RunStatus| written(200, &Cancelled { run_id, status }));
    Ok(call.reply(call.state.runs.commands().cancel(&call.caller, run_id, reason, respond).await?))
}

/// `POST /v1/runs:bulk-cancel`
pub(in super::super) async fn bulk_cancel(mut call: CheckedRequest) -> HandlerResult {
    let body: CancelRuns = call.read_body().map_err(|refusal| refusal.detail("maxRunIds", MAX_BULK))?;
    let items = &body.items();
    let run_ids: Vec<RunId> = items
        .iter()
        .filter_map(|item| match item {
            Item::Id(run_id) => Some(run_id.clone()),
            Item::NotAnId => None,
        })
        .collect();
    let reason = body.reason.as_ref().map(|reason| reason.0.as_str());
    let respond =
        call.respond(|results: Vec<Result<RunStatus, Refusal>>| written(200, &Results::of(items, results)));
    Ok(call.reply(call.state.runs.commands().cancel_many(&call.caller, &run_ids, reason, respond).await?))
}

/// `POST /v1/runs/{runId}:pause`
pub(in super::super) async fn pause(mut call: CheckedRequest) -> HandlerResult {
    let body: PauseRun = call.read_body()?;
    let (run_id, policy) = (&call.run_id(), body.policy());
    let reason = body.reason.map(|reason| reason.0);
    let respond = call.respond(|paused: PausedRun| written(202, &Paused::of(run_id, &paused)));
    Ok(call.reply(call.state.runs.commands().pause(&call.caller, run_id, reason, policy, respond).await?))
}

/// `POST /v1/runs/{runId}:resume`
pub(in super::super) async fn resume(mut call: CheckedRequest) -> HandlerResult {
    let reason = call.read_body::<Because>()?.into_reason();
    let run_id = &call.run_id();
    let respond = call.respond(|at: Timestamp| written(202, &Resumed::of(run_id, at)));
    Ok(call.reply(call.state.runs.commands().resume(&call.caller, run_id, reason, respond).await?))
}
