//! Modules in packs: from an archive to executable nodes.

use std::collections::BTreeMap;

use canon::time::Timestamp;
use executors::installed::{self, DEFAULT_FUEL, Unserved};
use executors::{Executors, Options};
use packs::archive::Limits;
use packs::install::{HostFacts, Install, InstalledPacks};
use packs::path::EntryPath;
use packs::trust::TrustPolicy;
use runs::{ApiCode, RefusalKind};
use serde_json::{Value, json};

use super::script::Script;
use super::{Host, Setup, TYPE, begin, caller, events, snapshot, to_the_end, workflow};

/// A folder of packs with this pack.
fn installed(runtime: &Value, module: &[u8]) -> (InstalledPacks, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let packs = InstalledPacks::open(folder.path()).unwrap();
    add(&packs, "vendor.acme.scripted", runtime, &json!({}), module);
    (packs, folder)
}

/// Installs a pack of one node with these members of its manifest. The install grants everything that it requires, because the tests check
/// what happens when it is loaded.
fn add(packs: &InstalledPacks, name: &str, runtime: &Value, members: &Value, module: &[u8]) {
    let mut manifest = json!({
        "name": name, "version": "1.0.0", "engines": {"openwop": ">=1.0 <2.0.0"},
        "nodes": [{"typeId": TYPE, "version": "1.0.0", "category": "data", "role": "pure"}],
        "runtime": {"language": "wasm", "entry": "nodes.wasm"},
    });
    manifest["runtime"].as_object_mut().unwrap().extend(runtime.as_object().unwrap().clone());
    manifest.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    let manifest = serde_json::to_vec(&manifest).unwrap();
    let path = |path| EntryPath::parse(path).unwrap();
    let files = BTreeMap::from([
        (path("pack.json"), (manifest.as_slice(), false)),
        (path("nodes.wasm"), (module, false)),
    ]);
    let install = Install {
        archive: &packs::archive::write(&files).unwrap(),
        expected: None,
        policy: &TrustPolicy::open(),
        host: &HostFacts { capabilities: None, ..HostFacts::everything([]) },
        limits: Limits::default(),
        now: Timestamp(0),
    };
    packs.install(&install).unwrap();
}

/// A host with these capabilities.
fn giving(capabilities: &[&str]) -> HostFacts {
    let names = capabilities.iter().map(|name| (*name).to_owned()).collect();
    HostFacts { capabilities: Some(names), ..installed::host_facts(false) }
}

fn code(unserved: &[Unserved]) -> Vec<&str> {
    unserved.iter().map(|pack| pack.code.as_str()).collect()
}

#[test]
fn a_pack_with_another_abi_version_is_not_used_and_the_reason_is_reported() {
    let bomb = sandbox::conformance::module("vendor.openwop.misbehaving.abi-bomb").unwrap().bytes;
    let fine = || Script::default().bytes(TYPE);
    let rows = [
        ("its module says so", json!({}), bomb.to_vec(), vec!["unsupported_abi_version"]),
        (
            "its manifest says so",
            json!({"wasm": {"abiVersion": 999}}),
            fine(),
            vec!["unsupported_abi_version"],
        ),
        ("its manifest says the right one", json!({"wasm": {"abiVersion": 1}}), fine(), vec![]),
        ("its manifest says nothing", json!({}), fine(), vec![]),
        ("it is not a module", json!({}), b"no module".to_vec(), vec!["sandbox_bad_module"]),
    ];
    for (what, runtime, module, expected) in rows {
        let (packs, _folder) = installed(&runtime, &module);
        let (modules, unserved) = installed::load(&packs, &giving(&[]), DEFAULT_FUEL).unwrap();
        assert_eq!(code(&unserved), expected, "{what}: {unserved:?}");
        assert_eq!(modules.packs().len(), usize::from(expected.is_empty()), "{what}");
    }
}

