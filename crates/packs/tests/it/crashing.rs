//! A crash before every operation of an install, a removal and a publication: afterwards each pack is complete or
//! absent, and a retry succeeds.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use canon::time::Timestamp;
use disk::rooted::{Gate, Operation};
use packs::archive::Limits;
use packs::install::{HostFacts, Install, InstalledPacks};
use packs::integrity::Integrity;
use packs::name::PackName;
use packs::publish::{PublishRequest, PublishRules, check};
use packs::registry::{FolderStore, Publisher, Registry, RegistryStore, Yank};
use packs::trust::TrustPolicy;
use packs::version::Version;

use crate::support::{node_pack, packed};

const NAME: &str = "vendor.acme.tools";
const OURS: Publisher<'static> = Publisher { id: "us", may_publish_core: false };

/// Allows a number of operations and fails all later ones. Records the allowed operations.
#[derive(Debug)]
struct CrashGate {
    left: usize,
    seen: Mutex<Vec<Operation>>,
}

impl CrashGate {
    fn after(left: usize) -> Arc<Self> {
        Arc::new(Self { left, seen: Mutex::default() })
    }

    fn seen(&self) -> Vec<Operation> {
        self.seen.lock().unwrap().clone()
    }
}

impl Gate for CrashGate {
    fn before(&self, operation: Operation) -> io::Result<()> {
        let mut seen = self.seen.lock().unwrap();
        if seen.len() >= self.left {
            return Err(io::Error::other("simulated crash"));
        }
        seen.push(operation);
        Ok(())
    }
}

fn name() -> PackName {
    PackName::parse(NAME).unwrap()
}

fn version(text: &str) -> Version {
    text.parse().unwrap()
}

fn archive(number: &str) -> Vec<u8> {
    packed(
        &node_pack(NAME, number),
        &[("nodes.wasm", b"\0asm"), ("a/b/c.txt", b"deep"), ("a/d.txt", number.as_bytes())],
    )
}

fn install(packs: &InstalledPacks, number: &str) -> bool {
    let (policy, host) = (TrustPolicy::open(), HostFacts::everything(["fs".to_owned()]));
    let install = Install {
        archive: &archive(number),
        expected: None,
        policy: &policy,
        host: &host,
        limits: Limits::DEFAULT,
        now: Timestamp(0),
    };
    packs.install(&install).is_ok()
}

/// The installed versions, each of them complete.
fn installed(root: &Path) -> Vec<String> {
    let packs = InstalledPacks::open(root).unwrap();
    let listed = packs.list().unwrap();
    for record in &listed {
        packs.load(&record.name, &record.version, true).expect("listed packs are complete");
    }
    assert_eq!(packs.manifests().unwrap().len(), listed.len());
    listed.iter().map(|record| record.version.to_string()).collect()
}

#[test]
fn installs_are_atomic_and_repeatable() {
    for at in 0.. {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        assert!(install(&InstalledPacks::open(root).unwrap(), "0.9.0"));
        let gate = CrashGate::after(at);
        let done = install(&InstalledPacks::open(root).unwrap().gated(gate.clone()), "1.0.0");
        let renamed = gate.seen().contains(&Operation::Rename);
        let expected: &[&str] = if renamed { &["0.9.0", "1.0.0"] } else { &["0.9.0"] };
        assert_eq!(installed(root), expected, "crash before operation {at}");
        // Another process continues: leftovers do not stop it, and it removes them.
        assert!(install(&InstalledPacks::open(root).unwrap(), "1.0.0"), "retry after {at}");
        assert!(install(&InstalledPacks::open(root).unwrap(), "1.1.0"), "another version after {at}");
        assert_eq!(installed(root), ["0.9.0", "1.0.0", "1.1.0"]);
        assert!(!root.join(".staging").exists(), "crash before operation {at}");
        if done {
            assert!(at > 10, "an install of four files has more than {at} operations");
            return;
        }
    }
}

#[test]
fn packs_are_durable_before_they_are_visible() {
    let folder = tempfile::tempdir().unwrap();
    let gate = CrashGate::after(usize::MAX);
    assert!(install(&InstalledPacks::open(folder.path()).unwrap().gated(gate.clone()), "1.0.0"));
    let seen = gate.seen();
    let place = |wanted: Operation| seen.iter().position(|operation| *operation == wanted).unwrap();
    let last_write = seen.iter().rposition(|operation| *operation == Operation::WriteFile).unwrap();
    let (synced, renamed) = (place(Operation::Sync), place(Operation::Rename));
    assert!(last_write < synced && synced < renamed, "{seen:?}");
    assert_eq!(seen[renamed + 1], Operation::Sync, "{seen:?}");
}

#[test]
fn record_updates_are_atomic_and_repeatable() {
    let bytes = archive("1.0.0");
    let again = |packs: &InstalledPacks| {
        let (policy, host) = (TrustPolicy::open(), HostFacts::everything(["fs".to_owned()]));
        let install = Install {
            archive: &bytes,
            expected: Some(Integrity::of(&bytes)),
            policy: &policy,
            host: &host,
            limits: Limits::DEFAULT,
            now: Timestamp(0),
        };
        packs.install(&install).is_ok()
    };
    for at in 0.. {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        assert!(install(&InstalledPacks::open(root).unwrap(), "1.0.0"));
        let gate = CrashGate::after(at);
        let done = again(&InstalledPacks::open(root).unwrap().gated(gate.clone()));
        assert_eq!(installed(root), ["1.0.0"], "crash before operation {at}");
        let announced =
            || InstalledPacks::open(root).unwrap().record(&name(), &version("1.0.0")).unwrap().announced;
        assert_eq!(announced(), gate.seen().contains(&Operation::Rename), "crash before operation {at}");
        assert!(again(&InstalledPacks::open(root).unwrap()) && announced(), "retry after {at}");
        if done {
            assert!(
                at >= 5,
                "replacing a record (create, write, sync, rename, sync) takes more than {at} operations"
            );
            return;
        }
    }
}

