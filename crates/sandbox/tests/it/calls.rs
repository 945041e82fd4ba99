//! The ABI host calls, in both signature variants.

use sandbox::{Breach, Fault, LogLevel, NodeOutcome};
use serde_json::{Value, json};

use crate::support::{Memory, PackText, completed, invoke, node, run_with, wasm};

/// A module that passes its argument to a call and returns the result.
fn reader(call: &str, packed: bool) -> Vec<u8> {
    let result = if packed { "i64" } else { "i32 i32" };
    wasm(&format!(
        r#"(module (import "openwop" "{call}" (func $call (param i32 i32) (result {result})))
            (memory (export "memory") 1) (data (i32.const 16) "null")
            (global $top (mut i32) (i32.const 1024))
            (func (export "openwop_alloc") (param i32) (result i32)
                (global.get $top) (global.set $top (i32.add (global.get $top) (local.get 0))))
            {unpack}
            (func (export "invoke") (param $at i32) (param $len i32) (result i32 i32)
                (local $found i32) (local $found_len i32)
                ;; The argument is a text in quotes.
                (i32.add (local.get $at) (i32.const 1)) (i32.sub (local.get $len) (i32.const 2))
                {call_it}
                (local.set $found_len) (local.set $found)
                (if (i32.eqz (local.get $found_len)) (then (return (i32.const 16) (i32.const 4))))
                (local.get $found) (local.get $found_len)))"#,
        unpack = if packed {
            "(func $unpack (param i64) (result i32 i32)
                (i32.wrap_i64 (local.get 0)) (i32.wrap_i64 (i64.shr_u (local.get 0) (i64.const 32))))"
        } else {
            ""
        },
        call_it = if packed { "(call $call) (call $unpack)" } else { "(call $call)" },
    ))
}

#[test]
fn reads_values_in_both_signatures() {
    for call in ["openwop_channel_read", "openwop_variable_get"] {
        for packed in [false, true] {
            let bytes = reader(call, packed);
            for (name, found) in [("there", json!({"a": [1, "ä"]})), ("not there", Value::Null)] {
                let mut host = Memory::default();
                host.values.insert("there".to_owned(), json!({"a": [1, "ä"]}));
                let (report, host) = run_with(&bytes, &invoke(json!(name), &[call]), host);
                assert_eq!(report.result, completed(found), "{call} {name}");
                assert_eq!(host.asked, 1);
            }
        }
    }
}

#[test]
fn invalid_names_do_not_reach_the_host() {
    let bytes = reader("openwop_channel_read", false);
    for name in [String::new(), "x".repeat(1025)] {
        let (report, host) =
            run_with(&bytes, &invoke(json!(name), &["openwop_channel_read"]), Memory::default());
        assert_eq!(report.result, completed(Value::Null));
        assert_eq!(host.asked, 0);
    }
}

/// A module that writes its own `key` and `value` and returns the status.
fn writer(call: &str, key: &str, value: &str) -> Vec<u8> {
    wasm(&format!(
        r#"(module (import "openwop" "{call}" (func $call (param i32 i32 i32 i32) (result i32)))
            (memory (export "memory") 1) (data (i32.const 16) "{key}") (data (i32.const 256) "{value_text}")
            (func (export "invoke") (param i32) (result i32)
                (call $call (i32.const 16) (i32.const {key_len}) (i32.const 256) (i32.const {value_len}))))"#,
        value_text = value.replace('"', "\\\""),
        key_len = key.len(),
        value_len = value.len(),
    ))
}