#[tokio::test]
async fn a_pack_gets_the_memory_and_the_clock_that_its_manifest_asks_for() {
    // The module has four pages initially, and imports the clock.
    let rows = [
        (json!({"requires": ["clock"], "wasm": {"abiVersion": 1, "memoryPagesMax": 4}}), None),
        (
            json!({"requires": ["clock"], "wasm": {"abiVersion": 1, "memoryPagesMax": 3}}),
            Some("sandbox_memory_exceeded"),
        ),
        (json!({}), Some("sandbox_capability_denied")),
    ];
    for (runtime, expected) in rows {
        let (packs, _folder) = installed(&runtime, &Script::default().bytes(TYPE));
        let (modules, unserved) = installed::load(&packs, &giving(&[]), DEFAULT_FUEL).unwrap();
        assert_eq!(code(&unserved), [] as [&str; 0], "{runtime}");
        let executors = Executors::new(Options { modules: Some(modules), ..Options::default() });
        let host = Host::with(Setup { executors: Some(executors), ..Setup::default() }).await;
        let document = workflow("packed", &json!([["m", TYPE, {}]]), &json!([]), &json!([]));
        host.runs.definitions().register(&caller("acme"), &document).await.unwrap();
        let run_id = begin(&host.runs, "packed").await;
        to_the_end(&host.runs, &run_id).await;
        let run = snapshot(&host.runs, &caller("acme"), &run_id);
        assert_eq!(run["error"]["code"].as_str(), expected, "{runtime}: {run}");
    }
}

/// A host with these packs, and its response to a workflow with that type.
async fn registered(packs: &InstalledPacks, facts: &HostFacts) -> Result<Host, (ApiCode, Value)> {
    let (modules, _) = installed::load(packs, facts, DEFAULT_FUEL).unwrap();
    let executors = Executors::new(Options { modules: Some(modules), ..Options::default() });
    let host = Host::with(Setup { executors: Some(executors), ..Setup::default() }).await;
    let document = workflow("packed", &json!([["m", TYPE, {}]]), &json!([]), &json!([]));
    match host.runs.definitions().register(&caller("acme"), &document).await {
        Ok(_) => Ok(host),
        Err(refusal) => Err((refusal.code, Value::Object(refusal.details))),
    }
}

#[tokio::test]
async fn a_pack_is_checked_against_the_capabilities_of_the_host_when_it_is_loaded() {
    let node = |members: Value| {
        let mut node = json!({"typeId": TYPE, "version": "1.0.0", "category": "data", "role": "pure"});
        node.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        json!({"nodes": [node]})
    };
    let peer = |meta: Value| json!({"peerDependencies": {"host.fs": "^1"}, "peerDependenciesMeta": meta});
    let secret = node(json!({"requiresSecrets": [{"id": "token", "kind": "api-key", "scope": "tenant"}]}));
    let (none, fs, secrets) = (giving(&[]), giving(&["fs"]), giving(&["secrets"]));
    let rows = [
        ("nothing", json!({}), json!({}), &none, None),
        (
            "a process",
            json!({"requires": ["subprocess"]}),
            json!({}),
            &fs,
            Some((ApiCode::PackLoadFailure, "pack_runtime_requirement_unmet")),
        ),
        (
            "another language",
            json!({"language": "javascript"}),
            json!({}),
            &fs,
            Some((ApiCode::PackLoadFailure, "unsupported_pack_runtime")),
        ),
        (
            "files of the host, which are not there",
            json!({}),
            peer(json!({})),
            &none,
            Some((ApiCode::PackPeerDependencyMissing, "pack_peer_dependency_missing")),
        ),
        ("files of the host", json!({}), peer(json!({})), &fs, None),
        (
            "files of the host, if they are there",
            json!({}),
            peer(json!({"host.fs": {"optional": true}})),
            &none,
            None,
        ),
        (
            "a secret, and there is none",
            json!({}),
            secret.clone(),
            &fs,
            Some((ApiCode::CredentialUnavailable, "credential_unavailable")),
        ),
        ("a secret", json!({}), secret, &secrets, None),
        (
            "a node that its module does not have",
            json!({}),
            node(json!({"typeId": "vendor.acme.scripted.other"})),
            &none,
            // The type is in the module, but the manifest does not name it.
            Some((ApiCode::ValidationError, "")),
        ),
    ];
    for (what, runtime, members, facts, expected) in rows {
        let folder = tempfile::tempdir().unwrap();
        let packs = InstalledPacks::open(folder.path()).unwrap();
        let runtime = {
            let mut wanted = json!({"requires": ["clock"]});
            wanted.as_object_mut().unwrap().extend(runtime.as_object().unwrap().clone());
            wanted
        };
        add(&packs, "vendor.acme.scripted", &runtime, &members, &Script::default().bytes(TYPE));
        match (registered(&packs, facts).await, expected) {
            (Ok(host), None) => {
                let run_id = begin(&host.runs, "packed").await;
                to_the_end(&host.runs, &run_id).await;
                assert_eq!(snapshot(&host.runs, &caller("acme"), &run_id)["status"], "completed", "{what}");
            }
            (Err((code, details)), Some((expected, cause))) => {
                assert_eq!(
                    (code, details["cause"].as_str().unwrap_or_default()),
                    (expected, cause),
                    "{what}"
                );
                if !cause.is_empty() {
                    assert_eq!(details["manifest"], "vendor.acme.scripted@1.0.0", "{what}");
                    assert_eq!(
                        (&details["offendingTypeId"], &details["nodeId"]),
                        (&TYPE.into(), &"m".into())
                    );
                }
            }
            (found, expected) => panic!("{what}: {:?} instead of {expected:?}", found.map(drop)),
        }
    }
}

