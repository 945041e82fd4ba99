//! Rules for the dependencies of the workspace, checked against the lockfiles.

use std::collections::{BTreeMap, BTreeSet};

use toml_edit::DocumentMut;

use crate::program::root;

/// TLS libraries and cryptographic providers besides `ring`, which every connection uses.
/// A second one enlarges the binary and has to be audited and updated as well, and rustls then has no default.
/// Usually a default feature of a new dependency enables it.
const OTHER_TLS: [&str; 7] = [
    "aws-lc-fips-sys",
    "aws-lc-rs",
    "aws-lc-sys",
    "boring-sys",
    "native-tls",
    "openssl-sys",
    "rustls-rustcrypto",
];

/// The names that are locked in several versions, and which dependency holds the older ones. A new entry costs every
/// build, so first look for a version or a feature of the new dependency that avoids it.
const SEVERAL_VERSIONS: [(&str, &[&str]); 10] = [
    ("async-nats, tokio-postgres", &["base64"]),
    ("fancy-regex in jsonschema, proptest", &["bit-set", "bit-vec"]),
    ("fantoccini, which only tests use", &["cookie", "http", "thiserror", "thiserror-impl"]),
    ("indicatif, whose dependency has the name of a crate of this workspace", &["console"]),
    ("ahash in jsonschema, opentelemetry_sdk, ring", &["getrandom", "rand", "rand_core"]),
    ("procedural macros, which move to the new version one by one", &["syn", "synstructure"]),
    ("tokio-postgres, ammonia", &["fallible-iterator", "phf", "phf_shared"]),
    (
        "wasmtime",
        &["block-buffer", "cpufeatures", "crypto-common", "digest", "embedded-io", "hashbrown", "sha2"],
    ),
    ("x509-cert in tokio-postgres-rustls", &["const-oid", "der", "spki"]),
    ("only compiled for other operating systems", &["bitflags", "r-efi", "wasi", "windows-sys"]),
];

/// The versions of each package in a lockfile.
fn locked(lockfile: &str) -> BTreeMap<String, BTreeSet<String>> {
    let text = std::fs::read_to_string(root().join(lockfile)).unwrap();
    let document: DocumentMut = text.parse().unwrap();
    let mut packages = BTreeMap::<_, BTreeSet<_>>::new();
    for package in document["package"].as_array_of_tables().unwrap() {
        let text = |key: &str| package[key].as_str().unwrap().to_owned();
        packages.entry(text("name")).or_default().insert(text("version"));
    }
    packages
}

#[test]
fn there_is_one_tls_provider() {
    for lockfile in ["Cargo.lock", "fuzz/Cargo.lock"] {
        let packages = locked(lockfile);
        assert!(packages.contains_key("ring"), "{lockfile}: the provider has another name");
        let others: Vec<_> = OTHER_TLS.iter().filter(|name| packages.contains_key(**name)).collect();
        assert!(others.is_empty(), "{lockfile}: {others:?}; `cargo tree -i` says which feature enables it");
    }
}

#[test]
fn packages_in_several_versions_are_listed() {
    let listed: BTreeSet<_> = SEVERAL_VERSIONS.iter().flat_map(|(_, names)| *names).copied().collect();
    let packages = locked("Cargo.lock");
    let several: BTreeSet<_> =
        packages.iter().filter(|(_, versions)| versions.len() > 1).map(|(name, _)| name.as_str()).collect();
    let new: Vec<_> = several.difference(&listed).collect();
    assert!(new.is_empty(), "new duplicates: {new:?}; see `cargo tree -d`");
    let gone: Vec<_> = listed.difference(&several).collect();
    assert!(gone.is_empty(), "remove these from the list: {gone:?}");
}
