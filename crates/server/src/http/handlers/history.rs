//! Forks, notes, debug bundles and the audit log.

use ports::Cause;
use runs::annotations::Annotation as Kept;
use runs::fork::ForkedRun;
use runs::{ApiCode, Refusal};

use super::super::bodies::annotations::{Annotate, Annotation, Annotations};
use super::super::bodies::history::Verified;
use super::super::bodies::runs::{ForkRun, Forked};
use super::super::bodies::written;
use super::super::exchange::CheckedRequest;
use super::super::response;
use super::super::route::HandlerResult;

/// `POST /v1/runs/{runId}:fork`
pub(in super::super) async fn fork(mut call: CheckedRequest) -> HandlerResult {
    let new = call.read_body::<ForkRun>()?.into_new()?;
    let (runs, run_id) = (&call.state.runs, call.run_id());
    let respond = call.respond(|forked: ForkedRun| written(201, &Forked::of(&forked, runs.public_url())));
    Ok(call.reply(runs.commands().fork(&call.caller, &run_id, new, respond).await?))
}

/// `GET /v1/runs/{runId}/annotations`
pub(in super::super) async fn annotations(call: CheckedRequest) -> HandlerResult {
    let annotations = call.state.runs.annotations().list(&call.caller, &call.run_id()).await?;
    Ok(response::body_of(200, &Annotations::of(annotations)))
}

/// `POST /v1/runs/{runId}/annotations`
pub(in super::super) async fn annotate(mut call: CheckedRequest) -> HandlerResult {
    let new = call.read_body::<Annotate>()?.into_new()?;
    let respond = call.respond(|annotation: Kept| written(201, &Annotation::from(annotation)));
    Ok(call.reply(call.state.runs.annotations().add(&call.caller, &call.run_id(), new, respond).await?))
}

/// `GET /v1/runs/{runId}/debug-bundle`
pub(in super::super) async fn bundle(call: CheckedRequest) -> HandlerResult {
    let most = call.query.number("maxEvents", 0..=u64::MAX)?;
    let most = most.map(|most| usize::try_from(most).unwrap_or(usize::MAX));
    Ok(response::json(
        200,
        &call.state.runs.queries().debug_bundle(&call.caller, &call.run_id(), most).await?,
    ))
}

/// `GET /v1/audit/verify`
pub(in super::super) async fn verify(call: CheckedRequest) -> HandlerResult {
    let from = call.query.number("fromSeq", 0..=MAX_SEQUENCE)?;
    let to = call.query.number("toSeq", 0..=MAX_SEQUENCE)?;
    let (runs, caller) = (call.state.runs.clone(), call.caller);
    // Hashing a long log takes seconds, so it runs on a blocking thread.
    let runtime = tokio::runtime::Handle::current();
    let verify = move || runtime.block_on(runs.audit().verify(&caller, from, to));
    let verified = tokio::task::spawn_blocking(verify).await;
    let failed = |error| {
        Refusal::new(ApiCode::InternalError, "the log could not be verified; retry")
            .because(Cause::new(error))
    };
    Ok(response::body_of(200, &Verified::from(verified.map_err(failed)??)))
}

/// The highest sequence that is looked up. The store keeps signed integers, and no log is that long.
pub(super) const MAX_SEQUENCE: u64 = 1 << 53;
