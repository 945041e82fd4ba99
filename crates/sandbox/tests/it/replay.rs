//! A second run with the journal of the first is identical.

use sandbox::{DenyAll, Fault, HostCallResult, Invocation, Journal, NodeOutcome};
use serde_json::json;

use crate::support::{Memory, SANDBOX, completed, invoke, run_with, wasm};

const GRANTS: &[&str] = &[
    "openwop_channel_read",
    "openwop_variable_set",
    "openwop_interrupt",
    "openwop_now_ms",
    "openwop_random",
    "openwop_log",
];

/// Reads a channel, sets a variable, logs, reads the clock twice, takes random bytes, interrupts, and returns all of
/// that as an array.
fn calls_everything() -> Vec<u8> {
    wasm(
        r#"(module
            (import "openwop" "openwop_channel_read" (func $read (param i32 i32) (result i32 i32)))
            (import "openwop" "openwop_variable_set" (func $set (param i32 i32 i32 i32) (result i32)))
            (import "openwop" "openwop_interrupt" (func $interrupt (param i32 i32) (result i32 i32)))
            (import "openwop" "openwop_now_ms" (func $now (result i64)))
            (import "openwop" "openwop_random" (func $random (param i32 i32)))
            (import "openwop" "openwop_log" (func $log (param i32 i32 i32)))
            (memory (export "memory") 1)
            (data (i32.const 16) "in") (data (i32.const 32) "out") (data (i32.const 48) "{\"kind\":\"approval\"}")
            (global $top (mut i32) (i32.const 8192))
            (global $out (mut i32) (i32.const 1024))
            (func (export "openwop_alloc") (param i32) (result i32)
                (global.get $top) (global.set $top (i32.add (global.get $top) (local.get 0))))
            (func $byte (param i32)
                (i32.store8 (global.get $out) (local.get 0))
                (global.set $out (i32.add (global.get $out) (i32.const 1))))
            (func $piece (param $at i32) (param $len i32)
                (memory.copy (global.get $out) (local.get $at) (local.get $len))
                (global.set $out (i32.add (global.get $out) (local.get $len)))
                (call $byte (i32.const 44)))
            (func $number (param $n i64) (local $digits i32)
                (local.set $digits (i32.const 10))
                (loop $next
                    (i32.store8 (i32.add (i32.const 512) (local.get $digits))
                        (i32.add (i32.const 48) (i32.wrap_i64 (i64.rem_u (local.get $n) (i64.const 10)))))
                    (local.set $n (i64.div_u (local.get $n) (i64.const 10)))
                    (local.set $digits (i32.sub (local.get $digits) (i32.const 1)))
                    (br_if $next (i64.ne (local.get $n) (i64.const 0))))
                (call $piece (i32.add (i32.const 513) (local.get $digits)) (i32.sub (i32.const 10) (local.get $digits))))
            (func (export "invoke") (param i32 i32) (result i32 i32)
                (call $byte (i32.const 91))
                (call $piece (call $read (i32.const 16) (i32.const 2)))
                (call $number (i64.extend_i32_u
                    (call $set (i32.const 32) (i32.const 3) (i32.const 1025) (i32.const 5))))
                (call $log (i32.const 2) (i32.const 16) (i32.const 2))
                (call $number (call $now))
                (call $random (i32.const 640) (i32.const 4))
                (call $number (i64.load32_u (i32.const 640)))
                (call $piece (call $interrupt (i32.const 48) (i32.const 19)))
                (call $number (call $now))
                (global.set $out (i32.sub (global.get $out) (i32.const 1)))
                (call $byte (i32.const 93))
                (i32.const 1024) (i32.sub (global.get $out) (i32.const 1024))))"#,
    )
}

fn invocation(recorded: Journal) -> Invocation {
    let mut invocation = invoke(json!({}), GRANTS);
    invocation.seed.run_id = "run-1".to_owned();
    invocation.recorded = recorded;
    invocation
}

fn host() -> Memory {
    let mut host = Memory { now: Some(1_000), ..Memory::default() };
    host.values.insert("in".to_owned(), json!("abc"));
    host
}

