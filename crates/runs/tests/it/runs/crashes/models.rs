//! The host dies at every commit of a run that calls a model. No reply is paid for twice.

use flow::event::EventKind;
use flow::id::NodeId;
use runs::Direct;
use serde_json::{Value, json};

use super::super::envelopes::{asking, question};
use super::super::live::{lasts, spoken, telling};
use super::super::models::{document, executors};
use super::super::provider::{ModelServer, pieces, reply};
use super::super::{caller, events, kinds, snapshot, to_the_end, until};
use super::client::Client;
use super::mortal::{Death, live};
use super::{Setup, folder};

#[test]
fn no_answer_is_paid_for_twice_whenever_the_host_dies() {
    for at in 1..=20 {
        for made in [false, true] {
            let folder = folder();
            // The first reply is invalid, so two are needed.
            let server = ModelServer::start(vec![reply("no"), reply("{\"valid\": true}")]);
            let setup = || Setup {
                executors: Some(executors(folder.path(), Some(&server.base))),
                ..Setup::default()
            };
            live(folder.path(), None, setup(), async |runs, _| {
                runs.definitions().register(&caller("acme"), &document()).await.unwrap();
            });
            let (mut client, mut run, mut commits) = (Client::default(), Value::Null, 0);
            for death in [Some(Death { at, made }), None] {
                commits = live(folder.path(), death, setup(), async |runs, _| {
                    let run_id = client.create(runs, "create", "ask").await;
                    to_the_end(runs, &run_id).await;
                    run = snapshot(runs, &caller("acme"), &run_id);
                });
            }
            let asked = server.count();
            match run["status"].as_str() {
                Some("completed") => assert_eq!(asked, 2, "died at commit {at}, which was made: {made}"),
                _ => {
                    assert_eq!(run["error"]["code"], "effect_outcome_unknown", "{run}");
                    assert!(asked <= 2, "died at commit {at}, which was made: {made}");
                }
            }
            if made && commits < at {
                return;
            }
        }
    }
}

#[test]
fn no_chunk_of_a_reply_is_recorded_twice_whenever_the_host_dies() {
    for at in 1..=20 {
        for made in [false, true] {
            let folder = folder();
            let server = ModelServer::start(vec![pieces(&["The signal", " is set,", " the train passes."])]);
            let setup = || Setup {
                executors: Some(executors(folder.path(), Some(&server.base))),
                ..Setup::default()
            };
            live(folder.path(), None, setup(), async |runs, _| {
                runs.definitions().register(&caller("acme"), &telling()).await.unwrap();
            });
            let (mut client, mut run, mut log, mut commits) = (Client::default(), Value::Null, Vec::new(), 0);
            for death in [Some(Death { at, made }), None] {
                commits = live(folder.path(), death, setup(), async |runs, _| {
                    let run_id = client.create(runs, "create", "ask").await;
                    log = to_the_end(runs, &run_id).await;
                    run = snapshot(runs, &caller("acme"), &run_id);
                });
            }
            let (whole, context) =
                ("The signal is set, the train passes.", format!("{at}, made: {made}: {log:?}"));
            assert!(server.count() <= 1, "{context}");
            match run["status"].as_str() {
                Some("completed") => {
                    assert_eq!((spoken(&log).as_str(), lasts(&log)), (whole, 1), "{context}");
                }
                _ => {
                    assert_eq!(run["error"]["code"], "effect_outcome_unknown", "{run}");
                    assert!(whole.starts_with(&spoken(&log)) && lasts(&log) == 0, "{context}");
                }
            }
            if made && commits < at {
                return;
            }
        }
    }
}

#[test]
fn no_question_of_a_model_is_lost_asked_twice_or_paid_for_twice_whenever_the_host_dies() {
    for at in 1..=30 {
        for made in [false, true] {
            let folder = folder();
            let server = ModelServer::start(vec![question("c1"), reply("The 10:04.")]);
            let setup = || Setup {
                executors: Some(executors(folder.path(), Some(&server.base))),
                ..Setup::default()
            };
            let document = asking("core.ai.callPrompt", &json!({}), None);
            live(folder.path(), None, setup(), async |runs, _| {
                runs.definitions().register(&caller("acme"), &document).await.unwrap();
            });
            let (mut client, mut run, mut log, mut commits) = (Client::default(), Value::Null, Vec::new(), 0);
            for death in [Some(Death { at, made }), None] {
                commits = live(folder.path(), death, setup(), async |runs, _| {
                    let by = caller("acme");
                    let run_id = client.create(runs, "create", "ask").await;
                    let waits_or_is_over = |event: &flow::event::wire::RawEvent| {
                        event.kind == EventKind::InterruptRequested || event.kind == EventKind::RunFailed
                    };
                    until(runs, &run_id, waits_or_is_over).await;
                    let answer = json!({"answers": {"q1": "Ulm", "q2": "now"}});
                    // The previous process may have answered it.
                    let _ = runs.commands().resolve(&by, &run_id, &NodeId::new("ask"), answer, Direct).await;
                    to_the_end(runs, &run_id).await;
                    run = snapshot(runs, &by, &run_id);
                    log = events(runs, "acme", &run_id);
                });
            }
            let context = format!("{at}, made: {made}: {:?}", kinds(&log));
            let many = |kind: &str| log.iter().filter(|event| event["type"] == kind).count();
            assert!(server.count() <= 2, "{context}");
            match run["status"].as_str() {
                Some("completed") => {
                    assert_eq!(server.count(), 2, "{context}");
                    assert_eq!((many("interrupt.requested"), many("provider.usage")), (1, 2), "{context}");
                }
                _ => assert_eq!(run["error"]["code"], "effect_outcome_unknown", "{run}"),
            }
            if made && commits < at {
                return;
            }
        }
    }
}
