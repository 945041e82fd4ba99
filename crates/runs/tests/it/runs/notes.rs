//! Operations on runs: bulk cancellation, annotations, bundles.

use flow::id::RunId;
use flow::run::RunStatus;
use runs::bundle::MAX_BUNDLE_BYTES;
use runs::{Direct, RefusalKind};
use serde_json::{Value, json};

use super::{Host, begin, body, caller, create, events, keyed, snapshot, status, to_the_end};
use crate::runs::requests::{new_fork, new_note, recorded};

const SECRET: &str = "sk-proj-abcdefghijklmnop1234";

#[tokio::test(flavor = "multi_thread")]
async fn many_runs_are_ended_and_each_has_its_answer_in_its_place() {
    let host = Host::start().await;
    let by = caller("acme");
    let (slow, gated, done) =
        (begin(&host.runs, "slow").await, begin(&host.runs, "gated").await, begin(&host.runs, "chain").await);
    let ids = [slow.clone(), RunId::new("run_unknown"), gated, done, RunId::new(SECRET), slow.clone()];
    let key = keyed(&by, "POST /v1/runs:bulk-cancel", "k", &json!({"runIds": ids}));
    let reply = host.runs.commands().cancel_many(&by, &ids, Some("enough"), recorded(&key)).await.unwrap();
    let (cancelled, none) = (json!({"status": "cancelled"}), json!({"error": "run_not_found"}));
    let reported = json!([cancelled, none, cancelled, {"status": "completed"}, none, cancelled]);
    assert_eq!(body(&reply), reported);
    let again = host.runs.commands().cancel_many(&by, &ids, Some("enough"), recorded(&key)).await.unwrap();
    assert!(again.replayed && again.body == reply.body);
    let repeated = host.runs.commands().cancel_many(&by, &[slow], None, Direct).await.unwrap();
    assert_eq!(repeated, [Ok(RunStatus::Cancelled)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_note_is_kept_beside_the_run_without_what_is_secret() {
    let host = Host::start().await;
    let by = caller("acme");
    let run_id = begin(&host.runs, "chain").await;
    let before = events(&host.runs, "acme", &run_id);
    let request = json!({
        "target": {"nodeId": "a"},
        "signal": {"kind": "correction", "correction": format!("use {SECRET}")},
        "note": format!("not {SECRET}"),
    });
    let key = keyed(&by, "POST annotations", "k", &request);
    let reply = host.runs.annotations().add(&by, &run_id, new_note(&request), recorded(&key)).await.unwrap();
    let note = body(&reply);
    assert_eq!(note["target"], json!({"runId": run_id, "nodeId": "a"}));
    assert_eq!(note["actor"]["principalRef"], "key-of-acme");
    assert_eq!(note["signal"], json!({"kind": "correction", "correction": "use [REDACTED]"}));
    assert_eq!(note["note"], "not [REDACTED]");
    assert!(
        host.runs.annotations().add(&by, &run_id, new_note(&request), recorded(&key)).await.unwrap().replayed
    );
    host.runs
        .annotations()
        .add(&by, &run_id, new_note(&json!({"signal": {"kind": "rating", "rating": 5}})), Direct)
        .await
        .unwrap();
    let listed = host.runs.annotations().list(&by, &run_id).await.unwrap();
    assert_eq!(listed.len(), 2);
    assert_eq!(json!(listed[0]), note);
    assert_eq!(events(&host.runs, "acme", &run_id), before, "the log knows nothing of it");
    let fork =
        host.runs.commands().fork(&by, &run_id, new_fork(&json!({"mode": "replay"})), Direct).await.unwrap();
    assert_eq!(host.runs.annotations().list(&by, &fork.run_id).await.unwrap(), [], "nor does a fork");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_note_about_no_run_is_refused() {
    let host = Host::start().await;
    let (by, flag) = (caller("acme"), json!({"signal": {"kind": "flag"}}));
    let refused =
        host.runs.annotations().add(&by, &RunId::new("run_x"), new_note(&flag), Direct).await.unwrap_err();
    assert_eq!(refused.code.kind(), RefusalKind::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_is_the_log_with_what_surrounds_it_and_says_where_it_was_cut() {
    let host = Host::start().await;
    let by = caller("acme");
    let run_id = begin(&host.runs, "chain").await;
    let log = to_the_end(&host.runs, &run_id).await;
    let bundle = host.runs.queries().debug_bundle(&by, &run_id, None).await.unwrap();
    assert_eq!(bundle["events"], json!(log));
    assert_eq!(bundle["metrics"]["eventCount"], log.len());
    assert_eq!(bundle["metrics"]["nodeCount"], 3);
    assert_eq!(bundle["run"], snapshot(&host.runs, &by, &run_id));
    assert_eq!((&bundle["truncated"], &bundle["redactionMode"]), (&json!(false), &json!("mask")));
    assert_eq!(bundle.get("truncatedReason"), None);
    for most in [0, 1, log.len() - 1] {
        let cut = host.runs.queries().debug_bundle(&by, &run_id, Some(most)).await.unwrap();
        assert_eq!(cut["metrics"]["eventCount"], most);
        assert_eq!(cut["events"], json!(log[..most]));
        assert_eq!(
            (&cut["truncated"], &cut["truncatedReason"]),
            (&json!(true), &json!("events_truncated_to_max_events"))
        );
    }
    assert_eq!(
        host.runs.queries().debug_bundle(&by, &run_id, Some(log.len())).await.unwrap()["truncated"],
        false
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn no_bundle_is_larger_than_it_may_be() {
    let host = Host::start().await;
    let by = caller("acme");
    let large = Value::from("x".repeat(1_000_000));
    let run_id =
        create(&host.runs, &by, &json!({"workflowId": "heavy", "inputs": {"payload": {"large": large}}}))
            .await;
    assert_eq!(status(&host.runs, &run_id), "completed");
    let bundle = host.runs.queries().debug_bundle(&by, &run_id, None).await.unwrap();
    assert!(bundle.to_string().len() <= MAX_BUNDLE_BYTES);
    assert_eq!(bundle["truncated"], true);
    assert!(bundle["truncatedReason"].is_string());
    assert_eq!(bundle["run"]["status"], "completed");
    assert_eq!(bundle["metrics"]["eventCount"], bundle["events"].as_array().unwrap().len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_of_a_run_that_waits_has_no_token() {
    let host = Host::start().await;
    let by = caller("acme");
    let run_id = begin(&host.runs, "gated").await;
    let token =
        snapshot(&host.runs, &by, &run_id)["interrupt"]["interruptToken"].as_str().unwrap().to_owned();
    assert!(!token.is_empty());
    assert!(
        !host
            .runs
            .queries()
            .debug_bundle(&by, &run_id, None)
            .await
            .unwrap()
            .to_string()
            .contains("interruptToken")
    );
}
