//! References to secrets: they are used, and never shown.

use std::sync::Arc;

use canon::digest::Digest;
use flow::id::Tenant;
use runs::Direct;
use runs::annotations::Signal;
use serde_json::json;
use system::secrets::{ConfiguredSecrets, SecretReference};

use super::{Host, Setup, begin, caller, create, snapshot, to_the_end};
use crate::runs::requests::new_note;

const VALUE: &str = "a-value-that-looks-like-nothing";

pub(super) async fn host() -> Host {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("canary");
    std::fs::write(&path, VALUE).unwrap();
    let reference = SecretReference::parse(&format!("file:{}", path.display())).unwrap();
    let secrets = ConfiguredSecrets::new([(Tenant::new("acme"), "canary".into(), reference)]);
    let host = Host::with(Setup { secrets: Arc::new(secrets), ..Setup::default() }).await;
    // Read when the host is created, and again when a node requests it.
    std::mem::forget(folder);
    host
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_gets_only_the_digest_and_the_length() {
    let host = host().await;
    let run_id = begin(&host.runs, "conformance-secret").await;
    let events = to_the_end(&host.runs, &run_id).await;
    let shown = snapshot(&host.runs, &caller("acme"), &run_id);
    assert_eq!(shown["status"], "completed", "{shown}");
    let fingerprint = &shown["variables"]["resolve"];
    assert_eq!(fingerprint["secretSha256"], Digest::of_bytes(VALUE.as_bytes()).to_hex());
    assert_eq!(fingerprint["secretLength"], VALUE.len());
    assert!(!json!(events).to_string().contains(VALUE) && !shown.to_string().contains(VALUE));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_without_the_secret_gets_an_error_and_no_value() {
    let host = host().await;
    let by = caller("other");
    for workflow in super::workflows() {
        host.runs.definitions().register(&by, &workflow).await.unwrap();
    }
    let run_id = create(&host.runs, &by, &json!({"workflowId": "conformance-secret"})).await;
    let mut following = host.runs.queries().follow(&Tenant::new("other"), &run_id, 0).await.unwrap();
    while following.stored().await.unwrap().is_some() {}
    while following.next().await.unwrap().is_some() {}
    let shown = snapshot(&host.runs, &by, &run_id);
    assert_eq!(shown["error"]["code"], "credential_required", "{shown}");
    assert_eq!(shown["error"]["details"], json!({"requirement": "canary"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_without_secrets_says_that_it_has_none() {
    let host = Host::start().await;
    let run_id = begin(&host.runs, "conformance-secret").await;
    to_the_end(&host.runs, &run_id).await;
    let shown = snapshot(&host.runs, &caller("acme"), &run_id);
    assert_eq!(shown["error"]["code"], "credential_unavailable", "{shown}");
    assert_eq!(shown["error"]["details"], json!({"capability": "secrets"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_known_secret_value_is_replaced_wherever_it_would_be_stored() {
    let host = host().await;
    let by = caller("acme");
    let request = json!({"workflowId": "echo", "inputs": {"payload": {"pasted": format!("x {VALUE} y")}}});
    let run_id = create(&host.runs, &by, &request).await;
    let events = to_the_end(&host.runs, &run_id).await;
    let note = json!({"signal": {"kind": "label", "label": VALUE}});
    let note = host.runs.annotations().add(&by, &run_id, new_note(&note), Direct).await.unwrap();
    let bundle = host.runs.queries().debug_bundle(&by, &run_id, None).await.unwrap();
    let shown = snapshot(&host.runs, &by, &run_id);
    assert_eq!(shown["variables"]["payload"]["pasted"], "x [REDACTED:canary] y");
    assert_eq!(bundle["redactionApplied"], true);
    assert_eq!(note.signal, Signal::Label("[REDACTED:canary]".to_owned()));
    for document in [json!(events), bundle, shown, json!(note)] {
        assert!(!document.to_string().contains(VALUE), "{document}");
    }
}
