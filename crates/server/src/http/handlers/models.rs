//! What conformance suites ask of the part that speaks with models. Nothing of it is there unless the host was started for tests.
//!
//! The answers are those of the crate that does the same for runs; nothing is decided here.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use ai::completion::{Counter, reliability};
use ai::envelope::{Acceptance, Contract, Counters, Kinds, Prior, RefusalMode, Strictness, accept};
use ai::provider::mock::Program;
use ai::redact::{Redactor, Secret};
use ai::trust::{Trust, for_prompt};
use ai::{cache_key, gate, usage};
use axum::response::Response;
use host::hands::Hands;
use host::hands::models::Models;
use serde_json::{Value, json};

use super::super::answer;
use super::super::exchange::Call;
use super::super::route::Answered;
use super::trouble::{invalid_argument, nested};

/// How many envelopes are remembered.
const MAX_REMEMBERED: usize = 10_000;

/// What came of the envelopes so far, by correlation id.
#[derive(Default)]
pub(in super::super) struct Correlations(Mutex<BTreeMap<String, Prior>>);

impl Correlations {
    fn get(&self, id: &str) -> Option<Prior> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }

    fn keep(&self, id: String, prior: Prior) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MAX_REMEMBERED {
            kept.pop_first();
        }
        kept.insert(id, prior);
    }

    fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

fn models(call: &Call) -> Option<&Models> {
    call.state.runs.hands().and_then(Hands::models).filter(|models| models.is_mocked())
}

fn not_served() -> Response {
    nested(404, "host_capability_missing", "no model that pretends is served here")
}

/// `POST /v1/host/sample/test/reset`
pub(in super::super) async fn reset(call: Call) -> Answered {
    call.only(&[])?;
    call.state.correlations.clear();
    if let Some(models) = models(&call) {
        models.programs().reset();
    }
    Ok(answer::json(200, &json!({"ok": true})))
}

/// `POST /v1/host/sample/test/mock-ai/program`
pub(in super::super) async fn program(call: Call) -> Answered {
    let Some(models) = models(&call) else { return Ok(not_served()) };
    let node = call.body.get("nodeId").and_then(Value::as_str).filter(|id| (1..=256).contains(&id.len()));
    let Some(node) = node else {
        return Ok(invalid_argument("`nodeId` is a text of 1 to 256 bytes"));
    };
    match Program::read(call.body.get("program").unwrap_or(&Value::Null)) {
        Ok(program) => {
            let count = program.len();
            models.programs().program(node, program);
            Ok(answer::json(200, &json!({"ok": true, "count": count})))
        }
        Err(error) => Ok(invalid_argument(&error.to_string())),
    }
}

/// `GET /v1/host/sample/test/mock-ai/last-dispatch-budget`
pub(in super::super) async fn last_budget(call: Call) -> Answered {
    let Some(models) = models(&call) else { return Ok(not_served()) };
    let room = call.query.text("nodeId").and_then(|node| models.programs().last_room(node));
    Ok(match room {
        Some(room) => answer::json(200, &json!({"maxTokens": room})),
        None => nested(404, "not_found", "that node has asked no model that was given a program"),
    })
}

/// `POST /v1/host/sample/envelope/accept`
pub(in super::super) async fn accept_envelope(call: Call) -> Answered {
    Ok(accepted(&call).unwrap_or_else(invalid_argument))
}

fn accepted(call: &Call) -> Result<Response, &'static str> {
    let body = &call.body;
    let envelope = body.get("envelope").filter(|given| !given.is_null()).ok_or("`envelope` is missing")?;
    let mut kinds = match texts(body, "hostSupportedEnvelopes")? {
        Some(supported) => Kinds::only(supported),
        None => Kinds::any(),
    };
    for (kind, version) in body.get("schemaVersionFloor").and_then(Value::as_object).into_iter().flatten() {
        kinds.version(kind, version.as_u64().ok_or("`schemaVersionFloor` has integers from 0")?);
    }
    let strictness = match body.get("envelopeStrictness").and_then(Value::as_str) {
        None => Strictness::Warn,
        Some(word) => Strictness::parse(word).ok_or("`envelopeStrictness` is `warn` or `strict`")?,
    };
    let run_trust = match body.get("runTrustBoundary").and_then(Value::as_str) {
        None => None,
        Some(word) => Some(Trust::parse(word).ok_or("`runTrustBoundary` is `trusted` or `untrusted`")?),
    };
    let contract = texts(body, "nodeAllowedKinds")?.map(|kinds| Contract::new(kinds, RefusalMode::FailNode));
    let priors = priors(body)?;
    // What the caller says came before, else what came before.
    let prior = |id: &str| priors.get(id).cloned().or_else(|| call.state.correlations.get(id));
    let redactor = Redactor::new(canaries(body)?);
    let gate = body.get("approvalGateContext").and_then(Value::as_bool).unwrap_or(false);
    let verdict = accept(&Acceptance {
        envelope,
        supported: true,
        kinds: &kinds,
        strictness,
        contract: contract.as_ref(),
        counters: counters(body)?,
        redactor: &redactor,
        run_trust,
        prior: &prior,
        approves: gate || body.get("boundInterruptKind").and_then(Value::as_str) == Some("approval"),
        clarifications: true,
    });
    let outcome = verdict.outcome.to_value();
    // What may be tried again is not an outcome that stays.
    if let Some(known) =
        verdict.envelope.as_ref().filter(|_| verdict.outcome.status() == "accepted" && !verdict.is_recorded())
    {
        let prior = Prior { envelope_type: known.kind.clone(), outcome: outcome.clone() };
        call.state.correlations.keep(known.correlation_id.clone(), prior);
    }
    Ok(answer::json(200, &outcome))
}

