//! The service of runs on a real database, with a real clock unless a test says otherwise.

mod attempts;
mod audit;
mod availability;
mod checkpoints;
mod crashes;
mod damaged;
mod envelopes;
mod executors;
mod forks;
mod https;
mod live;
mod models;
mod modules;
mod nesting;
mod notes;
mod plugins;
mod prompts;
mod provider;
mod races;
pub(crate) mod requests;
mod restart;
mod retention;
mod secrets;
mod served;
mod side_by_side;
mod standard_webhooks;
mod stored_before;
mod surface_nodes;
mod tenants;
mod tools;
mod traces;
mod triggers;
mod unknown_outcomes;
mod warnings;
mod webhooks;

use std::path::Path;
use std::sync::Arc;

use ::executors::Executors;
use flow::definition::Capabilities;
use flow::engine::Limits;
use flow::event::wire::{RawEvent, decode_raw};
use flow::id::{InterruptId, NodeId, Principal, RunId, Tenant};
use flow::token::{Intent, InterruptToken};
use guided_node::GuidedNodes;
use ports::runs::RunStore;
use runs::audit::Anchors;
use runs::create::Creation;
use runs::{AuditKey, Caller, Direct, EndedRuns, Keyed, Options, Runs, Scope, StoredReply};
use serde_json::{Value, json};
use storage::sqlite::SqliteRuns;
use system::secrets::{NoSecrets, Secrets};
use system::{Clock, SystemClock, SystemEntropy};
use tempfile::TempDir;

use self::requests::new_run;
use crate::wait::Wait as _;

/// Settings that tests change.
/// The secret of interrupt tokens and session keys.
pub(crate) const SECRET: [u8; 32] = [7; 32];

pub(crate) struct Setup {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) secrets: Arc<dyn Secrets>,
    pub(crate) outbound: outbound::Client,
    pub(crate) executors: Option<Executors>,
    pub(crate) limits: Limits,
    pub(crate) guided_nodes: Option<GuidedNodes>,
    pub(crate) anchors: Option<Anchors>,
    pub(crate) ended_runs: Option<EndedRuns>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            clock: Arc::new(SystemClock),
            secrets: Arc::new(NoSecrets),
            outbound: outbound::Client::new(outbound::Reach::Public),
            executors: None,
            limits: Limits::default(),
            guided_nodes: None,
            anchors: None,
            ended_runs: None,
        }
    }
}

/// A host on a database in a folder.
pub(crate) fn open(folder: &Path, setup: Setup) -> (Runs, Arc<SqliteRuns>) {
    open_as(folder, setup, AuditKey::from_seed([9; 32]))
}

/// Like [`open`], with another key for the audit log.
pub(crate) fn open_with_key(folder: &Path, audit_key: AuditKey) -> (Runs, Arc<SqliteRuns>) {
    open_as(folder, Setup::default(), audit_key)
}

fn open_as(folder: &Path, setup: Setup, audit_key: AuditKey) -> (Runs, Arc<SqliteRuns>) {
    let store = Arc::new(SqliteRuns::open(&folder.join("runs.sqlite3")).unwrap());
    (on_as(Arc::clone(&store) as Arc<dyn RunStore>, setup, audit_key), store)
}

/// A host on a store.
pub(crate) fn on(store: Arc<dyn RunStore>, setup: Setup) -> Runs {
    on_as(store, setup, AuditKey::from_seed([9; 32]))
}

fn on_as(store: Arc<dyn RunStore>, setup: Setup, audit_key: AuditKey) -> Runs {
    Runs::new(Options {
        store,
        clock: setup.clock,
        entropy: Arc::new(SystemEntropy),
        limits: setup.limits,
        // Like a host with enabled conformance seams.
        capabilities: Capabilities { mock_agent: true, ..Capabilities::OURS },
        token_secrets: vec![SECRET],
        public_url: "http://127.0.0.1:7717".into(),
        audit_key,
        secrets: setup.secrets,
        outbound: setup.outbound,
        executors: setup.executors,
        guided_nodes: setup.guided_nodes,
        anchors: setup.anchors,
        ended_runs: setup.ended_runs,
    })
}

/// A host in its own folder, with a running clock.
pub(crate) struct Host {
    pub(crate) runs: Runs,
    pub(crate) store: Arc<SqliteRuns>,
    pub(crate) folder: TempDir,
}

impl Host {
    pub(crate) async fn start() -> Self {
        Self::with(Setup::default()).await
    }

    pub(crate) async fn with(setup: Setup) -> Self {
        Self::in_folder(TempDir::new().unwrap(), setup).await
    }

    pub(crate) async fn in_folder(folder: TempDir, setup: Setup) -> Self {
        let (runs, store) = open(folder.path(), setup);
        for workflow in workflows() {
            runs.definitions().register(&caller("acme"), &workflow).await.unwrap();
        }
        keep_time(&runs);
        Self { runs, store, folder }
    }
}

pub(crate) fn keep_time(runs: &Runs) {
    let runs = runs.clone();
    tokio::spawn(async move { runs.engine().keep_time().await });
}

pub(crate) fn caller(tenant: &str) -> Caller {
    Caller {
        tenant: Tenant::new(tenant),
        principal: Principal::new(format!("key-of-{tenant}")),
        scopes: Scope::ALL.to_vec(),
        test: false,
    }
}

pub(crate) fn workflow(id: &str, nodes: &Value, edges: &Value, variables: &Value) -> Value {
    let nodes: Vec<Value> = nodes
        .as_array()
        .unwrap()
        .iter()
        .map(|node| {
            json!({
                "id": node[0], "typeId": node[1], "name": node[0], "position": {"x": 0, "y": 0},
                "config": node[2], "inputs": node.get(3).cloned().unwrap_or(json!({})),
            })
        })
        .collect();
    json!({
        "id": id, "name": id, "version": "1", "nodes": nodes, "edges": edges,
        "triggers": [{"id": "manual", "type": "manual", "enabled": true}],
        "variables": variables, "metadata": {}, "settings": {"timeout": 0},
    })
}

