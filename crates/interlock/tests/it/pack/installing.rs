//! Options of `pack install`: lockfiles, registries, versions, trust.

use std::path::{Path, PathBuf};

use packs::name::PackName;
use packs::registry::{FolderStore, Publisher, Registry, Yank};
use packs::signature::{LockedSignature, PrivateKey};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::pack;
use crate::program::{run, text};

/// A working folder: registries, keys, lockfiles and a data directory.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn at(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn pack(&self, arguments: &[&str]) -> (i32, Value) {
        pack(self.0.path(), arguments)
    }

    /// The folder of a pack with this version and dependencies.
    fn made(&self, name: &str, version: &str, needs: Value) -> String {
        let folder = self.path(&format!("{name}-{version}"));
        let shown = folder.to_str().unwrap();
        assert_eq!(self.pack(&["new", name, shown, "--kind", "card"]).0, 0);
        let mut manifest: Value =
            serde_json::from_slice(&std::fs::read(folder.join("pack.json")).unwrap()).unwrap();
        manifest["version"] = json!(version);
        manifest["dependencies"] = needs;
        std::fs::write(folder.join("pack.json"), serde_json::to_vec_pretty(&manifest).unwrap()).unwrap();
        shown.to_owned()
    }

    /// Publishes a pack to a registry of this environment; further arguments may sign it.
    fn published(&self, registry: &str, name: &str, version: &str, needs: Value, more: &[&str]) {
        let (folder, registry) = (self.made(name, version, needs), self.at(registry));
        let publish = ["publish", &folder, "--registry", &registry];
        let (code, answer) = self.pack(&[&publish[..], more].concat());
        assert_eq!(code, 0, "{answer}");
        std::fs::remove_dir_all(folder).unwrap();
    }

    /// Installs, and returns the installed packs or the error.
    fn install(&self, arguments: &[&str]) -> Result<Vec<String>, (String, String)> {
        let (code, answer) = self.pack(&[&["install"][..], arguments].concat());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        if code == 0 {
            let packs = answer["installed"].as_array().unwrap().iter();
            return Ok(packs
                .map(|pack| {
                    format!(
                        "{} {}",
                        text(&pack["name"]).trim_start_matches("vendor.acme."),
                        text(&pack["version"])
                    )
                })
                .collect());
        }
        Err((text(&answer["code"]), text(&answer["message"])))
    }

    fn refusal(&self, arguments: &[&str]) -> String {
        self.install(arguments).unwrap_err().0
    }

    /// A private key file and its public key file.
    fn key(&self, name: &str) -> (String, String) {
        let file = self.at(name);
        assert_eq!(self.pack(&["sign", "--new-key", &file]).0, 0);
        (file.clone(), format!("{file}.pub"))
    }

    fn edit(&self, lock: &str, change: impl FnOnce(&mut Value)) -> String {
        let mut document: Value = serde_json::from_slice(&std::fs::read(self.path(lock)).unwrap()).unwrap();
        change(&mut document);
        let edited = self.path("edited-lock.json");
        std::fs::write(&edited, document.to_string()).unwrap();
        edited.to_str().unwrap().to_owned()
    }

    fn forget(&self) {
        std::fs::remove_dir_all(self.path("data")).unwrap();
    }
}

fn yank(registry: &Path, name: &str, version: &str) {
    let registry = Registry::open(FolderStore::open(registry).unwrap()).unwrap();
    let publisher = Publisher { id: "command-line", may_publish_core: true };
    let name = PackName::parse(name).unwrap();
    registry.yank(&name, &version.parse().unwrap(), publisher, Some(Yank::default())).unwrap();
}

const TOOLS: &str = "vendor.acme.tools";
const BASE: &str = "vendor.acme.base";

