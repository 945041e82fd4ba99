//! Accepts an envelope without a run. The `ai` crate decides.
//!
//! With `projectTo`, the resulting events are stored in the test log, where other seams read them. With `persistedDedup`, that log
//! and the outcomes remembered for the run determine the earlier outcomes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use ai::completion::Counter;
use ai::envelope::{
    Acceptance, Contract, Counters, EnvelopeOutcome, Kinds, Prior, RefusalMode, Strictness, Verdict, accept,
    kind, project,
};
use ai::redact::{Redactor, Secret};
use ai::trust::Trust;
use axum::response::Response;
use executors::Executors;
use flow::event::EventKind;
use flow::id::RunId;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use runs::{ApiCode, Refusal};
use serde_json::{Value, json};

use super::super::exchange::CheckedRequest;
use super::super::response;
use super::super::route::HandlerResult;
use super::super::test_log::{SeamEvent, TestEvent};
use super::errors::invalid_argument;
use super::models::MAX_RUN_ID_BYTES;
use super::seams;
use super::toggles::AI_ENVELOPE;

/// The maximum number of remembered envelopes.
const MAX_REMEMBERED: usize = 10_000;

/// The outcomes of envelopes, by tenant and correlation id. The oldest are dropped first, for all tenants together.
#[derive(Default)]
pub(in super::super) struct Correlations(Mutex<CorrelationLog>);

#[derive(Default)]
struct CorrelationLog {
    priors: BTreeMap<(String, String), Prior>,
    /// The keys in the order of insertion.
    order: VecDeque<(String, String)>,
}

impl Correlations {
    fn get(&self, tenant: &str, id: &str) -> Option<Prior> {
        let key = (tenant.to_owned(), id.to_owned());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).priors.get(&key).cloned()
    }

    fn keep(&self, tenant: &str, id: String, prior: Prior) {
        let kept = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (tenant.to_owned(), id);
        if kept.priors.insert(key.clone(), prior).is_some() {
            return;
        }
        kept.order.push_back(key);
        if kept.order.len() > MAX_REMEMBERED
            && let Some(oldest) = kept.order.pop_front()
        {
            kept.priors.remove(&oldest);
        }
    }

    pub(super) fn clear(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = CorrelationLog::default();
    }
}

/// `POST /v1/host/sample/envelope/accept`
pub(in super::super) async fn accept_envelope(call: CheckedRequest) -> HandlerResult {
    Ok(accepted(&call).await.unwrap_or_else(invalid_argument))
}

/// `GET /schemas/envelopes/{kind}.schema.json`
pub(in super::super) async fn schema(call: CheckedRequest) -> HandlerResult {
    let kind = call.param("kind");
    let models = call.state.runs.features().executors().and_then(Executors::models);
    let own = models.and_then(|models| models.kinds().source(kind).cloned());
    let Some(schema) = own.or_else(|| kind::schema_of(kind)) else {
        return Err(Refusal::new(ApiCode::NotFound, "this envelope kind is unknown or has no schema"));
    };
    let mut response = response::json(200, &schema);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/schema+json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=300"));
    Ok(response)
}