/// The workflows that the tests run.
pub(crate) fn workflows() -> Vec<Value> {
    let payload = json!({"payload": {"type": "variable", "variableName": "payload", "optional": true}});
    let declared = json!([{"name": "payload", "type": "object", "defaultValue": {}}]);
    let gate = json!({"title": "Gate", "actions": ["accept", "reject"]});
    let call = |child: &str| json!({"workflowId": child});
    let next = |from: &str, to: &str| json!({"id": format!("{from}-{to}"), "sourceNodeId": from, "targetNodeId": to});
    let heavy: Vec<_> =
        (0..10).map(|place| json!([format!("n{place}"), "core.identity", {}, payload])).collect();
    let edges: Vec<_> = (1..10).map(|place| next(&format!("n{}", place - 1), &format!("n{place}"))).collect();
    vec![
        workflow("heavy", &json!(heavy), &json!(edges), &declared),
        workflow("echo", &json!([["echo", "core.identity", {}, payload]]), &json!([]), &declared),
        workflow(
            "chain",
            &json!([["a", "core.noop", {}], ["b", "core.noop", {}], ["c", "core.noop", {}]]),
            &json!([next("a", "b"), next("b", "c")]),
            &json!([]),
        ),
        workflow(
            "gated",
            &json!([
                ["before", "core.noop", {}],
                ["gate", "core.approvalGate", gate],
                ["after", "core.noop", {}]
            ]),
            &json!([next("before", "gate"), next("gate", "after")]),
            &json!([]),
        ),
        workflow("slow", &json!([["wait", "core.delay", {"delayMs": 600_000}]]), &json!([]), &json!([])),
        workflow("short", &json!([["wait", "core.delay", {"delayMs": 30}]]), &json!([]), &json!([])),
        workflow(
            "fails",
            &json!([["fail", "core.fail", {"code": "meant", "message": "meant"}]]),
            &json!([]),
            &json!([]),
        ),
        workflow("parent", &json!([["call", "core.subWorkflow", call("gated")]]), &json!([]), &json!([])),
        workflow("patient", &json!([["call", "core.subWorkflow", call("short")]]), &json!([]), &json!([])),
        workflow(
            "conformance-secret",
            &json!([["resolve", "conformance.secret.echo", {"secretId": "canary"}]]),
            &json!([]),
            &json!([]),
        ),
    ]
}

pub(crate) fn body(reply: &StoredReply) -> Value {
    serde_json::from_slice(&reply.body).unwrap()
}

pub(crate) async fn create(runs: &Runs, by: &Caller, request: &Value) -> RunId {
    runs.commands().create(by, new_run(request), Creation::default(), Direct).await.unwrap().run_id
}

/// A token to answer an interrupt with, as earlier versions issued it: without a holder.
pub(crate) fn anonymous_token(run_id: &RunId, interrupt: &Value) -> String {
    let text = |name: &str| interrupt[name].as_str().unwrap().to_owned();
    let token = InterruptToken {
        run_id: run_id.clone(),
        node_id: NodeId::new(text("nodeId")),
        interrupt_id: InterruptId::new(text("interruptId")),
        expires_at: u64::MAX >> 12,
        intent: Intent::Resolve,
        holder: None,
    };
    token.sign(&[7; 32])
}

pub(crate) async fn begin(runs: &Runs, workflow_id: &str) -> RunId {
    create(runs, &caller("acme"), &json!({"workflowId": workflow_id})).await
}

pub(crate) fn snapshot(runs: &Runs, by: &Caller, run_id: &RunId) -> Value {
    serde_json::from_slice(&runs.queries().read(by, run_id).wait().unwrap().0).unwrap()
}

pub(crate) fn status(runs: &Runs, run_id: &RunId) -> String {
    snapshot(runs, &caller("acme"), run_id)["status"].as_str().unwrap().to_owned()
}

/// Watches a run until an event satisfies the test, or the run ends.
pub(crate) async fn until(
    runs: &Runs,
    run_id: &RunId,
    wanted: impl Fn(&RawEvent) -> bool,
) -> Option<RawEvent> {
    let mut following = runs.queries().follow(&Tenant::new("acme"), run_id, 0).await.unwrap();
    loop {
        let batch = match following.stored().await.unwrap() {
            Some(batch) => batch,
            None => following.next().await.unwrap()?,
        };
        for (_, text) in batch.events {
            let event = decode_raw(text.as_bytes()).unwrap();
            if wanted(&event) {
                return Some(event);
            }
        }
    }
}

/// Watches a run until its end, and returns all its stored events.
pub(crate) async fn to_the_end(runs: &Runs, run_id: &RunId) -> Vec<Value> {
    until(runs, run_id, |event| event.kind.is_terminal())
        .await
        .expect("a run ends with an event that says so");
    events(runs, "acme", run_id)
}

/// The current events of a run.
pub(crate) fn events(runs: &Runs, tenant: &str, run_id: &RunId) -> Vec<Value> {
    let mut following = runs.queries().follow(&Tenant::new(tenant), run_id, 0).wait().unwrap();
    let mut events = Vec::new();
    while let Some(batch) = following.stored().wait().unwrap() {
        events.extend(batch.events.iter().map(|(_, text)| serde_json::from_str::<Value>(text).unwrap()));
    }
    events
}

pub(crate) fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

pub(crate) fn keyed(by: &Caller, endpoint: &str, key: &str, request: &Value) -> Keyed {
    Keyed::new(by, endpoint, key, request).unwrap()
}
