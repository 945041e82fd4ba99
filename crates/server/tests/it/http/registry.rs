//! The pack registry over HTTP.

use std::collections::BTreeMap;
use std::io::Write as _;

use packs::integrity::Integrity;
use packs::path::EntryPath;
use packs::registry::{FolderStore, MemoryStore};
use packs::signature::{PUBLIC_KEY_PATH, PrivateKey, SIGNATURE_PATH};
use serde_json::{Value, json};
use server::http::{PackRegistries, Settings};

use super::service::{Host, OTHER, READER};

const NAME: &str = "vendor.acme.nodes";

fn manifest(name: &str, version: &str) -> Value {
    json!({
        "name": name, "version": version, "engines": {"openwop": ">=1.0 <2.0.0"}, "description": "Fetches \
         things.",
        "nodes": [{"typeId": "acme.fetch", "version": "1.0.0", "category": "data", "role": "pure"}],
        "runtime": {"language": "wasm", "entry": "nodes.wasm"},
    })
}

fn packed(manifest: &[u8], files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut all = BTreeMap::from([(EntryPath::parse("pack.json").unwrap(), (manifest, false))]);
    all.extend(files.iter().map(|(path, content)| (EntryPath::parse(path).unwrap(), (*content, false))));
    packs::archive::write(&all).unwrap()
}

/// A pack with one node.
pub(crate) fn archive(name: &str, version: &str) -> Vec<u8> {
    packed(manifest(name, version).to_string().as_bytes(), &[("nodes.wasm", b"\0asm")])
}

fn signed(name: &str, version: &str, key: &PrivateKey) -> Vec<u8> {
    let manifest = manifest(name, version).to_string();
    let (signature, pem) = (key.sign(manifest.as_bytes()), key.public().to_pem());
    let files = [
        ("nodes.wasm", b"\0asm".as_slice()),
        (SIGNATURE_PATH, signature.as_slice()),
        (PUBLIC_KEY_PATH, pem.as_bytes()),
    ];
    packed(manifest.as_bytes(), &files)
}

fn at(version: &str) -> String {
    format!("/v1/packs/{NAME}/-/{version}")
}

#[tokio::test]
async fn a_registry_is_read_without_a_key_only_where_the_settings_open_it() {
    let offered = [
        "/v1/index.json".to_owned(),
        "/v1/packs/-/search?q=fetches".to_owned(),
        "/v1/packs/-/by-type/acme.fetch".to_owned(),
        format!("/v1/packs/{NAME}"),
        format!("{}.json", at("1.0.0")),
        format!("{}.tgz", at("1.0.0")),
    ];
    for is_open in [false, true] {
        let host = Host::start_with(Settings { open_registry: is_open, ..Settings::default() }).await;
        host.put(&format!("{}.tgz", at("1.0.0")), &[], &archive(NAME, "1.0.0")).await.expect(201);
        for path in &offered {
            let answer = host.send("GET", path, &[], None).await;
            assert_eq!(answer.status, if is_open { 200 } else { 401 }, "{path}");
            // An invalid key is refused, and never treated as a missing one.
            host.get_as("ilk_live_wrong", path).await.refused(401, "unauthenticated");
            assert_eq!(host.get(path).await.status, 200, "{path}");
        }
        // Installed packs and all changes need a key in both cases.
        host.send("GET", "/v1/packs", &[], None).await.refused(401, "unauthenticated");
        host.send("DELETE", &at("1.0.0"), &[], None).await.refused(401, "unauthenticated");
    }
}

