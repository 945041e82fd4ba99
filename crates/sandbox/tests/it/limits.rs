//! Limits and their enforcement.

use std::time::Duration;

use sandbox::{Breach, DenyAll, Fault, Invocation, Kill, Limits, ModuleLimits, Options, Sandbox};
use serde_json::json;

use crate::support::{
    LONG_TIME_LIMIT, PackText, SANDBOX, SHORT_TIME_LIMIT, completed, invoke, node, run, wasm,
};

/// Memory and tables that grow past the limit in different ways.
#[test]
fn memory_is_limited() {
    let limit: u64 = 1 << 20;
    let rows = [
        ("at once", r#"(memory (export "memory") 1)"#, "(drop (memory.grow (i32.const 16)))", Some(17 << 16)),
        ("from the beginning", r#"(memory (export "memory") 17)"#, "", Some(17 << 16)),
        (
            "by a page too many",
            r#"(memory (export "memory") 16)"#,
            "(drop (memory.grow (i32.const 1)))",
            Some(17 << 16),
        ),
        (
            "all there is",
            r#"(memory (export "memory") 1)"#,
            "(drop (memory.grow (i32.const 65535)))",
            Some(1 << 32),
        ),
        (
            "more than there is",
            r#"(memory (export "memory") 1)"#,
            "(drop (memory.grow (i32.const -1)))",
            Some(1 << 48),
        ),
        ("host memory", r#"(import "env" "memory" (memory 17))"#, "", Some(17 << 16)),
        (
            "that grows",
            r#"(import "env" "memory" (memory 1))"#,
            "(drop (memory.grow (i32.const 16)))",
            Some(17 << 16),
        ),
        (
            "a table",
            r#"(table $t 1 funcref)"#,
            "(drop (table.grow $t (ref.null func) (i32.const 100000)))",
            Some(100_001 * 16),
        ),
        ("a table from the beginning", "(table 1000000 funcref)", "", Some(16_000_000)),
        (
            "memory and table together",
            r#"(memory (export "memory") 15) (table $t 0 funcref)"#,
            "(drop (table.grow $t (ref.null func) (i32.const 5000)))",
            Some((15 << 16) + 80_000),
        ),
    ];
    for (what, head, body, requested) in rows {
        let bytes =
            wasm(&format!(r#"(module {head} (func (export "invoke") (result i32) {body} (i32.const 1)))"#));
        let mut invocation = invoke(json!(0), &[]);
        invocation.limits = Limits { memory_bytes: limit, ..LONG_TIME_LIMIT };
        assert_eq!(run(&bytes, &invocation), Err(Breach::Memory { limit, requested }.into()), "{what}");
    }
}

#[test]
fn growth_beyond_the_declared_maximum_fails_softly() {
    let rows = [r#"(memory (export "memory") 1 2)"#, r#"(import "env" "memory" (memory 1 2))"#];
    for memory in rows {
        let bytes = wasm(&format!(
            r#"(module {memory} (func (export "invoke") (result i32) (memory.grow (i32.const 2))))"#
        ));
        assert_eq!(run(&bytes, &invoke(json!(0), &[])), completed(json!(-1)), "{memory}");
    }
}

#[test]
fn the_whole_limit_can_be_used() {
    let bytes = wasm(
        r#"(module (memory (export "memory") 1)
            (func (export "invoke") (result i32) (memory.grow (i32.const 15))))"#,
    );
    let mut invocation = invoke(json!(0), &[]);
    invocation.limits = Limits { memory_bytes: 1 << 20, ..LONG_TIME_LIMIT };
    let module = SANDBOX.compile(&bytes).expect("it compiles");
    let (report, _) = SANDBOX.invoke(&module, &invocation, DenyAll);
    assert_eq!(report.result, completed(json!(1)));
    assert_eq!(report.usage.memory_bytes, 1 << 20);
}

/// An endless loop in every place a module can have one.
#[test]
fn endless_loops_time_out() {
    const LOOP: &str = "(loop $l (br $l)) (unreachable)";
    let packs = [
        ("alloc", PackText { alloc: LOOP, ..PackText::default() }),
        ("invoke", PackText { invoke: LOOP, ..PackText::default() }),
        (
            "free",
            PackText {
                free: "(if (i32.gt_u (local.get 1) (i32.const 8)) (then (loop $l (br $l))))",
                ..PackText::default()
            },
        ),
    ];
    for (what, pack) in packs {
        let mut invocation = node();
        invocation.limits = SHORT_TIME_LIMIT;
        let found = run(&pack.bytes(), &invocation);
        assert!(matches!(found, Err(Fault::Breach(Breach::Time { limit_ms: 50, .. }))), "{what}: {found:?}");
    }
    let start = wasm(
        r#"(module (func $start (loop $l (br $l))) (start $start) (func (export "invoke") (result i32) (i32.const 1)))"#,
    );
    let mut invocation = invoke(json!(0), &[]);
    invocation.limits = SHORT_TIME_LIMIT;
    assert!(matches!(run(&start, &invocation), Err(Fault::Breach(Breach::Time { .. }))));
}

#[test]
fn bulk_operations_and_calls_time_out() {
    let rows = [
        "(memory.fill (i32.const 0) (i32.const 7) (i32.const 16777216))",
        "(call $nothing)",
        "(drop (memory.grow (i32.const 0)))",
    ];
    for body in rows {
        let bytes = wasm(&format!(
            r#"(module (memory (export "memory") 256) (func $nothing)
                (func (export "invoke") (result i32) (loop $l {body} (br $l)) (unreachable)))"#
        ));
        let mut invocation = invoke(json!(0), &[]);
        invocation.limits = SHORT_TIME_LIMIT;
        assert!(matches!(run(&bytes, &invocation), Err(Fault::Breach(Breach::Time { .. }))), "{body}");
    }
}

#[test]
fn a_zero_time_limit_prevents_the_run() {
    let mut invocation = node();
    invocation.limits.wall_clock = Duration::ZERO;
    let found = run(&PackText::default().bytes(), &invocation);
    assert!(matches!(found, Err(Fault::Breach(Breach::Time { limit_ms: 0, .. }))), "{found:?}");
}

#[test]
fn invocations_can_be_killed() {
    let forever = wasm(r#"(module (func (export "invoke") (result i32) (loop $l (br $l)) (unreachable)))"#);
    let module = SANDBOX.compile(&forever).expect("it compiles");
    let mut invocation = invoke(json!(0), &[]);
    invocation.kill = Kill::default();
    let kill = invocation.kill.clone();
    let run = std::thread::spawn(move || SANDBOX.invoke(&module, &invocation, DenyAll).0.result);
    kill.kill();
    assert_eq!(run.join().expect("no panic"), Err(Fault::Killed));
}

#[test]
fn fuel_is_deterministic_and_covers_host_work() {
    let bytes = wasm(
        r#"(module (import "openwop" "openwop_random" (func $random (param i32 i32))) (memory (export "memory") 1)
            (func (export "invoke") (param i32) (result i32) (call $random (i32.const 0) (local.get 0)) (i32.const 1)))"#,
    );
    let module = SANDBOX.compile(&bytes).expect("it compiles");
    let fuel = |length: i32| {
        let invocation = invoke(json!(length), &["openwop_random"]);
        SANDBOX.invoke(&module, &invocation, DenyAll).0.usage.fuel
    };
    assert_eq!(fuel(10), fuel(10));
    assert_eq!(fuel(1010), fuel(10) + 1000);
    let mut invocation = invoke(json!(1000), &["openwop_random"]);
    // Fuel is checked at function entries, loop iterations and host calls, so the last few instructions may exceed it;
    // the host's work does not.
    let limit = fuel(1000) - 50;
    invocation.limits.fuel = Some(limit);
    assert_eq!(run(&bytes, &invocation), Err(Breach::Fuel { limit }.into()));
    invocation.limits.fuel = Some(limit + 50);
    assert_eq!(run(&bytes, &invocation), completed(json!(1)));
}

#[test]
fn large_requests_are_rejected() {
    let mut invocation = node();
    invocation.inputs = json!({"text": "x".repeat(2000)});
    invocation.limits.request_bytes = 1000;
    let found = run(&PackText::default().bytes(), &invocation);
    assert!(matches!(found, Err(Fault::RequestTooLarge { limit: 1000, .. })), "{found:?}");
}

#[test]
fn module_limits_are_checked_before_compilation() {
    let body = |text: &str| format!(r#"(module {text} (func (export "invoke") (result i32) (i32.const 1)))"#);
    let many = |text: &str, count: usize| body(&text.repeat(count));
    let rows = [
        ("functions", many("(func)", 21_000), "20001"),
        ("local variables in one function", body(&format!("(func (local {}))", "i32 ".repeat(6000))), "6000"),
        ("local variables", many(&format!("(func (local {}))", "i32 ".repeat(4000)), 130), "local variables"),
        ("parameters", body(&format!("(func (param {}))", "i32 ".repeat(33))), "33 parameters"),
        ("results", body(&format!("(type (func (result {})))", "i32 ".repeat(33))), "33 results"),
        ("imports", many(r#"(import "openwop" "x" (func (param i32) (result i32)))"#, 65), "65 imports"),
        ("tables", many("(table 1 funcref)", 5), "5 tables"),
        ("globals", many("(global i32 (i32.const 1))", 2001), "2001 globals"),
        (
            "exports",
            body(&(0..2001).map(|n| format!(r#"(func (export "f{n}"))"#)).collect::<String>()),
            "2002 exports",
        ),
        ("data", many(r#"(data "x")"#, 10_001), "10001 data segments"),
        ("elements", many("(elem func)", 2001), "2001 element segments"),
        (
            "code in one function",
            body(&format!("(func {})", "nop ".repeat(270_000))),
            "bytes in one function",
        ),
        ("branches", body(&branching(0, 10_001)), "branches and calls in one function; the limit is 10000"),
        (
            "calls",
            body(&format!("(func $f {})", "call $f ".repeat(10_001))),
            "branches and calls in one function",
        ),
        ("all branches", many(&branching(0, 9_000), 23), "branches and calls; the limit is 200000"),
        ("joins", body(&branching(3000, 1400)), "by the square of the branches; the limit is 5000000000"),
        ("targets", body(&targeting(3000, 1400)), "by the square of the branches"),
        (
            "joins of parameters",
            many(
                &branching(0, 9_000).replace("(local ", &format!("(param {}) (local ", "i32 ".repeat(32))),
                2,
            ),
            "by the square of the branches",
        ),
        (
            "wide blocks",
            many(
                &format!(
                    "(func {} i32.const 1 (block (param i32) (result i32)) drop)",
                    "(block (br 0))".repeat(3000)
                ),
                2,
            ),
            "by the square of the branches",
        ),
        ("loops", body(&format!("(func {}{})", "(loop ".repeat(257), ")".repeat(257))), "more than 256"),
        ("bytes", body(&format!(r#"(data "{}")"#, "x".repeat(9 << 20))), "limit is 8388608"),
    ];
    for (what, text, reason) in rows {
        let reason = if what == "functions" { "limit is 20000" } else { reason };
        match SANDBOX.compile(&wasm(&text)) {
            Err(Fault::BadModule { reason: found }) => assert!(found.contains(reason), "{what}: {found}"),
            other => panic!("{what}: {other:?}"),
        }
    }
}

/// A function with that many local variables and branches.
fn branching(locals: usize, branches: usize) -> String {
    let branch = "(br_if 0 (i32.const 1))";
    format!("(func (local {}) (block {}))", "i32 ".repeat(locals), branch.repeat(branches))
}

/// A function with that many local variables and jump-table targets.
fn targeting(locals: usize, targets: usize) -> String {
    format!(
        "(func (local {}) (block (br_table {} (i32.const 1))))",
        "i32 ".repeat(locals),
        "0 ".repeat(targets)
    )
}

/// Every instruction form, before a loop that exceeds the limit only if none was misread.
#[test]
fn loops_are_counted_after_every_instruction_form() {
    let forms = r#"
        (drop (i32.const -1)) (drop (i64.const 0x0303030303030303)) (drop (f32.const 3)) (drop (f64.const 3))
        (drop (v128.const i32x4 0x03030303 0x03030303 0x03030303 0x03030303))
        (drop (i8x16.shuffle 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 (v128.const i64x2 3 3) (v128.const i64x2 3 3)))
        (drop (i8x16.extract_lane_u 3 (v128.const i64x2 3 3)))
        (drop (v128.load32_lane offset=3 3 (i32.const 3) (v128.const i64x2 3 3)))
        (drop (v128.load32_zero offset=3 (i32.const 3))) (drop (v128.load8_splat offset=3 (i32.const 3)))
        (drop (f64x2.sqrt (v128.const i64x2 3 3)))
        (i64.store offset=0x3030303 (i32.const 3) (i64.load offset=3 (i32.const 3)))
        (drop (memory.grow (memory.size))) (memory.fill (i32.const 3) (i32.const 3) (i32.const 3))
        (memory.copy (i32.const 3) (i32.const 3) (i32.const 3)) (memory.init $d (i32.const 3) (i32.const 3) (i32.const 3))
        (data.drop $d) (elem.drop $e) (table.init $t $e (i32.const 3) (i32.const 3) (i32.const 3))
        (table.copy $t $t (i32.const 3) (i32.const 3) (i32.const 3)) (drop (table.size $t))
        (drop (table.grow $t (ref.null func) (i32.const 3))) (table.fill $t (i32.const 3) (ref.func $f) (i32.const 3))
        (table.set $t (i32.const 3) (table.get $t (i32.const 3))) (drop (ref.is_null (ref.null extern)))
        (drop (i32.trunc_sat_f64_s (f64.const 3))) (drop (i64.extend8_s (i64.const 3)))
        (drop (select (result i32) (i32.const 3) (i32.const 3) (i32.const 3)))
        (drop (select (i32.const 3) (i32.const 3) (i32.const 3)))
        (global.set $g (global.get $g)) (local.set 0 (local.tee 0 (local.get 0)))
        (block (br_if 0 (i32.const 3))) (block (br_table 0 0 0 (i32.const 3))) (block (br 0)) (loop nop)
        (if (i32.const 3) (then nop) (else nop)) (call $f) (call_indirect $t (i32.const 3))"#;
    for (loops, fits) in [(255, true), (256, false)] {
        let bytes = wasm(&format!(
            r#"(module (memory 1) (table $t 4 funcref) (global $g (mut i32) (i32.const 3)) (data $d "x") (func $f)
                (elem $e func $f)
                (func (export "invoke") (param i32) (result i32) {open} {forms} {close} (i32.const 1)))"#,
            open = "(loop ".repeat(loops),
            close = ")".repeat(loops),
        ));
        // The loop after the forms is the last allowed one, or the first that is not.
        assert_eq!(SANDBOX.compile(&bytes).map_err(|fault| fault.to_string()).is_ok(), fits, "{loops}");
    }
}

#[test]
fn claimed_counts_are_not_trusted() {
    // A code section that claims four billion bodies, and a body that claims as many locals.
    let header = b"\0asm\x01\0\0\0";
    let rows: &[&[u8]] = &[
        &[10, 5, 0xff, 0xff, 0xff, 0xff, 0x0f],
        &[1, 5, 0xff, 0xff, 0xff, 0xff, 0x0f],
        &[10, 0xff, 0xff, 0xff, 0xff, 0x0f],
        &[10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        &[10, 8, 1, 6, 1, 0xff, 0xff, 0xff, 0xff, 0x0f],
        &[10],
        &[2],
        &[0x80],
    ];
    for row in rows {
        let bytes: Vec<u8> = header.iter().chain(row.iter()).copied().collect();
        assert!(matches!(SANDBOX.compile(&bytes), Err(Fault::BadModule { .. })), "{row:?}");
    }
}

#[test]
fn module_limits_are_configurable() {
    let usual = ModuleLimits::DEFAULT;
    let rows = [
        (ModuleLimits { bytes: 10, ..usual }, "bytes; the limit is 10"),
        (ModuleLimits { code_bytes: 11, ..usual }, "bytes of code; the limit is 11"),
        (ModuleLimits { pieces: 3, ..usual }, "4 branches and calls; the limit is 3"),
    ];
    for (module_limits, reason) in rows {
        let small = Sandbox::with(&Options { module_limits, ..Options::default() }).expect("an engine");
        let fault = small.compile(&PackText::default().bytes()).expect_err("too large");
        assert!(fault.to_string().contains(reason), "{fault}");
    }
}

#[test]
fn the_last_clone_stops_the_thread() {
    // Hangs if the thread does not stop.
    let sandbox = Sandbox::new().expect("an engine");
    let clone = sandbox.clone();
    drop(sandbox);
    let module = clone.compile(&PackText::default().bytes()).expect("it compiles");
    let (report, _) = clone.invoke(&module, &Invocation { limits: LONG_TIME_LIMIT, ..node() }, DenyAll);
    assert_eq!(report.result, completed(json!(true)));
}