async fn accepted(call: &CheckedRequest) -> Result<Response, &'static str> {
    let body = &call.body;
    let envelope = body.get("envelope").filter(|given| !given.is_null()).ok_or("`envelope` is missing")?;
    let mut kinds = match texts(body, "hostSupportedEnvelopes")? {
        Some(supported) => Kinds::only(supported),
        None => Kinds::any(),
    };
    for (kind, version) in body.get("schemaVersionFloor").and_then(Value::as_object).into_iter().flatten() {
        kinds.version(
            kind,
            version.as_u64().ok_or("the values of `schemaVersionFloor` must be non-negative integers")?,
        );
    }
    let strictness = match body.get("envelopeStrictness").and_then(Value::as_str) {
        None => Strictness::Warn,
        Some(word) => Strictness::parse(word).ok_or("`envelopeStrictness` must be `warn` or `strict`")?,
    };
    let run_trust = match body.get("runTrustBoundary").and_then(Value::as_str) {
        None => None,
        Some(word) => Some(Trust::parse(word).ok_or("`runTrustBoundary` must be `trusted` or `untrusted`")?),
    };
    let projection = ProjectionTarget::read(body)?;
    let mode = projection.as_ref().map_or(RefusalMode::FailNode, |projection| projection.refusal_mode);
    let contract = texts(body, "nodeAllowedKinds")?.map(|kinds| Contract::new(kinds, mode));
    let priors = priors(body)?;
    let log = match body.get("persistedDedup").filter(|given| !given.is_null()) {
        None => None,
        Some(given) => Some((run_id(given)?, logged(call, run_id(given)?).await)),
    };
    let tenant = call.caller.tenant.as_str();
    // The earlier outcomes given by the caller, otherwise those that this process remembers: for a run if one is named, else for the
    // tenant.
    let known = |id: &str| match &log {
        Some((run_id, log)) => {
            from_log(log, id).or_else(|| call.state.correlations.get(tenant, &of_run(run_id, id)))
        }
        None => call.state.correlations.get(tenant, id),
    };
    let prior = |id: &str| priors.get(id).cloned().or_else(|| known(id));
    let redactor = Redactor::new(canaries(body)?);
    let gate = body.get("approvalGateContext").and_then(Value::as_bool).unwrap_or(false);
    let mut verdict = accept(&Acceptance {
        envelope,
        supported: !call.state.runs.features().withheld().contains(AI_ENVELOPE),
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
    if let Some(projection) = projection {
        projection.record(call, &mut verdict, &kinds);
    }
    let mut outcome = verdict.outcome.to_value();
    // Only accepted envelopes are remembered: refused ones may be sent again.
    if let Some(known) =
        verdict.envelope.as_ref().filter(|_| verdict.outcome.status() == "accepted" && !verdict.is_recorded())
    {
        let prior = Prior { envelope_type: known.kind.clone(), outcome: outcome.clone() };
        let key = match &log {
            Some((run_id, _)) => of_run(run_id, &known.correlation_id),
            None => known.correlation_id.clone(),
        };
        call.state.correlations.keep(tenant, key, prior);
    }
    // Suites look for the timestamp error in the reason, which is otherwise only a code.
    if outcome["details"][0]["keyword"] == "format" {
        let reason = outcome["reason"].as_str().unwrap_or_default();
        outcome["reason"] =
            format!("{reason}: `meta.ts` must be an ISO 8601 date and time with an offset").into();
    }
    Ok(response::json(200, &outcome))
}

/// The key of an outcome that belongs to a run. No id has a null character in it.
fn of_run(run_id: &str, correlation_id: &str) -> String {
    format!("{run_id}\0{correlation_id}")
}

fn texts(body: &Value, name: &str) -> Result<Option<Vec<String>>, &'static str> {
    let Some(given) = body.get(name).filter(|given| !given.is_null()) else { return Ok(None) };
    let items =
        given.as_array().map(|items| items.iter().map(|item| item.as_str().map(str::to_owned)).collect());
    items.flatten().map(Some).ok_or("each list of envelope kinds must contain only strings")
}

fn counters(body: &Value) -> Result<Counters, &'static str> {
    let counter = |name: &str| match body.get("counters").and_then(|counters| counters.get(name)) {
        None | Some(Value::Null) => Ok(None),
        Some(given) => {
            let number = |name: &str| given.get(name).and_then(Value::as_u64);
            let counter = number("current").zip(number("cap")).map(|(current, cap)| Counter { current, cap });
            counter.map(Some).ok_or("a counter must be `{current, cap}`, both non-negative integers")
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
            return Err("`priorCorrelations` must have `{correlationId, envelopeType, outcome}`");
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
    secrets.ok_or("`byokCanaries` must have `{secretId, value}`, both strings")
}

fn run_id(given: &Value) -> Result<&str, &'static str> {
    let id =
        given.get("runId").and_then(Value::as_str).filter(|id| (1..=MAX_RUN_ID_BYTES).contains(&id.len()));
    id.ok_or("`runId` must be a string of 1 to 256 bytes")
}

/// Where the events of an envelope are stored.
struct ProjectionTarget<'b> {
    run_id: &'b str,
    node_id: &'b str,
    refusal_mode: RefusalMode,
}

