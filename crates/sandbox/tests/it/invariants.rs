//! The protocol's invariants, by name: `node-pack-sandbox-…`.

use sandbox::conformance;
use sandbox::{Breach, DenyAll, EscapeKind, Fault, Invocation, NodeOutcome};
use serde_json::json;

use crate::support::{LONG_TIME_LIMIT, SANDBOX, SHORT_TIME_LIMIT, completed, invoke, run, run_example, wasm};

#[track_caller]
fn assert_escape(type_ids: &[&str], kind: EscapeKind) {
    for type_id in type_ids {
        let example = conformance::module(type_id).expect("an example module");
        let fault = SANDBOX.compile(example.bytes).expect_err("rejected before instantiation");
        assert_eq!(fault.code().as_str(), "sandbox_escape_attempt", "{type_id}");
        assert_eq!(fault.details()["escapeKind"], kind.as_str(), "{type_id}");
    }
}

#[test]
fn node_pack_sandbox_no_host_fs_escape() {
    assert_escape(&["misbehave.fs-escape-read", "misbehave.fs-escape-write"], EscapeKind::Files);
}

#[test]
fn node_pack_sandbox_no_host_env_leak() {
    assert_escape(&["misbehave.env-leak"], EscapeKind::Environment);
}

#[test]
fn node_pack_sandbox_no_network_escape() {
    assert_escape(&["misbehave.network-escape"], EscapeKind::Network);
}

#[test]
fn node_pack_sandbox_no_host_process_escape() {
    assert_escape(&["misbehave.process-escape"], EscapeKind::Process);
}

#[test]
fn foreign_imports_are_escapes() {
    let rows = [
        ("wasi_snapshot_preview1", "fd_write", EscapeKind::Files),
        ("wasi_snapshot_preview1", "path_unlink_file", EscapeKind::Files),
        ("wasi_unstable", "environ_sizes_get", EscapeKind::Environment),
        ("wasi_snapshot_preview1", "sock_accept", EscapeKind::Network),
        ("wasi_snapshot_preview1", "proc_exit", EscapeKind::Process),
        ("wasi_snapshot_preview1", "sched_yield", EscapeKind::Process),
        ("env", "fork", EscapeKind::Process),
        ("env", "execve", EscapeKind::Process),
        // The host's clock and randomness are not available either.
        ("wasi_snapshot_preview1", "clock_time_get", EscapeKind::Process),
        ("wasi_snapshot_preview1", "random_get", EscapeKind::Process),
        ("env", "openwop_log", EscapeKind::Process),
        ("", "", EscapeKind::Process),
        // Similar to allowed names, but not the same.
        ("OPENWOP", "openwop_log", EscapeKind::Process),
        ("env", "memory", EscapeKind::Process),
    ];
    for (module, name, kind) in rows {
        let bytes = wasm(&format!(
            r#"(module (import "{module}" "{name}" (func)) (func (export "invoke") (result i32) (i32.const 1)))"#
        ));
        match run(&bytes, &invoke(json!(0), &[name, "openwop_log"])) {
            Err(Fault::Escape { kind: found, import }) => {
                assert_eq!((found, import), (kind, format!("{module}.{name}")));
            }
            other => panic!("{module}.{name}: {other:?}"),
        }
    }
}

#[test]
fn escapes_take_precedence_over_denied_calls() {
    let bytes = wasm(
        r#"(module (import "openwop" "secret" (func (result i32))) (import "env" "fork" (func))
            (func (export "invoke") (result i32) (i32.const 1)))"#,
    );
    assert!(matches!(run(&bytes, &invoke(json!(0), &[])), Err(Fault::Escape { .. })));
}

#[test]
fn node_pack_sandbox_memory_cap() {
    let limits = sandbox::Limits { memory_bytes: 4 << 20, ..LONG_TIME_LIMIT };
    let fault = run_example("misbehave.memory-bomb", json!({}), limits).expect_err("a breach");
    assert_eq!(fault.code().as_str(), "sandbox_memory_exceeded");
    assert_eq!(fault.details()["requestedBytes"], 257 << 16);
    let breach = fault.breach().expect("a breach");
    assert_eq!((breach.kind(), breach.limit(), breach.observed()), ("wasm-memory", 4 << 20, 257 << 16));
}

