//! Nodes that the host executes.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use executors::modules::{ModuleType, Modules};
use executors::{Executors, Options};
use flow::event::EventKind;
use flow::id::{NodeId, Tenant};
use runs::Direct;
use sandbox::{Grants, Limits, Sandbox, conformance};
use serde_json::{Value, json};
use surfaces::Surfaces;

use super::{Host, Setup, begin, caller, create, kinds, snapshot, to_the_end, until, workflow};
use crate::runs::requests::new_fork;

/// Only surfaces.
pub(super) fn stores(folder: &Path) -> Executors {
    Executors::new(Options { surfaces: Some(Arc::new(open(folder))), ..Options::default() })
}

fn open(folder: &Path) -> Surfaces {
    Surfaces::open(&surfaces::Options::new(folder.join("surfaces"))).unwrap()
}

fn executors(folder: &Path) -> Executors {
    Executors::new(Options {
        surfaces: Some(Arc::new(open(folder))),
        modules: Some(modules()),
        ..Options::default()
    })
}

/// The example modules of the sandbox, as if from a pack. Compiled once, because a test may need many hosts.
fn modules() -> Modules {
    static MODULES: OnceLock<Modules> = OnceLock::new();
    MODULES.get_or_init(compiled).clone()
}

fn compiled() -> Modules {
    let sandbox = Sandbox::new().unwrap();
    let types = conformance::ALL.iter().filter(|example| example.type_id.starts_with("vendor."));
    let types = types.map(|example| {
        let kind = ModuleType {
            pack: "vendor.openwop.examples@1.0.0".to_owned(),
            module: sandbox.compile(example.bytes).unwrap(),
            grants: Grants::abi(),
            limits: Limits::DEFAULT,
        };
        (example.type_id.to_owned(), kind)
    });
    let types = types.collect();
    Modules::new(sandbox, types)
}

async fn host() -> (Host, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let host = Host::with(Setup { executors: Some(executors(folder.path())), ..Setup::default() }).await;
    (host, folder)
}

fn given(value: &Value) -> Value {
    json!({"type": "static", "value": value})
}

fn of(node: &str, output: &str) -> Value {
    json!({"type": "connection", "nodeId": node, "outputKey": output})
}

fn chain(ids: &[&str]) -> Value {
    let edge =
        |pair: &[&str]| json!({"id": pair.join("-"), "sourceNodeId": pair[0], "targetNodeId": pair[1]});
    ids.windows(2).map(edge).collect()
}

#[tokio::test]
async fn nodes_read_and_write_what_the_surfaces_keep() {
    let (host, _folder) = host().await;
    let nodes = json!([
        ["set", "core.storage.kv-set", {"namespace": "orders"}, {"key": given(&json!("a")), "value": given(&json!({"n": 1}))}],
        ["get", "core.storage.kv-get", {"namespace": "orders"}, {"key": given(&json!("a"))}],
        ["list", "core.storage.kv-list", {"namespace": "orders"}],
        ["other", "core.storage.kv-list", {"namespace": "other"}],
        ["push", "core.messaging.publish", {"topic": "t"}, {"payload": of("get", "value")}],
        ["pull", "core.messaging.consume", {"topic": "t"}],
        ["ack", "core.messaging.ack", {}, {"messageId": of("pull", "messageId")}],
        ["end", "core.end", {}, {
            "read": of("get", "value"), "keys": of("list", "keys"), "others": of("other", "keys"),
            "payload": of("pull", "payload"), "acked": of("ack", "acked"),
        }],
    ]);
    let edges = chain(&["set", "get", "list", "other", "push", "pull", "ack", "end"]);
    host.runs
        .definitions()
        .register(&caller("acme"), &workflow("stores", &nodes, &edges, &json!([])))
        .await
        .unwrap();
    let run_id = begin(&host.runs, "stores").await;
    let events = to_the_end(&host.runs, &run_id).await;
    let end = events.last().unwrap();
    assert_eq!(end["type"], "run.completed", "{end}");
    let outputs = json!({"read": {"n": 1}, "keys": ["a"], "others": [], "payload": {"n": 1}, "acked": true});
    assert_eq!(end["payload"]["outputs"], outputs);
}