#[tokio::test]
async fn a_published_version_is_found_by_every_lookup_and_returned_unchanged() {
    let host = Host::start().await;
    let bytes = archive(NAME, "1.0.0");
    let integrity = Integrity::of(&bytes);
    let sha256 = [("x-pack-sha256", integrity.to_hex())];
    let sha256: Vec<_> = sha256.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let made = host.put(&format!("{}.tgz", at("1.0.0")), &sha256, &bytes).await.expect(201);
    assert_eq!(made["integrity"], integrity.to_string());
    host.put(&format!("{}.tgz", at("1.0.0")), &[], &bytes).await.expect(200);
    let read = host.get(&format!("{}.tgz", at("1.0.0"))).await;
    assert_eq!((read.status, &read.body), (200, &bytes));
    assert_eq!(read.header("content-type"), Some("application/tar+gzip"));
    assert_eq!(read.header("etag"), Some(format!("\"{integrity}\"").as_str()));
    let document = host.get(&format!("{}.json", at("1.0.0"))).await.expect(200);
    assert_eq!(document["tarballUrl"], format!("{}.tgz", at("1.0.0")));
    for path in [format!("/v1/packs/{NAME}"), format!("/v1/packs/{NAME}/index.json")] {
        assert_eq!(host.get(&path).await.expect(200)["latest"], "1.0.0");
    }
    for (path, place) in [
        ("/v1/index.json", "/packs/0/name"),
        ("/v1/packs/-/search?q=FETCHES", "/results/0/name"),
        ("/v1/packs/-/by-type/acme.fetch", "/packs/0/name"),
    ] {
        let found = host.get(path).await.expect(200);
        assert_eq!(found.pointer(place), Some(&json!(NAME)), "{path}: {found}");
    }
    assert_eq!(host.get("/v1/packs/-/search?q=nothing").await.expect(200)["total"], 0);
    let described = host.send("GET", "/.well-known/openwop-registry", &[], None).await.expect(200);
    assert_eq!(described["endpoints"]["versionTarball"], "/v1/packs/{name}/-/{version}.tgz");
    let audit = host.get("/v1/audit/verify").await.expect(200);
    assert_eq!(audit["chainValid"], true);
    assert!(audit["entriesChecked"].as_u64().or(audit["toSeq"].as_u64()).unwrap_or_default() >= 1, "{audit}");
}

#[tokio::test]
async fn an_invalid_pack_gets_the_first_matching_code_of_the_table() {
    let host = Host::start().await;
    let good = archive(NAME, "1.0.0");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&vec![0; 64 << 20]).unwrap();
    let zeros = gzip.finish().unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(b"no tar at all, but long enough to be looked at").unwrap();
    let no_tar = gzip.finish().unwrap();
    let missing = packed(manifest(NAME, "1.0.0").to_string().as_bytes(), &[]);
    let path = format!("{}.tgz", at("1.0.0"));
    let other_version = format!("{}.tgz", at("2.0.0"));
    type Headers<'a> = &'a [(&'a str, &'a str)];
    let cases: [(&str, Headers<'_>, &[u8], &str); 12] = [
        ("/v1/packs/single/-/1.0.0.tgz", &[], &good, "invalid_pack_name"),
        ("/v1/packs/unknown.acme.nodes/-/1.0.0.tgz", &[], &good, "invalid_pack_scope"),
        ("/v1/packs/local.acme.nodes/-/1.0.0.tgz", &[], &good, "invalid_pack_scope"),
        ("/v1/packs/vendor.acme.nodes/-/v1.0.0.tgz", &[], &good, "invalid_version"),
        (&path, &[], b"", "invalid_body"),
        (&path, &[("content-type", "application/json")], b"{}", "invalid_body"),
        (&path, &[], b"no gzip", "tarball_gunzip_failed"),
        (&path, &[], &zeros, "tarball_too_large"),
        (&path, &[], &no_tar, "tarball_tar_parse_failed"),
        (&path, &[], &missing, "tarball_entry_missing"),
        (&other_version, &[], &good, "manifest_version_mismatch"),
        (
            &path,
            &[("x-pack-sha256", "sha256-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")],
            &good,
            "pack_integrity_failure",
        ),
    ];
    for (path, headers, body, code) in cases {
        host.put(path, headers, body).await.refused(400, code);
    }
    host.get(&path).await.refused(404, "pack_not_found");
}

