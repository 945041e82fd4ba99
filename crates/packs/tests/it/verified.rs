//! Packs whose signature is verified again before use.

use std::path::{Path, PathBuf};

use packs::PackErrorCode as Code;
use packs::install::InstalledPacks;
use packs::integrity::Integrity;
use packs::name::{NamespaceGlob, PackName};
use packs::signature::{PUBLIC_KEY_PATH, SIGNATURE_PATH, TrustedKey};
use packs::trust::Proof;
use packs::version::Version;
use serde_json::Value;

use crate::installing::{host, install};
use crate::support::{key, node_archive, node_pack, packed_bytes, signed_archive, written};

const NAME: &str = "vendor.acme.tools";

/// A folder with version 1.0.0 of the pack, and that version's folder.
fn installed(archive: &[u8]) -> (tempfile::TempDir, InstalledPacks, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let packs = InstalledPacks::open(folder.path()).unwrap();
    install(&packs, archive, &host()).unwrap();
    let version = folder.path().join(NAME).join("1.0.0");
    (folder, packs, version)
}

fn load(packs: &InstalledPacks, keys: &[TrustedKey]) -> Result<Proof, Code> {
    let name = PackName::parse(NAME).unwrap();
    packs.load_verified(&name, None, keys).map(|pack| pack.record.proof).map_err(|error| error.code())
}

fn trusted(seed: u8, permitted: &str) -> TrustedKey {
    let permitted = vec![NamespaceGlob::parse(permitted).unwrap()];
    TrustedKey { id: format!("key-{seed}"), key: key(seed).public(), permitted }
}

/// Changes a file and its digest in the record, as an informed attacker would.
fn forge(version: &Path, path: &str, content: &[u8]) {
    std::fs::write(version.join(path), content).unwrap();
    let place = version.join(".interlock/installed.json");
    let mut record: Value = serde_json::from_slice(&std::fs::read(&place).unwrap()).unwrap();
    let files = record["files"].as_array_mut().unwrap();
    let file = files.iter_mut().find(|file| file["path"] == path).unwrap();
    file["size"] = content.len().into();
    file["sha256"] = serde_json::to_value(Integrity::of(content)).unwrap();
    std::fs::write(place, serde_json::to_vec(&record).unwrap()).unwrap();
}

#[test]
fn verifies_with_the_recorded_or_given_key() {
    let (_folder, packs, _) = installed(&signed_archive(NAME, "1.0.0", &key(1)));
    let fingerprint = key(1).public().fingerprint();
    assert_eq!(load(&packs, &[]), Ok(Proof::SelfSigned { fingerprint }));
    assert_eq!(
        load(&packs, &[trusted(2, "*"), trusted(1, "vendor.acme.*")]),
        Ok(Proof::Signed { key_id: "key-1".to_owned() })
    );
    assert_eq!(load(&packs, &[trusted(2, "*")]), Err(Code::SignatureInvalid));
    assert_eq!(load(&packs, &[trusted(1, "core.*")]), Err(Code::NamespaceUnauthorized));
    let (_folder, unsigned, _) = installed(&node_archive(NAME, "1.0.0"));
    assert_eq!(load(&unsigned, &[]), Ok(Proof::Unsigned));
    assert_eq!(load(&unsigned, &[trusted(1, "*")]), Err(Code::SignatureInvalid));
}

