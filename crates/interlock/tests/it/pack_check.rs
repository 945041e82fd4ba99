//! `interlock pack check` on modules and on new packs.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::home::TestHome;

/// An environment with a new pack of nodes.
fn skeleton() -> (TestHome, PathBuf) {
    let test_home = TestHome::new();
    let folder = test_home.path("tools");
    test_home.json(&["pack", "new", "vendor.acme.tools", folder.to_str().unwrap()], 0);
    (test_home, folder)
}

/// The exports of a module besides `openwop_node_invoke`, for a node `vendor.acme.tools.greet`.
const EXPORTS: &str = r#"
    (memory (export "memory") 1)
    (data (i32.const 16) "vendor.acme.tools.greet")
    (data (i32.const 64) "{\"outcome\":\"completed\",\"output\":{}}")
    (func (export "openwop_abi_version") (result i32) (i32.const 1))
    (func (export "openwop_pack_name") (result i32 i32) (i32.const 16) (i32.const 17))
    (func (export "openwop_node_count") (result i32) (i32.const 1))
    (func (export "openwop_node_id_at") (param i32) (result i32 i32) (i32.const 16) (i32.const 23))
    (func (export "openwop_alloc") (param i32) (result i32) (i32.const 4096))
    (func (export "openwop_free") (param i32 i32))"#;
const INVOKE: &str = r#"(func (export "openwop_node_invoke") (param i32 i32 i32) (result i32 i32) (i32.const 64) (i32.const 35))"#;

fn module(imports: &str, exports: &str, invoke: &str) -> Vec<u8> {
    wat::parse_str(format!("(module {imports} {exports} {invoke})")).unwrap()
}

/// Finding L9: the digest that `pack check` prints can be copied to `pack install --expect`.
#[test]
fn the_printed_digest_can_be_expected() {
    let (test_home, folder) = skeleton();
    let archive = test_home.path("tools.tgz");
    let printed = test_home
        .expect(&["pack", "check", folder.to_str().unwrap(), "--output", archive.to_str().unwrap()], 0);
    let digest = printed.lines().find_map(|line| line.strip_prefix("Integrity: ")).unwrap();
    test_home.json(&["pack", "install", archive.to_str().unwrap(), "--expect", digest], 0);
}

#[test]
fn the_new_node_pack_compiles_from_its_text_and_runs() {
    let (test_home, folder) = skeleton();
    let compiled = wat::parse_file(folder.join("nodes.wat")).unwrap();
    assert_eq!(compiled, std::fs::read(folder.join("nodes.wasm")).unwrap());
    test_home.json(&["pack", "check", folder.to_str().unwrap()], 0);
    test_home.json(&["pack", "install", folder.to_str().unwrap()], 0);
    let file = test_home.path("hello.json");
    let run = |inputs: Value| {
        let node = json!({
            "id": "greet", "typeId": "vendor.acme.tools.greet", "name": "Greet", "position": {"x": 0, "y": 0},
            "config": {}, "inputs": inputs,
        });
        let keep = json!({
            "id": "keep", "typeId": "core.setVariable", "name": "Keep", "position": {"x": 0, "y": 0},
            "config": {"name": "greeting"},
            "inputs": {"value": {"type": "connection", "nodeId": "greet", "outputKey": "greeting"}},
        });
        let document = json!({
            "id": "hello", "name": "Hello", "version": "1", "nodes": [node, keep],
            "edges": [{"id": "e", "sourceNodeId": "greet", "targetNodeId": "keep"}],
            "triggers": [], "variables": [{"name": "greeting", "type": "string"}], "metadata": {}, "settings": {},
        });
        std::fs::write(&file, document.to_string()).unwrap();
        test_home.json(&["run", file.to_str().unwrap(), "--follow"], 0)["run"]["variables"]["greeting"]
            .clone()
    };
    assert_eq!(
        run(json!({"name": {"type": "static", "value": "Ada \"the\" first"}})),
        "Hello, Ada \"the\" first!"
    );
    assert_eq!(run(json!({})), "Hello, world!");
}

#[test]
fn check_reports_modules_that_a_host_would_not_serve() {
    let (test_home, folder) = skeleton();
    let shown = folder.to_str().unwrap();
    let clock = r#"(import "openwop" "openwop_now_ms" (func (result i64)))"#;
    let files = r#"(import "wasi_snapshot_preview1" "fd_write" (func (param i32 i32 i32 i32) (result i32)))"#;
    let rows: [(&str, Vec<u8>, &str, &str, &str); 9] = [
        ("not a module", b"\0asm".to_vec(), "sandbox_bad_module", "/runtime/entry", ""),
        (
            "an empty one",
            b"\0asm\x01\0\0\0".to_vec(),
            "sandbox_bad_module",
            "/runtime/entry",
            "openwop_abi_version",
        ),
        (
            "an export is missing",
            module("", EXPORTS, ""),
            "sandbox_bad_module",
            "/runtime/entry",
            "openwop_node_invoke",
        ),
        (
            "another version",
            module(
                "",
                &EXPORTS.replace(
                    "(result i32) (i32.const 1))\n    (func (export \"openwop_pack",
                    "(result i32) (i32.const 9))\n    (func (export \"openwop_pack",
                ),
                INVOKE,
            ),
            "unsupported_abi_version",
            "/runtime/entry",
            "9",
        ),
        (
            "another node",
            module("", &EXPORTS.replace("tools.greet", "tools.great"), INVOKE),
            "sandbox_unknown_node",
            "/nodes/0/typeId",
            "it has `vendor.acme.tools.great`",
        ),
        (
            "another pack",
            module("", &EXPORTS.replace("(i32.const 17)", "(i32.const 16)"), INVOKE),
            "sandbox_bad_module",
            "/name",
            "vendor.acme.tool`",
        ),
        (
            "the clock",
            module(clock, EXPORTS, INVOKE),
            "sandbox_capability_denied",
            "/runtime/requires",
            "`clock`",
        ),
        ("files", module(files, EXPORTS, INVOKE), "sandbox_escape_attempt", "/runtime/entry", "fd_write"),
        (
            "an invalid result",
            module("", EXPORTS, &INVOKE.replace("(i32.const 35)", "(i32.const 34)")),
            "sandbox_abi_violation",
            "/runtime/entry",
            "",
        ),
    ];
    for (what, bytes, code, pointer, printed) in rows {
        std::fs::write(folder.join("nodes.wasm"), bytes).unwrap();
        let checked = test_home.json(&["pack", "check", shown], 1);
        let problem = &checked["problems"][0];
        assert_eq!(
            (&problem["code"], &problem["pointer"]),
            (&json!(code), &json!(pointer)),
            "{what}: {checked}"
        );
        assert!(problem["message"].as_str().unwrap().contains(printed), "{what}: {checked}");
    }
    std::fs::write(folder.join("nodes.wasm"), module(clock, EXPORTS, INVOKE)).unwrap();
    let manifest = std::fs::read_to_string(folder.join("pack.json")).unwrap();
    let manifest =
        manifest.replace("\"language\": \"wasm\"", "\"language\": \"wasm\", \"requires\": [\"clock\"]");
    std::fs::write(folder.join("pack.json"), &manifest).unwrap();
    test_home.json(&["pack", "check", shown], 0);
    std::fs::write(folder.join("pack.json"), manifest.replace("\"abiVersion\": 1", "\"abiVersion\": 2"))
        .unwrap();
    let checked = test_home.json(&["pack", "check", shown], 1);
    assert_eq!(checked["problems"][0]["pointer"], "/runtime/wasm/abiVersion", "{checked}");
}
