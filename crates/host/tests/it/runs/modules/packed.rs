//! Modules that come in packs: from an archive to nodes that can be run.

use std::collections::BTreeMap;

use host::hands::installed::{self, Unserved};
use host::hands::{Hands, Options};
use packs::archive::Limits;
use packs::install::{HostFacts, Install, InstalledPacks};
use packs::path::EntryPath;
use packs::time::Millis;
use packs::trust::TrustPolicy;
use serde_json::{Value, json};

use super::script::Script;
use super::{Host, Setup, TYPE, begin, caller, snapshot, to_the_end, workflow};

/// A folder of packs with this one in it.
fn installed(runtime: &Value, module: &[u8]) -> (InstalledPacks, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut manifest = json!({
        "name": "vendor.acme.scripted", "version": "1.0.0", "engines": {"openwop": ">=1.0 <2.0.0"},
        "nodes": [{"typeId": TYPE, "version": "1.0.0", "category": "data", "role": "pure"}],
        "runtime": {"language": "wasm", "entry": "nodes.wasm"},
    });
    manifest["runtime"].as_object_mut().unwrap().extend(runtime.as_object().unwrap().clone());
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
        host: &HostFacts::everything([]),
        limits: Limits::default(),
        now: Millis(0),
    };
    let packs = InstalledPacks::open(folder.path()).unwrap();
    packs.install(&install).unwrap();
    (packs, folder)
}

fn code(unserved: &[Unserved]) -> Vec<&str> {
    unserved.iter().map(|pack| pack.code.as_str()).collect()
}

#[test]
fn a_pack_of_another_version_of_the_abi_is_left_out_and_said_why() {
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
        ("it is no module", json!({}), b"no module".to_vec(), vec!["sandbox_bad_module"]),
    ];
    for (what, runtime, module, expected) in rows {
        let (packs, _folder) = installed(&runtime, &module);
        let (modules, unserved) = installed::load(&packs).unwrap();
        assert_eq!(code(&unserved), expected, "{what}: {unserved:?}");
        assert_eq!(modules.packs().len(), usize::from(expected.is_empty()), "{what}");
    }
}

#[tokio::test]
async fn a_pack_gets_the_memory_and_the_clock_that_its_manifest_asks_for() {
    // The module has four pages from the beginning, and imports the clock.
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
        let (modules, unserved) = installed::load(&packs).unwrap();
        assert_eq!(code(&unserved), [] as [&str; 0], "{runtime}");
        let hands = Hands::new(Options { modules: Some(modules), ..Options::default() });
        let host = Host::with(Setup { hands: Some(hands), ..Setup::default() }).await;
        let document = workflow("packed", &json!([["m", TYPE, {}]]), &json!([]), &json!([]));
        host.runs.register(&caller("acme"), &document).await.unwrap();
        let run_id = begin(&host.runs, "packed").await;
        to_the_end(&host.runs, &run_id).await;
        let run = snapshot(&host.runs, &caller("acme"), &run_id);
        assert_eq!(run["error"]["code"].as_str(), expected, "{runtime}: {run}");
    }
}