#[tokio::test]
async fn a_pack_name_belongs_to_its_first_publisher_and_a_version_is_immutable() {
    let host = Host::start().await;
    let path = format!("{}.tgz", at("1.0.0"));
    host.put(&path, &[], &archive(NAME, "1.0.0")).await.expect(201);
    let other = format!("Bearer {OTHER}");
    let body = archive(NAME, "1.1.0");
    host.put(&format!("{}.tgz", at("1.1.0")), &[("authorization", &other)], &body)
        .await
        .refused(403, "forbidden");
    let changed = packed(manifest(NAME, "1.0.0").to_string().as_bytes(), &[("nodes.wasm", b"\0asm\x01")]);
    host.put(&path, &[], &changed).await.refused(409, "conflict");
    let reader = format!("Bearer {READER}");
    host.put(&path, &[("authorization", &reader)], &body).await.refused(403, "forbidden");
    let refused = host.send("DELETE", &at("1.0.0"), &[("authorization", &other)], None).await;
    refused.refused(403, "forbidden");
    assert_eq!(host.delete(&at("1.0.0")).await.status, 204);
    host.delete(&at("1.0.0")).await.refused(404, "pack_not_found");
    host.get(&path).await.refused(404, "pack_not_found");
}

#[tokio::test]
async fn deprecated_and_yanked_versions_are_marked_and_still_available() {
    let host = Host::start().await;
    for version in ["1.0.0", "1.1.0"] {
        host.put(&format!("{}.tgz", at(version)), &[], &archive(NAME, version)).await.expect(201);
    }
    let reason = json!({"reason": "old", "supersededBy": "1.1.0"});
    for _ in 0..2 {
        host.post(&format!("{}/deprecate", at("1.0.0")), &reason).await.expect(200);
    }
    host.post(&format!("{}/yank", at("1.1.0")), &json!({"reason": "broken"})).await.expect(200);
    let old = host.get(&format!("{}.json", at("1.0.0"))).await.expect(200);
    assert_eq!((&old["deprecated"], &old["supersededBy"]), (&json!(true), &json!("1.1.0")));
    let pack = host.get(&format!("/v1/packs/{NAME}")).await.expect(200);
    assert_eq!((&pack["latest"], &pack["versions"]["1.1.0"]["yanked"]), (&json!("1.0.0"), &json!(true)));
    assert_eq!(host.get(&format!("{}.tgz", at("1.1.0"))).await.status, 200);
    host.delete(&format!("{}/yank", at("1.1.0"))).await.expect(200);
    host.delete(&format!("{}/deprecate", at("1.0.0"))).await.expect(200);
    assert_eq!(host.get(&format!("/v1/packs/{NAME}")).await.expect(200)["latest"], "1.1.0");
    assert_eq!(host.get(&format!("{}.json", at("1.0.0"))).await.expect(200)["deprecated"], false);
    host.post(&format!("{}/yank", at("9.0.0")), &json!({})).await.refused(404, "pack_version_not_found");
    host.post(&format!("{}/yank", at("1.0.0")), &json!({"why": 1})).await.refused(400, "validation_error");
}