#[test]
fn removals_are_atomic_and_repeatable() {
    for at in 0.. {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let packs = InstalledPacks::open(root).unwrap();
        assert!(install(&packs, "1.0.0") && install(&packs, "1.1.0"));
        drop(packs);
        let gate = CrashGate::after(at);
        let packs = InstalledPacks::open(root).unwrap().gated(gate.clone());
        let done = packs.remove(&name(), &version("1.0.0")).is_ok();
        drop(packs);
        let gone = gate.seen().contains(&Operation::Rename);
        let expected: &[&str] = if gone { &["1.1.0"] } else { &["1.0.0", "1.1.0"] };
        assert_eq!(installed(root), expected, "crash before operation {at}");
        let again = InstalledPacks::open(root).unwrap().remove(&name(), &version("1.0.0"));
        assert_eq!(again.is_ok(), !gone, "crash before operation {at}");
        assert!(install(&InstalledPacks::open(root).unwrap(), "1.0.0"), "reinstall after {at}");
        assert_eq!(installed(root), ["1.0.0", "1.1.0"]);
        if done {
            return;
        }
    }
}

fn publish<S: RegistryStore>(registry: &Registry<S>, number: &str) -> bool {
    let body = archive(number);
    let request = PublishRequest {
        name: NAME,
        version: number,
        content_type: None,
        sha256: None,
        signing_method: None,
        body: &body,
    };
    let accepted = check(&request, &PublishRules::private()).unwrap();
    registry.publish(&accepted, &body, OURS, Timestamp(1000)).is_ok()
}

/// The versions that a registry in the folder offers. Each can be downloaded unchanged.
fn offered(root: &Path) -> Vec<String> {
    let registry = Registry::open(FolderStore::open(root).unwrap()).unwrap();
    let Ok(document) = registry.pack(&name()) else { return Vec::new() };
    let versions: Vec<String> = document["versions"].as_object().unwrap().keys().cloned().collect();
    for number in &versions {
        let (_, bytes) =
            registry.archive(&name(), &version(number)).expect("offered versions can be downloaded");
        assert_eq!(bytes, archive(number));
    }
    versions
}

#[test]
fn publications_are_atomic_and_repeatable() {
    for at in 0.. {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        assert!(publish(&Registry::open(FolderStore::open(root).unwrap()).unwrap(), "1.0.0"));
        let gate = CrashGate::after(at);
        let store = FolderStore::open_gated(root, Some(gate.clone()));
        let done = store.ok().is_some_and(|store| publish(&Registry::open(store).unwrap(), "1.1.0"));
        // The archive is renamed first, then the document that offers it.
        let renames = gate.seen().iter().filter(|operation| **operation == Operation::Rename).count();
        let expected: &[&str] = if renames == 2 { &["1.0.0", "1.1.0"] } else { &["1.0.0"] };
        assert_eq!(offered(root), expected, "crash before operation {at}");
        assert!(
            publish(&Registry::open(FolderStore::open(root).unwrap()).unwrap(), "1.1.0"),
            "retry after {at}"
        );
        assert_eq!(offered(root), ["1.0.0", "1.1.0"]);
        if done {
            assert!(at > 8, "a publication has more than {at} operations");
            return;
        }
    }
}

#[test]
fn failed_publications_are_not_offered() {
    for at in 4..9 {
        let folder = tempfile::tempdir().unwrap();
        let gate = CrashGate::after(at);
        let Ok(store) = FolderStore::open_gated(folder.path(), Some(gate)) else { continue };
        let registry = Registry::open(store).unwrap();
        if !publish(&registry, "1.0.0") {
            assert_eq!(registry.count(), 0, "crash before operation {at}");
            assert!(registry.pack(&name()).is_err(), "a change is durable before it is visible");
        }
    }
}

#[test]
fn unpublish_and_yank_are_atomic() {
    type Change = fn(&Registry<FolderStore>) -> bool;
    let changes: [(&str, Change); 2] = [
        ("unpublished", |registry| {
            registry.unpublish(&name(), &version("1.1.0"), OURS, Timestamp(2000)).is_ok()
        }),
        ("yanked", |registry| {
            let yank = Some(Yank { reason: "broken".to_owned() });
            registry.yank(&name(), &version("1.1.0"), OURS, yank).is_ok()
        }),
    ];
    for (what, change) in changes {
        for at in 0.. {
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path();
            let registry = Registry::open(FolderStore::open(root).unwrap()).unwrap();
            assert!(publish(&registry, "1.0.0") && publish(&registry, "1.1.0"));
            drop(registry);
            let store = FolderStore::open_gated(root, Some(CrashGate::after(at)));
            let done = store.ok().is_some_and(|store| change(&Registry::open(store).unwrap()));
            let there = offered(root);
            assert!(
                there == ["1.0.0"] || there == ["1.0.0", "1.1.0"],
                "{what}, crash before {at}: \
                {there:?}"
            );
            if there.len() == 2 {
                let registry = Registry::open(FolderStore::open(root).unwrap()).unwrap();
                assert!(change(&registry), "{what} retry after {at}");
            }
            assert!(offered(root).contains(&"1.0.0".to_owned()));
            if done {
                break;
            }
        }
    }
}