#[test]
fn a_gibibyte_exceeds_the_default_limit() {
    let fault = run_example("vendor.openwop.misbehaving.memory-bomb", json!({}), LONG_TIME_LIMIT)
        .expect_err("a breach");
    let breach = fault.breach().expect("a breach");
    assert_eq!((breach.kind(), breach.limit()), ("wasm-memory", 128 << 20));
    assert!(breach.observed() > 1 << 30);
}

#[test]
fn node_pack_sandbox_timeout_cap() {
    let fault = run_example("misbehave.timeout", json!({}), SHORT_TIME_LIMIT).expect_err("a breach");
    assert_eq!(fault.code().as_str(), "sandbox_timeout");
    let breach = fault.breach().expect("a breach");
    assert_eq!((breach.kind(), breach.limit()), ("wasm-execution-time", 50));
    assert!(breach.observed() >= 50);
}

#[test]
fn fuel_ends_endless_loops() {
    let limits = sandbox::Limits { fuel: Some(10_000), ..LONG_TIME_LIMIT };
    let fault = run_example("misbehave.timeout", json!({}), limits).expect_err("a breach");
    assert_eq!(fault, Breach::Fuel { limit: 10_000 }.into());
    assert_eq!(fault.breach().map(Breach::kind), Some("wasm-fuel"));
}

#[test]
fn node_pack_sandbox_capability_gate_respected() {
    let fault =
        run_example("misbehave.capability-gate-violation", json!({}), LONG_TIME_LIMIT).expect_err("denied");
    assert_eq!(fault.code().as_str(), "sandbox_capability_denied");
    assert_eq!(fault.details()["requestedCapability"], "notInAllowedList");
}

#[test]
fn unimplemented_calls_are_denied() {
    let example = conformance::module("misbehave.capability-gate-violation").expect("an example module");
    let fault = run(example.bytes, &invoke(json!(1), &["notInAllowedList"])).expect_err("denied");
    assert_eq!(fault, Fault::CapabilityDenied { name: "notInAllowedList".to_owned() });
}

#[test]
fn host_calls_require_a_grant() {
    let example = conformance::module("well-behaved.host-fetch").expect("an example module");
    let answer = json!({"status": 200, "asked": {"url": "https://example.com/"}});
    assert_eq!(run(example.bytes, &invoke(json!({}), &["fetch"])), completed(answer));
    let denied = Fault::CapabilityDenied { name: "fetch".to_owned() };
    assert_eq!(run(example.bytes, &invoke(json!({}), &[])), Err(denied));
}

#[test]
fn node_pack_sandbox_no_cross_pack_mutation() {
    let example = conformance::module("misbehave.cross-pack-mutate").expect("an example module");
    let module = SANDBOX.compile(example.bytes).expect("it compiles");
    for _ in 0..3 {
        let (report, _) = SANDBOX.invoke(&module, &Invocation::new(example.entry()), DenyAll);
        assert_eq!(report.result, completed(json!({"shared": 1})));
    }
}

#[test]
fn a_well_behaved_module_echoes_its_input() {
    let values = [
        json!("hello-sandbox"),
        json!({"a": [1, {"input": "}\"]"}], "input": "\\\""}),
        json!(-1.5e300),
        json!([]),
        json!(null),
        json!("ä€😀\u{0}\n"),
    ];
    for value in values {
        let inputs = json!({"before": {"input": 0}, "input": value, "zz": [true]});
        assert_eq!(
            run_example("well-behaved.echo", inputs, LONG_TIME_LIMIT),
            completed(json!({"echoed": value}))
        );
    }
    assert_eq!(
        run_example("well-behaved.echo", json!({}), LONG_TIME_LIMIT),
        completed(json!({"echoed": null}))
    );
}

#[test]
fn a_pack_greets_by_the_abi() {
    let names = [
        (json!({"name": "Ada"}), "Hello, Ada!"),
        (json!({}), "Hello, world!"),
        (json!({"name": 7}), "Hello, world!"),
        (json!({"name": "", "other": {"name": "x"}}), "Hello, !"),
        (json!({"name": "O\"Neil\\ \u{1F600}"}), "Hello, O\"Neil\\ \u{1F600}!"),
    ];
    for (inputs, greeting) in names {
        let output = run_example("vendor.openwop.rust-hello.greet", inputs, LONG_TIME_LIMIT);
        assert_eq!(output, completed(json!({"greeting": greeting})));
    }
    let example = conformance::module("vendor.openwop.rust-hello.greet").expect("an example module");
    let module = SANDBOX.compile(example.bytes).expect("it compiles");
    let pack = SANDBOX.pack(&module).expect("a pack");
    assert_eq!(pack.name, "vendor.openwop.rust-hello");
    assert_eq!(pack.node_ids, ["vendor.openwop.rust-hello.greet"]);
}