#[test]
fn a_lockfile_installs_exact_versions_even_if_yanked() {
    let home = Home::new();
    home.published("registry", BASE, "1.0.0", json!({}), &[]);
    home.published("registry", TOOLS, "1.0.0", json!({BASE: "^1"}), &[]);
    let (registry, lock) = (home.at("registry"), home.at("pack-lock.json"));
    let resolve = [TOOLS, "--registry", &registry, "--lockfile", &lock];
    assert_eq!(home.install(&resolve).unwrap(), ["base 1.0.0", "tools 1.0.0"], "dependencies come first");
    home.published("registry", BASE, "1.1.0", json!({}), &[]);
    yank(&home.path("registry"), BASE, "1.0.0");
    home.forget();
    let locked = ["--locked", &lock, "--registry", &registry];
    assert_eq!(home.install(&locked).unwrap(), ["base 1.0.0", "tools 1.0.0"], "not the newer version");
    home.forget();
    assert_eq!(home.install(&[TOOLS, "--registry", &registry]).unwrap(), ["base 1.1.0", "tools 1.0.0"]);
    assert_eq!(home.refusal(&["vendor.acme.base@1.0.0", "--registry", &registry]), "pack_version_not_found");
}

#[test]
fn an_incomplete_or_wrong_lockfile_installs_nothing() {
    let home = Home::new();
    home.published("registry", BASE, "1.0.0", json!({}), &[]);
    home.published("registry", TOOLS, "1.0.0", json!({BASE: "^1"}), &[]);
    let (registry, lock) = (home.at("registry"), home.at("pack-lock.json"));
    home.install(&[TOOLS, "--registry", &registry, "--lockfile", &lock]).unwrap();
    home.forget();
    let archive = std::fs::read(archive_of(&home.path("registry"), &lock, BASE)).unwrap();
    let signed = |bytes: &[u8]| {
        serde_json::to_value(LockedSignature::sign(&PrivateKey::from_entropy(&[1; 32]), bytes)).unwrap()
    };
    let other = "sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=";
    type Change<'c> = Box<dyn FnOnce(&mut Value) + 'c>;
    let cases: Vec<(&str, Change<'_>)> = vec![
        ("pack_lockfile_incomplete", Box::new(|lock| drop(lock["packs"].as_array_mut().unwrap().remove(0)))),
        (
            "pack_lockfile_incomplete",
            // A lockfile that omits a dependency is incomplete.
            Box::new(|lock| {
                lock["packs"].as_array_mut().unwrap().remove(0);
                lock["packs"][0].as_object_mut().unwrap().remove("dependencies");
            }),
        ),
        ("pack_integrity_mismatch", Box::new(|lock| lock["packs"][0]["integrity"] = json!(other))),
        ("pack_version_not_found", Box::new(|lock| lock["packs"][0]["version"] = json!("1.0.7"))),
        ("pack_dependency_conflict", Box::new(|lock| lock["packs"][0]["version"] = json!("2.0.0"))),
        ("pack_dependency_cycle", Box::new(|lock| lock["packs"][0]["dependencies"] = json!({TOOLS: "*"}))),
        ("pack_signature_invalid", Box::new(|lock| lock["packs"][0]["signature"] = signed(b"other"))),
        // All packs are checked before the first is written.
        ("pack_signature_invalid", Box::new(|lock| lock["packs"][1]["signature"] = signed(b"other"))),
        (
            "pack_signature_unverifiable",
            Box::new(|lock| {
                lock["packs"][0]["signature"] =
                    json!({"algorithm": "ed25519", "publicKey": "x", "value": "x"});
            }),
        ),
        ("pack_lockfile_invalid", Box::new(|lock| lock["extra"] = json!(1))),
    ];
    for (expected, change) in cases {
        let edited = home.edit("pack-lock.json", change);
        assert_eq!(home.refusal(&["--locked", &edited, "--registry", &registry]), expected);
        assert_eq!(home.pack(&["list"]).1["packs"], json!([]), "{expected}");
    }
    let good = home.edit("pack-lock.json", |lock| lock["packs"][0]["signature"] = signed(&archive));
    assert_eq!(home.install(&["--locked", &good, "--registry", &registry]).unwrap().len(), 2);
    let (_, message) = home.install(&["--locked", &lock]).unwrap_err();
    assert!(message.contains("contains no registry"), "lockfiles contain no folders: {message}");
}

