//! The host dies at every commit between the delivery and the acknowledgement of a message. Every message has exactly one
//! run.

use std::collections::BTreeMap;

use ports::runs::RunFilter;
use serde_json::{Value, json};

use super::super::executors::stores;
use super::super::triggers::{ended, listen, on_queue, on_stream, publish, queue_of, scope, wait_for};
use super::super::{caller, open};
use super::mortal::{Death, live};
use super::{Setup, folder};
use crate::wait::Wait as _;

const MESSAGES: usize = 3;

/// Kills the host at each of its commits, until it makes fewer than that.
fn die_everywhere(document: &Value, is_stream: bool) {
    for at in 1.. {
        let mut commits = 0;
        for made in [false, true] {
            for twice in [false, true] {
                commits = die(document, is_stream, Death { at, made }, twice);
            }
        }
        if commits < at {
            assert!(at > MESSAGES, "each message has a commit");
            return;
        }
        assert!(at < 40, "so few messages have fewer commits than that");
    }
}

fn die(document: &Value, is_stream: bool, death: Death, twice: bool) -> usize {
    let folder = folder();
    let setup = || Setup { executors: Some(stores(folder.path())), ..Setup::default() };
    let mut published = BTreeMap::new();
    live(folder.path(), None, setup(), async |runs, _| {
        runs.definitions().register(&caller("acme"), document).await.unwrap();
        for n in 0..MESSAGES {
            let payload = json!({"n": n});
            let id = if is_stream {
                queue_of(runs).stream_publish(&scope("acme"), "log".into(), payload.clone()).await.unwrap()
            } else {
                publish(runs, "acme", "jobs", payload.clone()).await
            };
            published.insert(id, payload);
        }
    });
    let second = twice.then_some(Death { at: 2, made: !death.made });
    let mut commits = 0;
    for (life, death) in [Some(death)].into_iter().chain(second.map(Some)).chain([None]).enumerate() {
        let made = live(folder.path(), death, setup(), async |runs, _| {
            let _listening = listen(runs);
            let queue = queue_of(runs);
            wait_for("every run", async || {
                let is_done = ended(runs, "acme", "takes").len() >= MESSAGES;
                let is_empty = queue.due(&scope("acme"), "jobs").await.unwrap().is_none();
                (is_done && is_empty).then_some(())
            })
            .await;
            // A host that is drained has completed its work.
            runs.drain().await;
        });
        if life == 0 {
            commits = made;
        }
    }
    let (runs, _) = open(folder.path(), Setup::default());
    let all = runs.queries().list(&caller("acme"), &RunFilter::default(), 100).wait().unwrap().runs;
    assert_eq!(all.len(), MESSAGES, "{death:?} {twice}");
    assert_eq!(ended(&runs, "acme", "takes").into_iter().collect::<BTreeMap<_, _>>(), published);
    commits
}

#[test]
fn a_message_starts_one_run_whenever_the_host_dies() {
    die_everywhere(&on_queue("takes", "jobs", &json!({})), false);
}

#[test]
fn a_record_starts_one_run_whenever_the_host_dies() {
    die_everywhere(&on_stream("takes", "log", true), true);
}
