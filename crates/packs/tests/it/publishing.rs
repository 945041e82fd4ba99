//! All publish error codes.

use packs::manifest::Language;
use packs::name::NamespaceGlob;
use packs::publish::{Accepted, PublishErrorCode as Code, PublishRequest, PublishRules, check, read_address};
use packs::signature::{PUBLIC_KEY_PATH, SIGNATURE_PATH, TrustedKey};
use serde_json::json;
use tar::EntryType;

use crate::archives::{entry, gzip, tarball};
use crate::support::{key, node_archive, node_pack, packed, packed_bytes, signed_archive, written};

const NAME: &str = "vendor.acme.tools";

fn request(body: &[u8]) -> PublishRequest<'_> {
    PublishRequest {
        name: NAME,
        version: "1.0.0",
        content_type: Some("application/octet-stream"),
        sha256: None,
        signing_method: None,
        body,
    }
}

fn code(request: PublishRequest<'_>) -> Result<(), Code> {
    check(&request, &PublishRules::private()).map(|_: Accepted| ()).map_err(|error| error.code)
}

#[test]
fn accepts_a_valid_pack() {
    let bytes = signed_archive(NAME, "1.0.0", &key(1));
    let integrity = packs::integrity::Integrity::of(&bytes);
    for announced in [integrity.to_string(), integrity.to_hex(), format!("sha256-{}", integrity.to_hex())] {
        let request =
            PublishRequest { sha256: Some(&announced), signing_method: Some("manual"), ..request(&bytes) };
        let accepted = check(&request, &PublishRules::public()).unwrap();
        assert_eq!(accepted.integrity, integrity);
        assert_eq!(accepted.signature, Some(key(1).sign(&accepted.manifest_bytes)));
        assert_eq!(accepted.signing_key, Some(key(1).public().fingerprint()));
    }
}

#[test]
fn the_url_is_checked_first() {
    for (name, version, expected) in [
        ("singleseg", "1.0.0", Code::InvalidPackName),
        ("Vendor.acme.tools", "1.0.0", Code::InvalidPackName),
        ("Bad Name", "1.0.0", Code::InvalidPackName),
        ("bogus.unsupported-scope.pack", "1.0.0", Code::InvalidPackScope),
        ("local.acme.tools", "1.0.0", Code::InvalidPackScope),
        (NAME, "not-a-semver", Code::InvalidVersion),
        (NAME, "v1.0.0", Code::InvalidVersion),
        (NAME, "1.0", Code::InvalidVersion),
        // Its body is empty too.
        (NAME, "1.0.0", Code::InvalidBody),
    ] {
        assert_eq!(code(PublishRequest { name, version, ..request(b"") }), Err(expected), "{name} {version}");
        if expected != Code::InvalidBody {
            assert_eq!(read_address(name, version).unwrap_err().code, expected);
        }
    }
    let private = PublishRequest { name: "private.host.tools", ..request(b"") };
    assert_eq!(check(&private, &PublishRules::public()).unwrap_err().code, Code::InvalidPackScope);
    assert_eq!(check(&private, &PublishRules::private()).unwrap_err().code, Code::InvalidBody);
}

