//! A registry, on every store.

use canon::time::Timestamp;
use packs::integrity::Integrity;
use packs::name::PackName;
use packs::publish::{PublishErrorCode, PublishRequest, PublishRules, check};
use packs::registry::{
    Deprecation, FolderStore, MemoryStore, PublishRefusal, Published, Publisher, Registry,
    RegistryErrorCode as Code, RegistryStore, RotateRequest, UNPUBLISH_WINDOW_MS, Yank,
};
use packs::version::Version;
use serde_json::json;

use crate::support::{key, node_archive, node_pack, packed, signed_archive};

const NAME: &str = "vendor.acme.tools";
const OURS: Publisher<'static> = Publisher { id: "us", may_publish_core: false };
const THEIRS: Publisher<'static> = Publisher { id: "them", may_publish_core: false };

fn name(text: &str) -> PackName {
    PackName::parse(text).unwrap()
}

fn version(text: &str) -> Version {
    text.parse().unwrap()
}

fn publish<S: RegistryStore>(
    registry: &Registry<S>,
    pack: &str,
    number: &str,
    archive: &[u8],
    publisher: Publisher<'_>,
) -> Result<Published, PublishErrorCode> {
    let request = PublishRequest {
        name: pack,
        version: number,
        content_type: None,
        sha256: None,
        signing_method: None,
        body: archive,
    };
    let accepted = check(&request, &PublishRules::private()).unwrap();
    registry.publish(&accepted, archive, publisher, Timestamp(1000)).map_err(|refusal| match refusal {
        PublishRefusal::Publish(error) => error.code,
        PublishRefusal::Registry(error) => panic!("{error}"),
    })
}

