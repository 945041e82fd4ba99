//! Snapshots of runs.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;

/// The members of a snapshot in version 2, where it is closed.
const MEMBERS: [&str; 21] = [
    "agent",
    "channels",
    "completedAt",
    "configurable",
    "currentNodeId",
    "engineVersion",
    "error",
    "eventLogSchemaVersion",
    "inputs",
    "metadata",
    "metrics",
    "nodeStates",
    "owner",
    "parentRunId",
    "runId",
    "runOrchestrator",
    "startedAt",
    "status",
    "tags",
    "variables",
    "workflowId",
];

/// Every recorded snapshot is closed in version 2 and has the required members.
#[test]
fn every_recorded_snapshot_is_closed_in_version_2() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../flow/tests/golden/logs");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path().join("snapshot.json")).unwrap();
        let Value::Object(recorded) = serde_json::from_str(&text).unwrap() else { panic!("{text}") };
        let shown = openwop::snapshot::to_v2("acme", recorded.clone());
        let members: BTreeSet<&str> = shown.keys().map(String::as_str).collect();
        assert!(members.iter().all(|name| MEMBERS.contains(name)), "{members:?}");
        for required in ["runId", "workflowId", "status", "owner", "eventLogSchemaVersion"] {
            assert!(members.contains(required), "{required}");
        }
        assert!(shown["engineVersion"].is_u64());
        assert_eq!(shown["owner"]["subject"]["issuer"], "urn:openwop:legacy");
        assert_eq!(shown["runId"], format!("acme/{}", recorded["runId"].as_str().unwrap()));
        if let Some(interrupt) = recorded.get("interrupt") {
            let node = interrupt["nodeId"].as_str().unwrap();
            let there = &shown["nodeStates"][node]["interrupt"];
            assert_eq!(there["key"], interrupt["key"]);
            assert!(there["interruptId"].as_str().unwrap().starts_with("acme/int_"));
        }
        seen += 1;
    }
    assert!(seen > 10);
}