#[test]
fn returns_every_code() {
    let node = node_pack(NAME, "1.0.0");
    let with = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut manifest = node.clone();
        change(&mut manifest);
        packed(&manifest, &[("nodes.wasm", b"\0asm")])
    };
    let large = vec![b' '; packs::manifest::MAX_MANIFEST_BYTES + 1];
    let entry_bytes: Vec<u8> =
        (0..1_320_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let manifest = written(&node);
    let wrong_key = key(2).sign(&manifest);
    let pem = key(1).public().to_pem();
    let cases = [
        (gzip(b"x")[..4].to_vec(), Code::TarballGunzipFailed),
        (b"not a gzip stream".to_vec(), Code::TarballGunzipFailed),
        (gzip(&vec![0; 10 << 20]), Code::TarballTooLarge),
        (gzip(b"garbage"), Code::TarballTarParseFailed),
        (tarball(&[entry(b"../x", EntryType::Regular, b"")]), Code::TarballPathTraversal),
        (tarball(&[entry(b"x", EntryType::Symlink, b"")]), Code::TarballPathTraversal),
        (tarball(&[entry(b"x", EntryType::Regular, b"")]), Code::TarballManifestMissing),
        (tarball(&[entry(b"package/pack.json", EntryType::Regular, b"{}")]), Code::TarballManifestMissing),
        (packed_bytes(&large, &[]), Code::TarballManifestTooLarge),
        (packed_bytes(b"{", &[]), Code::TarballManifestNotJson),
        (packed_bytes(b"{\"a\":1,\"a\":1}", &[]), Code::TarballManifestNotJson),
        (packed(&node, &[]), Code::TarballEntryMissing),
        (packed(&node, &[("nodes.wasm", &entry_bytes)]), Code::TarballEntryTooLarge),
        (with(&|manifest| manifest["nodes"][0]["role"] = json!(7)), Code::InvalidManifest),
        (with(&|manifest| manifest["chains"] = json!([])), Code::InvalidManifest),
        (with(&|manifest| manifest["engines"]["openwop"] = json!("newest")), Code::InvalidEnginesRange),
        (with(&|manifest| manifest["name"] = json!("vendor.acme.other")), Code::ManifestNameMismatch),
        (with(&|manifest| manifest["version"] = json!("1.0.1")), Code::ManifestVersionMismatch),
        (
            with(&|manifest| manifest["nodes"][0]["configSchemaRef"] = json!("missing.json")),
            Code::SchemaRefMissing,
        ),
        (
            packed_bytes(
                &manifest,
                &[("nodes.wasm", b""), (SIGNATURE_PATH, &wrong_key), (PUBLIC_KEY_PATH, pem.as_bytes())],
            ),
            Code::SignatureInvalid,
        ),
        (packed_bytes(&manifest, &[("nodes.wasm", b""), (SIGNATURE_PATH, b"short")]), Code::SignatureInvalid),
        (with(&|manifest| manifest["signing"] = json!({"signatureRef": "gone.sig"})), Code::SignatureInvalid),
    ];
    let mut given =
        vec![Code::InvalidPackName, Code::InvalidPackScope, Code::InvalidVersion, Code::InvalidBody];
    for (body, expected) in cases {
        assert_eq!(code(request(&body)), Err(expected));
        given.push(expected);
    }
    let good = node_archive(NAME, "1.0.0");
    let zeros = "0".repeat(64);
    for announced in [zeros.as_str(), "md5-abc"] {
        assert_eq!(
            code(PublishRequest { sha256: Some(announced), ..request(&good) }),
            Err(Code::IntegrityFailure)
        );
    }
    let json = PublishRequest { content_type: Some("application/json; charset=utf-8"), ..request(b"{}") };
    assert_eq!(code(json), Err(Code::InvalidBody));
    for method in ["manual", "sigstore", "pgp"] {
        let signed = PublishRequest { signing_method: Some(method), ..request(&good) };
        assert_eq!(code(signed), Err(Code::SignatureInvalid), "{method}");
    }
    let mut rules = PublishRules::private();
    rules.languages = vec![Language::Javascript];
    assert_eq!(check(&request(&good), &rules).unwrap_err().code, Code::UnsupportedRuntime);
    given.extend([Code::IntegrityFailure, Code::UnsupportedRuntime]);
    // The registry itself returns the last two.
    given.extend([Code::Forbidden, Code::Conflict]);
    for code in Code::ALL {
        assert!(given.contains(code), "{code} was not returned");
    }
    assert_eq!(code(request(&good)), Ok(()));
}

#[test]
fn manifest_errors_have_positions() {
    let mut manifest = node_pack(NAME, "1.0.0");
    manifest["nodes"][0]["category"] = json!("fun");
    let refused = check(&request(&packed(&manifest, &[])), &PublishRules::private()).unwrap_err();
    assert_eq!(refused.details["pointer"], "/nodes/0/category");
    assert_eq!(refused.code.http_status(), 400);
}

#[test]
fn known_keys_are_limited_to_their_namespaces() {
    let known = |permitted: &str| {
        let mut rules = PublishRules::private();
        rules.keys = vec![TrustedKey {
            id: "key-1".to_owned(),
            key: key(1).public(),
            permitted: vec![NamespaceGlob::parse(permitted).unwrap()],
        }];
        rules
    };
    let bytes = signed_archive(NAME, "1.0.0", &key(1));
    let accepted = check(&request(&bytes), &known("vendor.acme.*")).unwrap();
    assert_eq!(accepted.signing_key.as_deref(), Some("key-1"));
    let refused = check(&request(&bytes), &known("core.*")).unwrap_err();
    assert_eq!((refused.code, refused.code.http_status()), (Code::Forbidden, 403));
    // A key unknown to the registry is verified with the key in the archive.
    let stranger = signed_archive(NAME, "1.0.0", &key(2));
    let accepted = check(&request(&stranger), &known("core.*")).unwrap();
    assert_eq!(accepted.signing_key, Some(key(2).public().fingerprint()));
}