#[tokio::test]
async fn signatures_are_served_and_keys_follow_one_another() {
    let host = Host::start().await;
    let key = PrivateKey::from_entropy(&[1; 32]);
    let headers = [("x-pack-signing-method", "manual")];
    host.put(&format!("{}.tgz", at("1.0.0")), &headers, &signed(NAME, "1.0.0", &key)).await.expect(201);
    let signature = host.get(&format!("{}.sig", at("1.0.0"))).await;
    let expected = key.sign(manifest(NAME, "1.0.0").to_string().as_bytes());
    assert_eq!((signature.status, signature.body.as_slice()), (200, expected.as_slice()));
    let path = format!("/v1/packs/{NAME}/-/keychain");
    let chain = host.get(&path).await.expect(200);
    let kid = chain["keys"][0]["kid"].as_str().unwrap();
    let pem = host.send("GET", &format!("/keys/{}.pub", kid.replace('/', "%2F")), &[], None).await;
    assert_eq!((pem.status, pem.text()), (200, key.public().to_pem()), "{kid}");
    host.send("GET", "/keys/none.pub", &[], None).await.refused(404, "key_not_found");
    let next = PrivateKey::from_entropy(&[2; 32]);
    let (pem, from) = (next.public().to_pem(), "2026-01-01T00:00:00Z");
    let rotation = |signer: &PrivateKey| {
        use base64::Engine as _;
        let proof = signer.sign(format!("second{pem}{from}").as_bytes());
        let proof = base64::engine::general_purpose::STANDARD.encode(proof);
        json!({"kid": "second", "publicKey": pem, "validFrom": from, "rotationProof": proof})
    };
    let rotate = format!("{path}/rotate");
    host.post(&rotate, &rotation(&next)).await.refused(400, "pack_signature_invalid");
    host.post(&rotate, &rotation(&key)).await.expect(200);
    assert_eq!(host.get(&path).await.expect(200)["keys"].as_array().unwrap().len(), 2);
    for path in [format!("{}.sig", at("9.0.0")), "/v1/packs/vendor.acme.none/-/1.0.0.sig".to_owned()] {
        host.get(&path).await.refused(404, "signature_not_available");
    }
}

#[tokio::test]
async fn invalid_urls_are_rejected_with_a_reason() {
    let host = Host::start().await;
    for (path, code) in [
        ("/v1/packs/Bad%20Name", "invalid_pack_name"),
        ("/v1/packs/Bad%20Name/-/1.0.0.json", "invalid_pack_name"),
        ("/v1/packs/vendor.acme.nodes/-/v1.0.0.json", "invalid_version"),
        ("/v1/packs/vendor.acme.nodes/-/1.0.tgz", "invalid_version"),
        ("/v1/packs/vendor.acme.nodes/-/1.0.sig", "invalid_version"),
    ] {
        host.get(path).await.refused(400, code);
    }
    host.get("/v1/packs/vendor.acme.none").await.refused(404, "pack_not_found");
}

#[tokio::test]
async fn the_catalogue_for_tests_is_another_one() {
    let host = Host::start().await;
    let path = format!("/v1/packs-test/{NAME}/-/1.0.0.tgz");
    let body = archive(NAME, "1.0.0");
    host.put(&path, &[], &body).await.expect(201);
    assert_eq!(host.get(&path).await.body, body);
    host.get(&format!("{}.tgz", at("1.0.0"))).await.refused(404, "pack_not_found");
    assert_eq!(host.get("/v1/index.json").await.expect(200)["packCount"], 0);
    host.get(&format!("/v1/packs-test/{NAME}/-/1.0.0.sig")).await.refused(404, "signature_not_available");
    assert_eq!(host.post("/v1/packs-test/reset", &json!({})).await.expect(200)["cleared"], 1);
    host.get(&path).await.refused(404, "pack_not_found");
}

#[tokio::test]
async fn the_test_catalogue_is_off_by_default() {
    let seams = Settings { test_seams: true, ..Settings::default() };
    for (pack_registries, is_there) in [
        (PackRegistries::in_memory().unwrap(), false),
        (PackRegistries::in_memory().unwrap().with_tests(MemoryStore::default()).unwrap(), true),
    ] {
        // Other seams do not enable it.
        let host = Host::start_offering(seams, pack_registries).await;
        let said = host.get("/.well-known/openwop").await.expect(200);
        assert_eq!(said["packs"]["testMode"]["supported"].as_bool(), is_there.then_some(true), "{said}");
        let body = archive(NAME, "1.0.0");
        let put = host.put(&format!("/v1/packs-test/{NAME}/-/1.0.0.tgz"), &[], &body).await;
        let reset = host.post("/v1/packs-test/reset", &json!({})).await;
        let read = host.get(&format!("/v1/packs-test/{NAME}")).await;
        match is_there {
            true => assert_eq!((put.status, reset.status, read.status), (201, 200, 404)),
            false => [put, reset, read].iter().for_each(|answer| drop(answer.refused(404, "not_found"))),
        }
    }
}

