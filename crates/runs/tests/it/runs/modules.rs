//! The reads and writes of modules, and what remains of them when modules fail, wait, or are forked.

mod packed;
mod script;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use flow::event::EventKind;
use flow::id::{NodeId, RunId};
use runs::Direct;
use sandbox::Limits;
use serde_json::{Value, json};
use system::Clock;

use self::script::Script;
use super::{Host, Setup, begin, caller, events, snapshot, status, to_the_end, until, workflow};
use crate::runs::requests::new_fork;

const TYPE: &str = "vendor.acme.scripted.run";

/// A clock that never returns the same time twice.
struct Steps(AtomicU64);

impl Clock for Steps {
    fn now_ms(&self) -> u64 {
        1_793_000_000_000 + self.0.fetch_add(7, Ordering::Relaxed)
    }
}

/// A host with one workflow, `scripted`, whose node `m` executes the script.
async fn host(script: Script, channels: &Value) -> Host {
    limited(script, channels, Limits { wall_clock: Duration::from_secs(300), ..Limits::DEFAULT }).await
}

async fn limited(script: Script, channels: &Value, limits: Limits) -> Host {
    let clock = Arc::new(Steps(AtomicU64::new(0)));
    let executors = Some(script.executors(TYPE, limits));
    let host = Host::with(Setup { clock, executors, ..Setup::default() }).await;
    let mut document = workflow("scripted", &json!([["m", TYPE, {}]]), &json!([]), &json!([]));
    document["channels"] = channels.clone();
    host.runs.definitions().register(&caller("acme"), &document).await.unwrap();
    host
}

/// The channel writes, in order.
fn written(log: &[Value]) -> Vec<(&str, &Value)> {
    let writes = log.iter().filter(|event| event["type"] == "channel.written");
    writes.map(|event| (event["payload"]["channel"].as_str().unwrap(), &event["payload"]["value"])).collect()
}

fn variables(host: &Host, run_id: &RunId) -> Value {
    snapshot(&host.runs, &caller("acme"), run_id)["variables"].clone()
}

async fn fork(host: &Host, run_id: &RunId, mode: &str, from: u64) -> RunId {
    let request = json!({"mode": mode, "fromSeq": from});
    let reply = host.runs.commands().fork(&caller("acme"), run_id, new_fork(&request), Direct).await.unwrap();
    reply.run_id
}

async fn until_it_asks(host: &Host, run_id: &RunId) -> u64 {
    until(&host.runs, run_id, |event| event.kind == EventKind::InterruptRequested).await.unwrap().sequence
}

async fn answer(host: &Host, run_id: &RunId) -> Vec<Value> {
    host.runs
        .commands()
        .resolve(&caller("acme"), run_id, &NodeId::new("m"), json!("yes"), Direct)
        .await
        .unwrap();
    to_the_end(&host.runs, run_id).await
}

