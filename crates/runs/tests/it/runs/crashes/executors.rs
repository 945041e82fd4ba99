//! The host dies at every commit of a run that changes a surface, and of one whose module waits for an interrupt. The change is made once, and
//! the module gets the same results again.

use canon::time::Timestamp;
use flow::event::EventKind;
use serde_json::json;
use surfaces::{Surface, SurfaceCall, Tenant};

use super::super::executors::{asking, modules_only, stores};
use super::super::{caller, to_the_end, until, workflow};
use super::client::Client;
use super::mortal::{Death, live};
use super::{Setup, folder};

#[test]
fn an_effect_is_executed_once_whenever_the_host_dies() {
    let key = json!({"type": "static", "value": "count"});
    let add = |id: &str| json!([id, "core.storage.kv-atomic-increment", {}, {"key": key}]);
    let edges = json!([{"id": "e", "sourceNodeId": "one", "targetNodeId": "two"}]);
    let document = workflow("adds", &json!([add("one"), add("two")]), &edges, &json!([]));
    for at in 1.. {
        for made in [false, true] {
            let folder = folder();
            let setup = || Setup { executors: Some(stores(folder.path())), ..Setup::default() };
            live(folder.path(), None, setup(), async |runs, _| {
                runs.definitions().register(&caller("acme"), &document).await.unwrap();
            });
            let mut client = Client::default();
            let mut commits = 0;
            for death in [Some(Death { at, made }), None] {
                commits = live(folder.path(), death, setup(), async |runs, _| {
                    let run_id = client.create(runs, "create", "adds").await;
                    client.end(runs, &run_id, "run.completed").await;
                });
            }
            let surfaces = stores(folder.path());
            let call = SurfaceCall {
                tenant: Tenant::new("acme").unwrap(),
                surface: Surface::Kv,
                op: "get".to_owned(),
                args: serde_json::Map::from_iter([("key".to_owned(), json!("count"))]),
                effect: None,
                now: Timestamp(0),
            };
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let kept = runtime.block_on(surfaces.surfaces().unwrap().call(call)).unwrap();
            assert_eq!(kept["value"], 2, "died at commit {at}, which was made: {made}");
            if made && at > 12 && commits < at {
                return;
            }
        }
        assert!(at < 40, "a run of two effects has fewer commits than that");
    }
}

#[test]
fn a_module_that_waits_continues_whenever_the_host_dies() {
    for way in ["by-ending", "by-call"] {
        let document = asking("asks", way);
        for at in 1.. {
            let mut first = None;
            for made in [false, true] {
                let folder = folder();
                let setup = || Setup { executors: Some(modules_only()), ..Setup::default() };
                live(folder.path(), None, setup(), async |runs, _| {
                    runs.definitions().register(&caller("acme"), &document).await.unwrap();
                });
                let mut client = Client::default();
                for death in [Some(Death { at, made }), None] {
                    let commits = live(folder.path(), death, setup(), async |runs, _| {
                        let run_id = client.create(runs, "create", "asks").await;
                        until(runs, &run_id, |event| event.kind == EventKind::InterruptRequested).await;
                        client.accept(runs, "accept", &run_id).await;
                        client.end(runs, &run_id, "run.completed").await;
                        let log = to_the_end(runs, &run_id).await;
                        let gave = &log.last().unwrap()["payload"]["outputs"]["gate"];
                        assert_eq!(gave["answer"]["action"], "accept", "{way}: died at {at}, made: {made}");
                        let count = |kind: &str| log.iter().filter(|event| event["type"] == kind).count();
                        assert_eq!((count("interrupt.requested"), count("interrupt.resolved")), (1, 1));
                        assert_eq!(count("variable.changed"), usize::from(way == "by-call"), "set once");
                    });
                    first.get_or_insert(commits);
                }
            }
            // The first process ended before it was to die.
            if first.is_some_and(|commits| commits < at) {
                assert!(at > 6, "a run of one module that waits has more commits than {at}");
                break;
            }
            assert!(at < 40, "a run of one module has fewer commits than that");
        }
    }
}