#[test]
fn other_abi_versions_are_rejected() {
    let fault =
        run_example("vendor.openwop.misbehaving.abi-bomb", json!({}), LONG_TIME_LIMIT).expect_err("refused");
    assert_eq!(fault, Fault::UnsupportedAbi { declared: 999, supported: 1 });
    assert_eq!(fault.code().as_str(), "unsupported_abi_version");
    assert_eq!(fault.details()["supported"], json!([1]));
}

#[test]
fn the_abi_version_is_checked_before_other_exports() {
    for version in [0, 2, -1] {
        let bytes = wasm(&format!(
            r#"(module (func (export "openwop_abi_version") (result i32) (i32.const {version})))"#
        ));
        let module = SANDBOX.compile(&bytes).expect("it compiles");
        let refused = Fault::UnsupportedAbi { declared: version, supported: 1 };
        assert_eq!(SANDBOX.pack(&module), Err(refused));
    }
}

#[test]
fn minimal_fixtures_take_and_return_numbers() {
    let echo = wasm(r#"(module (func (export "invoke") (param i32) (result i32) (local.get 0)))"#);
    assert_eq!(run(&echo, &invoke(json!(42), &[])), completed(json!(42)));
    let double = wasm(
        r#"(module (import "openwop" "double" (func $double (param i32) (result i32)))
            (func (export "invoke") (param i32) (result i32) (call $double (local.get 0))))"#,
    );
    assert_eq!(run(&double, &invoke(json!(21), &["double"])), completed(json!(42)));
    // The host provides the memory, and an access outside exceeds the limit.
    let outside = wasm(
        r#"(module (import "env" "memory" (memory 1))
            (func (export "invoke") (param i32) (result i32)
                (i32.store (i32.const 0x7ffffff0) (i32.const 1)) (i32.const 0)))"#,
    );
    let fault = run(&outside, &invoke(json!(0), &[])).expect_err("a breach");
    assert_eq!(fault.code().as_str(), "sandbox_memory_exceeded");
}

#[test]
fn nodes_report_their_outcome() {
    let answers = [
        (r#"{"outcome":"completed"}"#, Some(NodeOutcome::Completed { output: json!(null) })),
        (
            r#"{"outcome":"suspended","interrupt":{"kind":"approval"}}"#,
            Some(NodeOutcome::Suspended { interrupt: json!({"kind": "approval"}) }),
        ),
        (
            r#"{"outcome":"failed","error":{"code":"no_luck","message":"m","details":{"a":1}}}"#,
            Some(NodeOutcome::Failed {
                code: "no_luck".to_owned(),
                message: "m".to_owned(),
                details: Some(json!({"a": 1})),
            }),
        ),
        (r#"{"outcome":"suspended"}"#, None),
        (r#"{"outcome":"failed","error":{"message":"without a code"}}"#, None),
        (r#"{"outcome":"failed"}"#, None),
        (r#"{"outcome":"done"}"#, None),
        (r#"{"outcome":"completed","outcome":"failed"}"#, None),
        ("[]", None),
        ("", None),
    ];
    for (answer, outcome) in answers {
        let escaped = answer.replace('"', "\\\"");
        let bytes = wasm(&format!(
            r#"(module (memory (export "memory") 1) (data (i32.const 16) "t.node") (data (i32.const 64) "{escaped}")
                (func (export "openwop_abi_version") (result i32) (i32.const 1))
                (func (export "openwop_pack_name") (result i64) (i64.const 0x100000010))
                (func (export "openwop_node_count") (result i32) (i32.const 1))
                (func (export "openwop_node_id_at") (param i32) (result i64) (i64.const 0x600000010))
                (func (export "openwop_alloc") (param i32) (result i32) (i32.const 8192))
                (func (export "openwop_free") (param i32 i32))
                (func (export "openwop_node_invoke") (param i32 i32 i32) (result i64)
                    (i64.or (i64.shl (i64.const {len}) (i64.const 32)) (i64.const 64))))"#,
            len = answer.len()
        ));
        match (run(&bytes, &crate::support::node()), outcome) {
            (Ok(found), Some(wanted)) => assert_eq!(found, wanted, "{answer}"),
            (Err(Fault::Misbehaved { .. }), None) => {}
            (found, _) => panic!("{answer}: {found:?}"),
        }
    }
}
