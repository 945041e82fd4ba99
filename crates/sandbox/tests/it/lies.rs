//! Modules that violate the ABI in every way. Each only ends the module.

use sandbox::{DenyAll, Fault, Invocation};
use serde_json::json;

use crate::support::{Memory, PackText, SANDBOX, invoke, node, run, run_with, wasm};

/// A fragment of the fault's message, and its code.
type Expected = (&'static str, &'static str);

#[track_caller]
fn assert_fault(what: &str, found: Result<sandbox::NodeOutcome, Fault>, (code, text): Expected) {
    match found {
        Err(fault) => {
            assert_eq!(fault.code().as_str(), code, "{what}: {fault}");
            assert!(fault.to_string().contains(text), "{what}: {fault}");
        }
        Ok(outcome) => panic!("{what}: {outcome:?}"),
    }
}

#[test]
fn packs_that_violate_the_abi_fail() {
    let abi = "sandbox_abi_violation";
    let bad = "sandbox_bad_module";
    let trap = "sandbox_trap";
    let text = PackText::default;
    let rows: Vec<(&str, PackText, Expected)> = vec![
        // Pointers and lengths.
        (
            "a result after the end of its memory",
            PackText { invoke: "(i32.const 65536) (i32.const 1)", ..text() },
            (abi, "not inside"),
        ),
        (
            "a result across the end of its memory",
            PackText { invoke: "(i32.const 65530) (i32.const 100)", ..text() },
            (abi, "not inside"),
        ),
        (
            "a negative pointer",
            PackText { invoke: "(i32.const -1) (i32.const 10)", ..text() },
            (abi, "not inside"),
        ),
        (
            "a negative length",
            PackText { invoke: "(i32.const 64) (i32.const -1)", ..text() },
            (abi, "4294967295 bytes"),
        ),
        (
            "pointer and length that overflow together",
            PackText { invoke: "(i32.const -1) (i32.const 4194304)", ..text() },
            (abi, "not inside"),
        ),
        (
            "a result over the limit",
            PackText { invoke: "(i32.const 0) (i32.const 4194305)", ..text() },
            (abi, "limit is 4194304"),
        ),
        ("no result", PackText { invoke: "(i32.const 0) (i32.const 0)", ..text() }, (abi, "not valid JSON")),
        // Memory.
        (
            "no memory for the request",
            PackText { alloc: "(i32.const 0)", ..text() },
            (abi, "returned no memory"),
        ),
        ("memory outside its own", PackText { alloc: "(i32.const 65530)", ..text() }, (abi, "not inside")),
        ("negative memory", PackText { alloc: "(i32.const -8)", ..text() }, (abi, "not inside")),
        ("memory inside its result", PackText { alloc: "(i32.const 70)", ..text() }, (abi, "not valid JSON")),
        ("an alloc that traps", PackText { alloc: "(unreachable)", ..text() }, (trap, "unreachable")),
        ("a free that traps", PackText { free: "(unreachable)", ..text() }, (trap, "unreachable")),
        // The content of the result.
        (
            "a result that is not UTF-8",
            PackText {
                head: r#"(data (i32.const 200) "\"\ff\fe\"")"#,
                invoke: "(i32.const 200) (i32.const 4)",
                ..text()
            },
            (abi, "not valid JSON"),
        ),
        (
            "a result that is not JSON",
            PackText { invoke: "(i32.const 16) (i32.const 6)", ..text() },
            (abi, "not valid JSON"),
        ),
        // The self-description.
        ("many nodes", PackText { count: "(i32.const 1001)", ..text() }, (bad, "1001 nodes")),
        ("a negative number of nodes", PackText { count: "(i32.const -1)", ..text() }, (bad, "-1 nodes")),
        (
            "another node",
            PackText { id_at: "(i32.const 16) (i32.const 5)", ..text() },
            ("sandbox_unknown_node", ""),
        ),
        (
            "a node without a name",
            PackText { id_at: "(i32.const 0) (i32.const 0)", ..text() },
            (bad, "0 bytes"),
        ),
        ("a long name", PackText { name: "(i32.const 0) (i32.const 257)", ..text() }, (bad, "257 bytes")),
        (
            "a name outside its memory",
            PackText { name: "(i32.const -9) (i32.const 9)", ..text() },
            (abi, "not inside"),
        ),
        ("a name that never returns", PackText { name: "(unreachable)", ..text() }, (trap, "unreachable")),
        (
            "a version that never returns",
            PackText { version: "(loop $l (br $l)) (unreachable)", ..text() },
            ("sandbox_fuel_exhausted", "fuel"),
        ),
        // Traps of all kinds.
        ("a trap", PackText { invoke: "(unreachable)", ..text() }, (trap, "unreachable")),
        (
            "a division by zero",
            PackText { invoke: "(i32.div_u (i32.const 1) (i32.const 0)) (i32.const 1)", ..text() },
            (trap, "divide by zero"),
        ),
        (
            "memory it does not have",
            PackText { invoke: "(i32.load (i32.const 65536)) (i32.const 1)", ..text() },
            (trap, "out of bounds"),
        ),
        (
            "a call through an empty table",
            PackText {
                head: "(table 1 funcref)",
                invoke: "(call_indirect (i32.const 0)) (i32.const 1) (i32.const 1)",
                ..text()
            },
            (trap, "uninitialized"),
        ),
        (
            "recursion without end",
            PackText {
                head: "(func $deep (param i64 i64 i64) (result i64)
                    (i64.add (local.get 0) (call $deep (local.get 1) (local.get 2) (local.get 0))))",
                invoke: "(drop (call $deep (i64.const 1) (i64.const 2) (i64.const 3))) (i32.const 1) (i32.const 1)",
                ..text()
            },
            (trap, "stack"),
        ),
        // The start function.
        (
            "a start that traps",
            PackText { head: "(func $start (unreachable)) (start $start)", ..text() },
            (trap, "unreachable"),
        ),
        (
            "a start that never ends",
            PackText { head: "(func $start (loop $l (br $l))) (start $start)", ..text() },
            ("sandbox_fuel_exhausted", "fuel"),
        ),
        (
            "a start that calls the host",
            PackText {
                head: r#"(import "openwop" "openwop_log" (func $log (param i32 i32 i32)))
                    (func $start (call $log (i32.const 0) (i32.const 0) (i32.const 1))) (start $start)"#,
                ..text()
            },
            (abi, "start function"),
        ),
        (
            "data outside its memory",
            PackText { head: r#"(data (i32.const 65536) "x")"#, ..text() },
            (trap, "out of bounds"),
        ),
        (
            "elements outside its table",
            PackText { head: "(table 1 funcref) (func $f) (elem (i32.const 1) $f)", ..text() },
            (trap, "table"),
        ),
    ];
    for (what, pack, expected) in rows {
        assert_fault(what, run(&pack.bytes(), &node()), expected);
    }
}