impl<'b> ProjectionTarget<'b> {
    fn read(body: &'b Value) -> Result<Option<Self>, &'static str> {
        let Some(given) = body.get("projectTo").filter(|given| !given.is_null()) else { return Ok(None) };
        let text = |name: &str| given.get(name).and_then(Value::as_str);
        let refusal_mode = match text("refusalMode") {
            None => RefusalMode::FailNode,
            Some(word) => {
                RefusalMode::parse(word).ok_or("`refusalMode` must be `fail-node` or `discard-and-warn`")?
            }
        };
        Ok(Some(Self { run_id: run_id(given)?, node_id: text("nodeId").unwrap_or("node"), refusal_mode }))
    }

    /// Stores the events, and adds their ids to the outcome.
    fn record(&self, call: &CheckedRequest, verdict: &mut Verdict, kinds: &Kinds) {
        let (log, tenant) = (&call.state.test_log, call.caller.tenant.as_str());
        let projection = project(verdict, self.node_id, self.refusal_mode);
        let now = call.state.runs.records().now();
        let ids = projection.events.into_iter().map(|event| {
            let event = TestEvent {
                kind: EventKind::parse(event.kind.as_str()),
                payload: Value::Object(event.payload),
                cause: projection.causation_id.as_deref(),
                node: Some(self.node_id),
                trust: Some(projection.content_trust.as_str()),
            };
            log.append(tenant, self.run_id, event, now).event_id
        });
        let ids: Vec<String> = ids.collect();
        let name = format!("envelope.{}", verdict.outcome.status());
        let current = verdict.envelope.as_ref().and_then(|envelope| kinds.current(&envelope.kind));
        log.span(tenant, self.run_id, &name, &verdict.attributes(current));
        if let EnvelopeOutcome::Accepted { recorded_event_ids, .. } = &mut verdict.outcome {
            *recorded_event_ids = ids;
        }
    }
}

/// The events of a run, including projected ones.
async fn logged(call: &CheckedRequest, run_id: &str) -> Vec<SeamEvent> {
    let mut events = seams::recorded(call, &RunId::new(run_id)).await.unwrap_or_default();
    events.extend(call.state.test_log.events(call.caller.tenant.as_str(), run_id));
    events
}

/// The outcome of an envelope, from the events that it caused. A refused envelope caused none and may be sent again.
fn from_log(log: &[SeamEvent], correlation_id: &str) -> Option<Prior> {
    let is_caused = |event: &&SeamEvent| event.causation_id.as_deref() == Some(correlation_id);
    let caused: Vec<&SeamEvent> = log.iter().filter(is_caused).collect();
    let (envelope_type, envelope_id) = caused.iter().find_map(|event| {
        let fields = &event.payload["fields"];
        match event.kind {
            EventKind::LogAppended => Some((fields["envelopeType"].as_str()?, fields["envelopeId"].clone())),
            EventKind::InterruptRequested => Some(("clarification.request", event.payload["key"].clone())),
            _ => None,
        }
    })?;
    let ids: Vec<&str> = caused.iter().map(|event| event.event_id.as_str()).collect();
    let trust = caused.first().and_then(|event| event.content_trust.as_deref()).unwrap_or("trusted");
    let outcome = json!({
        "status": "accepted", "recordedEventIds": ids, "envelopeId": envelope_id,
        "normalizedMeta": {"contentTrust": trust},
    });
    Some(Prior { envelope_type: envelope_type.to_owned(), outcome })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_correlation_of_all_tenants_is_dropped_first() {
        let kept = Correlations::default();
        let keep = |tenant: &str, id: usize| {
            let prior = Prior { envelope_type: "error".to_owned(), outcome: json!(id) };
            kept.keep(tenant, id.to_string(), prior);
        };
        keep("z", 0);
        keep("a", 0);
        // A key that is stored again is counted once.
        keep("a", 0);
        for id in 1..MAX_REMEMBERED {
            keep("z", id);
        }
        assert!(kept.get("z", "0").is_none(), "over the limit, the oldest is dropped");
        assert!(kept.get("a", "0").is_some() && kept.get("z", "1").is_some());
        keep("z", MAX_REMEMBERED);
        assert!(kept.get("a", "0").is_none() && kept.get("z", "1").is_some());
        kept.clear();
        assert!(kept.get("z", "1").is_none());
    }
}
