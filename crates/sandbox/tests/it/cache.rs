//! Compiled once, used often.

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
fn what_was_not_used_for_longest_goes_first_and_the_rest_stays() {
    // Room for a few; how many depends on the size of a page of the machine.
    let sandbox =
        Sandbox::with(&Options { cache_bytes: 256 << 10, ..Options::default() }).expect("an engine");
    let mut most = 0;
    for number in 0..64 {
        sandbox.compile(&numbered(number)).expect("it compiles");
        let kept = sandbox.cached();
        assert!(kept >= most, "what fits is kept");
        most = kept;
    }
    assert!((1..64).contains(&most), "{most}");
}

#[test]
fn without_room_everything_still_runs() {
    let sandbox = Sandbox::with(&Options { cache_bytes: 0, ..Options::default() }).expect("an engine");
    sandbox.compile(&numbered(1)).expect("it compiles");
    assert_eq!(sandbox.cached(), 0);
}

#[test]
fn those_who_bring_the_same_module_at_once_wait_for_one_compilation() {
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
    // What is refused before is never given to the compiler.
    sandbox.compile(b"\0asm\x02\0\0\0").expect_err("another version");
    sandbox.compile(&[0; 9 << 20]).expect_err("too large");
    assert_eq!(sandbox.compiled(), 1);
}

#[test]
fn nobody_waits_for_the_compiler_longer_than_agreed_and_what_it_made_is_there_later() {
    let options = Options { compile_limit: Duration::ZERO, ..Options::default() };
    let sandbox = Sandbox::with(&options).expect("an engine");
    let fault = sandbox.compile(&numbered(1)).expect_err("no time");
    assert_eq!(fault, Fault::CompileTimeout { limit_ms: 0 });
    assert!(fault.to_string().contains("within 0 ms"), "{fault}");
    // The compiler goes on: those who come meanwhile are told the same, and it is not asked twice.
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
fn a_module_that_is_refused_lets_the_next_one_have_its_turn() {
    let sandbox = Sandbox::new().expect("an engine");
    let wrong = wasm(
        r#"(module (import "env" "fd_read" (func)) (func (export "invoke") (result i32) (i32.const 1)))"#,
    );
    for _ in 0..3 {
        sandbox.compile(&wrong).expect_err("it would escape");
    }
    sandbox.compile(&numbered(1)).expect("it compiles");
}
