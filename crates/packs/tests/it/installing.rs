//! Packs on disk: complete or absent.

use std::path::Path;
use std::sync::LazyLock;

use canon::time::Timestamp;
use packs::PackErrorCode as Code;
use packs::archive::Limits;
use packs::install::{HostFacts, Install, InstalledPack, InstalledPacks};
use packs::integrity::Integrity;
use packs::name::{NamespaceGlob, PackName};
use packs::path::EntryPath;
use packs::signature::TrustedKey;
use packs::trust::{Proof, TrustPolicy};
use packs::version::Version;
use serde_json::json;

use crate::support::{every_kind, key, node_archive, node_pack, packed, signed_archive};

const NAME: &str = "vendor.acme.tools";

fn name() -> PackName {
    PackName::parse(NAME).unwrap()
}

fn one() -> Version {
    Version::new(1, 0, 0)
}

pub(crate) fn host() -> HostFacts {
    HostFacts::everything(["fs".to_owned()])
}

pub(crate) fn install(
    packs: &InstalledPacks,
    archive: &[u8],
    host: &HostFacts,
) -> Result<InstalledPack, Code> {
    install_as(packs, archive, host, &TrustPolicy::open())
}

pub(crate) fn install_as(
    packs: &InstalledPacks,
    archive: &[u8],
    host: &HostFacts,
    policy: &TrustPolicy,
) -> Result<InstalledPack, Code> {
    let install =
        Install { archive, expected: None, policy, host, limits: Limits::DEFAULT, now: Timestamp(0) };
    packs.install(&install).map_err(|error| error.code())
}

/// All paths below a folder.
fn tree(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            found.push(path.strip_prefix(root).unwrap().to_string_lossy().into_owned());
            if path.is_dir() {
                waiting.push(path);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn installs_lists_reads_and_removes() {
    let folder = tempfile::tempdir().unwrap();
    let packs = InstalledPacks::open(folder.path()).unwrap();
    let archive = packed(
        &node_pack(NAME, "1.0.0"),
        &[("nodes.wasm", b"\0asm"), ("a/b/c.txt", b"deep"), ("a/d.txt", b"d")],
    );
    let installed = install(&packs, &archive, &host()).unwrap();
    assert_eq!(installed.record.integrity, Integrity::of(&archive));
    assert_eq!(installed.record.proof, Proof::Unsigned);
    assert_eq!(
        install(&packs, &archive, &host()).unwrap().record,
        installed.record,
        "a second install changes nothing"
    );
    assert_eq!(std::fs::read(folder.path().join("vendor.acme.tools/1.0.0/a/b/c.txt")).unwrap(), b"deep");
    let other = packed(&node_pack(NAME, "1.0.0"), &[("nodes.wasm", b"other")]);
    assert_eq!(install(&packs, &other, &host()).unwrap_err(), Code::IntegrityMismatch);
    install(&packs, &node_archive(NAME, "0.9.0"), &host()).unwrap();
    install(&packs, &node_archive(NAME, "0.10.0"), &host()).unwrap();
    let listed: Vec<String> = packs.list().unwrap().iter().map(|record| record.version.to_string()).collect();
    assert_eq!(listed, ["0.9.0", "0.10.0", "1.0.0"]);
    let loaded = packs.load(&name(), &one(), true).unwrap();
    assert_eq!(loaded.manifest.common.name, name());
    let file = packs.read_file(&loaded.record, &EntryPath::parse("a/d.txt").unwrap()).unwrap();
    assert_eq!(file, b"d");
    assert_eq!(
        packs.read_file(&loaded.record, &EntryPath::parse("a/none").unwrap()).unwrap_err().code(),
        Code::NotFound
    );
    for version in ["0.9.0", "0.10.0", "1.0.0"] {
        packs.remove(&name(), &version.parse().unwrap()).unwrap();
    }
    assert_eq!(packs.remove(&name(), &one()).unwrap_err().code(), Code::NotFound);
    assert_eq!(tree(folder.path()), [".lock"], "nothing is left");
}

#[test]
fn rejected_packs_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let packs = InstalledPacks::open(folder.path()).unwrap();
    let with = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut manifest = node_pack(NAME, "1.0.0");
        change(&mut manifest);
        packed(&manifest, &[("nodes.wasm", b"")])
    };
    let small = HostFacts::default();
    let everything = host();
    let cases = [
        (b"nonsense".to_vec(), &everything, Code::ArchiveInvalid),
        (with(&|manifest| manifest["name"] = json!("x")), &everything, Code::ManifestInvalid),
        (with(&|manifest| manifest["chains"] = json!([])), &everything, Code::KindInvalid),
        (
            with(&|manifest| manifest["runtime"]["entry"] = json!("gone.wasm")),
            &everything,
            Code::ManifestInvalid,
        ),
        (
            with(&|manifest| manifest["runtime"]["requires"] = json!(["clock", "subprocess"])),
            &small,
            Code::RuntimeRequirementUnmet,
        ),
        (
            with(&|manifest| manifest["peerDependencies"] = json!({"host.kv": "^1"})),
            &everything,
            Code::PeerDependencyMissing,
        ),
        (
            with(&|manifest| manifest["signing"] = json!({"method": "sigstore"})),
            &everything,
            Code::SignatureUnverifiable,
        ),
        (packed(&every_kind()[6], &[("dist/chart.html", b"")]), &small, Code::KindInvalid),
    ];
    for (archive, host, expected) in cases {
        assert_eq!(install(&packs, &archive, host).unwrap_err(), expected);
        assert_eq!(tree(folder.path()), Vec::<String>::new(), "{expected}");
    }
    let verified = TrustPolicy::verified(Vec::new());
    let archive = node_archive(NAME, "1.0.0");
    let request = Install {
        archive: &archive,
        expected: Some(Integrity::of(b"x")),
        policy: &verified,
        host: &everything,
        limits: Limits::DEFAULT,
        now: Timestamp(0),
    };
    assert_eq!(packs.install(&request).unwrap_err().code(), Code::IntegrityFailure);
    let request = Install { expected: None, ..request };
    assert_eq!(packs.install(&request).unwrap_err().code(), Code::SignatureInvalid);
    assert!(packs.list().unwrap().is_empty());
}