/// The same scenario on every store; `again` reopens it, as after a restart.
fn story<S: RegistryStore>(registry: Registry<S>, again: impl FnOnce(Registry<S>) -> Registry<S>) {
    let first = node_archive(NAME, "1.0.0");
    assert_eq!(publish(&registry, NAME, "1.0.0", &first, OURS), Ok(Published::New));
    assert_eq!(publish(&registry, NAME, "1.0.0", &first, OURS), Ok(Published::Identical));
    let other = packed(&node_pack(NAME, "1.0.0"), &[("nodes.wasm", b"other")]);
    assert_eq!(publish(&registry, NAME, "1.0.0", &other, OURS), Err(PublishErrorCode::Conflict));
    // The segment of an organization belongs to its first publisher, for other packs too.
    let stolen = node_archive("vendor.acme.another", "1.0.0");
    assert_eq!(
        publish(&registry, "vendor.acme.another", "1.0.0", &stolen, THEIRS),
        Err(PublishErrorCode::Forbidden)
    );
    let beside = node_archive("vendor.acme-two.tools", "1.0.0");
    assert_eq!(publish(&registry, "vendor.acme-two.tools", "1.0.0", &beside, THEIRS), Ok(Published::New));
    let core = node_archive("core.openwop.tools", "1.0.0");
    assert_eq!(
        publish(&registry, "core.openwop.tools", "1.0.0", &core, OURS),
        Err(PublishErrorCode::Forbidden)
    );
    let second = node_archive(NAME, "1.1.0");
    assert_eq!(publish(&registry, NAME, "1.1.0", &second, OURS), Ok(Published::New));

    let registry = again(registry);
    assert_eq!(registry.count(), 2);
    let (integrity, archive) = registry.archive(&name(NAME), &version("1.0.0")).unwrap();
    assert_eq!((integrity, archive), (Integrity::of(&first), first.clone()));
    assert_eq!(registry.archive(&name(NAME), &version("9.0.0")).unwrap_err().code, Code::VersionNotFound);
    assert_eq!(
        registry.archive(&name("vendor.acme.none"), &version("1.0.0")).unwrap_err().code,
        Code::NotFound
    );

    let index = registry.index(Timestamp(0), |_| true);
    assert_eq!(index["packCount"], 2);
    let line = index["packs"].as_array().unwrap().iter().find(|pack| pack["name"] == NAME).unwrap();
    assert_eq!(line["typeIds"], json!(["acme.fetch"]));
    assert_eq!(line["latest"], "1.1.0");
    assert_eq!(registry.by_type("acme.fetch", |_| true)["packs"].as_array().unwrap().len(), 2);
    assert_eq!(registry.by_type("acme.none", |_| true)["packs"].as_array().unwrap().len(), 0);
    assert_eq!(registry.search("ACME-two tools", |_| true)["total"], 1);

    // Yanked: excluded from ranges, still available by version.
    let (pack, newest) = (name(NAME), version("1.1.0"));
    let yank = || Some(Yank { reason: "broken".to_owned() });
    assert_eq!(registry.yank(&pack, &newest, THEIRS, yank()).unwrap_err().code, Code::Forbidden);
    for _ in 0..2 {
        registry.yank(&pack, &newest, OURS, yank()).unwrap();
    }
    let document = registry.pack(&pack).unwrap();
    assert_eq!(document["latest"], "1.0.0");
    assert_eq!(document["versions"]["1.1.0"]["yankedReason"], "broken");
    assert!(registry.archive(&pack, &newest).is_ok());
    registry.yank(&pack, &newest, OURS, None).unwrap();
    assert_eq!(registry.pack(&pack).unwrap()["latest"], "1.1.0");

    let notice = Deprecation { reason: "old".to_owned(), superseded_by: Some("1.1.0".to_owned()) };
    registry.deprecate(&pack, &version("1.0.0"), OURS, Some(notice)).unwrap();
    let manifest = registry.version_manifest(&pack, &version("1.0.0")).unwrap();
    assert_eq!(manifest["deprecated"], true);
    assert_eq!(manifest["supersededBy"], "1.1.0");
    assert_eq!(manifest["tarballUrl"], "/v1/packs/vendor.acme.tools/-/1.0.0.tgz");
    if let Some(path) = crate::support::protocol("schemas/registry-version-manifest.schema.json") {
        let schema = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        let refused: Vec<String> = validator.iter_errors(&manifest).map(|error| error.to_string()).collect();
        assert!(refused.is_empty(), "{refused:?}");
    }

    // Unpublished in time, and never republished with different contents.
    let late = Timestamp(1001 + UNPUBLISH_WINDOW_MS);
    assert_eq!(
        registry.unpublish(&pack, &newest, OURS, late).unwrap_err().code,
        Code::UnpublishWindowExpired
    );
    assert_eq!(
        registry.unpublish(&pack, &newest, THEIRS, Timestamp(2000)).unwrap_err().code,
        Code::Forbidden
    );
    registry.unpublish(&pack, &newest, OURS, Timestamp(1000 + UNPUBLISH_WINDOW_MS)).unwrap();
    assert_eq!(registry.version(&pack, &newest).unwrap_err().code, Code::VersionNotFound);
    let changed = packed(&node_pack(NAME, "1.1.0"), &[("nodes.wasm", b"changed")]);
    assert_eq!(publish(&registry, NAME, "1.1.0", &changed, OURS), Err(PublishErrorCode::Conflict));
    assert_eq!(publish(&registry, NAME, "1.1.0", &second, OURS), Ok(Published::New));

    assert_eq!(registry.reset().unwrap(), 3);
    assert_eq!(registry.count(), 0);
    assert_eq!(registry.archive(&pack, &version("1.0.0")).unwrap_err().code, Code::NotFound);
}

#[test]
fn a_registry_in_memory() {
    story(Registry::open(MemoryStore::default()).unwrap(), |registry| registry);
}

#[test]
fn a_registry_on_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Registry::open(FolderStore::open(folder.path()).unwrap()).unwrap();
    story(open(), |registry| {
        let busy = FolderStore::open(folder.path()).unwrap_err();
        assert_eq!(busy.code, Code::StorageFailure, "one process writes at a time");
        drop(registry);
        open()
    });
}

#[test]
fn damaged_archives_are_not_served() {
    let folder = tempfile::tempdir().unwrap();
    let registry = Registry::open(FolderStore::open(folder.path()).unwrap()).unwrap();
    let archive = node_archive(NAME, "1.0.0");
    publish(&registry, NAME, "1.0.0", &archive, OURS).unwrap();
    let hex = Integrity::of(&archive).to_hex();
    std::fs::write(folder.path().join("archives").join(&hex[..2]).join(format!("{hex}.tgz")), b"other")
        .unwrap();
    assert_eq!(registry.archive(&name(NAME), &version("1.0.0")).unwrap_err().code, Code::StorageFailure);
}