#[test]
fn a_locked_signed_pack_must_match_its_digest() {
    let home = Home::new();
    let (ours, _) = home.key("ours.pem");
    home.published("registry", BASE, "1.0.0", json!({}), &["--key", &ours]);
    // Another publisher has the same version elsewhere, signed with another key.
    let (theirs, _) = home.key("theirs.pem");
    home.published("elsewhere", BASE, "1.0.0", json!({}), &["--key", &theirs]);
    let (registry, elsewhere, lock) = (home.at("registry"), home.at("elsewhere"), home.at("pack-lock.json"));
    home.install(&[BASE, "--registry", &registry, "--lockfile", &lock]).unwrap();
    let written: Value = serde_json::from_slice(&std::fs::read(&lock).unwrap()).unwrap();
    // A lockfile signature would cover the archive, but publishers sign pack.json.
    assert_eq!(written["packs"][0].get("signature"), None);
    home.forget();
    assert_eq!(home.refusal(&["--locked", &lock, "--registry", &elsewhere]), "pack_integrity_mismatch");
    // Different bytes under the locked digest are rejected too.
    let archive = archive_of(&home.path("registry"), &lock, BASE);
    let bytes = std::fs::read(&archive).unwrap();
    std::fs::write(&archive, std::fs::read(archive_in(&home.path("elsewhere"))).unwrap()).unwrap();
    let refused = home.install(&["--locked", &lock, "--registry", &registry]).unwrap_err();
    assert_eq!(refused.0, "pack_storage_failure", "{}", refused.1);
    assert_eq!(home.pack(&["list"]).1["packs"], json!([]));
    std::fs::write(&archive, bytes).unwrap();
    assert_eq!(home.install(&["--locked", &lock, "--registry", &registry]).unwrap(), ["base 1.0.0"]);
    assert_eq!(home.pack(&["list"]).1["packs"][0]["proof"]["kind"], "selfSigned");
}

/// The only archive of a registry.
fn archive_in(registry: &Path) -> PathBuf {
    let only = |folder: &Path| std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    only(&only(&registry.join("archives")))
}

#[test]
fn a_version_with_different_contents_blocks_the_whole_install() {
    let home = Home::new();
    home.published("registry", BASE, "1.0.0", json!({}), &[]);
    home.published("registry", TOOLS, "1.0.0", json!({BASE: "^1"}), &[]);
    let other = home.made(TOOLS, "1.0.0", json!({}));
    assert_eq!(home.install(&[&other]).unwrap(), ["tools 1.0.0"]);
    // The dependency is written first, so it would be left behind.
    assert_eq!(home.refusal(&[TOOLS, "--registry", &home.at("registry")]), "pack_integrity_mismatch");
    assert_eq!(home.pack(&["list"]).1["packs"].as_array().unwrap().len(), 1);
}

/// The file of a locked archive in a registry.
fn archive_of(registry: &Path, lock: &str, name: &str) -> PathBuf {
    let lock = packs::lock::Lockfile::read(&std::fs::read(lock).unwrap()).unwrap();
    let hex = lock.packs.iter().find(|pack| pack.name.as_str() == name).unwrap().integrity.to_hex();
    registry.join("archives").join(&hex[..2]).join(format!("{hex}.tgz"))
}

#[test]
fn local_packs_of_another_machine_cannot_be_installed() {
    let home = Home::new();
    let integrity = "sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=";
    let lock = json!({
        "lockfileVersion": 1, "generatedAt": "2026-10-26T07:33:20Z", "registry": "http://127.0.0.1:9",
        "packs": [{"name": "local.notes", "version": "1.0.0", "integrity": integrity}],
    });
    std::fs::write(home.path("pack-lock.json"), lock.to_string()).unwrap();
    let (code, message) = home.install(&["--locked", &home.at("pack-lock.json")]).unwrap_err();
    assert_eq!(code, "pack_not_found");
    assert!(message.contains("no registry has packs in `local`"), "{message}");
}