#[test]
fn invalid_host_calls_fail() {
    let abi = "sandbox_abi_violation";
    let imports = r#"
        (import "openwop" "openwop_log" (func $log (param i32 i32 i32)))
        (import "openwop" "openwop_random" (func $random (param i32 i32)))
        (import "openwop" "openwop_channel_read" (func $read (param i32 i32) (result i32 i32)))
        (import "openwop" "openwop_variable_get" (func $get (param i32 i32) (result i64)))"#;
    let rows: &[(&str, &str, &str, Expected)] = &[
        (
            "a message outside",
            "",
            "(call $log (i32.const 2) (i32.const 65535) (i32.const 2))",
            (abi, "not inside"),
        ),
        ("a long message", "", "(call $log (i32.const 2) (i32.const 0) (i32.const -1))", (abi, "limit is")),
        ("randomness outside", "", "(call $random (i32.const 65530) (i32.const 60))", (abi, "not inside")),
        ("too much of it", "", "(call $random (i32.const 0) (i32.const 65537))", (abi, "limit is 65536")),
        (
            "a name outside",
            "",
            "(call $read (i32.const -2) (i32.const 2)) (drop) (drop)",
            (abi, "not inside"),
        ),
        (
            "no memory for the result",
            "(if (i32.eq (local.get 0) (i32.const 7)) (then (return (i32.const 0))))",
            "(call $read (i32.const 16) (i32.const 1)) (drop) (drop)",
            (abi, "returned no memory"),
        ),
        (
            "memory elsewhere for the result",
            "(if (i32.eq (local.get 0) (i32.const 7)) (then (return (i32.const -4))))",
            "(drop (call $get (i32.const 16) (i32.const 1)))",
            (abi, "not inside"),
        ),
        (
            "an alloc that calls the host",
            "(if (i32.eq (local.get 0) (i32.const 7)) (then (call $read (i32.const 16) (i32.const 1)) (drop) (drop)))",
            "(call $read (i32.const 16) (i32.const 1)) (drop) (drop)",
            (abi, "while the host waited"),
        ),
    ];
    for (what, alloc, body, expected) in rows {
        let text = format!(
            r#"(module {imports} (memory (export "memory") 1) (data (i32.const 16) "t")
                (func (export "openwop_alloc") (param i32) (result i32) {alloc} (i32.const 8192))
                (func (export "invoke") (param i32) (result i32) {body} (i32.const 1)))"#
        );
        let grants = ["openwop_log", "openwop_random", "openwop_channel_read", "openwop_variable_get"];
        let mut host = Memory::default();
        // Seven bytes of JSON, by which the alloc of a row recognizes the host's request.
        host.values.insert("t".to_owned(), json!("fives"));
        let (report, _) = run_with(&wasm(&text), &invoke(json!(1), &grants), host);
        assert_fault(what, report.result, *expected);
    }
}