#[tokio::test]
async fn a_type_of_a_pack_that_could_not_be_loaded_is_refused_with_the_reason() {
    let place =
        |folder: &tempfile::TempDir, path: &str| folder.path().join("vendor.acme.scripted/1.0.0").join(path);
    let clock = json!({"requires": ["clock"]});
    // The module was changed, or its record.
    for (path, bytes) in [("nodes.wasm", b"changed".as_slice()), (".interlock/installed.json", b"{")] {
        let (packs, folder) = installed(&clock, &Script::default().bytes(TYPE));
        add(
            &packs,
            "vendor.acme.zebra",
            &clock,
            &json!({}),
            &Script::default().bytes("vendor.acme.zebra.run"),
        );
        std::fs::write(place(&folder, path), bytes).unwrap();
        let (modules, unserved) = installed::load(&packs, &giving(&[]), DEFAULT_FUEL).unwrap();
        assert_eq!(code(&unserved), ["pack_load_failure"], "{path}");
        assert!(modules.refused().get(TYPE).is_some());
        assert!(installed::load_agents(&packs, &giving(&[])).is_ok() && installed::prompts(&packs).is_ok());
        let (refused, details) = registered(&packs, &giving(&[])).await.err().unwrap();
        assert_eq!(
            (refused, &details["cause"]),
            (ApiCode::PackLoadFailure, &"pack_load_failure".into()),
            "{path}"
        );
        assert_eq!((refused.as_str(), refused.kind()), ("pack_load_failure", RefusalKind::Invalid));
    }
}

#[tokio::test]
async fn a_version_whose_record_is_damaged_is_not_replaced_by_the_one_before_it() {
    let (packs, folder) = installed(&json!({"requires": ["clock"]}), &Script::default().bytes(TYPE));
    let members = json!({"version": "1.1.0"});
    add(
        &packs,
        "vendor.acme.scripted",
        &json!({"requires": ["clock"]}),
        &members,
        &Script::default().bytes(TYPE),
    );
    assert!(registered(&packs, &giving(&[])).await.is_ok());
    std::fs::write(folder.path().join("vendor.acme.scripted/1.1.0/.interlock/installed.json"), b"{}")
        .unwrap();
    let (refused, details) = registered(&packs, &giving(&[])).await.err().unwrap();
    assert_eq!(
        (refused, &details["manifest"]),
        (ApiCode::PackLoadFailure, &"vendor.acme.scripted@1.1.0".into())
    );
}

#[tokio::test]
async fn a_node_of_a_pack_that_uses_up_its_fuel_breaches_a_cap() {
    let (packs, _folder) = installed(&json!({"requires": ["clock"]}), &Script::default().bytes(TYPE));
    for (fuel, expected) in [(DEFAULT_FUEL, None), (1, Some("sandbox_fuel_exhausted"))] {
        let (modules, unserved) = installed::load(&packs, &giving(&[]), fuel).unwrap();
        assert_eq!(code(&unserved), [] as [&str; 0]);
        let executors = Executors::new(Options { modules: Some(modules), ..Options::default() });
        let host = Host::with(Setup { executors: Some(executors), ..Setup::default() }).await;
        let document = workflow("packed", &json!([["m", TYPE, {}]]), &json!([]), &json!([]));
        host.runs.definitions().register(&caller("acme"), &document).await.unwrap();
        let run_id = begin(&host.runs, "packed").await;
        to_the_end(&host.runs, &run_id).await;
        let run = snapshot(&host.runs, &caller("acme"), &run_id);
        assert_eq!(run["error"]["code"].as_str(), expected, "{run}");
        let breached = events(&host.runs, "acme", &run_id);
        let breached: Vec<&Value> = breached.iter().filter(|event| event["type"] == "cap.breached").collect();
        let kinds: Vec<&Value> = breached.iter().map(|event| &event["payload"]["kind"]).collect();
        assert_eq!(kinds.contains(&&Value::from("wasm-fuel")), expected.is_some());
    }
}
