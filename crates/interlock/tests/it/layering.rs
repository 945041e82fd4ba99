//! Crates depend only on lower layers.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

use crate::program::root;

/// Each crate and its allowed dependencies. A new crate needs a line here.
const ROOMS: [(&str, &[&str]); 29] = [
    ("canon", &["data-encoding"]),
    ("disk", &[]),
    ("ai", &["canon"]),
    ("openwop", &["canon"]),
    ("outbound", &[]),
    ("packs", &["canon", "disk"]),
    ("sandbox", &["canon"]),
    ("pgclient", &[]),
    ("sealing", &[]),
    ("surfaces", &["canon", "disk", "pgclient"]),
    ("composition", &["canon"]),
    ("flow", &["canon"]),
    ("guide", &["canon"]),
    ("workspace", &["canon", "disk"]),
    ("ports", &["canon", "flow", "guide"]),
    ("sessionlog", &["canon", "guide", "ports"]),
    ("storage", &["canon", "disk", "flow", "guide", "ports", "sessionlog"]),
    ("postgres", &["canon", "flow", "guide", "pgclient", "ports", "sealing", "sessionlog"]),
    ("system", &["canon", "flow"]),
    ("catalogue", &["canon", "guide", "packs"]),
    ("guided", &["canon", "catalogue", "flow", "guide", "ports", "system"]),
    ("guided_node", &["canon", "flow", "guide", "guided", "ports", "storage", "system", "workspace"]),
    ("executors", &["ai", "canon", "flow", "outbound", "packs", "ports", "sandbox", "surfaces", "system"]),
    (
        "runs",
        &[
            "ai",
            "canon",
            "executors",
            "flow",
            "guide",
            "guided_node",
            "openwop",
            "outbound",
            "ports",
            "storage",
            "surfaces",
            "system",
        ],
    ),
    ("triggers", &["canon", "executors", "flow", "ports", "runs", "surfaces", "system"]),
    ("plugins", &["canon", "flow", "packs", "runs"]),
    (
        "server",
        &[
            "ai",
            "canon",
            "catalogue",
            "executors",
            "flow",
            "guide",
            "guided",
            "openwop",
            "packs",
            "plugins",
            "ports",
            "runs",
            "sandbox",
            "surfaces",
            "system",
        ],
    ),
    (
        "console",
        &[
            "canon",
            "catalogue",
            "composition",
            "flow",
            "guide",
            "guided",
            "guided_node",
            "packs",
            "plugins",
            "ports",
            "runs",
            "storage",
            "system",
            "workspace",
        ],
    ),
    (
        "interlock",
        &[
            "ai",
            "canon",
            "catalogue",
            "composition",
            "console",
            "executors",
            "flow",
            "guide",
            "guided",
            "guided_node",
            "outbound",
            "packs",
            "plugins",
            "ports",
            "postgres",
            "runs",
            "sealing",
            "server",
            "storage",
            "surfaces",
            "system",
            "triggers",
            "workspace",
        ],
    ),
];

/// The pure crates, and their allowed external dependencies.
const PURE: [(&str, &[&str]); 6] = [
    ("ai", &["jsonschema", "serde_json", "thiserror"]),
    (
        "canon",
        &[
            "data-encoding",
            "jiff",
            "serde",
            "serde-saphyr",
            "serde_json",
            "serde_json_canonicalizer",
            "sha2",
            "strsim",
            "thiserror",
        ],
    ),
    ("composition", &["foldhash", "serde", "serde_json"]),
    (
        "flow",
        &[
            "base64",
            "hmac",
            "jsonschema",
            "regex",
            "regex-syntax",
            "schemars",
            "serde",
            "serde_json",
            "sha2",
            "thiserror",
        ],
    ),
    ("openwop", &["serde_json", "thiserror"]),
    (
        "guide",
        &[
            "hmac",
            "jsonschema",
            "regex",
            "schemars",
            "serde",
            "serde_json",
            "sha2",
            "subtle",
            "thiserror",
            "unicode-normalization",
        ],
    ),
];

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline", "--locked"])
        .current_dir(root())
        .output()
        .expect("cargo runs the tests, so it is there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The normal dependencies of each crate, from `cargo metadata`.
fn dependencies() -> BTreeMap<String, Vec<String>> {
    let metadata = metadata();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|package| {
            let used = package["dependencies"].as_array().unwrap().iter();
            // Dev and build dependencies do not count.
            let used = used.filter(|dependency| dependency["kind"].is_null());
            (text(&package["name"]), used.map(|dependency| text(&dependency["name"])).collect())
        })
        .collect()
}