#[tokio::test]
async fn a_public_registry_accepts_and_shows_no_private_pack() {
    const PRIVATE: &str = "private.acme.nodes";
    let folder = tempfile::tempdir().unwrap();
    let pack_registries = || PackRegistries::open(FolderStore::open(folder.path()).unwrap()).unwrap();
    let tgz = |version: &str| format!("/v1/packs/{PRIVATE}/-/{version}.tgz");
    let mut closed = Host::start_offering(Settings::default(), pack_registries()).await;
    closed.put(&tgz("1.0.0"), &[], &archive(PRIVATE, "1.0.0")).await.expect(201);
    closed.put(&format!("{}.tgz", at("1.0.0")), &[], &archive(NAME, "1.0.0")).await.expect(201);
    closed.stop().await;
    drop(closed);
    // The same packs, after the registry became public.
    let open = Settings { open_registry: true, ..Settings::default() };
    let host = Host::start_offering(open, pack_registries()).await;
    host.put(&tgz("1.1.0"), &[], &archive(PRIVATE, "1.1.0")).await.refused(400, "invalid_pack_scope");
    host.put(&format!("{}.tgz", at("1.1.0")), &[], &archive(NAME, "1.1.0")).await.expect(201);
    let scopes =
        host.get("/.well-known/openwop-registry").await.expect(200)["supportedNamespaces"].to_string();
    assert!(scopes.contains("vendor") && !scopes.contains("private"), "{scopes}");
    let names = |found: &Value, member: &str| -> Vec<String> {
        let entries = found[member].as_array().unwrap().iter();
        entries.map(|entry| entry["name"].as_str().unwrap().to_owned()).collect()
    };
    for (path, member) in [
        ("/v1/index.json", "packs"),
        ("/v1/packs/-/search?q=fetches", "results"),
        ("/v1/packs/-/by-type/acme.fetch", "packs"),
    ] {
        let strange = host.send("GET", path, &[], None).await.expect(200);
        assert_eq!(names(&strange, member), [NAME], "{path}");
        let known = host.get(path).await.expect(200);
        assert_eq!(names(&known, member), [PRIVATE, NAME], "{path}");
    }
    let index = host.send("GET", "/v1/index.json", &[], None).await.expect(200);
    assert_eq!(index["packCount"], 1);
    for path in [
        format!("/v1/packs/{PRIVATE}"),
        tgz("1.0.0"),
        format!("/v1/packs/{PRIVATE}/-/1.0.0.json"),
        format!("/v1/packs/{PRIVATE}/-/1.0.0.sig"),
        format!("/v1/packs/{PRIVATE}/-/keychain"),
    ] {
        host.send("GET", &path, &[], None).await.refused(404, "pack_not_found");
    }
    assert_eq!(host.get(&tgz("1.0.0")).await.status, 200, "who has a key still has it");
}

#[tokio::test]
async fn a_host_without_installed_packs_has_no_agents() {
    let host = Host::start().await;
    assert_eq!(host.get("/v1/packs").await.expect(200), json!({"packs": [], "unserved": []}));
    assert_eq!(host.get("/v1/packs/export").await.expect(200), json!({"manifests": []}));
    host.get("/v1/agents").await.refused(404, "not_found");
    host.get("/v1/agents/vendor.acme.nodes.unknown").await.refused(404, "not_found");
}