#[test]
fn modules_without_an_entry_are_rejected() {
    let rows = [
        ("(module)", "neither"),
        (r#"(module (func (export "invoke") (param f64)))"#, "neither"),
        (
            r#"(module (func (export "invoke") (param i32 i32) (result i32 i32) (unreachable)))"#,
            "no `memory`",
        ),
        (r#"(module (global (export "invoke") i32 (i32.const 1)))"#, "neither"),
        (
            r#"(module (import "openwop" "openwop_log" (func (param i32))) (func (export "invoke") (result i32) (unreachable)))"#,
            "invalid signature",
        ),
        (
            r#"(module (import "openwop" "x" (func (param f32))) (func (export "invoke") (result i32) (unreachable)))"#,
            "invalid signature",
        ),
        (
            r#"(module (import "openwop" "x" (global i32)) (func (export "invoke") (result i32) (unreachable)))"#,
            "as a function",
        ),
        (
            r#"(module (import "openwop" "openwop_random" (func (param i32 i32)))
                (func (export "invoke") (result i32) (unreachable)))"#,
            "no `memory`",
        ),
        (
            r#"(module (import "openwop" "x" (func (param i32) (result i32))) (import "openwop" "x" (func (result i32)))
                (func (export "invoke") (result i32) (unreachable)))"#,
            "two signatures",
        ),
    ];
    for (text, reason) in rows {
        match SANDBOX.compile(&wasm(text)) {
            Err(Fault::BadModule { reason: found }) => assert!(found.contains(reason), "{text}: {found}"),
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn duplicate_imports_are_allowed() {
    let bytes = wasm(
        r#"(module (import "openwop" "double" (func $a (param i32) (result i32)))
            (import "openwop" "double" (func $b (param i32) (result i32)))
            (func (export "invoke") (param i32) (result i32) (call $a (call $b (local.get 0)))))"#,
    );
    let module = SANDBOX.compile(&bytes).expect("it compiles");
    assert_eq!(module.calls().collect::<Vec<_>>(), ["double"]);
    assert_eq!(run(&bytes, &invoke(json!(3), &["double"])), crate::support::completed(json!(12)));
}

#[test]
fn missing_exports_are_named() {
    let whole = PackText::default().bytes();
    let exports = [
        "openwop_pack_name",
        "openwop_node_count",
        "openwop_node_id_at",
        "openwop_alloc",
        "openwop_free",
        "openwop_node_invoke",
        "memory",
    ];
    for export in exports {
        // The name is replaced by another one of the same length.
        let at = whole
            .windows(export.len())
            .position(|found| found == export.as_bytes())
            .expect("it has that export");
        let mut bytes = whole.clone();
        bytes[at] = b'X';
        match run(&bytes, &node()) {
            Err(Fault::BadModule { reason }) => assert!(reason.contains(export), "{export}: {reason}"),
            other => panic!("{export}: {other:?}"),
        }
    }
}

#[test]
fn disabled_features_are_rejected() {
    let features = [
        ("threads", "(memory (export \"memory\") 1 1 shared)"),
        ("a second memory", "(memory 1) (memory 1)"),
        ("64-bit memory", "(memory i64 1)"),
        ("tail calls", "(func $f (return_call $f))"),
        (
            "relaxed SIMD",
            "(func (param v128 v128) (result v128)
            (i8x16.relaxed_swizzle (local.get 0) (local.get 1)))",
        ),
        ("garbage collection", "(type (struct (field i32)))"),
        ("exceptions", "(tag)"),
        ("small pages", "(memory 1 1 (pagesize 1))"),
        ("typed references", "(func (param (ref func)))"),
    ];
    for (what, text) in features {
        let bytes = wasm(&format!(r#"(module {text} (func (export "invoke") (result i32) (i32.const 1)))"#));
        assert!(matches!(SANDBOX.compile(&bytes), Err(Fault::BadModule { .. })), "{what}");
    }
    assert!(matches!(SANDBOX.compile(&wasm("(component)")), Err(Fault::BadModule { .. })));
    // Text format is not accepted.
    assert!(matches!(SANDBOX.compile(b"(module)"), Err(Fault::BadModule { .. })));
}

#[test]
fn a_wrong_entry_is_a_fault() {
    let scalar = wasm(r#"(module (func (export "invoke") (result i32) (i32.const 1)))"#);
    let module = SANDBOX.compile(&scalar).expect("it compiles");
    let (report, _) = SANDBOX.invoke(&module, &node(), DenyAll);
    assert!(matches!(report.result, Err(Fault::BadModule { .. })));
    let module = SANDBOX.compile(&PackText::default().bytes()).expect("it compiles");
    let (report, _) = SANDBOX.invoke(&module, &Invocation::new(sandbox::Entry::Invoke), DenyAll);
    assert!(matches!(report.result, Err(Fault::BadModule { .. })));
}
