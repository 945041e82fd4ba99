//! The same module with the same inputs produces the same bytes.

use proptest::prelude::*;
use sandbox::{DenyAll, NodeOutcome, Seed};
use serde_json::{Value, json};

use crate::support::{LONG_TIME_LIMIT, SANDBOX, completed, invoke, run, run_example, wasm};

fn random(seed: Seed) -> Value {
    // Eight bytes in two steps, to check that the stream continues.
    let bytes = wasm(
        r#"(module (import "openwop" "openwop_random" (func $random (param i32 i32)))
            (memory (export "memory") 1)
            (func (export "openwop_alloc") (param i32) (result i32) (i32.const 4096))
            (func (export "invoke") (param i32 i32) (result i32 i32) (local $n i32)
                (call $random (i32.const 0) (i32.const 5))
                (call $random (i32.const 5) (i32.const 40))
                (i32.store8 (i32.const 100) (i32.const 34))
                (loop $next
                    (i32.store8 (i32.add (i32.const 101) (local.get $n))
                        (i32.add (i32.const 97) (i32.and (i32.load8_u (local.get $n)) (i32.const 15))))
                    (local.set $n (i32.add (local.get $n) (i32.const 1)))
                    (br_if $next (i32.lt_u (local.get $n) (i32.const 45))))
                (i32.store8 (i32.const 146) (i32.const 34))
                (i32.const 100) (i32.const 47)))"#,
    );
    let mut invocation = invoke(json!({}), &["openwop_random"]);
    invocation.seed = seed;
    match run(&bytes, &invocation) {
        Ok(NodeOutcome::Completed { output }) => output,
        other => panic!("{other:?}"),
    }
}

fn seed(run_id: &str, node_id: &str, attempt: u64) -> Seed {
    Seed { run_id: run_id.to_owned(), node_id: node_id.to_owned(), attempt }
}

#[test]
fn random_bytes_depend_only_on_the_seed() {
    let first = random(seed("run", "node", 1));
    assert_eq!(first, random(seed("run", "node", 1)));
    // Journals must stay valid: these bytes must never change.
    assert_eq!(first, json!(EXPECTED));
    let others = [
        seed("run", "node", 2),
        seed("run", "nod", 1),
        seed("runn", "ode", 1),
        seed("rnu", "node", 1),
        seed("", "", 0),
    ];
    for other in others {
        assert_ne!(first, random(other));
    }
}

const EXPECTED: &str = "obbcfklihfgmmfoepgibeiljbfhofdnfjffebaimlcmhj";

#[test]
fn nan_bits_are_canonical() {
    // 0/0 and the difference of infinities, with and without a sign.
    for (a, b, operation) in
        [("0", "0", "div"), ("inf", "inf", "sub"), ("-inf", "inf", "add"), ("nan:0x1234", "1", "add")]
    {
        for (float, high) in [("f32", "i32.reinterpret_f32"), ("f64", "i64.reinterpret_f64")] {
            let shift = if float == "f64" { "(i64.const 32) (i64.shr_u) (i32.wrap_i64)" } else { "" };
            let bytes = wasm(&format!(
                r#"(module (func (export "invoke") (result i32)
                    ({float}.{operation} ({float}.const {a}) ({float}.const {b})) ({high}) {shift}))"#
            ));
            let canonical = if float == "f32" { 0x7fc0_0000 } else { 0x7ff8_0000 };
            assert_eq!(
                run(&bytes, &invoke(json!(0), &[])),
                completed(json!(canonical)),
                "{float} {operation}"
            );
        }
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn values_round_trip_through_a_module(
        value in any_json(), other in any_json(), key in any::<String>()
    ) {
        let mut inputs = json!({"input": value});
        inputs[format!("not {key}")] = other;
        prop_assert_eq!(
            run_example("well-behaved.echo", inputs, LONG_TIME_LIMIT),
            completed(json!({"echoed": value}))
        );
    }

    #[test]
    fn runs_are_deterministic(name in any::<String>()) {
        let example = sandbox::conformance::module("vendor.openwop.rust-hello.greet").expect("an example module");
        let module = SANDBOX.compile(example.bytes).expect("it compiles");
        let mut invocation = sandbox::Invocation::new(example.entry());
        invocation.inputs = json!({"name": name});
        invocation.limits = LONG_TIME_LIMIT;
        invocation.grants = example.calls.iter().copied().collect();
        let (first, _) = SANDBOX.invoke(&module, &invocation, DenyAll);
        let (second, _) = SANDBOX.invoke(&module, &invocation, DenyAll);
        prop_assert_eq!(&first.result, &completed(json!({"greeting": format!("Hello, {name}!")})));
        prop_assert_eq!(first.result, second.result);
        prop_assert_eq!(first.usage, second.usage);
    }
}
