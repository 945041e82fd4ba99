//! The verification of the audit log: complete, and damaged in every possible way.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use canon::encoding::from_hex;
use flow::id::{NodeId, Principal, Tenant};
use ports::runs::prelude::*;
use runs::audit::{Anchors, AuditReport, CHECKPOINT_EVERY, HOST_LOG};
use runs::{AuditKey, Caller, Direct, Refusal, RefusalKind, Scope};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Host, Setup, begin, caller, open};
use crate::wait::Wait as _;

async fn note(host: &Host, count: u64) {
    for number in 0..count {
        let refusal = Refusal::scope(Scope::AuditRead);
        host.runs.audit().denied(&caller("acme"), &refusal, 403, "GET", &format!("/v1/{number}"), 0).await;
    }
}

/// Signs all hundred entries. The host may do so at the same time, with the same result.
async fn sign(host: &Host) {
    host.runs.audit().sign(&caller("acme")).await.unwrap();
    let (at, _) = host.store.audit_checkpoint_before(&Tenant::new("acme"), u64::MAX).await.unwrap().unwrap();
    assert_eq!(at, CHECKPOINT_EVERY - 1);
}

fn verify(host: &Host, from: Option<u64>, to: Option<u64>) -> AuditReport {
    host.runs.audit().verify(&caller("acme"), from, to).wait().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn actions_are_in_the_log_with_their_principal_and_without_secrets() {
    let host = Host::start().await;
    let run_id = begin(&host.runs, "gated").await;
    host.runs
        .commands()
        .resolve(&caller("acme"), &run_id, &NodeId::new("gate"), json!({"action": "accept"}), Direct)
        .await
        .unwrap();
    host.runs
        .commands()
        .cancel(&caller("acme"), &run_id, Some("sk-proj-abcdefghijklmnop1234".into()), Direct)
        .await
        .unwrap();
    let refusal = Refusal::scope(Scope::AuditRead);
    host.runs.audit().denied(&caller("acme"), &refusal, 403, "GET", "/v1/audit/verify", 3).await;
    let entries = host.store.audit(&Tenant::new("acme"), 0, 100, 100).await.unwrap();
    let reported: Vec<Value> =
        entries.iter().map(|entry| serde_json::from_slice(&entry.entry).unwrap()).collect();
    let actions: Vec<_> = reported.iter().map(|entry| entry["action"].as_str().unwrap()).collect();
    assert_eq!(
        actions,
        ["run.create", "interrupt.resolve", "request.denied"],
        "a call without a change is not recorded"
    );
    assert!(reported.iter().all(|entry| entry["principal"] == "key-of-acme"));
    assert_eq!(reported[2]["details"]["leftOut"], 3);
    let unknown =
        Caller { tenant: Tenant::new(HOST_LOG), principal: Principal::new("unknown"), ..caller("x") };
    host.runs.audit().denied(&unknown, &refusal, 403, "GET", &"é".repeat(400), 0).await;
    assert_eq!(host.store.audit(&Tenant::new(HOST_LOG), 0, 9, 9).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_untouched_log_is_complete_and_signed() {
    let host = Host::start().await;
    let empty = verify(&host, None, None);
    let whole = AuditReport {
        from: 0,
        to: 0,
        is_chain_valid: true,
        are_checkpoints_valid: true,
        checkpoints: Vec::new(),
        anomalies: Vec::new(),
        missing: None,
    };
    assert_eq!(empty, whole);
    note(&host, 2 * CHECKPOINT_EVERY + 10).await;
    // The host signs it in the background, so this waits for it.
    while host.store.audit_checkpoint_before(&Tenant::new("acme"), u64::MAX).await.unwrap().is_none() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let whole = verify(&host, None, None);
    assert!(whole.is_chain_valid && whole.are_checkpoints_valid);
    assert_eq!(whole.anomalies, []);
    assert!(whole.checkpoints[0].id().starts_with("chk_"));
    for (from, to) in
        [(0, 0), (1, 5), (90, 110), (50, 209), (209, 400), (400, 500), (0, 1_000_000), (7, 1 << 53)]
    {
        let part = verify(&host, Some(from), Some(to));
        assert!(part.is_chain_valid, "{from}..{to}: {part:?}");
        assert_eq!((part.from, part.to), (from, to), "both are echoed");
    }
    let refused = host.runs.audit().verify(&caller("acme"), Some(5), Some(4)).await.unwrap_err();
    assert_eq!(refused.code.kind(), RefusalKind::Invalid);
}

/// Verifies a checkpoint with nothing but RFC 0218: with the published key, over the 32 bytes of the root.
fn is_signed(public_key: &str, root: &str, signature: &str) -> bool {
    let spki = STANDARD.decode(public_key).unwrap();
    let key = ed25519_dalek::VerifyingKey::from_bytes(spki[12..].try_into().unwrap()).unwrap();
    let root: [u8; 32] = from_hex(root).unwrap();
    let signature = ed25519_dalek::Signature::from_slice(&STANDARD.decode(signature).unwrap()).unwrap();
    key.verify_strict(&root, &signature).is_ok()
}

/// The scenario audit-checkpoint-signature, also for checkpoints that an earlier version wrote.
#[tokio::test(flavor = "multi_thread")]
async fn checkpoints_are_signed_over_their_root_with_a_key_that_others_can_read() {
    let host = Host::start().await;
    note(&host, CHECKPOINT_EVERY).await;
    sign(&host).await;
    let key = host.runs.audit().public_key();
    assert!(key.starts_with("MCowBQYDK2VwAyEA") && key.len() == 60, "SPKI in base64: {key}");
    let check = |name: &str| {
        let found = verify(&host, None, None);
        assert!(found.are_checkpoints_valid && !found.checkpoints.is_empty(), "{name}: {found:?}");
        for checkpoint in &found.checkpoints {
            assert!(is_signed(&key, &checkpoint.root().to_hex(), &checkpoint.signature()), "{name}");
        }
    };
    check("as it is written");
    let path = host.folder.path().join("runs.sqlite3");
    let removed = "UPDATE checkpoints SET document = CAST(json_remove(CAST(document AS TEXT), '$.rootSignature') AS BLOB)";
    assert!(rusqlite_execute(&path, removed) > 0);
    check("as an earlier version wrote it");
    let forged = "UPDATE checkpoints SET document = CAST(json_set(CAST(document AS TEXT), '$.rootSignature', 'AAAA') AS BLOB)";
    assert!(rusqlite_execute(&path, forged) > 0);
    assert!(!verify(&host, None, None).are_checkpoints_valid, "the second signature counts too");
}

#[tokio::test(flavor = "multi_thread")]
async fn any_later_change_is_detected() {
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
        ("a checkpoint is not JSON", "UPDATE checkpoints SET document = x'00' WHERE at_sequence = 99", false),
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
        assert!(!found.is_chain_valid, "{name}: {found:?}");
        assert_eq!(!found.anomalies.is_empty(), is_break, "{name}: {found:?}");
        assert!(!found.are_checkpoints_valid, "{name}: {found:?}");
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
    assert_eq!(host.runs.audit().public_key(), AuditKey::from_seed([9; 32]).public());
    let (other, _store) = super::open_with_key(host.folder.path(), AuditKey::from_seed([1; 32]));
    let found = other.audit().verify(&caller("acme"), None, None).await.unwrap();
    assert!(!found.is_chain_valid && !found.are_checkpoints_valid);
    assert_eq!(found.anomalies, [], "the chain itself is whole");
    let (same, _store) = open(host.folder.path(), Setup::default());
    assert!(same.audit().verify(&caller("acme"), None, None).await.unwrap().is_chain_valid);
}

/// The number of entries of an anchored log: too few for the host to sign them in the background at the same time.
const ANCHORED: u64 = CHECKPOINT_EVERY - 10;

/// A host with a signed log whose newest checkpoint is also stored outside the database.
async fn anchored() -> Host {
    let folder = TempDir::new().unwrap();
    let anchors = Some(Anchors::open(folder.path()).unwrap());
    let host = Host::in_folder(folder, Setup { anchors, ..Setup::default() }).await;
    note(&host, ANCHORED).await;
    assert_eq!(host.runs.audit().sign(&caller("acme")).await.unwrap(), Some(ANCHORED - 1));
    host
}

/// The host after a restart.
async fn restarted(host: Host) -> Host {
    let Host { runs, store, folder } = host;
    runs.drain().await;
    drop((runs, store));
    let anchors = Some(Anchors::open(folder.path()).unwrap());
    let (runs, store) = open(folder.path(), Setup { anchors, ..Setup::default() });
    Host { runs, store, folder }
}

/// Finding M1: verifying the complete log detects and names signed entries that are missing.
#[tokio::test(flavor = "multi_thread")]
async fn a_truncated_log_is_detected_whatever_else_is_deleted() {
    let cut = |from: u64| format!("DELETE FROM audit WHERE sequence >= {from}");
    let unsigned = "DELETE FROM checkpoints".to_owned();
    let cases = [
        ("nothing", vec![], None, true),
        ("the end", vec![cut(40)], Some((40, ANCHORED - 1)), false),
        ("the end and the checkpoints", vec![cut(40), unsigned.clone()], Some((40, ANCHORED - 1)), false),
        ("everything", vec![cut(0), unsigned.clone()], Some((0, ANCHORED - 1)), false),
        ("the checkpoints", vec![unsigned], None, false),
    ];
    for (name, deleted, missing, is_valid) in cases {
        let host = anchored().await;
        for sql in deleted {
            assert!(rusqlite_execute(&host.folder.path().join("runs.sqlite3"), &sql) > 0, "{name}");
        }
        let host = restarted(host).await;
        let lost: Vec<_> = host
            .runs
            .audit()
            .lost_entries()
            .await
            .unwrap()
            .into_iter()
            .map(|lost| (lost.from, lost.to))
            .collect();
        assert_eq!(lost, Vec::from_iter(missing), "{name}");
        let found = verify(&host, None, None);
        assert_eq!(found.missing, missing.map(|(first, last)| first..=last), "{name}: {found:?}");
        assert_eq!(
            (found.is_chain_valid, found.are_checkpoints_valid),
            (is_valid, is_valid),
            "{name}: {found:?}"
        );
        // Later entries do not hide it.
        note(&host, 2 * CHECKPOINT_EVERY).await;
        host.runs.audit().sign(&caller("acme")).await.unwrap();
        assert_eq!(verify(&restarted(host).await, None, None).is_chain_valid, is_valid, "{name}, later");
    }
}

/// Finding M1: a directory that never had the file is valid, and one whose file cannot be read is not.
#[tokio::test(flavor = "multi_thread")]
async fn the_file_of_checkpoints_may_be_missing_and_may_not_be_damaged() {
    for (name, content, is_valid) in [("missing", None, true), ("damaged", Some("{"), false)] {
        let host = anchored().await;
        let file = host.folder.path().join("keys/audit-checkpoints.json");
        assert!(file.exists());
        match content {
            None => std::fs::remove_file(&file).unwrap(),
            Some(content) => std::fs::write(&file, content).unwrap(),
        }
        let host = restarted(host).await;
        assert_eq!(verify(&host, None, None).are_checkpoints_valid, is_valid, "{name}");
        note(&host, CHECKPOINT_EVERY).await;
        host.runs.audit().sign(&caller("acme")).await.unwrap();
        let kept = std::fs::read_to_string(&file).unwrap();
        assert_eq!(kept != "{", is_valid, "{name}: an unreadable file is kept for the operator");
    }
}