#[test]
fn registries_are_tried_in_order() {
    let home = Home::new();
    home.published("ours", TOOLS, "1.0.0", json!({BASE: "^1"}), &[]);
    home.published("theirs", TOOLS, "9.0.0", json!({}), &[]);
    home.published("theirs", BASE, "1.0.0", json!({}), &[]);
    let (ours, theirs) = (home.at("ours"), home.at("theirs"));
    // The first registry that has a pack provides it: a higher version elsewhere is ignored.
    assert_eq!(
        home.install(&[TOOLS, "--registry", &ours, "--registry", &theirs]).unwrap(),
        ["base 1.0.0", "tools 1.0.0"]
    );
    assert_eq!(home.install(&[TOOLS, "--registry", &theirs, "--registry", &ours]).unwrap(), ["tools 9.0.0"]);
    assert_eq!(
        home.refusal(&[TOOLS, "--registry", &ours]),
        "pack_not_found",
        "it does not have the dependency"
    );
    // An unavailable registry is skipped, and reported if no other has the pack.
    let unreachable = "http://127.0.0.1:9";
    assert_eq!(
        home.install(&[TOOLS, "--registry", unreachable, "--registry", &theirs]).unwrap(),
        ["tools 9.0.0"]
    );
    let asked = ["vendor.acme.none", "--registry", unreachable, "--registry", &theirs];
    assert_eq!(home.refusal(&asked), "pack_registry_unreachable");
    assert_eq!(home.refusal(&[TOOLS, "--registry", &home.at("nowhere")]), "INPUT_UNREADABLE");
    assert!(!home.path("nowhere").exists(), "reading does not create a registry");
}

#[test]
fn offline_contacts_no_server() {
    let home = Home::new();
    home.published("mirror", BASE, "1.0.0", json!({}), &[]);
    let mirror = home.at("mirror");
    // A connection would be noticed.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let both = ["--registry", &url, "--registry", &mirror, "--offline"];
    assert_eq!(home.install(&[&[BASE][..], &both].concat()).unwrap(), ["base 1.0.0"]);
    assert_eq!(home.refusal(&[&[TOOLS][..], &both].concat()), "pack_not_found");
    let (_, message) = home.install(&[BASE, "--registry", &url, "--offline"]).unwrap_err();
    assert!(message.contains("--registry DIR"), "{message}");
    assert!(listener.accept().is_err(), "no connection was made");
}

#[test]
fn a_dependency_version_can_be_overridden() {
    let home = Home::new();
    home.published("registry", BASE, "1.0.0", json!({}), &[]);
    home.published("registry", BASE, "1.1.0", json!({}), &[]);
    home.published("registry", TOOLS, "1.0.0", json!({BASE: "^1"}), &[]);
    yank(&home.path("registry"), BASE, "1.0.0");
    let (registry, lock) = (home.at("registry"), home.at("pack-lock.json"));
    let with = |forced: &str| {
        home.install(&[TOOLS, "--registry", &registry, "--override", forced, "--lockfile", &lock])
    };
    assert_eq!(with("vendor.acme.base=1.0.0").unwrap(), ["base 1.0.0", "tools 1.0.0"], "also a yanked one");
    let written: Value = serde_json::from_slice(&std::fs::read(&lock).unwrap()).unwrap();
    assert_eq!(written["overrides"], json!({BASE: "1.0.0"}));
    assert_eq!(with("vendor.acme.base=1.5.0").unwrap_err().0, "pack_version_not_found");
    assert_eq!(with("vendor.acme.base=2.0.0").unwrap_err().0, "pack_dependency_conflict");
    assert!(with("vendor.acme.other=1.0.0").unwrap_err().1.contains("no pack depends on it"));
    assert!(with("vendor.acme.base").unwrap_err().1.contains("such as vendor.acme.base=1.2.0"));
}