#[tokio::test]
async fn a_module_reads_what_was_there_and_its_own_writes_which_are_recorded_in_order_and_once() {
    let script = Script::default()
        .read("log", "before")
        .write("log", r#""b""#, "first")
        .write("total", "2", "second")
        .read("log", "between")
        .write("log", r#""c""#, "third")
        .write("total", "3", "fourth")
        .read("log", "after")
        .read("total", "sum");
    let channels = json!({
        "log": {"reducer": "append", "default": ["a"], "schemaVersion": 3},
        "total": {"reducer": "counter"},
    });
    let host = host(script, &channels).await;
    let run_id = begin(&host.runs, "scripted").await;
    let log = to_the_end(&host.runs, &run_id).await;
    let found = variables(&host, &run_id);
    for status in ["first", "second", "third", "fourth"] {
        assert_eq!(found[status], 0, "{status}");
    }
    assert_eq!(
        (&found["before"], &found["between"], &found["after"], &found["sum"]),
        (&json!(["a"]), &json!(["a", "b"]), &json!(["a", "b", "c"]), &json!(5))
    );
    let writes = [("log", &json!("b")), ("total", &json!(2)), ("log", &json!("c")), ("total", &json!(3))];
    assert_eq!(written(&log), writes);
    let first = log.iter().find(|event| event["type"] == "channel.written").unwrap();
    let payload = &first["payload"];
    assert_eq!(
        (&payload["reducer"], &payload["schemaVersion"], &payload["nodeId"], &first["nodeId"]),
        (&json!("append"), &json!(3), &json!("m"), &json!("m"))
    );
    assert_eq!(payload["writtenAt"], first["timestamp"]);
    let shown = &snapshot(&host.runs, &caller("acme"), &run_id)["channels"];
    assert_eq!(*shown, json!({"log": ["a", "b", "c"], "total": 5}));

    // A replay repeats the writes without running a module.
    let made = host.runs.engine().counts().activities;
    let repeated = to_the_end(&host.runs, &fork(&host, &run_id, "replay", 0).await).await;
    assert_eq!(written(&repeated), writes);
    assert_eq!(host.runs.engine().counts().activities, made);
}

#[tokio::test]
async fn a_write_that_a_channel_does_not_take_has_the_status_that_says_why() {
    let open = |access: Value| json!({"reducer": "replace", "default": "kept", "access": access});
    let channels = json!({
        "private": open(json!("private")),
        "others": open(json!({"writers": ["somebody"]})),
        "unread": open(json!({"readers": []})),
        "mine": open(json!({"writers": ["m"]})),
        "kind": open(json!({"writers": ["vendor.acme.*"]})),
        "total": {"reducer": "counter"},
        "typed": {"reducer": "replace", "schema": {"type": "string"}},
        "small": {"reducer": "merge", "maxSize": 1},
    });
    // Channel, value, status, whether it was written, and the value that is read afterwards.
    let rows = [
        ("undeclared", "1", 1, Value::Null),
        ("private", "1", 1, Value::Null),
        ("others", "1", 1, json!("kept")),
        ("unread", "1", 0, Value::Null),
        ("mine", "1", 0, json!(1)),
        ("kind", "1", 0, json!(1)),
        ("total", r#""one""#, 10, Value::Null),
        ("typed", "1", 10, Value::Null),
        ("typed", r#""text""#, 0, json!("text")),
        ("small", r#"{"a":1,"b":2}"#, 10, Value::Null),
        ("small", r#"{"a":1}"#, 0, json!({"a": 1})),
        ("total", "no json", 10, Value::Null),
    ];
    let mut script = Script::default();
    for (place, (channel, value, _, _)) in rows.iter().enumerate() {
        script =
            script.write(channel, value, &format!("status{place}")).read(channel, &format!("read{place}"));
    }
    // A variable with the name of a channel cannot be set.
    script = script.set("mine", "2", "set").get("unread", "got").get("total", "unset");
    let host = host(script, &channels).await;
    let run_id = begin(&host.runs, "scripted").await;
    let log = to_the_end(&host.runs, &run_id).await;
    assert_eq!(log.last().unwrap()["type"], "run.completed", "{log:#?}");
    let found = variables(&host, &run_id);
    for (place, (channel, value, status, read)) in rows.iter().enumerate() {
        let (reported, seen) = (&found[format!("status{place}")], &found[format!("read{place}")]);
        assert_eq!((reported, seen), (&json!(status), read), "{channel} {value}");
    }
    assert_eq!((&found["set"], &found["got"]), (&json!(10), &Value::Null));
    let accepted = rows.iter().filter(|(_, _, status, _)| *status == 0).map(|(channel, ..)| *channel);
    assert_eq!(
        written(&log).into_iter().map(|(channel, _)| channel).collect::<Vec<_>>(),
        accepted.collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn a_module_that_fails_leaves_nothing_that_it_wrote() {
    let writes = || Script::default().write("log", "1", "status").set("seen", "true", "set");
    let cases = [
        ("it says so", writes().fail(), "meant", "meant"),
        ("it traps", writes().trap(), "sandbox_trap", "unreachable"),
        (
            "it writes too often",
            writes().write_often("log", "1", 1000),
            "sandbox_abi_violation",
            "more than 1000 times",
        ),
    ];
    for (what, script, code, message) in cases {
        let host = host(script, &json!({"log": {"reducer": "append"}})).await;
        let run_id = begin(&host.runs, "scripted").await;
        let log = to_the_end(&host.runs, &run_id).await;
        let error = &snapshot(&host.runs, &caller("acme"), &run_id)["error"];
        assert_eq!(error["code"], code, "{what}");
        assert!(error["message"].as_str().unwrap().contains(message), "{what}: {error}");
        assert_eq!(written(&log), [], "{what}");
        assert_eq!(variables(&host, &run_id), json!({}), "{what}");
    }
}

#[tokio::test]
async fn what_a_module_wrote_before_it_waited_is_recorded_when_it_waits_and_never_again() {
    let script = Script::default()
        .write("log", "1", "first")
        .ask()
        .read("log", "between")
        .write("log", "2", "second")
        .ask()
        .read("log", "after");
    let host = host(script, &json!({"log": {"reducer": "append"}})).await;
    let run_id = begin(&host.runs, "scripted").await;
    until_it_asks(&host, &run_id).await;
    let one = json!(1);
    assert_eq!(written(&events(&host.runs, "acme", &run_id)), [("log", &one)]);
    host.runs
        .commands()
        .resolve(&caller("acme"), &run_id, &NodeId::new("m"), json!("yes"), Direct)
        .await
        .unwrap();
    until(&host.runs, &run_id, |event| {
        event.kind == EventKind::InterruptRequested
            && event.payload["interruptId"].as_str().unwrap().ends_with(":1")
    })
    .await
    .unwrap();
    let log = answer(&host, &run_id).await;
    assert_eq!(written(&log), [("log", &json!(1)), ("log", &json!(2))]);
    let found = variables(&host, &run_id);
    assert_eq!((&found["between"], &found["after"]), (&json!([1]), &json!([1, 2])));
}

/// Reads the clock and draws a number before and after its question, and reports all of it at the end.
fn looks_twice() -> Script {
    Script::default().look().ask().tell("time1", "drawn1").look().tell("time2", "drawn2")
}

#[tokio::test]
async fn a_branch_of_a_module_that_waits_finds_what_its_source_found_before() {
    let host = host(looks_twice(), &json!({})).await;
    let run_id = begin(&host.runs, "scripted").await;
    let from = until_it_asks(&host, &run_id).await + 1;
    let child = fork(&host, &run_id, "branch", from).await;
    let grandchild = fork(&host, &child, "branch", from).await;
    // Another run shows that the numbers could have been different.
    let other = begin(&host.runs, "scripted").await;
    until_it_asks(&host, &other).await;
    answer(&host, &other).await;
    answer(&host, &grandchild).await;
    answer(&host, &child).await;
    assert_eq!(status(&host.runs, &run_id), "waiting-input", "the source still waits");
    answer(&host, &run_id).await;
    let source = variables(&host, &run_id);
    for run_id in [&child, &grandchild] {
        let found = variables(&host, run_id);
        for name in ["time1", "drawn1", "drawn2"] {
            assert_eq!(found[name], source[name], "{name}");
        }
        assert_ne!(found["time2"], source["time2"], "what it does after the answer, it does at its own time");
    }
    let others = variables(&host, &other);
    assert!(others["time1"] != source["time1"] && others["drawn1"] != source["drawn1"]);
}

#[tokio::test]
async fn a_replay_of_a_module_that_waited_repeats_all_that_it_found() {
    let host = host(looks_twice(), &json!({})).await;
    let run_id = begin(&host.runs, "scripted").await;
    let from = until_it_asks(&host, &run_id).await + 1;
    answer(&host, &run_id).await;
    for from in [0, from] {
        let repeated = fork(&host, &run_id, "replay", from).await;
        to_the_end(&host.runs, &repeated).await;
        assert_eq!(variables(&host, &repeated), variables(&host, &run_id), "from {from}");
    }
}

#[tokio::test]
async fn a_branch_from_before_a_module_is_a_run_of_its_own() {
    let host = host(looks_twice(), &json!({})).await;
    let run_id = begin(&host.runs, "scripted").await;
    until_it_asks(&host, &run_id).await;
    let child = fork(&host, &run_id, "branch", 1).await;
    until_it_asks(&host, &child).await;
    answer(&host, &child).await;
    answer(&host, &run_id).await;
    let (own, source) = (variables(&host, &child), variables(&host, &run_id));
    assert!(own["time1"] != source["time1"] && own["drawn1"] != source["drawn1"]);
}

#[tokio::test]
async fn a_module_gets_the_context_of_its_call() {
    let host = host(Script::default().request("request"), &json!({})).await;
    let by = caller("acme");
    let request = json!({"workflowId": "scripted", "configurable": {"acme.x": 1}});
    let run_id = super::create(&host.runs, &by, &request).await;
    to_the_end(&host.runs, &run_id).await;
    let request = &variables(&host, &run_id)["request"];
    assert_eq!((&request["abiVersion"], &request["inputs"]), (&json!(1), &json!({})), "{request}");
    let context = &request["nodeContext"];
    assert_eq!(
        *context,
        json!({
            "runId": run_id, "nodeId": "m", "tenantId": "acme", "attempt": 0,
            "configurable": {"acme.x": 1}, "agent": null, "config": {},
        })
    );
}

#[tokio::test]
async fn a_module_that_exceeds_a_limit_is_stopped_and_the_breach_is_recorded_before_the_run_fails() {
    let cases = [
        (Limits { wall_clock: Duration::from_millis(20), ..Limits::DEFAULT }, "wasm-execution-time", 20),
        (Limits { fuel: Some(10_000), ..Limits::DEFAULT }, "wasm-fuel", 10_000),
    ];
    for (limits, kind, limit) in cases {
        let host = limited(Script::default().forever(), &json!({}), limits).await;
        let run_id = begin(&host.runs, "scripted").await;
        let log = to_the_end(&host.runs, &run_id).await;
        assert_eq!(super::kinds(&log)[2..], ["cap.breached", "node.failed", "run.failed"], "{kind}");
        let breach = &log[2]["payload"];
        assert_eq!(
            (&breach["kind"], &breach["limit"], &breach["nodeId"]),
            (&json!(kind), &json!(limit), &json!("m"))
        );
        assert!(breach["observed"].as_u64().unwrap() > limit, "{breach}");
    }
}