#[tokio::test]
async fn a_call_that_a_surface_refuses_fails_its_node_with_the_code_of_the_surface() {
    let (host, _folder) = host().await;
    let key = "k".repeat(1 << 20);
    let nodes =
        json!([["set", "core.storage.kv-set", {}, {"key": given(&json!(key)), "value": given(&json!(1))}]]);
    host.runs
        .definitions()
        .register(&caller("acme"), &workflow("large", &nodes, &json!([]), &json!([])))
        .await
        .unwrap();
    let run_id = begin(&host.runs, "large").await;
    to_the_end(&host.runs, &run_id).await;
    let run = snapshot(&host.runs, &caller("acme"), &run_id);
    assert_eq!((&run["status"], &run["error"]["code"]), (&json!("failed"), &json!("kv_key_too_large")));
}

#[tokio::test]
async fn tenants_do_not_see_what_others_keep() {
    let (host, _folder) = host().await;
    let nodes = json!([
        ["add", "core.storage.kv-atomic-increment", {}, {"key": given(&json!("count"))}],
        ["end", "core.end", {}, {"value": of("add", "value")}],
    ]);
    let document = workflow("count", &nodes, &chain(&["add", "end"]), &json!([]));
    for tenant in ["acme", "other"] {
        let by = caller(tenant);
        host.runs.definitions().register(&by, &document).await.unwrap();
        let run_id = create(&host.runs, &by, &json!({"workflowId": "count"})).await;
        let mut following = host.runs.queries().follow(&Tenant::new(tenant), &run_id, 0).await.unwrap();
        while following.stored().await.unwrap().is_some() {}
        while following.next().await.unwrap().is_some() {}
        let events = super::events(&host.runs, tenant, &run_id);
        assert_eq!(events.last().unwrap()["payload"]["outputs"], json!({"value": 1}), "{tenant}");
    }
}

#[tokio::test]
async fn a_module_of_a_pack_is_a_node_and_one_that_takes_too_much_breaches_its_cap() {
    let (host, _folder) = host().await;
    let by = caller("acme");
    let variables = json!([{"name": "name", "type": "string", "defaultValue": "world"}]);
    let greet = json!([["greet", "vendor.openwop.rust-hello.greet", {}]]);
    host.runs.definitions().register(&by, &workflow("greet", &greet, &json!([]), &variables)).await.unwrap();
    let run_id = begin(&host.runs, "greet").await;
    let events = to_the_end(&host.runs, &run_id).await;
    let outputs = &events.last().unwrap()["payload"]["outputs"]["greet"];
    assert_eq!(outputs["greeting"], "Hello, world!", "{outputs}");
    let bomb = json!([["bomb", "vendor.openwop.misbehaving.memory-bomb", {}]]);
    host.runs.definitions().register(&by, &workflow("bomb", &bomb, &json!([]), &json!([]))).await.unwrap();
    let run_id = begin(&host.runs, "bomb").await;
    let events = to_the_end(&host.runs, &run_id).await;
    assert_eq!(kinds(&events)[2..], ["cap.breached", "node.failed", "run.failed"]);
    assert_eq!(events[2]["payload"]["kind"], "wasm-memory");
}

/// A workflow whose only node, `gate`, waits for an interrupt during its effect.
pub(super) fn asking(id: &str, way: &str) -> Value {
    let variables = json!([{"name": "n", "type": "number", "defaultValue": 5}]);
    let nodes = json!([["gate", format!("vendor.openwop.asking.{way}"), {}]]);
    workflow(id, &nodes, &json!([]), &variables)
}

/// Only the modules of packs.
pub(super) fn modules_only() -> Executors {
    Executors::new(Options { modules: Some(modules()), ..Options::default() })
}

