//! Seams for conformance suites. They exist only if the host was started for tests.

use std::time::Duration;

use canon::digest::Digest;
use flow::event::EventKind;
use flow::id::{NodeId, RunId, WorkflowId};
use flow::snapshot::RunView;
use flow::trace::{Attribute, Span};
use runs::create::Creation;
use runs::{ApiCode, CreatedRun, Direct, NewRun, Refusal};
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::super::bodies::runs::{Assigned, RunReference, SetVariables};
use super::super::bodies::written;
use super::super::exchange::CheckedRequest;
use super::super::response;
use super::super::route::HandlerResult;
use super::super::test_log::SeamEvent;

/// The maximum number of children in a fan-out.
const MAX_CHILDREN: usize = 32;
/// How much longer each child takes than the next one, in milliseconds: the children then end in another order than they began in.
const STEP_MS: usize = 100;
/// The maximum duration of a fan-out.
const LONGEST: Duration = Duration::from_secs(30);
/// The prefix of the ids of fan-out workflows.
const PARENT: &str = "conformance-seam-fanout";

/// `GET /v1/host/sample/test/runs/{runId}/events`
pub(in super::super) async fn events(call: CheckedRequest) -> HandlerResult {
    let run_id = call.run_id();
    let beside = call.state.test_log.events(call.caller.tenant.as_str(), run_id.as_str());
    let mut events = match recorded(&call, &run_id).await {
        Ok(events) => events,
        // Seams also record events for runs that do not exist.
        Err(refusal) if refusal.code == ApiCode::RunNotFound && !beside.is_empty() => Vec::new(),
        Err(refusal) => return Err(refusal),
    };
    events.extend(beside);
    let is_wanted =
        |name: &str, found: Option<&str>| call.query.text(name).is_none_or(|wanted| found == Some(wanted));
    events.retain(|event| {
        let cause = event.causation_id.as_deref();
        is_wanted("type", Some(event.kind.as_str()))
            && is_wanted("nodeId", event.node_id.as_ref().map(NodeId::as_str))
            && is_wanted("causationId", cause)
            // Events caused by an envelope have its correlation id as their cause.
            && is_wanted("correlationId", cause)
    });
    Ok(response::json(200, &json!({"events": events})))
}

/// `GET /v1/host/sample/test/otel/spans`: the spans of an ended run and of envelopes.
pub(in super::super) async fn spans(call: CheckedRequest) -> HandlerResult {
    if !call.state.settings.test_spans {
        return Err(Refusal::new(ApiCode::NotFound, "this host does not expose trace spans"));
    }
    let Some(run_id) = call.query.text("runId") else {
        return Err(Refusal::new(ApiCode::ValidationError, "`runId` is required").detail("field", "runId"));
    };
    let beside = call.state.test_log.spans(call.caller.tenant.as_str(), run_id);
    let run_id = RunId::new(run_id);
    // A run of another tenant counts as not found.
    let mut spans: Vec<Value> = match call.state.runs.read(&call.caller, &run_id).await {
        Ok(_) => call.state.runs.trace(&run_id).await?.iter().map(span).collect(),
        Err(refusal) if refusal.code == ApiCode::RunNotFound && !beside.is_empty() => Vec::new(),
        Err(refusal) => return Err(refusal),
    };
    spans.extend(beside);
    Ok(response::json(200, &json!({"spans": spans})))
}

fn span(span: &Span) -> Value {
    let attribute = |value: &Attribute| match value {
        Attribute::Text(text) => json!(text),
        Attribute::Texts(texts) => json!(texts),
        Attribute::Integer(number) => json!(number),
        Attribute::Number(number) => json!(number),
        Attribute::Flag(flag) => json!(flag),
    };
    let attributes: Map<_, _> =
        span.attributes.iter().map(|(name, value)| ((*name).to_owned(), attribute(value))).collect();
    let moments = span
        .moments
        .iter()
        .map(|moment| json!({"name": moment.kind, "attributes": {"sequence": moment.sequence}}));
    json!({"name": span.name, "attributes": attributes, "events": moments.collect::<Vec<_>>()})
}

/// `GET /v1/host/sample/test/runs/{runId}/variables`
pub(in super::super) async fn variables(call: CheckedRequest) -> HandlerResult {
    let (run, _) = call.state.runs.view(&call.caller, &call.run_id()).await?;
    Ok(response::json(200, &json!({"variables": run.variables})))
}

/// `POST /v1/host/sample/test/runs/{runId}/variables`
pub(in super::super) async fn set_variables(mut call: CheckedRequest) -> HandlerResult {
    let SetVariables { variables } = call.read_body()?;
    let run_id = &call.run_id();
    let updated: &[String] = &variables.0.keys().cloned().collect::<Vec<_>>();
    let respond = call.respond(|()| written(200, &Assigned { run_id, updated }));
    Ok(call.reply(call.state.runs.assign(&call.caller, run_id, variables.0, respond).await?))
}

/// `POST /v1/host/sample/test/debug-bundle/export`
pub(in super::super) async fn bundle(mut call: CheckedRequest) -> HandlerResult {
    let RunReference { run_id } = call.read_body()?;
    let mut bundle = call.state.runs.debug_bundle(&call.caller, &RunId::new(run_id.0), None).await?;
    // Some clients read one level deeper.
    bundle["bundle"] = bundle.clone();
    Ok(response::json(200, &bundle))
}

