//! The modules in `modules/`: source, bytes and behavior.

use std::path::{Path, PathBuf};

use sandbox::conformance::{self, ALL, FILES};
use sandbox::{Entry, Grants};
use serde_json::{Value, json};

use crate::support::SANDBOX;

/// Set to rewrite the bytes after a change of the source.
const REWRITE: &str = "INTERLOCK_REWRITE_MODULES";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("modules")
}

/// `(; json.wat ;)` in a source includes that file.
fn compile(file: &str) -> Vec<u8> {
    let read = |name: &str| std::fs::read_to_string(folder().join(name)).expect("a source file");
    let text = read(&format!("{file}.wat")).replace("(; json.wat ;)", &read("json.wat"));
    wat::parse_str(&text).unwrap_or_else(|error| panic!("{file}.wat: {error}"))
}

#[test]
fn modules_match_their_sources() {
    for (example, file) in ALL.iter().zip(FILES) {
        let bytes = compile(file);
        if std::env::var_os(REWRITE).is_some() {
            std::fs::write(folder().join(format!("{file}.wasm")), &bytes).expect("writable");
        } else {
            assert_eq!(bytes, example.bytes, "{file}.wasm does not match {file}.wat; run with {REWRITE}=1");
        }
    }
}

/// A result, or a code with one detail and its value.
type Ending = Result<Value, (&'static str, &'static str, Value)>;

#[test]
fn scenarios_match_the_protocol() {
    let escape =
        |kind: &'static str| -> Ending { Err(("sandbox_escape_attempt", "escapeKind", json!(kind))) };
    let rows: Vec<(&str, &[&str], Ending)> = vec![
        ("misbehave.fs-escape-read", &[], escape("host-fs-escape")),
        ("misbehave.fs-escape-write", &[], escape("host-fs-escape")),
        ("misbehave.env-leak", &[], escape("host-env-leak")),
        ("misbehave.network-escape", &[], escape("network-escape")),
        ("misbehave.process-escape", &[], escape("host-process-escape")),
        ("misbehave.timeout", &[], Err(("sandbox_timeout", "kind", json!("wasm-execution-time")))),
        ("misbehave.memory-bomb", &[], Err(("sandbox_memory_exceeded", "kind", json!("wasm-memory")))),
        ("misbehave.cross-pack-mutate", &[], Ok(json!({"shared": 1}))),
        (
            "misbehave.capability-gate-violation",
            &["fetch"],
            Err(("sandbox_capability_denied", "requestedCapability", json!("notInAllowedList"))),
        ),
        ("well-behaved.echo", &[], Ok(json!({"echoed": "hello-sandbox"}))),
        ("well-behaved.host-fetch", &["fetch"], Ok(json!({"status": 200, "body": ""}))),
        (
            "well-behaved.host-fetch",
            &[],
            Err(("sandbox_capability_denied", "requestedCapability", json!("fetch"))),
        ),
    ];
    for (type_id, grants, wanted) in &rows {
        let grants: Grants = grants.iter().copied().collect();
        let found = conformance::invoke(&SANDBOX, type_id, json!({"input": "hello-sandbox"}), grants);
        match (found.expect("an example module"), wanted) {
            (Ok(result), Ok(wanted)) => assert_eq!(&result, wanted, "{type_id}"),
            (Err(fault), Err((code, detail, value))) => {
                assert_eq!(fault.code().as_str(), *code, "{type_id}");
                assert_eq!(&fault.details()[*detail], value, "{type_id}");
            }
            (found, _) => panic!("{type_id}: {found:?}"),
        }
    }
    // Every module with an `invoke` has a row.
    for example in ALL.iter().filter(|example| example.entry() == Entry::Invoke) {
        assert!(rows.iter().any(|(type_id, ..)| *type_id == example.type_id), "{}", example.type_id);
    }
    for unknown in ["nope.not.a.program", "vendor.openwop.rust-hello.greet"] {
        assert!(conformance::invoke(&SANDBOX, unknown, json!({}), Grants::default()).is_none());
    }
}