#[test]
fn missing_capabilities_degrade_or_reject() {
    let folder = tempfile::tempdir().unwrap();
    let packs = InstalledPacks::open(folder.path()).unwrap();
    let mut manifest = node_pack(NAME, "1.0.0");
    manifest["peerDependencies"] = json!({"host.fs": "^1", "host.kv": "^1"});
    manifest["peerDependenciesMeta"] = json!({"host.kv": {"optional": true}});
    let installed = install(&packs, &packed(&manifest, &[("nodes.wasm", b"")]), &host()).unwrap();
    assert_eq!(installed.record.degraded, ["host.kv"]);
    let languages = HostFacts { languages: Some([packs::manifest::Language::Javascript].into()), ..host() };
    assert_eq!(
        install(&packs, &node_archive("vendor.acme.more", "1.0.0"), &languages).unwrap_err(),
        Code::UnsupportedRuntime
    );
    let mut needs = node_pack("vendor.acme.more", "1.0.0");
    needs["peerDependencies"] = json!({"host.nothing-of-the-kind": "^1"});
    let refused = install(&packs, &packed(&needs, &[("nodes.wasm", b"")]), &host()).unwrap_err();
    assert_eq!(refused, Code::PeerDependencyMissing);
    let plugin = json!({
        "name": "vendor.acme.viewers", "version": "1.0.0", "kind": "frontend-plugin",
        "engines": {"openwop": ">=1.0 <2.0.0"},
        "uiPlugins": [{"pluginId": "viewer", "surface": "route", "entry": "index.html", "hostApi": []}],
    });
    let plugin = packed(&plugin, &[("index.html", b"<p>")]);
    let without = HostFacts { ui_plugins: false, ..host() };
    assert_eq!(install(&packs, &plugin, &without).unwrap_err(), Code::KindInvalid);
    assert!(install(&packs, &plugin, &host()).is_ok());
}