fn texts(body: &Value, name: &str) -> Result<Option<Vec<String>>, &'static str> {
    let Some(given) = body.get(name).filter(|given| !given.is_null()) else { return Ok(None) };
    let items =
        given.as_array().map(|items| items.iter().map(|item| item.as_str().map(str::to_owned)).collect());
    items.flatten().map(Some).ok_or("lists of kinds are lists of texts")
}

fn counters(body: &Value) -> Result<Counters, &'static str> {
    let counter = |name: &str| match body.get("counters").and_then(|counters| counters.get(name)) {
        None | Some(Value::Null) => Ok(None),
        Some(given) => {
            let number = |name: &str| given.get(name).and_then(Value::as_u64);
            let counter = number("current").zip(number("cap")).map(|(current, cap)| Counter { current, cap });
            counter.map(Some).ok_or("a counter is `{current, cap}`, both integers from 0")
        }
    };
    Ok(Counters {
        envelopes: counter("envelopesPerTurn")?,
        schema: counter("schemaRounds")?,
        clarification: counter("clarificationRounds")?,
    })
}

fn priors(body: &Value) -> Result<BTreeMap<String, Prior>, &'static str> {
    let mut priors = BTreeMap::new();
    for given in body.get("priorCorrelations").and_then(Value::as_array).into_iter().flatten() {
        let text = |name: &str| given.get(name).and_then(Value::as_str).map(str::to_owned);
        let (Some(id), Some(envelope_type)) = (text("correlationId"), text("envelopeType")) else {
            return Err("`priorCorrelations` has `{correlationId, envelopeType, outcome}`");
        };
        let outcome = given.get("outcome").cloned().unwrap_or_default();
        priors.insert(id, Prior { envelope_type, outcome });
    }
    Ok(priors)
}

fn canaries(body: &Value) -> Result<Vec<Secret>, &'static str> {
    let given = body.get("byokCanaries").and_then(Value::as_array);
    let secret = |canary: &Value| {
        let text = |name: &str| canary.get(name).and_then(Value::as_str);
        Some(Secret::new(text("secretId")?, text("value")?))
    };
    let secrets: Option<Vec<Secret>> = given.into_iter().flatten().map(secret).collect();
    secrets.ok_or("`byokCanaries` has `{secretId, value}`, both texts")
}

/// `POST /v1/host/sample/test/llm-prompt-wrap`
pub(in super::super) async fn wrap(call: Call) -> Answered {
    let body = &call.body;
    let Some(payload) = body.get("payload") else {
        return Ok(invalid_argument("`payload` is missing"));
    };
    let text = |name: &str| body.get(name).and_then(Value::as_str);
    let Some(trust) = Trust::parse(text("contentTrust").unwrap_or(Trust::Trusted.as_str())) else {
        return Ok(invalid_argument("`contentTrust` is `trusted` or `untrusted`"));
    };
    let attributes = body.get("attributes").and_then(Value::as_object).into_iter().flatten();
    let attributes =
        attributes.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect();
    let prompt = for_prompt(payload, trust, text("eventType"), text("source"), &attributes);
    Ok(answer::json(200, &json!({"prompt": prompt})))
}

/// `POST /v1/host/sample/test/emit-envelope-reliability`: checked as what is recorded is, and given back.
pub(in super::super) async fn emit_reliability(call: Call) -> Answered {
    let kind = call.body.get("type").and_then(Value::as_str).unwrap_or_default();
    if let Some(refused) = unnamed_run(&call) {
        return Ok(refused);
    }
    match reliability::check(kind, call.body.get("payload").unwrap_or(&Value::Null)) {
        Ok(event) => Ok(emitted(&call, event.kind.as_str(), &event.payload.into())),
        Err(refused) => Ok(nested(400, refused.code(), &refused.to_string())),
    }
}

/// `POST /v1/host/sample/test/emit-provider-usage`: checked as what is recorded is, and given back.
pub(in super::super) async fn emit_usage(call: Call) -> Answered {
    if let Some(refused) = unnamed_run(&call) {
        return Ok(refused);
    }
    match usage::check(call.body.get("payload").unwrap_or(&Value::Null)) {
        Ok(payload) => Ok(emitted(&call, "provider.usage", &payload.into())),
        Err(refused) => Ok(nested(400, refused.code(), &refused.to_string())),
    }
}

fn unnamed_run(call: &Call) -> Option<Response> {
    let named = call.body.get("runId").and_then(Value::as_str).is_some_and(|id| !id.is_empty());
    (!named).then(|| invalid_argument("`runId` is missing"))
}

fn emitted(call: &Call, kind: &str, payload: &Value) -> Response {
    let mut event = json!({"type": kind, "payload": payload, "runId": call.body["runId"]});
    for (name, member) in [("correlationId", "causationId"), ("nodeId", "nodeId")] {
        if let Some(text) = call.body.get(name).filter(|text| text.is_string()) {
            event[member] = text.clone();
        }
    }
    answer::json(200, &json!({"event": event}))
}

/// `POST /v1/host/sample/test/evaluate-model-capability-gate`
pub(in super::super) async fn evaluate_gate(call: Call) -> Answered {
    match gate::Question::read(&call.body) {
        Ok(question) => {
            let answered = gate::evaluate(&question, gate::known_capabilities);
            Ok(answer::json(200, &answered.to_value(&question)))
        }
        Err(error) => Ok(invalid_argument(&error.to_string())),
    }
}

/// `POST /v1/host/sample/test/llm-cache-key`
pub(in super::super) async fn key_of(call: Call) -> Answered {
    match cache_key::cache_key(&call.body) {
        Ok(key) => Ok(answer::json(200, &json!({"cacheKey": key}))),
        Err(error) => Ok(nested(400, error.code(), &error.to_string())),
    }
}
