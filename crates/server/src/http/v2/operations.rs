//! The operations whose bodies or replies differ between the versions.

use canon::time::Timestamp;
use flow::run::RunStatus;
use openwop::id::IdError;
use openwop::{configurable, event, id, snapshot};
use runs::bulk::MAX_BULK;
use runs::{ApiCode, Caller, Refusal};
use serde_json::{Map, Value, json};

use super::super::exchange::CheckedRequest;
use super::super::handlers::{control, history, interrupts, runs as v1_runs, tools as v1_tools, webhooks};
use super::super::response;
use super::super::route::HandlerResult;
use super::super::state::Service;
use super::{events, reply, run_id};

/// The tenant of the caller.
fn tenant(caller: &Caller) -> String {
    caller.tenant.as_str().to_owned()
}

fn members(document: Value) -> Map<String, Value> {
    match document {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

/// A snapshot, with links of version 2.
pub(super) fn shown(state: &Service, tenant: &str, document: Value) -> Value {
    let mut shown = Value::Object(snapshot::to_v2(tenant, members(document)));
    for node in shown["nodeStates"].as_object_mut().into_iter().flat_map(|nodes| nodes.values_mut()) {
        let Some(Value::Object(interrupt)) = node.get_mut("interrupt") else { continue };
        interrupt.remove("callbackUrl");
        let token = interrupt.remove("interruptToken");
        let token = token
            .as_ref()
            .and_then(Value::as_str)
            .and_then(|token| state.runs.interrupt_tokens().named(token));
        if let Some(token) = token {
            let link = format!("{}/interrupts/{token}", state.runs.public_url());
            interrupt.insert("callbackUrl".to_owned(), link.into());
        }
    }
    shown
}

/// Replaces the options of version 2 in a body by those of version 1.
fn flatten_options(holder: Option<&mut Value>) -> Result<(), Refusal> {
    let Some(Value::Object(options)) = holder.and_then(|holder| holder.get_mut("configurable")) else {
        return Ok(());
    };
    let flat = configurable::to_v1(options).map_err(|error| {
        let field = format!("configurable{}", error.path);
        Refusal::new(ApiCode::ValidationError, error.to_string()).detail("field", field)
    })?;
    *options = flat;
    Ok(())
}

/// Members of a run request that belong to capabilities that this host does not have.
const NOT_PROVIDED: [(&str, &str); 8] = [
    ("residency", "residency"),
    ("mode", "agents.evalSuite"),
    ("evalSuiteRef", "agents.evalSuite"),
    ("evalModes", "agents.evalSuite"),
    ("baselineRunId", "agents.evalSuite"),
    ("fixtureRuns", "agents.evalSuite"),
    ("agentId", "agents.deployment"),
    ("runSecrets", "secrets.runSecrets"),
];

/// `POST /runs`
pub(super) async fn create(mut call: CheckedRequest) -> HandlerResult {
    for (member, capability) in NOT_PROVIDED {
        if call.body.get(member).is_some_and(|value| !value.is_null()) {
            let message = format!("This host does not provide `{capability}`. Omit `{member}`.");
            let details = Map::from_iter([
                ("field".to_owned(), member.into()),
                ("requiredCapability".to_owned(), capability.into()),
            ]);
            return Ok(reply::refused("capability_not_provided", &message, details));
        }
    }
    flatten_options(Some(&mut call.body))?;
    let (tenant, public_url) = (tenant(&call.caller), call.state.runs.public_url().to_owned());
    reply::mapped(v1_runs::create(call).await?, |created| Ok(linked(&tenant, &public_url, created))).await
}

/// A new run with its bound id and links of version 2.
fn linked(tenant: &str, public_url: &str, mut created: Value) -> Value {
    reply::bind(tenant, &mut created, "runId");
    reply::bind(tenant, &mut created, "sourceRunId");
    let path = id::projected(created["runId"].as_str().unwrap_or_default());
    created["eventsUrl"] = format!("{public_url}/runs/{path}/events").into();
    if created.get("statusUrl").is_some() {
        created["statusUrl"] = format!("{public_url}/runs/{path}").into();
    }
    created
}

/// `GET /runs/{runId}`
pub(super) async fn read(call: CheckedRequest) -> HandlerResult {
    let (tenant, state) = (tenant(&call.caller), call.state.clone());
    reply::mapped(v1_runs::read(call).await?, |run| Ok(shown(&state, &tenant, run))).await
}

/// `GET /runs`
pub(super) async fn list(call: CheckedRequest) -> HandlerResult {
    let (tenant, state) = (tenant(&call.caller), call.state.clone());
    let map = |mut page: Value| {
        for run in page["runs"].as_array_mut().into_iter().flatten() {
            *run = shown(&state, &tenant, run.take());
        }
        Ok(page)
    };
    reply::mapped(v1_runs::list(call).await?, map).await
}

/// Whether a request with a key was answered before. Then the recorded reply counts, and not the status that the run has by now.
async fn is_repeated(call: &CheckedRequest) -> Result<bool, Refusal> {
    match &call.keyed {
        Some(keyed) => call.state.runs.records().has_reply(keyed).await,
        None => Ok(false),
    }
}

/// Refuses a request that the status of the run does not admit.
async fn check_status(
    call: &CheckedRequest,
    is_refused: impl FnOnce(RunStatus) -> bool,
) -> Result<(), Refusal> {
    let (status, _) = call.state.runs.queries().status(&call.caller, &call.run_id()).await?;
    if is_refused(status) && !is_repeated(call).await? {
        return Err(conflict(status));
    }
    Ok(())
}

fn conflict(status: RunStatus) -> Refusal {
    let message = format!("The run is {status}.");
    Refusal::new(ApiCode::Conflict, message).detail("runStatus", status.as_str())
}

/// `POST /runs/{runId}/cancel`
pub(super) async fn cancel(call: CheckedRequest) -> HandlerResult {
    check_status(&call, RunStatus::is_terminal).await?;
    let tenant = tenant(&call.caller);
    let map = |mut cancelled: Value| {
        let status = cancelled["status"].as_str().and_then(RunStatus::parse);
        // The run ended before the request reached it.
        if let Some(status @ (RunStatus::Completed | RunStatus::Failed)) = status {
            return Err(conflict(status));
        }
        reply::bind(&tenant, &mut cancelled, "runId");
        Ok(cancelled)
    };
    reply::mapped(control::cancel(call).await?, map).await
}

/// `POST /runs/{runId}:pause`
pub(super) async fn pause(call: CheckedRequest) -> HandlerResult {
    check_status(&call, |status| status.is_terminal() || status == RunStatus::Paused).await?;
    let tenant = tenant(&call.caller);
    let map = |mut paused: Value| {
        reply::bind(&tenant, &mut paused, "runId");
        if let Value::Object(members) = &mut paused {
            members.remove("draining");
            members.retain(|_, value| !value.is_null());
        }
        Ok(paused)
    };
    reply::mapped(control::pause(call).await?, map).await
}

/// `POST /runs/{runId}:resume`
pub(super) async fn resume(call: CheckedRequest) -> HandlerResult {
    check_status(&call, |status| status != RunStatus::Paused).await?;
    let tenant = tenant(&call.caller);
    let map = |mut resumed: Value| {
        reply::bind(&tenant, &mut resumed, "runId");
        Ok(resumed)
    };
    reply::mapped(control::resume(call).await?, map).await
}

/// What becomes of an item of a list of runs to cancel.
enum Item {
    /// The place of its result in the reply of version 1.
    Asked,
    Refused(Value),
}

/// `POST /runs:bulk-cancel`
pub(super) async fn bulk_cancel(mut call: CheckedRequest) -> HandlerResult {
    let Some(named) = call.body.get("runIds").and_then(Value::as_array).cloned() else {
        return control::bulk_cancel(call).await;
    };
    if named.is_empty() || named.len() > MAX_BULK {
        let message = format!("`runIds` must have 1 to {MAX_BULK} ids.");
        let refusal = Refusal::new(ApiCode::ValidationError, message);
        return Err(refusal.detail("field", "runIds").detail("maxRunIds", MAX_BULK));
    }
    let error = |code: &str, message: &str| json!({"error": code, "message": message});
    let mut asked: Vec<Value> = Vec::new();
    let mut items = Vec::new();
    for name in &named {
        let own = name.as_str().map(|name| run_id(&call.caller, name));
        items.push(match own {
            Some(Ok(own)) => {
                let status = call.state.runs.queries().status(&call.caller, &own).await;
                match status {
                    Ok((status, _)) if status.is_terminal() => {
                        Item::Refused(error("run_terminal", &format!("The run is {status}.")))
                    }
                    Ok(_) | Err(_) => {
                        asked.push(own.as_str().into());
                        Item::Asked
                    }
                }
            }
            Some(Err(IdError::OtherTenant)) => {
                Item::Refused(error("id_tenant_mismatch", "The id belongs to another tenant."))
            }
            Some(Err(IdError::Malformed)) | None => {
                Item::Refused(error("validation_error", "The id is malformed."))
            }
        });
    }
    // A repeated request gets its recorded results, although the runs have ended by now.
    if is_repeated(&call).await? {
        asked = named.iter().map(|name| own_or_same(&call.caller, name)).collect();
        items = named.iter().map(|_| Item::Asked).collect();
    }
    let answered = if asked.is_empty() {
        Vec::new()
    } else {
        call.body["runIds"] = asked.into();
        let (status, body) = taken(control::bulk_cancel(call).await?).await;
        if status != 200 {
            return Ok(response::json(status, &body));
        }
        body["results"].as_array().cloned().unwrap_or_default()
    };
    let mut answered = answered.into_iter();
    let results = items.into_iter().zip(named).map(|(item, name)| {
        let mut result = match item {
            Item::Asked => answered.next().unwrap_or_default(),
            Item::Refused(error) => json!({"ok": false, "error": error}),
        };
        result["runId"] = name;
        if let Some(Value::Object(error)) = result.get_mut("error") {
            error.remove("code");
        }
        result
    });
    let results: Vec<Value> = results.collect();
    Ok(response::json(200, &json!({"results": results})))
}

fn own_or_same(caller: &Caller, name: &Value) -> Value {
    name.as_str()
        .and_then(|name| run_id(caller, name).ok())
        .map_or_else(|| name.clone(), |own| own.as_str().into())
}

/// The status and the body of a reply.
async fn taken(response: axum::response::Response) -> (u16, Value) {
    let status = response.status().as_u16();
    let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap_or_default();
    (status, serde_json::from_slice(&bytes).unwrap_or_default())
}

/// `POST /runs/{runId}:fork`
pub(super) async fn fork(mut call: CheckedRequest) -> HandlerResult {
    flatten_options(call.body.get_mut("runOptionsOverlay"))?;
    let (tenant, public_url) = (tenant(&call.caller), call.state.runs.public_url().to_owned());
    reply::mapped(history::fork(call).await?, |forked| Ok(linked(&tenant, &public_url, forked))).await
}

/// `GET /runs/{runId}:diff`
pub(super) async fn diff(mut call: CheckedRequest) -> HandlerResult {
    let tenant = tenant(&call.caller);
    if let Some(named) = call.query.text("against") {
        // The official client writes the id as in a path.
        let named = id::unprojected(named).unwrap_or_else(|| named.to_owned());
        let own = run_id(&call.caller, &named).map_err(|error| {
            Refusal::new(ApiCode::RunNotFound, error.to_string()).detail("field", "against")
        })?;
        call.query.set("against", own.as_str());
    }
    let (state, caller) = (call.state.clone(), call.caller.clone());
    let (status, mut difference) = taken(v1_runs::diff(call).await?).await;
    let mut sides = Vec::new();
    for side in ["a", "b"] {
        let own = difference[side].as_str().unwrap_or_default().to_owned();
        sides.push((own.clone(), events::context(&state, &caller.tenant, &own, u64::MAX).await?));
        reply::bind(&tenant, &mut difference, side);
    }
    for found in difference["eventDiffs"].as_array_mut().into_iter().flatten() {
        let sequence = found["seq"].clone();
        for (member, (own, projection)) in ["aEvent", "bEvent"].into_iter().zip(&mut sides) {
            let Some(Value::Object(compared)) = found.get_mut(member) else { continue };
            // Compared events have no envelope; only their types and payloads matter.
            let mut event = compared.clone();
            event.insert("runId".to_owned(), own.as_str().into());
            event.insert("sequence".to_owned(), sequence.clone());
            let mut translated = events::projected(projection, event)?;
            compared.insert("type".to_owned(), translated.remove("type").unwrap_or_default());
            compared.insert("payload".to_owned(), translated.remove("payload").unwrap_or_default());
        }
    }
    Ok(response::json(status, &difference))
}

/// `GET /runs/{runId}/ancestry`
pub(super) async fn ancestry(call: CheckedRequest) -> HandlerResult {
    let (tenant, host) = (tenant(&call.caller), host_id(&call.state));
    let map = |mut ancestry: Value| {
        reply::bind(&tenant, &mut ancestry, "runId");
        ancestry["hostId"] = host.as_str().into();
        if ancestry["parent"].is_object() {
            reply::bind(&tenant, &mut ancestry["parent"], "runId");
            ancestry["parent"]["hostId"] = host.as_str().into();
        }
        Ok(ancestry)
    };
    reply::mapped(v1_runs::ancestry(call).await?, map).await
}

/// The name of this host for others: that of its public address.
pub(super) fn host_id(state: &Service) -> String {
    let url = state.runs.public_url();
    let authority = url.split_once("://").map_or(url, |(_, rest)| rest);
    authority.split('/').next().unwrap_or_default().to_owned()
}

/// `GET /runs/{runId}/annotations`
pub(super) async fn annotations(call: CheckedRequest) -> HandlerResult {
    let tenant = tenant(&call.caller);
    let map = |mut list: Value| {
        for annotation in list["annotations"].as_array_mut().into_iter().flatten() {
            reply::bind(&tenant, &mut annotation["target"], "runId");
        }
        Ok(list)
    };
    reply::mapped(history::annotations(call).await?, map).await
}

/// `POST /runs/{runId}/annotations`
pub(super) async fn annotate(mut call: CheckedRequest) -> HandlerResult {
    // The path names the run.
    if let Some(Value::Object(target)) = call.body.get_mut("target") {
        target.remove("runId");
    }
    let tenant = tenant(&call.caller);
    let map = |mut annotation: Value| {
        reply::bind(&tenant, &mut annotation["target"], "runId");
        Ok(annotation)
    };
    reply::mapped(history::annotate(call).await?, map).await
}

/// `GET /runs/{runId}/artifacts/{artifactId}`
pub(super) async fn artifact(call: CheckedRequest) -> HandlerResult {
    let tenant = tenant(&call.caller);
    let map = |mut artifact: Value| {
        reply::bind(&tenant, &mut artifact, "runId");
        Ok(artifact)
    };
    reply::mapped(v1_runs::artifact(call).await?, map).await
}

/// `POST /runs/{runId}/interrupts/{nodeId}`
pub(super) async fn resolve(call: CheckedRequest) -> HandlerResult {
    check_closed(&call.body)?;
    let tenant = tenant(&call.caller);
    let map = |mut answered: Value| {
        reply::bind(&tenant, &mut answered, "runId");
        Ok(answered)
    };
    reply::mapped(interrupts::resolve(call).await?, map).await
}

/// A resolution has one member.
fn check_closed(body: &Value) -> Result<(), Refusal> {
    let unknown = body.as_object().and_then(|members| members.keys().find(|name| *name != "resumeValue"));
    match unknown {
        None => Ok(()),
        Some(_) => Err(Refusal::new(ApiCode::ValidationError, "The body must have only `resumeValue`.")),
    }
}

/// `GET /interrupts/{token}`
pub(super) async fn inspect_token(call: CheckedRequest) -> HandlerResult {
    let map = |interrupt: Value| {
        let mut interrupt = members(interrupt);
        interrupt.retain(|name, value| {
            ["kind", "key", "data", "resumeSchema", "timeoutMs"].contains(&name.as_str()) && !value.is_null()
        });
        Ok(interrupt.into())
    };
    reply::mapped(interrupts::inspect_token(call).await?, map).await
}

/// `POST /interrupts/{token}`
pub(super) async fn resolve_token(call: CheckedRequest) -> HandlerResult {
    check_closed(&call.body)?;
    let state = call.state.clone();
    let response = interrupts::resolve_token(call).await?;
    let (parts, body) = response.into_parts();
    let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
    let document: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    // The holder of a token has no tenant, but the run has one.
    let run_id = flow::id::RunId::new(document["runId"].as_str().unwrap_or_default());
    let tenant = state.runs.queries().tenant_of(&run_id).await?;
    let rebuilt = axum::response::Response::from_parts(parts, axum::body::Body::from(bytes));
    let map = |mut answered: Value| {
        if let Some(tenant) = &tenant {
            reply::bind(tenant.as_str(), &mut answered, "runId");
        }
        Ok(answered)
    };
    reply::mapped(rebuilt, map).await
}

/// `POST /webhooks`
pub(super) async fn register_webhook(mut call: CheckedRequest) -> HandlerResult {
    let tenant = tenant(&call.caller);
    // The host sends a secret back only if it generated it.
    let is_supplied = call.body["secret"].as_str().is_some_and(|secret| !secret.is_empty());
    // The names of version 1 are stored; events are translated when they are delivered.
    for name in call.body.get_mut("events").and_then(Value::as_array_mut).into_iter().flatten() {
        let Value::String(text) = &*name else { continue };
        let Some(row) = event::by_v2(text) else {
            let message = format!("`{text}` is not an event type of version 2.");
            return Err(Refusal::new(ApiCode::ValidationError, message).detail("field", "events"));
        };
        *name = row.v1.into();
    }
    let map = |mut registered: Value| {
        for name in registered["eventTypes"].as_array_mut().into_iter().flatten() {
            if let Some(row) = name.as_str().and_then(event::by_v1) {
                *name = row.v2.into();
            }
        }
        for member in ["webhookId", "subscriptionId"] {
            reply::bind(&tenant, &mut registered, member);
        }
        if let (true, Value::Object(members)) = (is_supplied, &mut registered) {
            members.remove("secret");
        }
        Ok(registered)
    };
    reply::mapped(webhooks::register(call).await?, map).await
}

/// `DELETE /webhooks/{webhookId}`
pub(super) async fn unregister_webhook(mut call: CheckedRequest) -> HandlerResult {
    call.query.remove("tenantId");
    webhooks::delete(call).await
}

/// `POST /webhooks/{webhookId}/rotate-secret`
pub(super) async fn rotate_secret(mut call: CheckedRequest) -> HandlerResult {
    call.query.remove("tenantId");
    webhooks::rotate_secret(call).await
}

/// How long a dead letter can be read at least, unless a subscription has a thousand newer ones.
pub(super) const DEAD_LETTER_DAYS: u64 = 30;

/// `GET /webhooks/{webhookId}/dead-letters`
pub(super) async fn dead_letters(call: CheckedRequest) -> HandlerResult {
    let tenant = tenant(&call.caller);
    let map = |mut list: Value| {
        for delivery in list["deliveries"].as_array_mut().into_iter().flatten() {
            reply::bind(&tenant, delivery, "runId");
            reply::bind(&tenant, delivery, "webhookId");
            let bound = id::delivery(&tenant, delivery["deliveryId"].as_str().unwrap_or_default());
            delivery["deliveryId"] = bound.into();
            if let Some(row) = delivery["eventType"].as_str().and_then(event::by_v1) {
                delivery["eventType"] = row.v2.into();
            }
            let buried = delivery["deadLetteredAt"].as_str().and_then(Timestamp::parse);
            if let Some(buried) = buried {
                delivery["expiresAt"] =
                    buried.plus(DEAD_LETTER_DAYS * 24 * 60 * 60 * 1000).to_rfc3339().into();
            }
            if let Value::Object(members) = delivery
                && members.remove("message").is_some_and(|message| message == "payload_unprojectable")
            {
                members.insert("reason".to_owned(), "payload_unprojectable".into());
            }
        }
        Ok(list)
    };
    reply::mapped(webhooks::dead_letters(call).await?, map).await
}

/// `GET /audit/verify`
pub(super) async fn verify(call: CheckedRequest) -> HandlerResult {
    for required in ["fromSeq", "toSeq"] {
        if call.query.text(required).is_none() {
            let message = format!("The query parameter `{required}` is required.");
            return Err(Refusal::new(ApiCode::ValidationError, message).detail("field", required));
        }
    }
    let map = |mut verified: Value| {
        let anomalies = verified["anomalies"].as_array_mut();
        for anomaly in anomalies.into_iter().flatten() {
            anomaly["kind"] = "chain-break".into();
        }
        // Entries that are missing break the chain too.
        if let Some(missing) = verified.get_mut("missing").map(Value::take)
            && let (Some(missing), Some(anomalies)) =
                (missing.as_array(), verified["anomalies"].as_array_mut())
        {
            anomalies.extend(
                missing.iter().map(|range| json!({"atSeq": range["fromSeq"], "kind": "chain-break"})),
            );
        }
        let mut shown = members(verified);
        shown.remove("missing");
        let is_valid = shown.get("anomalies").and_then(Value::as_array).is_none_or(Vec::is_empty);
        shown.insert("chainValid".to_owned(), is_valid.into());
        Ok(shown.into())
    };
    reply::mapped(history::verify(call).await?, map).await
}

/// `GET /tools`
pub(super) async fn tools(mut call: CheckedRequest) -> HandlerResult {
    let is_compact = call.query.text("view") == Some("compact");
    if !is_compact {
        call.query.remove("view");
    }
    call.query.remove("cursor");
    let map = |mut list: Value| {
        if let Value::Object(members) = &mut list {
            members.remove("nextCursor");
        }
        Ok(if is_compact { list } else { list["tools"].take() })
    };
    reply::mapped(v1_tools::list(call).await?, map).await
}

/// `GET /tools/{toolId}`
pub(super) async fn tool(mut call: CheckedRequest) -> HandlerResult {
    if call.query.text("view") != Some("compact") {
        call.query.remove("view");
    }
    v1_tools::read(call).await
}