#[test]
fn changed_packs_are_not_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let packs = InstalledPacks::open(folder.path()).unwrap();
    install(&packs, &signed_archive(NAME, "1.0.0", &key(1)), &host()).unwrap();
    let place = folder.path().join("vendor.acme.tools/1.0.0");
    std::fs::write(place.join("nodes.wasm"), b"\0bad").unwrap();
    assert!(packs.load(&name(), &one(), false).is_ok(), "the manifest is unchanged");
    assert_eq!(packs.load(&name(), &one(), true).unwrap_err().code(), Code::LoadFailure);
    std::fs::remove_file(place.join("pack.json")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", place.join("pack.json")).unwrap();
    assert_eq!(
        packs.load(&name(), &one(), false).unwrap_err().code(),
        Code::LoadFailure,
        "links are not followed"
    );
    std::fs::write(place.join(".interlock/installed.json"), b"{}").unwrap();
    assert_eq!(packs.load(&name(), &one(), false).unwrap_err().code(), Code::LoadFailure);
}

/// A policy that trusts these keys for all of `vendor`.
fn trusting(seeds: &[u8]) -> TrustPolicy {
    let trusted = |seed: &u8| TrustedKey {
        id: format!("key-{seed}"),
        key: key(*seed).public(),
        permitted: vec![NamespaceGlob::parse("vendor.*").unwrap()],
    };
    TrustPolicy { keys: seeds.iter().map(trusted).collect(), ..TrustPolicy::open() }
}

#[test]
fn reinstalling_only_strengthens_the_proof() {
    let folder = tempfile::tempdir().unwrap();
    let packs = InstalledPacks::open(folder.path()).unwrap();
    let archive = signed_archive(NAME, "1.0.0", &key(1));
    let again = |seeds: &[u8], expected: Option<Integrity>| {
        let (policy, host) = (trusting(seeds), host());
        let request = Install {
            archive: &archive,
            expected,
            policy: &policy,
            host: &host,
            limits: Limits::DEFAULT,
            now: Timestamp(seeds.len() as u64),
        };
        let installed = packs.install(&request).unwrap().record;
        assert_eq!(
            packs.record(&name(), &one()).unwrap(),
            installed,
            "the returned record is the stored \
            one"
        );
        assert!(packs.load(&name(), &one(), true).is_ok());
        (matches!(installed.proof, Proof::Signed { .. }), installed.announced, installed.installed_at)
    };
    let (signed, announced, first) = again(&[], None);
    assert!(!signed && !announced, "the key is not trusted yet");
    assert_eq!(again(&[1], None), (true, false, first.clone()), "the key is trusted now");
    assert_eq!(
        again(&[], None),
        (true, false, first.clone()),
        "a weaker install does not downgrade the record"
    );
    assert_eq!(again(&[], Some(Integrity::of(&archive))), (true, true, first.clone()));
    assert_eq!(again(&[1], None), (true, true, first));
    assert!(!folder.path().join(NAME).join("1.0.0/.interlock/installed.json.new").exists());
}