#[test]
fn serves_signatures() {
    let registry = Registry::open(MemoryStore::default()).unwrap();
    publish(&registry, NAME, "1.0.0", &signed_archive(NAME, "1.0.0", &key(1)), OURS).unwrap();
    publish(&registry, "vendor.acme.plain", "1.0.0", &node_archive("vendor.acme.plain", "1.0.0"), OURS)
        .unwrap();
    let one = version("1.0.0");
    let manifest = crate::support::written(&node_pack(NAME, "1.0.0"));
    assert_eq!(registry.signature(&name(NAME), &one), Ok(key(1).sign(&manifest)));
    registry.yank(&name(NAME), &one, OURS, Some(Yank::default())).unwrap();
    for (pack, number) in
        [(NAME, "1.0.0"), (NAME, "2.0.0"), ("vendor.acme.plain", "1.0.0"), ("vendor.acme.none", "1.0.0")]
    {
        let refused = registry.signature(&name(pack), &version(number)).unwrap_err();
        assert_eq!(refused.code, Code::SignatureNotAvailable, "{pack} {number}");
    }
}

#[test]
fn key_rotation_requires_a_proof() {
    use base64::Engine as _;
    let registry = Registry::open(MemoryStore::default()).unwrap();
    let pack = name(NAME);
    let signed = |number: &str, seed: u8| signed_archive(NAME, number, &key(seed));
    assert_eq!(publish(&registry, NAME, "1.0.0", &signed("1.0.0", 1), OURS), Ok(Published::New));
    assert_eq!(
        publish(&registry, NAME, "1.1.0", &signed("1.1.0", 2), OURS),
        Err(PublishErrorCode::SignatureInvalid)
    );
    assert_eq!(
        publish(&registry, NAME, "1.1.0", &node_archive(NAME, "1.1.0"), OURS),
        Err(PublishErrorCode::SignatureInvalid)
    );
    let (kid, public_key, valid_from) = ("second", key(2).public().to_base64(), "2026-11-15T00:00:00Z");
    let proof = |seed: u8| {
        base64::engine::general_purpose::STANDARD
            .encode(key(seed).sign(format!("{kid}{public_key}{valid_from}").as_bytes()))
    };
    let request = |rotation_proof: String| RotateRequest {
        kid: kid.to_owned(),
        public_key: public_key.clone(),
        valid_from: valid_from.to_owned(),
        rotation_proof,
    };
    for wrong in [proof(2), "???".to_owned(), String::new()] {
        assert_eq!(registry.rotate(&pack, &request(wrong), OURS).unwrap_err().code, Code::RotationInvalid);
    }
    assert_eq!(registry.rotate(&pack, &request(proof(1)), THEIRS).unwrap_err().code, Code::Forbidden);
    registry.rotate(&pack, &request(proof(1)), OURS).unwrap();
    assert_eq!(
        registry.rotate(&pack, &request(proof(2)), OURS).unwrap_err().code,
        Code::RotationInvalid,
        "the id was used"
    );
    let chain = registry.keychain(&pack).unwrap();
    assert_eq!(chain[0].rotated_to.as_deref(), Some(kid));
    assert_eq!(chain[0].valid_until.as_deref(), Some(valid_from));
    assert_eq!(chain[1].rotated_from, Some(key(1).public().fingerprint()));
    assert_eq!(
        publish(&registry, NAME, "1.1.0", &signed("1.1.0", 1), OURS),
        Err(PublishErrorCode::SignatureInvalid)
    );
    assert_eq!(publish(&registry, NAME, "1.1.0", &signed("1.1.0", 2), OURS), Ok(Published::New));
}

#[test]
fn hidden_packs_do_not_count_in_search() {
    let registry = Registry::open(MemoryStore::default()).unwrap();
    let hidden = (0..=packs::registry::MAX_FOUND).map(|n| format!("vendor.acme.a{n}"));
    for pack in hidden.chain([NAME.to_owned()]) {
        publish(&registry, &pack, "1.0.0", &node_archive(&pack, "1.0.0"), OURS).unwrap();
    }
    let is_shown = |pack: &PackName| pack.as_str() == NAME;
    assert_eq!(registry.index(Timestamp(0), is_shown)["packCount"], 1);
    assert_eq!(registry.search("acme", is_shown)["total"], 1);
    assert_eq!(registry.by_type("acme.fetch", is_shown)["packs"].as_array().unwrap().len(), 1);
}
