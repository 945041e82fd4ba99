//! The host dies at every commit of a run that asks a model. No answer is paid for twice.

use serde_json::Value;

use super::super::live::{lasts, spoken, telling};
use super::super::models::{document, hands};
use super::super::provider::{ModelServer, pieces, reply};
use super::super::{caller, snapshot, to_the_end};
use super::client::Client;
use super::mortal::{Death, live};
use super::{Setup, folder};

#[test]
fn no_answer_is_paid_for_twice_whenever_the_host_dies() {
    for at in 1..=20 {
        for made in [false, true] {
            let folder = folder();
            // The first answer does not fit, so two are needed.
            let server = ModelServer::start(vec![reply("no"), reply("{\"valid\": true}")]);
            let setup =
                || Setup { hands: Some(hands(folder.path(), Some(&server.base))), ..Setup::default() };
            live(folder.path(), None, setup(), async |runs, _| {
                runs.register(&caller("acme"), &document()).await.unwrap();
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
fn no_piece_of_a_reply_is_told_twice_whenever_the_host_dies() {
    for at in 1..=20 {
        for made in [false, true] {
            let folder = folder();
            let server = ModelServer::start(vec![pieces(&["The signal", " is set,", " the train passes."])]);
            let setup =
                || Setup { hands: Some(hands(folder.path(), Some(&server.base))), ..Setup::default() };
            live(folder.path(), None, setup(), async |runs, _| {
                runs.register(&caller("acme"), &telling()).await.unwrap();
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