/// `POST /v1/host/sample/dispatch/fanout`: a real run with a real dispatch, whose children only wait.
pub(in super::super) async fn fan_out(call: CheckedRequest) -> HandlerResult {
    let wrong = |message: &str| Refusal::new(ApiCode::ValidationError, message);
    let ids = call.body.get("nextWorkerIds").and_then(Value::as_array);
    let ids: Option<Vec<&str>> = ids.and_then(|ids| ids.iter().map(Value::as_str).collect());
    let Some(ids) = ids.filter(|ids| (2..=MAX_CHILDREN).contains(&ids.len())) else {
        return Err(wrong("`nextWorkerIds` must be a list of 2 to 32 strings"));
    };
    let config = call.body.get("config").cloned().unwrap_or_default();
    if config.get("fanOutPolicy").and_then(Value::as_str) != Some("parallel") {
        return Err(wrong("`config.fanOutPolicy` must be `parallel`"));
    }
    let quorum = config.pointer("/joinPolicy/quorum").and_then(Value::as_u64);
    if quorum.is_some_and(|quorum| quorum > ids.len() as u64) {
        return Err(wrong("`config.joinPolicy.quorum` is larger than the number of children"));
    }
    // The workflow ids depend on the request: the same request uses the same workflows, and another one cannot change those of active runs.
    let count = ids.len();
    let children: Vec<String> = (0..count).map(|place| format!("{PARENT}-child-{count}-{place}")).collect();
    let asked = Digest::of_bytes(config.to_string().as_bytes()).to_hex();
    let parent = format!("{PARENT}-{count}-{asked}");
    for (place, child) in children.iter().enumerate() {
        let wait = (count - place) * STEP_MS;
        let node = node("wait", "core.delay", &json!({"delayMs": wait}));
        call.state.runs.register(&call.caller, &workflow(child, &[node], &json!([]))).await?;
    }
    let plan = json!({"mockDispatchPlan": [
        {"kind": "next-worker", "nextWorkerIds": children}, {"kind": "terminate", "reason": "goal-reached"},
    ]});
    let nodes =
        [node("decide", "core.orchestrator.supervisor", &plan), node("dispatch", "core.dispatch", &config)];
    let edges = json!([
        {"id": "there", "sourceNodeId": "decide", "targetNodeId": "dispatch"},
        {"id": "back", "sourceNodeId": "dispatch", "targetNodeId": "decide"},
    ]);
    call.state.runs.register(&call.caller, &workflow(&parent, &nodes, &edges)).await?;
    let new = NewRun::of(WorkflowId::new(parent));
    let CreatedRun { run_id, .. } =
        call.state.runs.create(&call.caller, new, Creation::default(), Direct).await?;
    let late = |_| Refusal::unavailable("the child runs did not finish in time", 1);
    let (events, run) = timeout(LONGEST, ended(&call, &run_id)).await.map_err(late)??;
    Ok(response::json(200, &joined(events, &run, &ids, &children)))
}

/// The outcomes of the children, under the names that the caller gave them.
fn joined(events: Vec<SeamEvent>, run: &RunView, ids: &[&str], children: &[String]) -> Value {
    let join = events.into_iter().find(|event| event.kind == EventKind::DispatchJoin);
    let mut result = join.map_or_else(|| json!({}), |join| join.payload);
    let named = run.child_runs.iter().map(|child| {
        let place = children.iter().position(|known| child.workflow_id.as_str() == known);
        json!({
            "workflowId": place.and_then(|place| ids.get(place)),
            "childRunId": child.run_id,
            "childStatus": child.status,
        })
    });
    result["children"] = named.collect();
    result
}

fn node(id: &str, type_id: &str, config: &Value) -> Value {
    json!({"id": id, "typeId": type_id, "name": id, "position": {"x": 0, "y": 0}, "config": config, "inputs": {}})
}

fn workflow(id: &str, nodes: &[Value], edges: &Value) -> Value {
    json!({
        "id": id, "name": id, "version": "1", "nodes": nodes, "edges": edges,
        "triggers": [{"id": "manual", "type": "manual"}], "variables": [],
        "metadata": Map::new(), "settings": Map::new(),
    })
}

/// The events so far.
pub(super) async fn recorded(call: &CheckedRequest, run_id: &RunId) -> Result<Vec<SeamEvent>, Refusal> {
    let mut following = call.state.runs.follow(&call.caller.tenant, run_id, 0).await?;
    let mut events = Vec::new();
    while let Some(batch) = following.stored().await? {
        events.extend(batch.decoded()?.into_iter().map(|event| SeamEvent::logged(run_id, event)));
    }
    Ok(events)
}

/// Waits until a run ends.
async fn ended(call: &CheckedRequest, run_id: &RunId) -> Result<(Vec<SeamEvent>, RunView), Refusal> {
    let mut following = call.state.runs.follow(&call.caller.tenant, run_id, 0).await?;
    while following.stored().await?.is_some() {}
    while following.next().await?.is_some() {}
    let (run, _) = call.state.runs.view(&call.caller, run_id).await?;
    Ok((recorded(call, run_id).await?, run))
}
