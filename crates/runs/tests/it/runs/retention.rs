//! Retention: what is stored, and for how long.

use std::sync::Arc;
use std::time::Duration;

use flow::id::{NodeId, RunId, Tenant};
use ports::runs::ReplyKey;
use ports::runs::prelude::*;
use runs::Direct;
use runs::Runs;
use runs::create::Creation;
use runs::retention::{MIN_ANSWERS, Retention, Swept};
use serde_json::json;
use system::ManualClock;

use super::{Host, Setup, begin, body, caller, create, keyed, snapshot, status};
use crate::runs::requests::{new_fork, new_note, new_run, recorded};
use crate::wait::Wait as _;

const HOUR: u64 = 60 * 60 * 1000;
const DAY: u64 = 24 * HOUR;
const START: u64 = 1_793_000_000_000;

fn days(days: u64) -> Retention {
    Retention { finished_runs: Some(Duration::from_millis(days * DAY)), ..Retention::default() }
}

async fn host() -> (Host, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::at(START));
    (Host::with(Setup { clock: Arc::clone(&clock) as _, ..Setup::default() }).await, clock)
}

fn is_there(runs: &Runs, run_id: &RunId) -> bool {
    runs.queries().read(&caller("acme"), run_id).wait().is_ok()
}

#[tokio::test]
async fn runs_are_kept_permanently_by_default() {
    let (host, clock) = host().await;
    let run_id = begin(&host.runs, "chain").await;
    clock.advance(10_000 * DAY);
    assert_eq!(host.runs.sweeper().sweep(Retention::default()).await.unwrap(), Swept::default());
    assert!(is_there(&host.runs, &run_id));
}

#[tokio::test]
async fn an_expired_run_is_deleted_with_all_its_data() {
    let (host, clock) = host().await;
    let by = caller("acme");
    let request = json!({"workflowId": "chain", "tags": ["old"]});
    let old = create(&host.runs, &by, &request).await;
    let note = json!({"signal": {"kind": "flag"}});
    host.runs.annotations().add(&by, &old, new_note(&note), Direct).await.unwrap();
    clock.advance(DAY);
    let young = create(&host.runs, &by, &request).await;
    clock.advance(DAY);
    assert_eq!(host.runs.sweeper().sweep(days(2)).await.unwrap().runs, 0, "not before its time");
    clock.advance(1);
    assert_eq!(host.runs.sweeper().sweep(days(2)).await.unwrap().runs, 1);
    assert!(!is_there(&host.runs, &old));
    assert!(is_there(&host.runs, &young));
    assert!(host.store.annotations(&old).await.unwrap().is_empty());
    assert!(host.store.appends(&old, 0, 10, 1 << 20).await.unwrap().is_empty());
    let filter = ports::runs::RunFilter { tag: Some("old".into()), ..ports::runs::RunFilter::default() };
    assert_eq!(
        host.runs.queries().list(&by, &filter, 10).await.unwrap().runs.len(),
        1,
        "only the young one has the tag"
    );
    let refused = host.runs.queries().read(&by, &old).await.unwrap_err();
    assert_eq!(refused.code.as_str(), "run_not_found");

    let end = host.store.audit_end(&Tenant::new("acme")).await.unwrap().unwrap();
    let entry = host.store.audit(&Tenant::new("acme"), end, end, 1).await.unwrap();
    let entry: serde_json::Value = serde_json::from_slice(&entry[0].entry).unwrap();
    assert_eq!((&entry["action"], &entry["principal"]), (&json!("run.expire"), &json!("retention")));
    assert_eq!(entry["details"]["runIds"], json!([old]));
    assert!(host.runs.audit().verify(&by, None, None).await.unwrap().is_chain_valid);
}

#[tokio::test]
async fn an_active_run_is_kept_with_its_ancestors_and_descendants() {
    let (host, clock) = host().await;
    // The parent waits for a child, which waits for a person.
    let parent = begin(&host.runs, "parent").await;
    let child = super::restart::until_child(&host, &parent).await;
    super::until(&host.runs, &child, |event| event.kind.as_str() == "interrupt.requested").await.unwrap();
    clock.advance(3 * DAY);
    assert_eq!(host.runs.sweeper().sweep(days(1)).await.unwrap().runs, 0);
    assert_eq!(status(&host.runs, &child), "waiting-approval");

    let by = caller("acme");
    host.runs
        .commands()
        .resolve(&by, &child, &NodeId::new("gate"), json!({"action": "accept"}), Direct)
        .await
        .unwrap();
    super::to_the_end(&host.runs, &parent).await;
    clock.advance(HOUR);
    assert_eq!(host.runs.sweeper().sweep(days(1)).await.unwrap().runs, 0, "they have only just ended");
    clock.advance(3 * DAY);
    assert_eq!(host.runs.sweeper().sweep(days(1)).await.unwrap().runs, 2);
    assert!(!is_there(&host.runs, &parent) && !is_there(&host.runs, &child));
}

#[tokio::test]
async fn the_source_of_a_fork_is_kept_while_the_fork_is_active() {
    let (host, clock) = host().await;
    let by = caller("acme");
    let source = begin(&host.runs, "gated").await;
    host.runs.commands().cancel(&by, &source, None, Direct).await.unwrap();
    let events = super::events(&host.runs, "acme", &source);
    let at = events.iter().position(|event| event["type"] == "interrupt.requested").unwrap() + 1;
    let request = json!({"mode": "branch", "fromSeq": at});
    let fork = host.runs.commands().fork(&by, &source, new_fork(&request), Direct).await.unwrap().run_id;
    clock.advance(3 * DAY);
    assert_eq!(host.runs.sweeper().sweep(days(1)).await.unwrap().runs, 0);
    host.runs.commands().cancel(&by, &fork, None, Direct).await.unwrap();
    assert_eq!(host.runs.sweeper().sweep(days(1)).await.unwrap().runs, 1, "the fork has ended just now");
    assert_eq!(snapshot(&host.runs, &by, &fork)["status"], "cancelled");
}

#[tokio::test]
async fn recorded_replies_are_kept_for_a_day() {
    let (host, clock) = host().await;
    let by = caller("acme");
    let request = json!({"workflowId": "chain"});
    let first = {
        let key = keyed(&by, "createRun ", "once", &request);
        host.runs
            .commands()
            .create(&by, new_run(&request), Creation::default(), recorded(&key))
            .await
            .unwrap()
    };
    clock.advance(DAY);
    assert!(!host.runs.sweeper().sweep(Retention::default()).await.unwrap().answers);
    let key = keyed(&by, "createRun ", "once", &request);
    let again = host
        .runs
        .commands()
        .create(&by, new_run(&request), Creation::default(), recorded(&key))
        .await
        .unwrap();
    assert!(again.replayed);
    clock.advance(1);
    // One day is the minimum.
    let hasty = Retention { answers: Duration::from_secs(1), ..Retention::default() };
    assert!(hasty.answers < MIN_ANSWERS && host.runs.sweeper().sweep(hasty).await.unwrap().answers);
    let anew = host
        .runs
        .commands()
        .create(&by, new_run(&request), Creation::default(), recorded(&key))
        .await
        .unwrap();
    assert!(!anew.replayed);
    assert_ne!(body(&anew)["runId"], body(&first)["runId"]);
    let unknown = ReplyKey {
        tenant: Tenant::new("acme"),
        endpoint: "createRun ".into(),
        key: canon::digest::Digest::of_bytes(b"never"),
    };
    assert_eq!(host.store.reply(&unknown).await.unwrap(), None);
}