#[test]
fn writes_return_a_status() {
    let rows = [
        ("openwop_channel_write", "a", r#"{"x":1}"#, 0, true),
        ("openwop_variable_set", "a", r#""text""#, 0, true),
        ("openwop_variable_set", "locked", "1", 20, false),
        ("openwop_channel_write", "", "1", 10, false),
        ("openwop_channel_write", "a", "not json", 10, false),
        ("openwop_variable_set", "a", "", 10, false),
        ("openwop_variable_set", "a", r#"{"x":1,"x":2}"#, 10, false),
    ];
    for (call, key, value, status, written) in rows {
        let (report, host) =
            run_with(&writer(call, key, value), &invoke(json!(0), &[call]), Memory::default());
        assert_eq!(report.result, completed(json!(status)), "{call} {key} {value}");
        let found = host.values.get(key).cloned();
        assert_eq!(
            found,
            written.then(|| serde_json::from_str(value).expect("JSON")),
            "{call} {key} {value}"
        );
    }
}

#[test]
fn interrupts_suspend_until_answered() {
    // The payload is the argument without its first and last digit.
    let bytes = reader("openwop_interrupt", true);
    let invocation = invoke(json!(7_507), &["openwop_interrupt"]);
    let (report, _) = run_with(&bytes, &invocation, Memory::default());
    assert_eq!(report.result, Ok(NodeOutcome::Suspended { interrupt: json!(50) }));
    assert!(report.journal.is_empty());
    let (report, _) =
        run_with(&bytes, &invocation, Memory { resume: Some(json!("yes")), ..Memory::default() });
    assert_eq!(report.result, completed(json!("yes")));
    assert_eq!(report.journal.len(), 1);
}

#[test]
fn the_host_provides_the_clock() {
    let bytes = wasm(
        r#"(module (import "openwop" "openwop_now_ms" (func $now (result i64)))
            (func (export "invoke") (result i32) (i32.wrap_i64 (call $now))))"#,
    );
    let invocation = invoke(json!(0), &["openwop_now_ms"]);
    let (report, _) = run_with(&bytes, &invocation, Memory { now: Some(41), ..Memory::default() });
    assert_eq!(report.result, completed(json!(42)));
    let (report, _) = run_with(&bytes, &invocation, Memory::default());
    assert_eq!(report.result, Err(Fault::CapabilityDenied { name: "openwop_now_ms".to_owned() }));
}

#[test]
fn a_non_numeric_result_is_a_host_fault() {
    let bytes = wasm(
        r#"(module (import "openwop" "text" (func $text (result i32)))
            (func (export "invoke") (result i32) (call $text)))"#,
    );
    let (report, _) = run_with(&bytes, &invoke(json!(0), &["text"]), Memory::default());
    assert!(matches!(report.result, Err(Fault::Host { .. })), "{report:?}");
}

#[test]
fn log_messages_are_limited() {
    // Levels 0 to 5, of which 5 does not exist; then bytes that are not UTF-8.
    let bytes = wasm(
        r#"(module (import "openwop" "openwop_log" (func $log (param i32 i32 i32)))
            (memory (export "memory") 1) (data (i32.const 16) "hello\ff")
            (func (export "invoke") (param $times i32) (result i32) (local $n i32)
                (loop $next
                    (call $log (local.get $n) (i32.const 16)
                        (select (i32.const 6) (i32.const 5) (i32.eq (local.get $n) (i32.const 5))))
                    (local.set $n (i32.add (local.get $n) (i32.const 1)))
                    (br_if $next (i32.lt_u (local.get $n) (local.get $times))))
                (i32.const 1)))"#,
    );
    let (report, host) = run_with(&bytes, &invoke(json!(6), &["openwop_log"]), Memory::default());
    assert_eq!(report.logs_dropped, 0);
    let levels: Vec<LogLevel> = host.logs.iter().map(|(level, _)| *level).collect();
    use LogLevel::{Debug, Error, Info, Trace, Warn};
    assert_eq!(levels, [Trace, Debug, Info, Warn, Error, Error]);
    assert_eq!(host.logs[5].1, "hello\u{fffd}");

    let mut invocation = invoke(json!(100), &["openwop_log"]);
    invocation.limits.log_bytes = 53;
    let (report, host) = run_with(&bytes, &invocation, Memory::default());
    // The message that is not UTF-8 grows by six bytes.
    assert_eq!(host.logs.iter().map(|(_, message)| message.len()).sum::<usize>(), 53);
    assert_eq!(report.logs_dropped, 90);
}