#[test]
fn every_trust_mode_works() {
    let home = Home::new();
    let ((ours, ours_public), (_, other_public)) = (home.key("ours.pem"), home.key("other.pem"));
    home.published("registry", TOOLS, "1.0.0", json!({}), &["--key", &ours]);
    home.published("registry", BASE, "1.0.0", json!({}), &[]);
    let (registry, lock) = (home.at("registry"), home.at("pack-lock.json"));
    home.install(&[BASE, "--registry", &registry, "--lockfile", &lock]).unwrap();
    let of = |name: &str, more: &[&str]| {
        home.install(&[&[name, "--registry", &registry][..], more].concat())
            .map(drop)
            .map_err(|(code, _)| code)
    };
    let for_names = |glob: &str| format!("{ours_public}={glob}");
    let refused = |code: &str| Err(code.to_owned());

    assert_eq!(of(BASE, &["--trust", "open"]), Ok(()));
    let verified = ["--trust", "verified", "--key", &for_names("vendor.acme.*")];
    assert_eq!(of(TOOLS, &verified), Ok(()));
    assert_eq!(of(BASE, &verified), refused("pack_signature_invalid"), "the pack is not signed");
    assert_eq!(of(TOOLS, &["--key", &other_public]), refused("pack_signature_invalid"));
    assert_eq!(of(TOOLS, &["--key", &for_names("core.*")]), refused("pack_namespace_unauthorized"));
    let two = ["--key", &for_names("core.*"), "--key", &for_names("vendor.acme.tools")];
    assert_eq!(of(TOOLS, &two), Ok(()), "one key can be used for several namespaces");

    let allowlist =
        |allow: &'static str| ["--trust", "allowlist", "--key", ours_public.as_str(), "--allow", allow];
    assert_eq!(of(TOOLS, &allowlist("vendor.*")), Ok(()));
    assert_eq!(of(TOOLS, &allowlist("core.*")), refused("pack_namespace_unauthorized"));
    assert_eq!(of(BASE, &allowlist("vendor.*")), refused("pack_signature_invalid"));

    let pinned = ["--trust", "pinned", "--locked", &lock, "--registry", &registry];
    assert_eq!(home.install(&pinned).unwrap(), ["base 1.0.0"]);
    let signed_too =
        ["--locked", &lock, "--registry", &registry, "--trust", "verified", "--key", &ours_public];
    assert_eq!(
        home.refusal(&signed_too),
        "pack_signature_invalid",
        "a lockfile does not replace a signature"
    );
}

#[test]
fn options_without_effect_are_errors() {
    let home = Home::new();
    let (private, public) = home.key("key.pem");
    home.published("registry", TOOLS, "1.0.0", json!({}), &[]);
    let folder = home.made(TOOLS, "1.0.0", json!({}));
    let (registry, archive) = (home.at("registry"), home.at("tools.tgz"));
    let integrity =
        home.pack(&["check", &folder, "--output", &archive]).1["integrity"].as_str().unwrap().to_owned();
    let other = "sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=";

    // With a registry, --expect refers to the requested pack.
    let from = |digest: &str| home.install(&[TOOLS, "--registry", &registry, "--expect", digest]);
    assert_eq!(from(other).unwrap_err().0, "pack_integrity_failure");
    assert_eq!(home.pack(&["list"]).1["packs"], json!([]));
    assert_eq!(from(&integrity).unwrap(), ["tools 1.0.0"]);

    let (code, refused) = home.pack(&["publish", &archive, "--registry", &registry, "--key", &private]);
    assert_eq!(code, 2, "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("cannot be signed"), "{refused}");

    for (arguments, expected) in [
        (vec!["--trust", "verified"], "--key FILE"),
        (vec!["--trust", "allowlist", "--key", &public], "--allow"),
        (vec!["--allow", "vendor.*"], "--trust allowlist"),
        (vec!["--trust", "pinned"], "--locked FILE"),
        (vec!["--api-key", &public], "requires a registry"),
        (vec!["--key", "nowhere.pem=vendor.*"], "nowhere.pem"),
    ] {
        let (_, message) = home.install(&[&[archive.as_str()][..], &arguments].concat()).unwrap_err();
        assert!(message.contains(expected), "{arguments:?}: {message}");
    }
    let (_, message) = home.install(&[TOOLS]).unwrap_err();
    assert!(message.contains("--registry"), "{message}");
    // Contradictory options are rejected before anything is read.
    for arguments in [
        vec!["install", &archive, "--lockfile", "lock.json"],
        vec!["install", &archive, "--override", "vendor.acme.base=1.0.0"],
        vec!["install", &archive, "--locked", "lock.json"],
        vec!["install", "--locked", "lock.json", "--expect", other],
        vec!["install", "--locked", "lock.json", "--registry", &registry, "--lockfile", "other.json"],
        vec!["install"],
    ] {
        let output = run(&[&["pack"][..], &arguments].concat(), b"");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains("Usage"), "{arguments:?}: {}", text(&output.stderr));
    }
}