#[tokio::test]
async fn a_module_that_waits_is_run_again_with_the_answer() {
    let (host, _folder) = host().await;
    let by = caller("acme");
    let cases = [
        ("by-ending", json!({"answer": {"picked": 2}})),
        // The module gets the value that it read before its question, although the variable has changed since then.
        ("by-call", json!({"answer": {"picked": 2}, "n": 5})),
    ];
    for (way, expected) in cases {
        host.runs.definitions().register(&by, &asking(way, way)).await.unwrap();
        let run_id = begin(&host.runs, way).await;
        until(&host.runs, &run_id, |event| event.kind == EventKind::InterruptRequested).await.unwrap();
        assert_eq!(snapshot(&host.runs, &by, &run_id)["status"], "waiting-input", "{way}");
        let change = json!({"n": 6}).as_object().unwrap().clone();
        host.runs.commands().assign(&by, &run_id, change, Direct).await.unwrap();
        host.runs
            .commands()
            .resolve(&by, &run_id, &NodeId::new("gate"), json!({"picked": 2}), Direct)
            .await
            .unwrap();
        let events = to_the_end(&host.runs, &run_id).await;
        assert_eq!(events.last().unwrap()["payload"]["outputs"]["gate"], expected, "{way}: {events:#?}");
        let set = events.iter().filter(|event| event["payload"]["name"] == "asked").count();
        assert_eq!(set, usize::from(way == "by-call"), "what it set before it asked is set once");
        let log = serde_json::to_string(&events).unwrap();
        assert!(!log.contains("journal"), "what is kept for the second run is in no event");

        let made = host.runs.engine().counts().activities;
        let reply = host
            .runs
            .commands()
            .fork(&by, &run_id, new_fork(&json!({"mode": "replay", "fromSeq": 0})), Direct)
            .await
            .unwrap();
        let fork_id = reply.run_id;
        let again = to_the_end(&host.runs, &fork_id).await;
        assert_eq!(kinds(&again), kinds(&events), "{way}");
        assert_eq!(host.runs.engine().counts().activities, made, "a replay runs no module");
    }
}

#[tokio::test]
async fn a_branch_answers_its_own_copy_of_a_module_question() {
    let (host, _folder) = host().await;
    let by = caller("acme");
    for way in ["by-ending", "by-call"] {
        host.runs.definitions().register(&by, &asking(way, way)).await.unwrap();
        let run_id = begin(&host.runs, way).await;
        let asked = until(&host.runs, &run_id, |event| event.kind == EventKind::InterruptRequested).await;
        let from = asked.unwrap().sequence + 1;
        let reply = host
            .runs
            .commands()
            .fork(&by, &run_id, new_fork(&json!({"mode": "branch", "fromSeq": from})), Direct)
            .await
            .unwrap();
        let fork_id = reply.run_id;
        host.runs
            .commands()
            .resolve(&by, &fork_id, &NodeId::new("gate"), json!("mine"), Direct)
            .await
            .unwrap();
        let events = to_the_end(&host.runs, &fork_id).await;
        assert_eq!(events.last().unwrap()["payload"]["outputs"]["gate"]["answer"], "mine", "{way}");
        assert_eq!(snapshot(&host.runs, &by, &run_id)["status"], "waiting-input", "its source still waits");
    }
}

#[tokio::test]
async fn a_replay_repeats_the_reports_of_a_module_without_running_it() {
    let (host, _folder) = host().await;
    let by = caller("acme");
    let greet = json!([["greet", "vendor.openwop.rust-hello.greet", {}, {"name": given(&json!("Ada"))}]]);
    host.runs.definitions().register(&by, &workflow("greet", &greet, &json!([]), &json!([]))).await.unwrap();
    let run_id = begin(&host.runs, "greet").await;
    let first = to_the_end(&host.runs, &run_id).await;
    let made = host.runs.engine().counts().activities;
    let fork = json!({"mode": "replay", "fromSeq": 1});
    let reply = host.runs.commands().fork(&by, &run_id, new_fork(&fork), Direct).await.unwrap();
    let fork_id = reply.run_id;
    let second = to_the_end(&host.runs, &fork_id).await;
    assert_eq!(kinds(&first), kinds(&second));
    assert_eq!(first.last().unwrap()["payload"]["outputs"], second.last().unwrap()["payload"]["outputs"]);
    assert_eq!(host.runs.engine().counts().activities, made);
}

#[tokio::test]
async fn unsupported_nodes_are_refused_at_registration() {
    let host = Host::start().await;
    let cases = [
        ("core.storage.kv-get", "capability_required"),
        ("core.ai.callPrompt", "capability_required"),
        ("vendor.openwop.rust-hello.greet", "validation_error"),
    ];
    for (kind, code) in cases {
        let document = workflow("needs", &json!([["n", kind, {}]]), &json!([]), &json!([]));
        let refusal = host.runs.definitions().register(&caller("acme"), &document).await.unwrap_err();
        assert_eq!(refusal.code.as_str(), code, "{kind}");
    }
}
