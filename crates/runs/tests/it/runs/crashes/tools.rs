//! The host dies at every commit of a run whose agent uses tools. No reply is paid for twice, and no tool is executed twice.

use serde_json::{Value, json};

use super::super::provider::{ModelServer, reply, wants};
use super::super::tools::{Mcp, document, executors, tool};
use super::super::{caller, snapshot};
use super::client::Client;
use super::mortal::{Death, live};
use super::{Setup, folder};

#[test]
fn no_tool_is_executed_twice_and_no_reply_is_paid_for_twice_whenever_the_host_dies() {
    let increment = ("openwop_core_storage_kv-atomic-increment", json!({"key": "count"}));
    let replies = vec![
        wants(&[("mcp_weather_note", json!({"text": "a"})), increment]),
        wants(&[("mcp_weather_forecast", json!({"city": "Ulm"}))]),
        reply("done"),
    ];
    let tools = json!([
        tool("mcp:weather:note"),
        tool("mcp:weather:forecast"),
        {"name": "openwop:core.storage.kv-atomic-increment", "kind": "node-pack"},
    ]);
    let document = document(&tools, &json!({}));
    let (mut completed, mut unknown) = (0, 0);
    for at in 1..=40 {
        for made in [false, true] {
            let folder = folder();
            let (model, mcp) = (ModelServer::start(replies.clone()), Mcp::start());
            let setup = || Setup {
                executors: Some(executors(folder.path(), &model.base, &mcp.url)),
                ..Setup::default()
            };
            live(folder.path(), None, setup(), async |runs, _| {
                runs.definitions().register(&caller("acme"), &document).await.unwrap();
            });
            let (mut client, mut run, mut log) = (Client::default(), Value::Null, Vec::new());
            let mut first = None;
            for death in [Some(Death { at, made }), None] {
                let commits = live(folder.path(), death, setup(), async |runs, _| {
                    let run_id = client.create(runs, "create", "agent").await;
                    log = super::super::to_the_end(runs, &run_id).await;
                    run = snapshot(runs, &caller("acme"), &run_id);
                });
                first.get_or_insert(commits);
            }
            let place = format!("died at commit {at}, which was made: {made}");
            let called = mcp.called();
            let notes = called.iter().filter(|name| *name == "note").count();
            let count = |kind: &str| log.iter().filter(|event| event["type"] == kind).count();
            assert_eq!(count("agent.toolCalled"), count("agent.toolReturned"), "{place}");
            if run["status"] == "completed" {
                completed += 1;
                assert_eq!((model.count(), notes), (3, 1), "{place}");
                assert_eq!((count("agent.toolCalled"), count("provider.usage")), (3, 3), "{place}");
                let added = log.iter().find(|event| {
                    event["payload"]["transport"] == "native" && event["type"] == "agent.toolReturned"
                });
                let added = added.unwrap()["payload"]["outcome"].as_str().unwrap().to_owned();
                assert!(added.contains("{\"value\":1}"), "{place}: {added}");
            } else {
                unknown += 1;
                assert_eq!(run["error"]["code"], "effect_outcome_unknown", "{place}: {run}");
                assert!(model.count() <= 3 && notes <= 1, "{place}: {called:?}");
            }
            // The first process ended before it was to die.
            if made && first.is_some_and(|commits| commits < at) {
                assert!(completed > 12, "{completed}");
                assert!(unknown <= 8, "only what was sent and never recorded is not known: {unknown}");
                return;
            }
        }
    }
    panic!("a run of one agent has fewer commits than that");
}
