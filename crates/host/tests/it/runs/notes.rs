//! What is asked beside the runs themselves: many ended at once, notes, bundles.

use flow::id::RunId;
use host::runs::RefusalKind;
use host::runs::bulk::MAX_BULK;
use host::runs::bundle::MAX_BUNDLE_BYTES;
use serde_json::{Value, json};

use super::{Host, begin, body, caller, create, events, keyed, snapshot, status, to_the_end};

const SECRET: &str = "sk-proj-abcdefghijklmnop1234";

#[tokio::test(flavor = "multi_thread")]
async fn many_runs_are_ended_and_each_has_its_answer_in_its_place() {
    let host = Host::start().await;
    let by = caller("acme");
    let (slow, gated, done) =
        (begin(&host.runs, "slow").await, begin(&host.runs, "gated").await, begin(&host.runs, "chain").await);
    let request = json!({"runIds": [slow, "run_unknown", gated, done, 7, SECRET, slow], "reason": "enough"});
    let key = keyed(&by, "POST /v1/runs:bulk-cancel", "k", &request);
    let reply = host.runs.bulk_cancel(&by, &request, Some(&key)).await.unwrap();
    let results = body(&reply)["results"].clone();
    let told: Vec<_> = results
        .as_array()
        .unwrap()
        .iter()
        .map(|result| {
            let outcome = result.get("status").or(result.pointer("/error/code")).unwrap();
            (result["ok"].as_bool().unwrap(), outcome.as_str().unwrap())
        })
        .collect();
    assert_eq!(
        told,
        [
            (true, "cancelled"),
            (false, "not_found"),
            (true, "cancelled"),
            (false, "run_terminal"),
            (false, "validation_error"),
            (false, "not_found"),
            (true, "cancelled"),
        ]
    );
    assert!(!results.to_string().contains(SECRET));
    let again = host.runs.bulk_cancel(&by, &request, Some(&key)).await.unwrap();
    assert!(again.replayed && again.body == reply.body);
    let repeated = host.runs.bulk_cancel(&by, &json!({"runIds": [slow]}), None).await.unwrap();
    assert_eq!(body(&repeated)["results"][0], json!({"runId": slow, "ok": true, "status": "cancelled"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_to_end_many_that_are_refused() {
    let host = Host::start().await;
    let many: Vec<_> = (0..=MAX_BULK).map(|number| number.to_string()).collect();
    for request in
        [json!({}), json!([]), json!({"runIds": []}), json!({"runIds": "a"}), json!({"runIds": many})]
    {
        let refused = host.runs.bulk_cancel(&caller("acme"), &request, None).await.unwrap_err();
        assert_eq!(
            (refused.code.kind(), &refused.details["maxRunIds"]),
            (RefusalKind::Invalid, &json!(MAX_BULK)),
            "{request}"
        );
    }
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
    let reply = host.runs.annotate(&by, &run_id, &request, Some(&key)).await.unwrap();
    assert_eq!(reply.status, 201);
    let note = body(&reply);
    assert_eq!(note["target"], json!({"runId": run_id, "nodeId": "a"}));
    assert_eq!(note["actor"]["principalRef"], "key-of-acme");
    assert_eq!(note["signal"], json!({"kind": "correction", "correction": "use [REDACTED]"}));
    assert_eq!(note["note"], "not [REDACTED]");
    assert!(host.runs.annotate(&by, &run_id, &request, Some(&key)).await.unwrap().replayed);
    host.runs
        .annotate(&by, &run_id, &json!({"signal": {"kind": "rating", "rating": 5.0}}), None)
        .await
        .unwrap();
    let listed = host.runs.annotations(&by, &run_id).unwrap();
    assert_eq!(listed["annotations"].as_array().unwrap().len(), 2);
    assert_eq!(listed["annotations"][0], note);
    assert_eq!(events(&host.runs, "acme", &run_id), before, "the log knows nothing of it");
    let fork = host.runs.fork(&by, &run_id, &json!({"mode": "replay"}), None).await.unwrap();
    let fork = body(&fork)["runId"].as_str().unwrap().to_owned();
    assert_eq!(
        host.runs.annotations(&by, &RunId::new(fork.as_str())).unwrap(),
        json!({"annotations": []}),
        "nor does a fork"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn notes_that_are_refused() {
    let host = Host::start().await;
    let run_id = begin(&host.runs, "chain").await;
    let cases = [
        json!(null),
        json!({}),
        json!({"signal": {}}),
        json!({"signal": {"kind": "applause"}}),
        json!({"signal": {"kind": "rating"}}),
        json!({"signal": {"kind": "rating", "rating": 6}}),
        json!({"signal": {"kind": "rating", "rating": 2.5}}),
        json!({"signal": {"kind": "rating", "rating": 2, "label": "x"}}),
        json!({"signal": {"kind": "label", "label": ""}}),
        json!({"signal": {"kind": "flag", "more": 1}}),
        json!({"signal": {"kind": "flag"}, "target": {"runId": "x"}}),
        json!({"signal": {"kind": "flag"}, "note": 1}),
        json!({"signal": {"kind": "flag"}, "note": "x".repeat(20_000)}),
        json!({"signal": {"kind": "flag"}, "other": 1}),
    ];
    for request in cases {
        let refused = host.runs.annotate(&caller("acme"), &run_id, &request, None).await.unwrap_err();
        assert_eq!(refused.code.kind(), RefusalKind::Invalid, "{request}");
    }
    let flag = json!({"signal": {"kind": "flag"}});
    assert_eq!(
        host.runs.annotate(&caller("acme"), &RunId::new("run_x"), &flag, None).await.unwrap_err().code.kind(),
        RefusalKind::NotFound
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_is_the_log_with_what_surrounds_it_and_says_where_it_was_cut() {
    let host = Host::start().await;
    let by = caller("acme");
    let run_id = begin(&host.runs, "chain").await;
    let log = to_the_end(&host.runs, &run_id).await;
    let bundle = host.runs.debug_bundle(&by, &run_id, None).unwrap();
    assert_eq!(bundle["events"], json!(log));
    assert_eq!(bundle["metrics"]["eventCount"], log.len());
    assert_eq!(bundle["metrics"]["nodeCount"], 3);
    assert_eq!(bundle["run"], snapshot(&host.runs, &by, &run_id));
    assert_eq!((&bundle["truncated"], &bundle["redactionMode"]), (&json!(false), &json!("mask")));
    assert_eq!(bundle.get("truncatedReason"), None);
    for most in [0, 1, log.len() - 1] {
        let cut = host.runs.debug_bundle(&by, &run_id, Some(most)).unwrap();
        assert_eq!(cut["metrics"]["eventCount"], most);
        assert_eq!(cut["events"], json!(log[..most]));
        assert_eq!(
            (&cut["truncated"], &cut["truncatedReason"]),
            (&json!(true), &json!("events_truncated_to_max_events"))
        );
    }
    assert_eq!(host.runs.debug_bundle(&by, &run_id, Some(log.len())).unwrap()["truncated"], false);
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
    let bundle = host.runs.debug_bundle(&by, &run_id, None).unwrap();
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
    assert!(!host.runs.debug_bundle(&by, &run_id, None).unwrap().to_string().contains("interruptToken"));
}
