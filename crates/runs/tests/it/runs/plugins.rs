//! The access of plugins to artifacts of runs, and the available plugins.

use std::collections::BTreeMap;

use canon::time::Timestamp;
use flow::id::{ArtifactId, RunId, Tenant};
use packs::archive::Limits;
use packs::install::{HostFacts, Install, InstalledPacks};
use packs::integrity::Integrity;
use packs::name::NamespaceGlob;
use packs::path::EntryPath;
use packs::signature::{PUBLIC_KEY_PATH, PrivateKey, SIGNATURE_PATH, TrustedKey};
use packs::trust::TrustPolicy;
use plugins::artifacts::name;
use plugins::{Artifacts as _, Plugins, RunArtifacts};
use ports::runs::prelude::*;
use runs::Scope;
use runs::artifacts::ArtifactError;
use serde_json::{Value, json};

use super::{Host, begin, caller, workflow};

async fn artifact(host: &Host) -> (RunId, ArtifactId) {
    let data = json!({"text": "as it was made"});
    let nodes = json!([["make", "conformance.artifact.emit", {"artifactType": "note", "data": data}]]);
    let made = workflow("conformance-artifact", &nodes, &json!([]), &json!([]));
    host.runs.definitions().register(&caller("acme"), &made).await.unwrap();
    let run_id = begin(&host.runs, "conformance-artifact").await;
    super::to_the_end(&host.runs, &run_id).await;
    let ids = host.runs.artifacts().ids(&caller("acme"), &run_id).await.unwrap();
    (run_id, ids[0].clone())
}

