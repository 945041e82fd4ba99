//! Seams for model calls. They exist only if the host was started for conformance suites.
//!
//! The replies come from the crate that does the same for runs.

use std::collections::BTreeSet;

use ai::completion::reliability;
use ai::provider::mock::Program;
use ai::trust::{Trust, for_prompt};
use ai::{cache_key, gate, usage};
use axum::response::Response;
use executors::Executors;
use executors::models::Models;
use flow::event::EventKind;
use serde_json::{Value, json};

use super::super::bodies::packs::Nothing;
use super::super::exchange::CheckedRequest;
use super::super::response;
use super::super::route::HandlerResult;
use super::super::test_log::TestEvent;
use super::errors::{invalid_argument, nested};

/// The marker of a secret in the payloads of suites.
const CANARY: &str = "secret-canary-";
/// The maximum length of a run id in a seam.
pub(super) const MAX_RUN_ID_BYTES: usize = 256;

fn models(call: &CheckedRequest) -> Option<&Models> {
    call.state.runs.features().executors().and_then(Executors::models).filter(|models| models.is_mocked())
}

fn not_served() -> Response {
    nested(404, "host_capability_missing", "this host has no mock model")
}

/// `POST /v1/host/sample/test/reset`
pub(in super::super) async fn reset(call: CheckedRequest) -> HandlerResult {
    let Nothing {} = call.body_as()?;
    call.state.correlations.clear();
    call.state.test_log.clear();
    call.state.runs.features().withhold(BTreeSet::new());
    if let Some(models) = models(&call) {
        models.programs().reset();
    }
    Ok(response::json(200, &json!({"ok": true})))
}

/// `POST /v1/host/sample/test/mock-ai/program`
pub(in super::super) async fn program(call: CheckedRequest) -> HandlerResult {
    let Some(models) = models(&call) else { return Ok(not_served()) };
    let node = call.body.get("nodeId").and_then(Value::as_str).filter(|id| (1..=256).contains(&id.len()));
    let Some(node) = node else {
        return Ok(invalid_argument("`nodeId` must be a string of 1 to 256 bytes"));
    };
    match Program::read(call.body.get("program").unwrap_or(&Value::Null)) {
        Ok(program) => {
            let count = program.len();
            models.programs().program(node, program);
            Ok(response::json(200, &json!({"ok": true, "count": count})))
        }
        Err(error) => Ok(invalid_argument(&error.to_string())),
    }
}

/// `GET /v1/host/sample/test/mock-ai/last-dispatch-budget`
pub(in super::super) async fn last_budget(call: CheckedRequest) -> HandlerResult {
    let Some(models) = models(&call) else { return Ok(not_served()) };
    let room = call.query.text("nodeId").and_then(|node| models.programs().last_room(node));
    Ok(match room {
        Some(room) => response::json(200, &json!({"maxTokens": room})),
        None => nested(404, "not_found", "this node has not called a programmed mock model"),
    })
}

/// `POST /v1/host/sample/test/llm-prompt-wrap`
pub(in super::super) async fn wrap(call: CheckedRequest) -> HandlerResult {
    let body = &call.body;
    let Some(payload) = body.get("payload") else {
        return Ok(invalid_argument("`payload` is missing"));
    };
    let text = |name: &str| body.get(name).and_then(Value::as_str);
    let Some(trust) = Trust::parse(text("contentTrust").unwrap_or(Trust::Trusted.as_str())) else {
        return Ok(invalid_argument("`contentTrust` must be `trusted` or `untrusted`"));
    };
    let attributes = body.get("attributes").and_then(Value::as_object).into_iter().flatten();
    let attributes =
        attributes.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect();
    let prompt = for_prompt(payload, trust, text("eventType"), text("source"), &attributes);
    Ok(response::json(200, &json!({"prompt": prompt})))
}

/// `POST /v1/host/sample/test/emit-envelope-reliability`: validated like a recorded event, and stored beside the logs of runs.
pub(in super::super) async fn emit_reliability(call: CheckedRequest) -> HandlerResult {
    let kind = call.body.get("type").and_then(Value::as_str).unwrap_or_default();
    if let Some(refused) = unnamed_run(&call) {
        return Ok(refused);
    }
    let payload = call.body.get("payload").unwrap_or(&Value::Null);
    if payload.to_string().contains(CANARY) {
        let refused = reliability::PayloadError::CredentialLeak;
        return Ok(nested(400, refused.code(), &refused.to_string()));
    }
    match reliability::check(kind, payload) {
        Ok(event) => Ok(emitted(&call, EventKind::parse(event.kind.as_str()), event.payload.into())),
        Err(refused) => Ok(nested(400, refused.code(), &refused.to_string())),
    }
}

/// `POST /v1/host/sample/test/emit-provider-usage`: validated like a recorded event, and stored beside the logs of runs.
pub(in super::super) async fn emit_usage(call: CheckedRequest) -> HandlerResult {
    if let Some(refused) = unnamed_run(&call) {
        return Ok(refused);
    }
    match usage::check(call.body.get("payload").unwrap_or(&Value::Null)) {
        Ok(payload) => Ok(emitted(&call, EventKind::ProviderUsage, payload.into())),
        Err(refused) => Ok(nested(400, refused.code(), &refused.to_string())),
    }
}

fn unnamed_run(call: &CheckedRequest) -> Option<Response> {
    let named = call.body.get("runId").and_then(Value::as_str);
    let named = named.is_some_and(|id| (1..=MAX_RUN_ID_BYTES).contains(&id.len()));
    (!named).then(|| invalid_argument("`runId` is required and must be a string of 1 to 256 bytes"))
}

fn emitted(call: &CheckedRequest, kind: EventKind, payload: Value) -> Response {
    let text = |name: &str| call.body.get(name).and_then(Value::as_str);
    let event = TestEvent { kind, payload, cause: text("correlationId"), node: text("nodeId"), trust: None };
    let run_id = text("runId").unwrap_or_default();
    let event = call.state.test_log.append(
        call.caller.tenant.as_str(),
        run_id,
        event,
        call.state.runs.records().now(),
    );
    response::json(200, &json!({"event": event}))
}

/// `POST /v1/host/sample/test/evaluate-model-capability-gate`
pub(in super::super) async fn evaluate_gate(call: CheckedRequest) -> HandlerResult {
    match gate::CapabilityQuery::read(&call.body) {
        Ok(question) => {
            let answered = gate::evaluate(&question, gate::known_capabilities);
            Ok(response::json(200, &answered.to_value(&question)))
        }
        Err(error) => Ok(invalid_argument(&error.to_string())),
    }
}

/// `POST /v1/host/sample/test/llm-cache-key`
pub(in super::super) async fn key_of(call: CheckedRequest) -> HandlerResult {
    match cache_key::cache_key(&call.body) {
        Ok(key) => Ok(response::json(200, &json!({"cacheKey": key}))),
        Err(error) => Ok(nested(400, error.code(), &error.to_string())),
    }
}
