//! Secrets: fetching, confidentiality, scrubbing.

use std::sync::{Arc, Barrier};

use proptest::prelude::*;
use serde_json::{Value, json};
use workspace::Code;
use workspace::environment::local::LocalSecrets;
use workspace::environment::resolved::{self, AgentFacts, Invocation};
use workspace::environment::{Reason, ResolvedVariables, Scrubber, Secret, SecretSource};
use workspace::manifest::{Bound, CredentialKind, Surface};
use zeroize::Zeroizing;

use super::{Rows, bound, credential, resolve, table};

#[test]
fn every_missing_required_credential_is_named() {
    // Case 54.
    let bound = bound(json!({
        "credentials": [credential("ONE", "1", true), credential("TWO", "2", true), credential("OK", "3", true), credential("OPT", "4", false)],
    }));
    let source = table(&[("1", Err(Reason::Denied)), ("3", Ok("value-of-ok"))]);
    let error = resolve(&bound, &[], source).unwrap_err();
    assert_eq!(error.code(), Code::EnvRequiredCredentialMissing);
    let missing = error.details()["missing"].as_array().unwrap();
    let named: Vec<(&str, &str)> = missing
        .iter()
        .map(|item| (item["name"].as_str().unwrap(), item["reason"].as_str().unwrap()))
        .collect();
    assert_eq!(named, [("ONE", "denied"), ("TWO", "not-found")]);
    assert!(error.message().contains("ONE") && error.message().contains("TWO"), "{error}");
}

#[test]
fn a_variable_with_a_missing_optional_credential_is_skipped_and_reported() {
    let bound = bound(json!({
        "credentials": [credential("T", "1", false), credential("E", "2", false)],
        "env": [{"name": "A", "value": "x-${credential.T}"}, {"name": "B", "value": "${credential.E}"}, {"name": "C", "value": "c"}],
    }));
    let outcome = resolve(&bound, &[], table(&[("1", Err(Reason::Upstream)), ("2", Ok(""))])).unwrap();
    assert!(!outcome.env.iter().any(|item| ["A", "B"].contains(&item.name.as_str())), "never set empty");
    assert!(outcome.env.iter().any(|item| item.name == "C"));
    assert_eq!(outcome.warnings.len(), 2);
    let reasons: Vec<(&str, Reason)> =
        outcome.missing.iter().map(|missing| (missing.name.as_str(), missing.reason)).collect();
    assert_eq!(reasons, [("E", Reason::NotFound), ("T", Reason::Upstream)]);
}

#[test]
fn a_secret_appears_only_where_it_is_requested() {
    // Case 55.
    let bound = bound(json!({
        "credentials": [credential("T", "1", true)],
        "env": [{"name": "A", "value": "x-${credential.T}"}, {"name": "OPEN", "value": "seen"}],
    }));
    let outcome = resolve(&bound, &[], table(&[("1", Ok("hunter2hunter2"))])).unwrap();
    let (_, value) = outcome.values().iter().find(|(name, _)| name == "A").unwrap();
    assert_eq!(value.expose(), "x-hunter2hunter2");
    assert_eq!((value.to_string(), format!("{value:?}")), ("[redacted:T]".into(), "[redacted:T]".into()));
    let dumped = [
        format!("{outcome:?} {:?} {:?}", outcome.values(), outcome.credentials()),
        format!("{:#?}", outcome.scrubber()),
        serde_json::to_string(&outcome.env).unwrap(),
        serde_json::to_string(&bound.manifest).unwrap(),
        format!("{bound:?}"),
        serde_json::to_string(&resolved_of(&bound, &outcome)).unwrap(),
        outcome.scrubber().scrub("the log says x-hunter2hunter2").into_owned(),
    ];
    for dump in &dumped {
        assert!(!dump.contains("hunter2"), "{dump}");
    }
    assert!(dumped[0].contains("[redacted:T]") && dumped[6].contains("[redacted:T]"));
    let item = outcome.env.iter().find(|item| item.name == "A").unwrap();
    assert_eq!(
        serde_json::to_value(item).unwrap(),
        json!({"name": "A", "secretRef": ["T"], "layer": "manifest"})
    );
    let open = outcome.env.iter().find(|item| item.name == "OPEN").unwrap();
    let digest = open.digest.as_deref().unwrap();
    assert!(digest.len() == 16 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()), "{digest}");
}

#[test]
fn each_source_is_queried_once() {
    let bound = bound(json!({
        "credentials": [credential("ONE", "same", true), credential("TWO", "same", true), credential("THREE", "other", true)],
    }));
    let source = table(&[("same", Ok("value-same")), ("other", Ok("value-other"))]);
    let outcome = resolve(&bound, &[], Arc::clone(&source) as Arc<dyn SecretSource>).unwrap();
    assert_eq!(outcome.credentials().len(), 3);
    assert!(source.calls.lock().unwrap().values().all(|count| *count == 1));
}