#[test]
fn crates_depend_only_on_lower_layers() {
    let rooms = BTreeMap::from(ROOMS);
    let dependencies = dependencies();
    let drawn: Vec<_> = rooms.keys().map(|room| (*room).to_owned()).collect();
    let built: Vec<_> = dependencies.keys().cloned().collect();
    assert_eq!(built, drawn, "the listed crates are the existing crates");
    for (room, used) in &dependencies {
        for other in used.iter().filter(|other| rooms.contains_key(other.as_str())) {
            assert!(rooms[room.as_str()].contains(&other.as_str()), "forbidden edge: {room} -> {other}");
        }
    }
}

#[test]
fn pure_crates_have_only_pure_dependencies() {
    let rooms = BTreeMap::from(ROOMS);
    let dependencies = dependencies();
    for (room, allowed) in PURE {
        for other in dependencies[room].iter().filter(|other| !rooms.contains_key(other.as_str())) {
            assert!(allowed.contains(&other.as_str()), "forbidden edge: {room} -> {other}");
        }
    }
}

/// Test doubles are behind the feature `testing`, which no crate of the program may enable.
#[test]
fn the_program_is_built_without_test_doubles() {
    let metadata = metadata();
    let mut doubles = 0;
    for package in metadata["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        doubles += usize::from(package["features"].get("testing").is_some());
        for (feature, enables) in package["features"].as_object().unwrap() {
            assert!(
                !enables.to_string().contains("testing"),
                "{name}: the feature {feature} enables {enables}"
            );
        }
        for dependency in package["dependencies"].as_array().unwrap() {
            let enabled = dependency["features"].as_array().unwrap().contains(&"testing".into());
            let is_for_tests = dependency["kind"] == "dev";
            assert!(!enabled || is_for_tests, "{name} enables the test doubles of {}", dependency["name"]);
        }
    }
    assert!(doubles >= 1, "storage has a disk that fails on purpose");
}

/// The pure modules of `workspace`. The crate as a whole is not pure: it writes plans to disk.
const PURE_MODULES: [&str; 8] =
    ["compose", "dispatch", "error", "lifecycle", "manifest", "plan", "slot", "template"];

/// Names that a pure module must not use.
const IMPURE: [&str; 9] = [
    "std::fs",
    "std::env",
    "std::process",
    "std::thread",
    "std::net",
    "SystemTime",
    "Instant",
    "rustix",
    "rooted",
];

/// Reads base manifests from a folder: the adapter next to its port.
const ADAPTER: &str = "manifest/folder.rs";

#[test]
fn pure_modules_of_workspace_have_no_side_effects() {
    let source = root().join("crates/workspace/src");
    let mut looked_at = 0;
    for module in PURE_MODULES {
        let mut waiting = vec![source.join(module), source.join(format!("{module}.rs"))];
        while let Some(path) = waiting.pop() {
            if path.is_dir() {
                waiting.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
                continue;
            }
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            if path == source.join(ADAPTER) || path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            looked_at += 1;
            for (number, line) in
                text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"))
            {
                let named = IMPURE.iter().find(|name| line.contains(**name));
                assert_eq!(named, None, "{}:{}", path.display(), number + 1);
            }
        }
    }
    assert!(looked_at >= 40, "only {looked_at} files were checked");
}