#[test]
fn rejects_tampered_packs() {
    let other = String::from_utf8(written(&node_pack(NAME, "1.0.0"))).unwrap();
    let other = other.replace("acme.fetch", "acme.steal").into_bytes();
    let own_signature = key(2).sign(&other);
    let own_key = key(2).public().to_pem();
    type Tamper<'a> = &'a dyn Fn(&Path);
    let rows: [(&str, Tamper<'_>, Code); 9] = [
        ("its manifest", &|at| std::fs::write(at.join("pack.json"), &other).unwrap(), Code::SignatureInvalid),
        ("its manifest and the record", &|at| forge(at, "pack.json", &other), Code::SignatureInvalid),
        ("its signature", &|at| forge(at, SIGNATURE_PATH, &own_signature), Code::SignatureInvalid),
        (
            "its manifest, its signature and its key",
            &|at| {
                forge(at, "pack.json", &other);
                forge(at, SIGNATURE_PATH, &own_signature);
                forge(at, PUBLIC_KEY_PATH, own_key.as_bytes());
            },
            Code::SignatureUnverifiable,
        ),
        ("an invalid signature", &|at| forge(at, SIGNATURE_PATH, b"short"), Code::SignatureUnverifiable),
        (
            "a missing signature",
            &|at| std::fs::remove_file(at.join(SIGNATURE_PATH)).unwrap(),
            Code::SignatureUnverifiable,
        ),
        ("an invalid key", &|at| forge(at, PUBLIC_KEY_PATH, b"no key"), Code::SignatureUnverifiable),
        (
            "a missing key",
            &|at| std::fs::remove_file(at.join(PUBLIC_KEY_PATH)).unwrap(),
            Code::SignatureUnverifiable,
        ),
        ("a missing manifest", &|at| std::fs::remove_file(at.join("pack.json")).unwrap(), Code::LoadFailure),
    ];
    for (what, tamper, expected) in rows {
        let (_folder, packs, version) = installed(&signed_archive(NAME, "1.0.0", &key(1)));
        tamper(&version);
        assert_eq!(load(&packs, &[]), Err(expected), "{what}");
    }
    let (_folder, packs, version) = installed(&node_archive(NAME, "1.0.0"));
    std::fs::write(version.join("pack.json"), &other).unwrap();
    assert_eq!(load(&packs, &[]), Err(Code::LoadFailure), "it is unsigned, and it was changed");
}

#[test]
fn missing_keys_must_be_given() {
    let manifest = written(&node_pack(NAME, "1.0.0"));
    let signature = key(1).sign(&manifest);
    let archive = packed_bytes(&manifest, &[("nodes.wasm", b"\0asm"), (SIGNATURE_PATH, &signature)]);
    let folder = tempfile::tempdir().unwrap();
    let packs = InstalledPacks::open(folder.path()).unwrap();
    let policy = packs::trust::TrustPolicy::verified(vec![trusted(1, "*")]);
    crate::installing::install_as(&packs, &archive, &host(), &policy).unwrap();
    assert_eq!(load(&packs, &[]), Err(Code::SignatureUnverifiable));
    assert!(load(&packs, &[trusted(1, "*")]).is_ok());
}

#[test]
fn reads_only_the_requested_pack() {
    let (folder, packs, version) = installed(&node_archive(NAME, "1.0.0"));
    install(&packs, &node_archive("vendor.acme.other", "1.0.0"), &host()).unwrap();
    install(&packs, &node_archive(NAME, "1.2.0"), &host()).unwrap();
    let damage = |place: &str| std::fs::write(folder.path().join(place), b"{").unwrap();
    damage("vendor.acme.other/1.0.0/.interlock/installed.json");
    let name = PackName::parse(NAME).unwrap();
    assert_eq!(packs.versions(&name).unwrap(), [Version::new(1, 0, 0), Version::new(1, 2, 0)]);
    let version_of = |version: Option<&Version>| {
        packs.load_verified(&name, version, &[]).map(|pack| pack.record.version).map_err(|error| error.code())
    };
    assert_eq!(version_of(None), Ok(Version::new(1, 2, 0)), "the highest version, next to a damaged pack");
    assert_eq!(version_of(Some(&Version::new(1, 0, 0))), Ok(Version::new(1, 0, 0)));
    assert_eq!(version_of(Some(&Version::new(9, 0, 0))), Err(Code::NotFound));
    assert!(version.exists());
    damage("vendor.acme.tools/1.2.0/.interlock/installed.json");
    assert_eq!(version_of(None), Err(Code::LoadFailure), "a lower version does not replace it");
    let unknown = PackName::parse("vendor.acme.unknown").unwrap();
    assert_eq!(packs.versions(&unknown).unwrap(), [] as [Version; 0]);
    assert_eq!(packs.load_verified(&unknown, None, &[]).unwrap_err().code(), Code::NotFound);
}