#[test]
fn one_damaged_pack_does_not_hide_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let packs = InstalledPacks::open(folder.path()).unwrap();
    let names = ["vendor.acme.changed", "vendor.acme.good", "vendor.acme.unread"];
    for name in names {
        let mut manifest = node_pack(name, "1.0.0");
        manifest["agents"] = json!([{
            "agentId": format!("{name}.writer"), "persona": "W", "modelClass": "writing", "systemPrompt": "Write.",
        }]);
        install(&packs, &packed(&manifest, &[("nodes.wasm", b"")]), &host()).unwrap();
    }
    std::fs::write(folder.path().join("vendor.acme.changed/1.0.0/pack.json"), b"{}").unwrap();
    std::fs::write(folder.path().join("vendor.acme.unread/1.0.0/.interlock/installed.json"), b"{").unwrap();
    let (manifests, damaged) = packs.look().unwrap();
    assert_eq!(
        manifests.iter().map(packs::manifest::Manifest::id).collect::<Vec<_>>(),
        ["vendor.acme.good@1.0.0"]
    );
    let mut reported: Vec<_> = damaged.iter().map(|pack| (pack.name.as_str(), pack.error.code())).collect();
    reported.sort_unstable();
    assert_eq!(reported, [(names[0], Code::LoadFailure), (names[2], Code::LoadFailure)]);
    assert_eq!(packs.manifests().unwrap().len(), 1);
    let agents = packs.agents(&host()).unwrap();
    assert_eq!(
        agents.iter().map(|agent| agent.agent_id.as_str()).collect::<Vec<_>>(),
        ["vendor.acme.good.writer"]
    );
    // The claimed types of a damaged pack come from its current manifest; an unreadable one has none.
    let claims = |name: &str| packs.claimed_types(&PackName::parse(name).unwrap(), &one());
    assert_eq!(claims("vendor.acme.unread"), ["acme.fetch"]);
    assert_eq!(claims("vendor.acme.changed"), Vec::<String>::new());
    // Others can still be installed, and prompt packs find their dependencies.
    let mut prompts = every_kind()[2].clone();
    prompts["dependencies"] = json!({"vendor.acme.good": "^1.0.0"});
    assert!(install(&packs, &packed(&prompts, &[]), &host()).is_ok());
}

#[test]
fn leftovers_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let packs = InstalledPacks::open(folder.path()).unwrap();
    std::fs::create_dir_all(folder.path().join(".staging/pack/half")).unwrap();
    std::fs::write(folder.path().join(".staging/pack/half/file"), b"x").unwrap();
    assert!(packs.list().unwrap().is_empty(), "staged packs are invisible");
    install(&packs, &node_archive(NAME, "1.0.0"), &host()).unwrap();
    assert!(!folder.path().join(".staging").exists());
    assert_eq!(packs.list().unwrap().len(), 1);
}

#[test]
fn agents_come_from_the_highest_version() {
    let folder = tempfile::tempdir().unwrap();
    let packs = InstalledPacks::open(folder.path()).unwrap();
    for version in ["1.0.0", "2.0.0"] {
        let mut manifest = node_pack(NAME, version);
        manifest["agents"] = json!([{
            "agentId": "vendor.acme.agents.writer", "persona": "W", "modelClass": "writing", "systemPromptRef": "prompts/w.md",
        }]);
        install(&packs, &packed(&manifest, &[("nodes.wasm", b""), ("prompts/w.md", b"Write.")]), &host())
            .unwrap();
    }
    let agents = packs.agents(&host()).unwrap();
    assert_eq!(agents.len(), 1);
    assert_eq!(agents[0].pack_version, "2.0.0");
    // A damaged lower version has no effect; a damaged higher version is not replaced by a lower one.
    for (version, expected) in [("1.0.0", 1), ("2.0.0", 0)] {
        let record = folder.path().join(NAME).join(version).join(".interlock/installed.json");
        let sound = std::fs::read(&record).unwrap();
        std::fs::write(&record, b"{").unwrap();
        assert_eq!(packs.agents(&host()).unwrap().len(), expected, "{version}");
        std::fs::write(&record, sound).unwrap();
    }
}

#[test]
fn files_named_like_a_pack_are_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let packs = InstalledPacks::open(folder.path()).unwrap();
    install(&packs, &node_archive(NAME, "1.0.0"), &host()).unwrap();
    std::fs::write(folder.path().join("vendor.acme.notes"), b"not mine").unwrap();
    std::os::unix::fs::symlink("/nowhere", folder.path().join("vendor.acme.linked")).unwrap();
    let (records, damaged) = packs.survey().unwrap();
    assert_eq!((records.len(), damaged.len()), (1, 0));
    assert_eq!(packs.manifests().unwrap().len(), 1);
    assert_eq!(packs.agents(&host()).unwrap(), []);
}

