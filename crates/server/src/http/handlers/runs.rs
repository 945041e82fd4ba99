//! Runs: create, read, list, compare.

use axum::body::Body;
use axum::response::Response;
use bytes::{BufMut as _, BytesMut};
use flow::id::{ArtifactId, RunId, WorkflowId};
use flow::run::RunStatus;
use flow::trace::TraceParent;
use http::header::{CACHE_CONTROL, ETAG, VARY};
use http::{HeaderName, HeaderValue, StatusCode};
use openwop::Major;
use ports::runs::{RunFilter, RunPage};
use runs::create::Creation;
use runs::read::MAX_LISTED;
use runs::{ApiCode, CreatedRun, Refusal};

use super::super::bodies::history::{Ancestry, Difference};
use super::super::bodies::runs::{CreateRun, Created};
use super::super::bodies::{check_tenant, written};
use super::super::exchange::CheckedRequest;
use super::super::route::HandlerResult;
use super::super::trace::TRACEPARENT;
use super::super::{encoding, response};

/// Headers of a new run, with their names in each version of the protocol.
const fn dedup(major: Major) -> HeaderName {
    match major {
        Major::V1 => HeaderName::from_static("x-dedup"),
        Major::V2 => HeaderName::from_static("openwop-dedup"),
    }
}

const fn forced_version(major: Major) -> HeaderName {
    match major {
        Major::V1 => HeaderName::from_static("x-force-engine-version"),
        Major::V2 => HeaderName::from_static("openwop-force-engine-version"),
    }
}

/// The default page size of a list of runs.
const DEFAULT_LISTED: u64 = 50;

/// `POST /v1/runs`
pub(in super::super) async fn create(mut call: CheckedRequest) -> HandlerResult {
    let exclusive = match call.headers.get(dedup(call.major)).map(HeaderValue::as_bytes) {
        None => false,
        Some(value) if value.eq_ignore_ascii_case(b"enforce") => true,
        Some(_) => {
            return Err(Refusal::new(
                ApiCode::ValidationError,
                "the header X-Dedup must be `enforce` or absent",
            ));
        }
    };
    let forced_engine_version = match call.headers.get(forced_version(call.major)) {
        None => None,
        Some(value) => {
            Some(value.to_str().ok().and_then(|value| value.trim().parse().ok()).ok_or_else(|| {
                Refusal::new(
                    ApiCode::ValidationError,
                    "the header X-Force-Engine-Version must be a non-negative integer",
                )
            })?)
        }
    };
    let trace = call.headers.get(TRACEPARENT).and_then(|value| TraceParent::parse(value.to_str().ok()?).ok());
    let creation = Creation { exclusive, forced_engine_version, trace };
    let new = call.read_body::<CreateRun>()?.into_new(&call.caller)?;
    let runs = &call.state.runs;
    let respond = call.respond(|created: CreatedRun| written(201, &Created::of(&created, runs.public_url())));
    Ok(call.reply(runs.commands().create(&call.caller, new, creation, respond).await?))
}

/// `GET /v1/runs/{runId}`
pub(in super::super) async fn read(call: CheckedRequest) -> HandlerResult {
    let (snapshot, tag) = call.state.runs.queries().read_tagged(&call.caller, &call.run_id()).await?;
    // The two versions of one resource have different tags.
    let tag = match call.major {
        Major::V1 => format!("\"{tag}\""),
        Major::V2 => format!("\"{tag}.v2\""),
    };
    if let Some(tag) = encoding::matches(&call.headers, &tag) {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response.headers_mut().insert(ETAG, tag);
        response.headers_mut().insert(VARY, HeaderValue::from_static("accept-encoding"));
        return Ok(response);
    }
    let mut response = response::json_bytes(200, response::shared(snapshot));
    // The client may cache it but must revalidate every time.
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    response.headers_mut().extend(HeaderValue::from_str(&tag).ok().map(|tag| (ETAG, tag)));
    Ok(response)
}

/// `GET /v1/runs`
pub(in super::super) async fn list(call: CheckedRequest) -> HandlerResult {
    let status = match call.query.text("status") {
        None => None,
        Some(text) => Some(RunStatus::parse(text).ok_or_else(|| {
            let known: Vec<_> = RunStatus::ALL.iter().map(|status| status.as_str()).collect();
            let message = format!("`status` must be one of {}", known.join(", "));
            Refusal::new(ApiCode::ValidationError, message).detail("field", "status")
        })?),
    };
    check_tenant(&call.caller, call.query.text("tenantId"))?;
    let limit = call.query.number("limit", 1..=u64::MAX)?.unwrap_or(DEFAULT_LISTED);
    let limit = usize::try_from(limit).unwrap_or(MAX_LISTED).min(MAX_LISTED);
    let (cursors, tenant) = (call.state.cursors, &call.caller.tenant);
    let after = call.query.text("cursor").map(|cursor| cursors.decode(tenant, cursor)).transpose()?;
    let filter = RunFilter {
        status,
        workflow_id: call.query.text("workflowId").map(WorkflowId::new),
        // Version 2 has no such filter, and ignores unknown ones.
        tag: call.query.text("tag").filter(|_| call.major == Major::V1).map(str::to_owned),
        waiting: false,
        after,
    };
    let RunPage { runs, next } = call.state.runs.queries().list(&call.caller, &filter, limit).await?;
    let mut body = BytesMut::from(&b"{\"runs\":["[..]);
    join(&mut body, runs.iter().map(|run| &**run));
    body.put_u8(b']');
    if let Some(next) = next {
        body.extend_from_slice(format!(",\"nextCursor\":\"{}\"", cursors.encode(tenant, &next)).as_bytes());
    }
    body.put_u8(b'}');
    Ok(response::json_bytes(200, body.freeze()))
}

/// Appends JSON texts separated by commas, as the content of a list.
pub(super) fn join<'a>(body: &mut BytesMut, texts: impl IntoIterator<Item = &'a [u8]>) {
    for (place, text) in texts.into_iter().enumerate() {
        if place > 0 {
            body.put_u8(b',');
        }
        body.extend_from_slice(text);
    }
}

/// `GET /v1/runs/{runId}/artifacts/{artifactId}`
pub(in super::super) async fn artifact(call: CheckedRequest) -> HandlerResult {
    let artifact_id = ArtifactId::new(call.param("artifactId"));
    let document = call.state.runs.artifacts().read(&call.caller, &call.run_id(), &artifact_id).await?;
    Ok(response::json_bytes(200, response::shared(document)))
}

/// `GET /v1/runs/{runId}/ancestry`
pub(in super::super) async fn ancestry(call: CheckedRequest) -> HandlerResult {
    let run_id = call.run_id();
    let parent = call.state.runs.queries().parent(&call.caller, &run_id).await?;
    Ok(response::body_of(200, &Ancestry::of(&run_id, parent.as_ref())))
}

/// `GET /v1/runs/{runId}:diff`
pub(in super::super) async fn diff(call: CheckedRequest) -> HandlerResult {
    let Some(against) = call.query.text("against").filter(|against| !against.is_empty()) else {
        let message = "`against`, the id of the run to compare with, is required";
        return Err(Refusal::new(ApiCode::ValidationError, message).detail("field", "against"));
    };
    let against = RunId::new(against);
    let run_id = call.run_id();
    let difference = call.state.runs.queries().difference(&call.caller, &run_id, &against).await?;
    Ok(response::body_of(200, &Difference::of(&run_id, &against, &difference)))
}
