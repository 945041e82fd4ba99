//! Compiled once, used often.

use sandbox::{Options, Sandbox};

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