#[test]
fn validation_rejects_what_an_install_rejects() {
    let folder = tempfile::tempdir().unwrap();
    let packs = InstalledPacks::open(folder.path()).unwrap();
    let (name, one, two) = (name(), one(), Version::new(2, 0, 0));
    let judged = |archive: &[u8], first: &[(&PackName, &Version)]| {
        let manifest = packs::install::judge(&asked(archive)).unwrap().manifest.common;
        packs
            .judge_after(first, &manifest.name, &manifest.version, &asked(archive))
            .map_err(|error| error.code())
    };
    let mut manifest = every_kind()[2].clone();
    manifest["dependencies"] = json!({NAME: "^1"});
    let prompts = packed(&manifest, &[]);
    let missing = Err(Code::PromptPackDependencyUnresolvable);
    assert_eq!(judged(&prompts, &[]), missing);
    assert_eq!(judged(&prompts, &[(&name, &two)]), missing);
    assert_eq!(judged(&prompts, &[(&name, &one)]), Ok(()));
    assert!(packs.list().unwrap().is_empty(), "nothing is written");
    let archive = node_archive(NAME, "1.0.0");
    install(&packs, &archive, &host()).unwrap();
    assert_eq!(judged(&archive, &[]), Ok(()));
    assert_eq!(judged(&prompts, &[]), Ok(()));
    let other = packed(&node_pack(NAME, "1.0.0"), &[("nodes.wasm", b"other")]);
    assert_eq!(judged(&other, &[]), Err(Code::IntegrityMismatch));
}

fn asked(archive: &[u8]) -> Install<'_> {
    static GIVEN: LazyLock<(HostFacts, TrustPolicy)> = LazyLock::new(|| (host(), TrustPolicy::open()));
    let (host, policy) = &*GIVEN;
    Install { archive, expected: None, policy, host, limits: Limits::DEFAULT, now: Timestamp(0) }
}

#[test]
fn prompt_packs_require_installed_dependencies() {
    let folder = tempfile::tempdir().unwrap();
    let packs = InstalledPacks::open(folder.path()).unwrap();
    let mut manifest = every_kind()[2].clone();
    manifest["dependencies"] = json!({NAME: "^1"});
    let prompts = packed(&manifest, &[]);
    assert_eq!(install(&packs, &prompts, &host()).unwrap_err(), Code::PromptPackDependencyUnresolvable);
    install(&packs, &node_archive(NAME, "1.0.0"), &host()).unwrap();
    assert!(install(&packs, &prompts, &host()).is_ok());
    assert_eq!(packs.manifests().unwrap().len(), 2);
}

#[test]
fn rejects_an_archive_of_another_pack() {
    let folder = tempfile::tempdir().unwrap();
    let packs = InstalledPacks::open(folder.path()).unwrap();
    let (policy, host) = (TrustPolicy::open(), host());
    let archive = node_archive("core.openwop.http", "1.0.0");
    let request = Install {
        archive: &archive,
        // The digest matches: the sender of another pack also sends its digest.
        expected: Some(Integrity::of(&archive)),
        policy: &policy,
        host: &host,
        limits: Limits::DEFAULT,
        now: Timestamp(0),
    };
    let refused = packs.install_as(&name(), &one(), &request).unwrap_err();
    assert_eq!(refused.code(), Code::IntegrityFailure);
    assert_eq!(refused.details()["expected"], "vendor.acme.tools@1.0.0");
    assert_eq!(refused.details()["found"], "core.openwop.http@1.0.0");
    let http = PackName::parse("core.openwop.http").unwrap();
    let refused = packs.install_as(&http, &Version::new(1, 0, 1), &request).unwrap_err();
    assert_eq!(refused.code(), Code::IntegrityFailure, "another version is another pack");
    assert_eq!(tree(folder.path()), Vec::<String>::new(), "nothing was written");
    assert_eq!(packs.install_as(&http, &one(), &request).unwrap().record.name, http);
}