#[test]
fn replay_reproduces_the_run_without_the_host() {
    let bytes = calls_everything();
    let (first, recorded_host) =
        run_with(&bytes, &invocation(Journal::default()), Memory { resume: Some(json!(true)), ..host() });
    let output = first.result.clone().expect("a result");
    assert_eq!((first.journal.len(), recorded_host.asked, recorded_host.logs.len()), (5, 5, 1));
    // The host refuses everything, and the result and the fuel are identical.
    let module = SANDBOX.compile(&bytes).expect("it compiles");
    let (again, _) = SANDBOX.invoke(&module, &invocation(first.journal.clone()), DenyAll);
    assert_eq!(again.result, Ok(output));
    assert_eq!(again.journal, first.journal);
    assert_eq!(again.usage, first.usage);
}

#[test]
fn journals_round_trip() {
    let (report, _) = run_with(
        &calls_everything(),
        &invocation(Journal::default()),
        Memory { resume: Some(json!(1)), ..host() },
    );
    let text = serde_json::to_string(&report.journal).expect("a journal is JSON");
    assert_eq!(serde_json::from_str::<Journal>(&text).expect("and back"), report.journal);
}

#[test]
fn suspended_runs_resume_without_repeating_effects() {
    let bytes = calls_everything();
    let (first, recorded_host) = run_with(&bytes, &invocation(Journal::default()), host());
    assert_eq!(first.result, Ok(NodeOutcome::Suspended { interrupt: json!({"kind": "approval"}) }));
    assert_eq!((first.journal.len(), recorded_host.asked, recorded_host.logs.len()), (3, 4, 1));

    // A day later: a different clock, a different channel value, and an answer.
    let later = Memory { now: Some(9_000), resume: Some(json!("go")), ..Memory::default() };
    let (second, recorded_host) = run_with(&bytes, &invocation(first.journal.clone()), later);
    let Ok(NodeOutcome::Completed { output }) = &second.result else { panic!("{second:?}") };
    assert_eq!(output[0], "abc");
    assert_eq!(
        (&output[1], &output[2], &output[4], &output[5]),
        (&json!(0), &json!(1001), &json!("go"), &json!(9001))
    );
    // Only the interrupt and the second clock call reached the host; nothing was set again.
    assert_eq!(recorded_host.asked, 2);
    assert!(recorded_host.values.is_empty());
    assert_eq!(second.journal.records[..3], first.journal.records);
}

#[test]
fn diverging_modules_are_stopped() {
    let bytes = calls_everything();
    let (report, _) =
        run_with(&bytes, &invocation(Journal::default()), Memory { resume: Some(json!(true)), ..host() });
    let whole = report.journal;
    let rows: Vec<(&str, Journal, usize)> = vec![
        (
            "calls in another order",
            {
                let mut journal = whole.clone();
                journal.records.swap(0, 1);
                journal
            },
            0,
        ),
        (
            "different arguments",
            {
                let mut journal = whole.clone();
                journal.records[1].request = whole.records[0].request;
                journal
            },
            1,
        ),
        (
            "a result of another kind",
            {
                let mut journal = whole.clone();
                journal.records[2].answer = HostCallResult::Nothing;
                journal
            },
            2,
        ),
        (
            "a call too many",
            {
                let mut journal = whole.clone();
                journal.records.push(whole.records[2].clone());
                journal
            },
            5,
        ),
    ];
    for (what, journal, index) in rows {
        let (report, host) = run_with(&bytes, &invocation(journal), host());
        assert!(
            matches!(report.result, Err(Fault::Diverged { index: found, .. }) if found == index),
            "{what}: {report:?}"
        );
        assert_eq!(host.asked, 0, "{what}");
    }
}

#[test]
fn another_host_gives_another_result() {
    // Shows that the tests above can fail: without a journal, another host gives another result.
    let resume = Some(json!(true));
    let (first, _) = run_with(
        &calls_everything(),
        &invocation(Journal::default()),
        Memory { resume: resume.clone(), ..host() },
    );
    let other = Memory { resume, now: Some(5), ..host() };
    let (second, _) = run_with(&calls_everything(), &invocation(Journal::default()), other);
    assert_ne!(first.result, second.result);
    assert_ne!(first.result, completed(json!(null)));
}