#[test]
fn host_calls_are_limited_in_number_and_size() {
    let bytes = wasm(
        r#"(module (import "openwop" "openwop_now_ms" (func $now (result i64)))
            (func (export "invoke") (result i32) (loop $l (drop (call $now)) (br $l)) (unreachable)))"#,
    );
    let clock = || Memory { now: Some(1), ..Memory::default() };
    let mut invocation = invoke(json!(0), &["openwop_now_ms"]);
    invocation.limits.host_calls = 100;
    let (report, host) = run_with(&bytes, &invocation, clock());
    assert!(report.result.expect_err("ended").to_string().contains("more than 100 host calls"));
    assert_eq!((host.asked, report.journal.len()), (100, 100));

    invocation.limits.journal_bytes = 1000;
    let (report, _) = run_with(&bytes, &invocation, clock());
    assert!(report.result.expect_err("ended").to_string().contains("exceed 1000 bytes"));

    invocation.limits.fuel = Some(350);
    let (report, _) = run_with(&bytes, &invocation, clock());
    assert_eq!(report.result, Err(Breach::Fuel { limit: 350 }.into()));
}

#[test]
fn writes_are_limited_also_on_replay() {
    let rows = [
        ("openwop_channel_write", 3, 1000, "more than 3 times"),
        ("openwop_variable_set", 3, 1000, "more than 3 times"),
        ("openwop_channel_write", 100, 10, "more than 10 bytes"),
        ("openwop_variable_set", 100, 10, "more than 10 bytes"),
    ];
    for (call, writes, write_bytes, reason) in rows {
        // A name of one byte and a value of two, repeatedly.
        let bytes = wasm(&format!(
            r#"(module (import "openwop" "{call}" (func $call (param i32 i32 i32 i32) (result i32)))
                (memory (export "memory") 1) (data (i32.const 16) "a12")
                (func (export "invoke") (result i32)
                    (loop $l
                        (drop (call $call (i32.const 16) (i32.const 1) (i32.const 17) (i32.const 2)))
                        (br $l))
                    (unreachable)))"#
        ));
        let mut invocation = invoke(json!(0), &[call]);
        (invocation.limits.writes, invocation.limits.write_bytes) = (writes, write_bytes);
        let (first, host) = run_with(&bytes, &invocation, Memory::default());
        let fault = first.result.expect_err("ended");
        assert!(fault.to_string().contains(reason), "{call}: {fault}");
        assert_eq!(host.asked, 3, "{call}");
        invocation.recorded = first.journal;
        let (again, host) = run_with(&bytes, &invocation, Memory::default());
        assert_eq!((again.result, host.asked), (Err(fault), 0), "{call}");
    }
}

/// A pack whose `openwop_free` reports what it gets.
#[test]
fn buffers_are_freed() {
    let pack = PackText {
        head: r#"(import "openwop" "openwop_log" (func $log (param i32 i32 i32)))"#,
        // Its name and node id are shorter: they are read before host calls are allowed.
        free: "(if (i32.gt_u (local.get 1) (i32.const 8)) (then (call $log (i32.const 2) (local.get 0) (local.get 1))))",
        ..PackText::default()
    };
    let (report, host) = run_with(&pack.bytes(), &node(), Memory::default());
    assert_eq!(report.result, completed(json!(true)));
    let freed: Vec<Value> =
        host.logs.iter().map(|(_, text)| serde_json::from_str(text).expect("JSON")).collect();
    assert_eq!(freed[0], json!({"outcome": "completed", "output": true}), "the result");
    assert_eq!(freed[1], json!({"abiVersion": 1, "nodeContext": {}, "inputs": {}}), "the request");
    assert_eq!(freed.len(), 2);
}
