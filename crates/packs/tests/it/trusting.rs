//! Trust policies.

use packs::PackErrorCode as Code;
use packs::archive::{Archive, Limits};
use packs::integrity::Integrity;
use packs::manifest::Manifest;
use packs::name::NamespaceGlob;
use packs::signature::{PUBLIC_KEY_PATH, SIGNATURE_PATH, TrustedKey};
use packs::trust::{Proof, TrustMode, TrustPolicy, judge};

use crate::support::{key, node_archive, node_pack, packed_bytes, signed_archive, written};

const NAME: &str = "vendor.acme.tools";

fn trusted(seed: u8, namespace: &str) -> TrustedKey {
    TrustedKey {
        id: format!("key-{seed}"),
        key: key(seed).public(),
        permitted: vec![NamespaceGlob::parse(namespace).unwrap()],
    }
}

fn judged(policy: &TrustPolicy, bytes: &[u8]) -> Result<Proof, Code> {
    let archive = Archive::read(bytes, &Limits::DEFAULT).unwrap();
    let manifest_bytes = archive.file("pack.json").unwrap();
    let manifest = Manifest::read(manifest_bytes).unwrap();
    judge(policy, &manifest, manifest_bytes, Integrity::of(bytes), &archive).map_err(|error| error.code())
}

#[test]
fn enforces_every_mode() {
    let signed = signed_archive(NAME, "1.0.0", &key(1));
    let unsigned = node_archive(NAME, "1.0.0");
    let manifest = written(&node_pack(NAME, "1.0.0"));
    let pem = key(1).public().to_pem();
    let tampered = packed_bytes(
        &manifest,
        &[(SIGNATURE_PATH, &key(2).sign(&manifest)), (PUBLIC_KEY_PATH, pem.as_bytes())],
    );
    let bare = packed_bytes(&manifest, &[(SIGNATURE_PATH, &key(1).sign(&manifest))]);
    let ours = || Ok(Proof::Signed { key_id: "key-1".to_owned() });
    let own = || Ok(Proof::SelfSigned { fingerprint: key(1).public().fingerprint() });

    let open = TrustPolicy::open();
    assert_eq!(judged(&open, &unsigned), Ok(Proof::Unsigned));
    assert_eq!(judged(&open, &signed), own());
    assert_eq!(
        judged(&open, &tampered),
        Err(Code::SignatureInvalid),
        "even mode open rejects an invalid signature"
    );
    assert_eq!(judged(&open, &bare), Err(Code::SignatureInvalid));

    let verified = TrustPolicy::verified(vec![trusted(1, "vendor.acme.*")]);
    assert_eq!(judged(&verified, &signed), ours());
    assert_eq!(judged(&verified, &bare), ours());
    assert_eq!(judged(&verified, &unsigned), Err(Code::SignatureInvalid));
    assert_eq!(judged(&verified, &tampered), Err(Code::SignatureInvalid));
    let stranger = TrustPolicy::verified(vec![trusted(3, "*")]);
    assert_eq!(
        judged(&stranger, &signed),
        Err(Code::SignatureInvalid),
        "the key in the archive is not trusted"
    );
    let elsewhere = TrustPolicy::verified(vec![trusted(1, "core.*")]);
    assert_eq!(judged(&elsewhere, &signed), Err(Code::NamespaceUnauthorized));

    let mut allowlist = TrustPolicy { mode: TrustMode::Allowlist, ..verified };
    assert_eq!(judged(&allowlist, &signed), Err(Code::NamespaceUnauthorized));
    allowlist.allowed.push(NamespaceGlob::parse("vendor.*").unwrap());
    assert_eq!(judged(&allowlist, &signed), ours());
    assert_eq!(judged(&allowlist, &unsigned), Err(Code::SignatureInvalid));

    let mut pinned = TrustPolicy { mode: TrustMode::Pinned, ..TrustPolicy::open() };
    assert_eq!(judged(&pinned, &unsigned), Err(Code::IntegrityMismatch), "not pinned at all");
    let place = (packs::name::PackName::parse(NAME).unwrap(), "1.0.0".parse().unwrap());
    pinned.pins.insert(place, Integrity::of(&unsigned));
    assert_eq!(judged(&pinned, &unsigned), Ok(Proof::Unsigned));
    assert_eq!(judged(&pinned, &signed), Err(Code::IntegrityMismatch));
}

#[test]
fn rejects_unverifiable_packs() {
    let mut manifest = node_pack(NAME, "1.0.0");
    manifest["signing"] = serde_json::json!({"method": "sigstore"});
    let sigstore = packed_bytes(&written(&manifest), &[]);
    manifest["signing"] = serde_json::json!({"signatureRef": "gone.sig"});
    let gone = packed_bytes(&written(&manifest), &[]);
    manifest["signing"] = serde_json::json!({"signatureRef": "../pack.json"});
    let outside = packed_bytes(&written(&manifest), &[]);
    for bytes in [sigstore, gone, outside] {
        assert_eq!(judged(&TrustPolicy::open(), &bytes), Err(Code::SignatureUnverifiable));
    }
}
