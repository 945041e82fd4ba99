//! A lower room never names a higher one.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

use crate::program::root;

/// Each room, and the rooms that it may name. A new room gets a line here or the test fails.
const ROOMS: [(&str, &[&str]); 7] = [
    ("canon", &[]),
    ("composition", &["canon"]),
    ("guide", &["canon"]),
    ("storage", &["canon", "guide"]),
    ("host", &["canon", "guide", "storage"]),
    ("server", &["canon", "guide", "host"]),
    ("interlock", &["canon", "composition", "guide", "host", "server", "storage"]),
];

/// The pure rooms, and all that they may use of the outside.
const PURE: [(&str, &[&str]); 3] = [
    ("canon", &["serde", "serde_json", "serde_json_canonicalizer", "sha2", "strsim", "thiserror"]),
    ("composition", &["foldhash", "serde", "serde_json"]),
    (
        "guide",
        &[
            "hmac",
            "jsonschema",
            "regex",
            "schemars",
            "serde",
            "serde-saphyr",
            "serde_json",
            "sha2",
            "subtle",
            "thiserror",
            "unicode-normalization",
        ],
    ),
];

/// The dependencies of each room that end up in the program, from `cargo metadata`.
fn dependencies() -> BTreeMap<String, Vec<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline", "--locked"])
        .current_dir(root())
        .output()
        .expect("cargo runs the tests, so it is there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|package| {
            let used = package["dependencies"].as_array().unwrap().iter();
            // What only tests or builds use is not part of the room.
            let used = used.filter(|dependency| dependency["kind"].is_null());
            (text(&package["name"]), used.map(|dependency| text(&dependency["name"])).collect())
        })
        .collect()
}

#[test]
fn every_room_names_only_the_rooms_below_it() {
    let rooms = BTreeMap::from(ROOMS);
    let dependencies = dependencies();
    let drawn: Vec<_> = rooms.keys().map(|room| (*room).to_owned()).collect();
    let built: Vec<_> = dependencies.keys().cloned().collect();
    assert_eq!(built, drawn, "the rooms that exist are the rooms that are drawn");
    for (room, used) in &dependencies {
        for other in used.iter().filter(|other| rooms.contains_key(other.as_str())) {
            assert!(rooms[room.as_str()].contains(&other.as_str()), "forbidden edge: {room} -> {other}");
        }
    }
}

#[test]
fn pure_rooms_use_only_what_is_pure() {
    let rooms = BTreeMap::from(ROOMS);
    let dependencies = dependencies();
    for (room, allowed) in PURE {
        for other in dependencies[room].iter().filter(|other| !rooms.contains_key(other.as_str())) {
            assert!(allowed.contains(&other.as_str()), "forbidden edge: {room} -> {other}");
        }
    }
}
