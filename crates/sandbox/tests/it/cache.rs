//! Module cache.

use std::time::Duration;

use sandbox::{Fault, Options, Sandbox};

use crate::support::wasm;

fn numbered(number: usize) -> Vec<u8> {
    wasm(&format!(r#"(module (func (export "invoke") (result i32) (i32.const {number})))"#))
}

#[test]
fn the_same_bytes_are_compiled_once() {
    let sandbox = Sandbox::new().expect("an engine");
    let first = sandbox.compile(&numbered(1)).expect("it compiles");
    assert_eq!(sandbox.compile(&numbered(1)).expect("again").digest(), first.digest());
    assert_eq!(sandbox.cached(), 1);
    sandbox.compile(&numbered(2)).expect("another one");
    assert_eq!(sandbox.clone().cached(), 2);
}

#[test]
fn evicts_the_least_recently_used() {
    // Room for a few; the number depends on the page size of the machine.
    let sandbox =
        Sandbox::with(&Options { cache_bytes: 256 << 10, ..Options::default() }).expect("an engine");
    let mut most = 0;
    for number in 0..64 {
        sandbox.compile(&numbered(number)).expect("it compiles");
        let kept = sandbox.cached();
        assert!(kept >= most, "modules that fit are cached");
        most = kept;
    }
    assert!((1..64).contains(&most), "{most}");
}

#[test]
fn works_without_a_cache() {
    let sandbox = Sandbox::with(&Options { cache_bytes: 0, ..Options::default() }).expect("an engine");
    sandbox.compile(&numbered(1)).expect("it compiles");
    assert_eq!(sandbox.cached(), 0);
}

#[test]
fn concurrent_callers_share_a_compilation() {
    let sandbox = Sandbox::new().expect("an engine");
    let bytes = numbered(7);
    let start = std::sync::Barrier::new(8);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                start.wait();
                sandbox.compile(&bytes).expect("it compiles");
            });
        }
    });
    assert_eq!((sandbox.compiled(), sandbox.cached()), (1, 1));
    // Modules rejected earlier do not reach the compiler.
    sandbox.compile(b"\0asm\x02\0\0\0").expect_err("another version");
    sandbox.compile(&[0; 9 << 20]).expect_err("too large");
    assert_eq!(sandbox.compiled(), 1);
}

#[test]
fn compile_waits_are_limited_and_results_cached() {
    let options = Options { compile_limit: Duration::ZERO, ..Options::default() };
    let sandbox = Sandbox::with(&options).expect("an engine");
    let fault = sandbox.compile(&numbered(1)).expect_err("no time");
    assert_eq!(fault, Fault::CompileTimeout { limit_ms: 0 });
    assert!(fault.to_string().contains("within 0 ms"), "{fault}");
    // The compiler continues: concurrent callers time out too, and the module is compiled once.
    let found = std::iter::repeat_with(|| sandbox.compile(&numbered(1)))
        .inspect(|found| {
            assert!(matches!(found, Ok(_) | Err(Fault::CompileTimeout { .. })), "{found:?}");
            std::thread::yield_now();
        })
        .find_map(Result::ok);
    assert!(found.is_some());
    assert_eq!((sandbox.compiled(), sandbox.cached()), (1, 1));
}

#[test]
fn a_rejected_module_releases_the_permit() {
    let sandbox = Sandbox::new().expect("an engine");
    let wrong = wasm(
        r#"(module (import "env" "fd_read" (func)) (func (export "invoke") (result i32) (i32.const 1)))"#,
    );
    for _ in 0..3 {
        sandbox.compile(&wrong).expect_err("it imports an escape");
    }
    sandbox.compile(&numbered(1)).expect("it compiles");
}
