//! The audit log, walked again: whole, and broken in every way that a file can be.

use std::time::Duration;

use flow::store::RunStore;
use host::runs::audit::{CHECKPOINT_EVERY, HOST_LOG, MAX_VERIFIED};
use host::runs::{AuditKey, Caller, Refusal, Scope};
use serde_json::{Value, json};

use super::{Host, Setup, begin, caller, open};

async fn note(host: &Host, count: u64) {
    for number in 0..count {
        let refusal = Refusal::scope(Scope::AuditRead);
        host.runs.audit_denied(&caller("acme"), &refusal, "GET", &format!("/v1/{number}"), 0).await;
    }
}

/// Signs all hundred entries. The host may just be doing so itself, which comes to the same.
async fn sign(host: &Host) {
    host.runs.sign_audit_log(&caller("acme")).await.unwrap();
    let (at, _) = host.store.checkpoint_before("acme", u64::MAX).unwrap().unwrap();
    assert_eq!(at, CHECKPOINT_EVERY - 1);
}

fn verify(host: &Host, from: Option<u64>, to: Option<u64>) -> Value {
    host.runs.audit_verify(&caller("acme"), from, to).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_done_is_in_the_log_with_who_and_nothing_secret() {
    let host = Host::start().await;
    let run_id = begin(&host.runs, "gated").await;
    host.runs.resolve(&caller("acme"), &run_id, "gate", json!({"action": "accept"}), None).await.unwrap();
    host.runs
        .cancel(&caller("acme"), &run_id, Some("sk-proj-abcdefghijklmnop1234".into()), None)
        .await
        .unwrap();
    let refusal = Refusal::scope(Scope::AuditRead);
    host.runs.audit_denied(&caller("acme"), &refusal, "GET", "/v1/audit/verify", 3).await;
    let entries = host.store.audit("acme", 0, 100, 100).unwrap();
    let told: Vec<Value> =
        entries.iter().map(|entry| serde_json::from_slice(&entry.entry).unwrap()).collect();
    let actions: Vec<_> = told.iter().map(|entry| entry["action"].as_str().unwrap()).collect();
    assert_eq!(
        actions,
        ["run.create", "interrupt.resolve", "request.denied"],
        "what changed nothing is no act"
    );
    assert!(told.iter().all(|entry| entry["principal"] == "key-of-acme"));
    assert_eq!(told[2]["details"]["leftOut"], 3);
    let unknown = Caller { tenant: HOST_LOG.into(), principal: "unknown".into(), ..caller("x") };
    host.runs.audit_denied(&unknown, &refusal, "GET", &"é".repeat(400), 0).await;
    assert_eq!(host.store.audit(HOST_LOG, 0, 9, 9).unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_nobody_touched_is_whole_and_signed() {
    let host = Host::start().await;
    let empty = verify(&host, None, None);
    assert_eq!(
        empty,
        json!({"fromSeq": 0, "toSeq": 0, "chainValid": true, "checkpointsValid": true, "checkpoints": [], "anomalies": []})
    );
    note(&host, 2 * CHECKPOINT_EVERY + 10).await;
    // It was signed without being asked; by and by, so this waits for it.
    while host.store.checkpoint_before("acme", u64::MAX).unwrap().is_none() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let whole = verify(&host, None, None);
    assert_eq!((&whole["chainValid"], &whole["checkpointsValid"]), (&json!(true), &json!(true)));
    assert_eq!(whole["anomalies"], json!([]));
    let checkpoint = &whole["checkpoints"][0];
    let members: Vec<_> = checkpoint.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(members, ["atSequence", "checkpoint", "merkleRoot", "signature"]);
    for (from, to) in [(0, 0), (1, 5), (90, 110), (50, 209), (209, 400), (400, 500)] {
        let part = verify(&host, Some(from), Some(to));
        assert_eq!(part["chainValid"], true, "{from}..{to}: {part}");
        assert_eq!((&part["fromSeq"], &part["toSeq"]), (&json!(from), &json!(to)), "both are echoed");
    }
    for (from, to) in [(5, 4), (0, MAX_VERIFIED)] {
        let refused = host.runs.audit_verify(&caller("acme"), Some(from), Some(to)).unwrap_err();
        assert_eq!(refused.code.status(), 400);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_changed_afterwards_is_found() {
    let damages = [
        (
            "an entry is changed",
            "UPDATE audit SET entry = '{\"action\":\"other\"}' WHERE sequence = 40",
            true,
        ),
        ("an entry is taken out", "DELETE FROM audit WHERE sequence = 40", true),
        ("a link is changed", "UPDATE audit SET previous = x'00' WHERE sequence = 40", true),
        ("the end is cut off", "DELETE FROM audit WHERE sequence >= 40", false),
        ("the last entry is changed", "UPDATE audit SET entry = '{}' WHERE sequence = 99", false),
        (
            "a checkpoint is changed",
            "UPDATE checkpoints SET document = replace(document, '\"count\":100', '\"count\":68') WHERE at_sequence = 99",
            false,
        ),
        ("a checkpoint is moved", "UPDATE checkpoints SET at_sequence = 98 WHERE at_sequence = 99", false),
        ("a checkpoint is no JSON", "UPDATE checkpoints SET document = x'00' WHERE at_sequence = 99", false),
    ];
    for (name, sql, is_break) in damages {
        let host = Host::start().await;
        note(&host, CHECKPOINT_EVERY).await;
        sign(&host).await;
        let path = host.folder.path().join("runs.sqlite3");
        let sql = sql.replace("SET entry = '", "SET entry = CAST('").replace("}' WHERE", "}' AS BLOB) WHERE");
        let sql = sql
            .replace("SET document = replace(document", "SET document = CAST(replace(CAST(document AS TEXT)");
        let sql = sql.replace("'\"count\":68')", "'\"count\":68') AS BLOB)");
        let changed = rusqlite_execute(&path, &sql);
        assert!(changed > 0, "{name}");
        let found = verify(&host, Some(0), Some(CHECKPOINT_EVERY - 1));
        assert_eq!(found["chainValid"], false, "{name}: {found}");
        assert_eq!(!found["anomalies"].as_array().unwrap().is_empty(), is_break, "{name}: {found}");
        assert_eq!(found["checkpointsValid"], false, "{name}: {found}");
    }
}

fn rusqlite_execute(path: &std::path::Path, sql: &str) -> usize {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.busy_timeout(Duration::from_secs(10)).unwrap();
    connection.execute(sql, []).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn another_key_does_not_verify_what_the_first_signed() {
    let host = Host::start().await;
    note(&host, CHECKPOINT_EVERY).await;
    sign(&host).await;
    assert_eq!(host.runs.audit_public_key(), AuditKey::from_seed([9; 32]).public());
    let (other, _store) = super::open_with_key(host.folder.path(), AuditKey::from_seed([1; 32]));
    let found = other.audit_verify(&caller("acme"), None, None).unwrap();
    assert_eq!((&found["chainValid"], &found["checkpointsValid"]), (&json!(false), &json!(false)));
    assert_eq!(found["anomalies"], json!([]), "the chain itself is whole");
    let (same, _store) = open(host.folder.path(), Setup::default());
    assert_eq!(same.audit_verify(&caller("acme"), None, None).unwrap()["chainValid"], true);
}