#[test]
fn secrets_are_fetched_in_parallel() {
    // Each call waits for all others: sequential calls would never return.
    struct Together(Barrier);
    impl SecretSource for Together {
        fn fetch(&self, _: CredentialKind, _: &str) -> Result<Zeroizing<String>, Reason> {
            self.0.wait();
            Ok(Zeroizing::new("value".to_owned()))
        }
    }
    let credentials: Vec<Value> =
        (0..8).map(|n| credential(&format!("C{n}"), &format!("{n}"), true)).collect();
    let outcome =
        resolve(&bound(json!({"credentials": credentials})), &[], Arc::new(Together(Barrier::new(8))))
            .unwrap();
    assert_eq!(outcome.credentials().len(), 8);
}

#[test]
fn local_secrets_come_from_variables_and_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("plain"), "from-a-file\n").unwrap();
    std::fs::write(path("crlf"), "from-windows\r\n").unwrap();
    std::fs::write(path("inner"), "a\nb\n\n").unwrap();
    std::fs::write(path("binary"), [0xff, 0xfe]).unwrap();
    let cases = [
        (format!("file:{}", path("plain")), Ok("from-a-file")),
        (format!("file:{}", path("crlf")), Ok("from-windows")),
        (format!("file:{}", path("inner")), Ok("a\nb\n")),
        (format!("file:{}", path("binary")), Err(Reason::Upstream)),
        (format!("file:{}", path("absent")), Err(Reason::NotFound)),
        (format!("file:{}", folder.path().display()), Err(Reason::BadSourceRef)),
        ("file:/dev/zero".to_owned(), Err(Reason::BadSourceRef)),
        ("file:".to_owned(), Err(Reason::BadSourceRef)),
        ("env:INTERLOCK_TEST_OF_NOTHING".to_owned(), Err(Reason::NotFound)),
        ("env:".to_owned(), Err(Reason::BadSourceRef)),
        ("env:A=B".to_owned(), Err(Reason::BadSourceRef)),
        ("vault:x".to_owned(), Err(Reason::BadSourceRef)),
        ("plain".to_owned(), Err(Reason::BadSourceRef)),
    ];
    for (source_ref, expected) in cases {
        let fetched = LocalSecrets.fetch(CredentialKind::GenericSecret, &source_ref);
        assert_eq!(
            fetched.as_ref().map(|value| value.as_str()).map_err(|reason| *reason),
            expected,
            "{source_ref}"
        );
    }
    // Cargo sets this variable for every test.
    let name = LocalSecrets.fetch(CredentialKind::ScmToken, "env:CARGO_PKG_NAME").unwrap();
    assert_eq!(name.as_str(), "workspace");
}

#[test]
fn secrets_are_scrubbed_in_every_encoding() {
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
    let value = "p@ss w/rd?é\"x";
    let scrubber =
        Scrubber::new(&[secret("T", value), secret("LONG", "p@ss w/rd?é\"x-and-more"), secret("S", "short")]);
    let cases = [
        ("plain", format!("a {value} b")),
        ("base64", format!("a {} b", STANDARD.encode(value))),
        ("base64 for URLs", format!("a {} b", URL_SAFE_NO_PAD.encode(value))),
        ("basic authentication", format!("Basic {}", STANDARD.encode(format!("user:{value}")))),
        ("one byte before and one after", STANDARD.encode(format!("u{value}!"))),
        ("percent", "a p%40ss%20w%2Frd%3F%C3%A9%22x b".to_owned()),
        ("percent in lower case", "a p%40ss%20w%2frd%3f%c3%a9%22x b".to_owned()),
        ("a form", "a p%40ss+w%2Frd%3F%C3%A9%22x b".to_owned()),
        ("JSON", json!({ "k": value }).to_string()),
    ];
    for (name, text) in cases {
        let scrubbed = scrubber.scrub(&text);
        assert!(scrubbed.contains("[redacted:T]"), "{name}: {scrubbed}");
        assert!(!scrubbed.contains("w/rd") && !scrubbed.contains("w%2"), "{name}: {scrubbed}");
    }
    assert_eq!(scrubber.scrub("p@ss w/rd?é\"x-and-more"), "[redacted:LONG]", "the longest that fits");
    assert_eq!(scrubber.scrub("a short text"), "a short text", "short secrets are in innocent text");
}

proptest! {
    #[test]
    fn no_encoding_of_a_secret_survives(value in "[ -~é]{8,40}", before in "[a-z ]{0,5}", after in "[a-z ]{0,5}") {
        use base64::Engine as _;
        use base64::engine::general_purpose::STANDARD;
        let scrubber = Scrubber::new(&[secret("T", &value)]);
        let plain = format!("{before}{value}{after}");
        let scrubbed = scrubber.scrub(&plain);
        prop_assert!(!scrubbed.contains(&value), "{}", scrubbed);
        let encoded = STANDARD.encode(&plain);
        prop_assert_ne!(scrubber.scrub(&encoded), encoded.as_str());
    }
}

fn secret(name: &str, value: &str) -> Secret {
    Secret::new(name, Zeroizing::new(value.to_owned()))
}

fn resolved_of(bound: &Bound, outcome: &ResolvedVariables) -> resolved::ResolvedEnvironment {
    let (facts, invocation) = (AgentFacts::default(), Invocation::default());
    resolved::resolve(bound, Surface::ALL, &facts, &invocation, outcome, &Rows(vec![]), "now").unwrap()
}
