//! Capabilities for packs: checked when a pack is installed and when it is served.

use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{KEY, Served, examples};
use crate::program::{run, text};

/// Runs `interlock pack` on a data directory and returns its exit code and JSON.
fn pack(data: &Path, arguments: &[&str]) -> (i32, Value) {
    let mut all = vec!["pack"];
    all.extend(arguments);
    all.extend(["--json", "--data-dir", data.to_str().unwrap()]);
    let output = run(&all, b"");
    let document = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {}", text(&output.stderr)));
    (output.status.code().unwrap(), document)
}

/// The folder of a pack of this kind, with these members in its manifest.
fn folder_of(home: &Path, name: &str, kind: &str, members: &Value) -> String {
    let folder = home.join(name).to_str().unwrap().to_owned();
    assert_eq!(pack(home, &["new", name, &folder, "--kind", kind]).0, 0);
    let path = home.join(name).join("pack.json");
    let mut manifest: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    merge(&mut manifest, members);
    std::fs::write(&path, serde_json::to_vec(&manifest).unwrap()).unwrap();
    folder
}

fn merge(into: &mut Value, members: &Value) {
    for (name, value) in members.as_object().unwrap() {
        match (into.get_mut(name), value) {
            (Some(there), Value::Object(_)) if there.is_object() => merge(there, value),
            _ => into[name] = value.clone(),
        }
    }
}

#[test]
fn a_pack_with_missing_capabilities_is_not_installed() {
    let home = TempDir::new().unwrap();
    let data = home.path().join("data");
    let rows = [
        ("node", json!({"runtime": {"requires": ["subprocess"]}}), Some("pack_runtime_requirement_unmet")),
        ("node", json!({"runtime": {"language": "javascript"}}), Some("unsupported_pack_runtime")),
        ("node", json!({"runtime": {"requires": ["clock"]}}), None),
        ("frontend-plugin", json!({}), Some("pack_kind_invalid")),
    ];
    for (place, (kind, members, expected)) in rows.iter().enumerate() {
        let folder = folder_of(home.path(), &format!("vendor.acme.tools{place}"), kind, members);
        let (code, message) = pack(&data, &["install", &folder]);
        assert_eq!(
            (code == 0, message["code"].as_str()),
            (expected.is_none(), *expected),
            "{members}: {message}"
        );
    }
    // The same plugin on a host that serves plugins.
    std::fs::write(data.join("config.toml"), "[plugins]\nlisten = \"127.0.0.1:0\"\n").unwrap();
    let folder = home.path().join("vendor.acme.tools3").to_str().unwrap().to_owned();
    assert_eq!(pack(&data, &["install", &folder]).0, 0);
}

#[tokio::test]
async fn a_server_starts_without_unusable_packs_and_reports_them() {
    let home = TempDir::new().unwrap();
    let data = home.path().join("data");
    for (name, members) in [
        ("vendor.acme.damaged", json!({})),
        ("vendor.acme.needs", json!({"peerDependencies": {"host.nothing-of-the-kind": "^1"}})),
        (
            "vendor.acme.uses",
            json!({"peerDependencies": {"host.fs": "^1", "secrets": "^1"}, "peerDependenciesMeta": {"secrets": {"optional": true}}}),
        ),
    ] {
        let folder = folder_of(home.path(), name, "node", &members);
        assert_eq!(pack(&data, &["install", &folder]).0, 0, "{name}");
    }
    std::fs::write(data.join("packs/vendor.acme.damaged/0.1.0/.interlock/installed.json"), b"{").unwrap();
    // A stray file is not a pack, whatever its name.
    std::fs::write(data.join("packs/vendor.acme.notes"), b"").unwrap();
    let served = Served::on(&data, &examples());
    let (status, listed) = served.ask("GET", "/v1/packs", None, KEY, None).await;
    assert_eq!(status, 200, "{listed}");
    for (name, code) in [("damaged", "pack_load_failure"), ("needs", "pack_peer_dependency_missing")] {
        let message = json!(format!("vendor.acme.{name}@0.1.0"));
        let message = listed["unserved"].as_array().unwrap().iter().find(|pack| pack["pack"] == message);
        assert_eq!(message.map(|pack| &pack["code"]), Some(&json!(code)), "{listed}");
    }
    let uses =
        listed["packs"].as_array().unwrap().iter().find(|pack| pack["name"] == "vendor.acme.uses").unwrap();
    assert_eq!(uses["degraded"], json!(["secrets"]));
    // A workflow that uses a type of a damaged pack gets the pack's error, not "unknown type".
    let manifest = std::fs::read(home.path().join("vendor.acme.needs/pack.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    let node = json!({
        "id": "n", "typeId": manifest["nodes"][0]["typeId"], "name": "n", "position": {"x": 0, "y": 0}, "config": {}, "inputs": {},
    });
    let workflow = json!({
        "id": "uses-it", "name": "Uses it", "version": "1", "nodes": [node], "edges": [],
        "triggers": [{"id": "t", "type": "manual"}], "variables": [], "metadata": {}, "settings": {},
    });
    let (status, refused) = served.ask("POST", "/v1/workflows", Some(workflow), KEY, None).await;
    assert_eq!((status, &refused["error"]), (400, &json!("pack_peer_dependency_missing")), "{refused}");
    assert_eq!(refused["details"]["manifest"], "vendor.acme.needs@0.1.0");
}