fn port(host: &Host, tenant: &str, only: Option<String>) -> RunArtifacts {
    RunArtifacts {
        runs: host.runs.clone(),
        caller: caller(tenant),
        only,
        plugin: "vendor.acme.x/editor".into(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_many_concurrent_writers_wins_and_the_others_get_a_conflict() {
    let host = Host::start().await;
    let (run_id, artifact_id) = artifact(&host).await;
    let id = name(&run_id, &artifact_id);
    let port = port(&host, "acme", None);
    let held = port.read(&id).await.unwrap();
    assert_eq!(held.payload, json!({"text": "as it was made"}));
    let audited = || host.store.audit(&Tenant::new("acme"), 0, u64::MAX, 1000).wait().unwrap().len();
    let before = audited();
    let tries = (0..8).map(|number| {
        let (port, id, version) = (port.clone(), id.clone(), held.version.clone());
        tokio::spawn(async move { port.write(&id, Some(&version), &json!({"text": number})).await })
    });
    let tries: Vec<_> = tries.collect();
    let mut won = Vec::new();
    for attempt in tries {
        match attempt.await.unwrap() {
            Ok(version) => won.push(version),
            Err(ArtifactError::Conflict { current }) => assert_ne!(current, held.version),
            Err(other) => panic!("{other:?}"),
        }
    }
    let now = port.read(&id).await.unwrap();
    assert_eq!(won, std::slice::from_ref(&now.version), "one, and it is what is kept");
    assert_eq!(audited(), before + 1, "what was refused was not done");
    let document: Value = serde_json::from_slice(
        &host.runs.artifacts().read(&caller("acme"), &run_id, &artifact_id).await.unwrap(),
    )
    .unwrap();
    assert_eq!(
        (&document["artifactType"], &document["runId"]),
        (&json!("note"), &json!(run_id)),
        "the rest stays"
    );
    let log = serde_json::to_string(&super::events(&host.runs, "acme", &run_id)).unwrap();
    assert!(
        !log.contains(&now.version) && !log.contains(&held.version),
        "no version is in the log of the run"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn other_tenants_and_other_pages_find_nothing_and_permissions_are_those_of_the_viewer() {
    let host = Host::start().await;
    let (run_id, artifact_id) = artifact(&host).await;
    let id = name(&run_id, &artifact_id);
    let version = port(&host, "acme", None).read(&id).await.unwrap().version;
    let payload = json!("mine");
    let elsewhere = Some(name(&run_id, &ArtifactId::new("other")));
    for (port, id) in [
        (port(&host, "other", None), id.as_str()),
        (port(&host, "acme", elsewhere), id.as_str()),
        (port(&host, "acme", None), "nothing"),
        (port(&host, "acme", None), "run_none/x"),
        (port(&host, "acme", None), ""),
    ] {
        assert_eq!(port.read(id).await, Err(ArtifactError::NotFound), "{id}");
        assert_eq!(port.write(id, Some(&version), &payload).await, Err(ArtifactError::NotFound), "{id}");
    }
    let without = |scope: Scope| {
        let mut port = port(&host, "acme", Some(id.clone()));
        port.caller.scopes.retain(|known| *known != scope && *known != Scope::Admin);
        port
    };
    let reader = without(Scope::ApprovalsRespond);
    assert!(reader.read(&id).await.is_ok());
    assert_eq!(reader.write(&id, Some(&version), &payload).await, Err(ArtifactError::Unauthorized));
    assert_eq!(without(Scope::ArtifactsRead).read(&id).await, Err(ArtifactError::Unauthorized));
    assert_eq!(port(&host, "acme", None).read(&id).await.unwrap().version, version, "nothing was written");
}

/// Installs a pack of one plugin, signed or not, with an expected digest.
fn install(root: &std::path::Path, version: &str, plugin: &Value, document: &[u8], is_signed: bool) {
    let archive = archive(version, plugin, document, is_signed);
    install_as(root, &archive, Some(Integrity::of(&archive)), is_signed);
}

/// The archive of a pack of one plugin.
fn archive(version: &str, plugin: &Value, document: &[u8], is_signed: bool) -> Vec<u8> {
    let key = PrivateKey::from_entropy(&[3; 32]);
    let manifest = json!({
        "name": "vendor.acme.x", "version": version, "kind": "frontend-plugin", "engines": {"openwop": "^1.0.0"},
        "uiPlugins": [plugin],
    });
    let manifest = serde_json::to_vec(&manifest).unwrap();
    let (signature, pem) = (key.sign(&manifest), key.public().to_pem());
    let path = |text: &str| EntryPath::parse(text).unwrap();
    let mut files = BTreeMap::from([
        (path("pack.json"), (manifest.as_slice(), false)),
        (path("index.html"), (document, false)),
        (path("secret.txt"), (b"not an entry".as_slice(), false)),
    ]);
    if is_signed {
        files.insert(path(SIGNATURE_PATH), (&signature, false));
        files.insert(path(PUBLIC_KEY_PATH), (pem.as_bytes(), false));
    }
    packs::archive::write(&files).unwrap()
}

fn install_as(root: &std::path::Path, archive: &[u8], expected: Option<Integrity>, is_trusted: bool) {
    let key = PrivateKey::from_entropy(&[3; 32]);
    let trusted = TrustedKey {
        id: "acme".into(),
        key: key.public(),
        permitted: vec![NamespaceGlob::parse("vendor.acme.*").unwrap()],
    };
    let keys = if is_trusted { vec![trusted] } else { Vec::new() };
    let policy = TrustPolicy { keys, ..TrustPolicy::open() };
    let install = Install {
        archive,
        expected,
        policy: &policy,
        host: &HostFacts { ui_plugins: true, ..HostFacts::default() },
        limits: Limits::default(),
        now: Timestamp(0),
    };
    InstalledPacks::open(root).unwrap().install(&install).unwrap();
}

#[test]
fn a_plugin_is_served_only_while_it_equals_what_a_trusted_key_signed() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = json!({"pluginId": "editor", "surface": "artifact-viewer", "entry": "index.html", "hostApi": ["artifact.read"]});
    let plugins =
        Plugins::open(folder.path(), Some("http://127.0.0.1:7718".into()), "http://127.0.0.1:7717").unwrap();
    assert!(plugins.packs().1.is_empty());
    install(folder.path(), "1.0.0", &plugin, b"<p>one", true);
    let (pack, found) = plugins.find("vendor.acme.x", "editor").expect("it is seen without a restart");
    assert_eq!(
        plugins.address(&pack, &found).unwrap(),
        "http://127.0.0.1:7718/vendor.acme.x/1.0.0/index.html"
    );
    let document = plugins.document("/vendor.acme.x/1.0.0/index.html").unwrap();
    assert_eq!(document.bytes, b"<p>one");
    assert!(!document.policy.contains("connect-src"), "{}", document.policy);
    for path in [
        "/vendor.acme.x/1.0.0/pack.json",
        "/vendor.acme.x/1.0.0/secret.txt",
        "/vendor.acme.x/2.0.0/index.html",
        "/vendor.acme.x/1.0.0/",
        "/",
        "",
        "/vendor.acme.x/1.0.0/../1.0.0/index.html",
        "/vendor.acme.x/1.0.0/.interlock/installed.json",
    ] {
        assert!(plugins.document(path).is_none(), "{path}");
    }
    // After a change on the disk, no file of the pack is served any more.
    std::fs::write(folder.path().join("vendor.acme.x/1.0.0/secret.txt"), "changed").unwrap();
    assert!(plugins.document("/vendor.acme.x/1.0.0/index.html").is_none());
    assert!(plugins.find("vendor.acme.x", "editor").is_none());
    assert!(plugins.packs().1[0].problem.as_ref().unwrap().contains("have changed since the install"));
    // A later version that is not signed is not loaded, and the previous one is not used either.
    install(folder.path(), "1.1.0", &plugin, b"<p>two", false);
    assert!(plugins.packs().1[0].problem.as_ref().unwrap().contains("not signed"));
    let large = vec![b' '; plugins::MAX_ENTRY_BYTES + 1];
    install(folder.path(), "1.2.0", &plugin, &large, true);
    assert!(plugins.packs().1[0].problem.as_ref().unwrap().contains("1048576 bytes"));
    let mut wide = plugin.clone();
    wide["connectSrc"] = json!(["http://plain.example"]);
    install(folder.path(), "1.3.0", &wide, b"<p>", true);
    assert!(plugins.packs().1[0].problem.is_some());
    install(folder.path(), "1.4.0", &plugin, b"<p>good", true);
    assert_eq!(plugins.document("/vendor.acme.x/1.4.0/index.html").unwrap().bytes, b"<p>good");
    // A version with a damaged record is not replaced by the previous one either.
    install(folder.path(), "1.5.0", &plugin, b"<p>later", true);
    std::fs::write(folder.path().join("vendor.acme.x/1.5.0/.interlock/installed.json"), "{").unwrap();
    assert!(plugins.find("vendor.acme.x", "editor").is_none());
    assert!(plugins.document("/vendor.acme.x/1.4.0/index.html").is_none());
    let packs = plugins.packs().1;
    assert_eq!((packs.len(), packs[0].version.as_str()), (1, "1.5.0"));
    assert!(packs[0].problem.as_ref().unwrap().contains("have changed since the install"));
}

#[test]
fn a_signature_of_the_manifest_does_not_cover_other_documents() {
    let folder = tempfile::tempdir().unwrap();
    let plugin =
        json!({"pluginId": "editor", "surface": "artifact-viewer", "entry": "index.html", "hostApi": []});
    let plugins =
        Plugins::open(folder.path(), Some("http://127.0.0.1:7718".into()), "http://127.0.0.1:7717").unwrap();
    let (good, swapped) =
        (archive("1.0.0", &plugin, b"<p>good", true), archive("1.0.0", &plugin, b"<p>evil", true));
    // The manifest and its signature are the same. Only the digest of the archive shows that the document is different.
    let address = "/vendor.acme.x/1.0.0/index.html";
    install_as(folder.path(), &swapped, None, true);
    assert!(plugins.document(address).is_none());
    assert!(plugins.packs().1[0].problem.as_ref().unwrap().contains("--expect"));
    let packs = InstalledPacks::open(folder.path()).unwrap();
    let wrong = Install {
        archive: &swapped,
        expected: Some(Integrity::of(&good)),
        policy: &TrustPolicy::open(),
        host: &HostFacts { ui_plugins: true, ..HostFacts::default() },
        limits: Limits::default(),
        now: Timestamp(0),
    };
    assert_eq!(packs.install(&wrong).unwrap_err().code().as_str(), "pack_integrity_failure");
    assert!(plugins.document(address).is_none());
    packs.remove(&packs.list().unwrap()[0].name, &packs.list().unwrap()[0].version).unwrap();
    install_as(folder.path(), &good, Some(Integrity::of(&good)), true);
    assert_eq!(plugins.document(address).unwrap().bytes, b"<p>good");
}

#[test]
fn a_plugin_is_shown_once_its_key_is_trusted_and_it_is_installed_again() {
    let folder = tempfile::tempdir().unwrap();
    let plugin =
        json!({"pluginId": "editor", "surface": "artifact-viewer", "entry": "index.html", "hostApi": []});
    let plugins =
        Plugins::open(folder.path(), Some("http://127.0.0.1:7718".into()), "http://127.0.0.1:7717").unwrap();
    let archive = archive("1.0.0", &plugin, b"<p>", true);
    install_as(folder.path(), &archive, Some(Integrity::of(&archive)), false);
    assert!(
        plugins.packs().1[0].problem.as_ref().unwrap().contains("Trust the key, and install the pack again")
    );
    install_as(folder.path(), &archive, None, true);
    assert!(plugins.find("vendor.acme.x", "editor").is_some(), "{:?}", plugins.packs().1[0].problem);
}
