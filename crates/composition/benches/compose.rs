//! Reading, composing and writing each shape, and the realistic one in three sizes.
//!
//! `cargo bench -p composition --bench compose`; give the name of a shape to run only that one.
//! Allocations are counted by the other benchmark, `ratio`.

mod shapes;

use std::fmt;

use canon::json::{self, Limits};
use composition::{Input, compose};
use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use serde_json::Value;
use shapes::Shape;

fn main() {
    divan::main();
}

/// A shape in one size.
struct Case {
    shape: Shape,
    size: usize,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.shape.name, self.size)
    }
}

impl Case {
    fn value(&self) -> Value {
        (self.shape.build)(self.size)
    }

    fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(&self.value()).expect("a value is JSON")
    }

    fn input(&self) -> Input {
        Input::from_value(self.value()).expect("every shape is shallow")
    }
}

fn cases() -> impl Iterator<Item = Case> {
    let [realistic, ..] = shapes::ALL;
    let smaller = [1_000, 10_000].map(|size| Case { shape: realistic, size });
    smaller.into_iter().chain(shapes::ALL.map(|shape| Case { shape, size: shape.full }))
}

/// What every program pays that reads JSON: the yardstick.
#[divan::bench(args = cases(), sample_count = 10, sample_size = 1)]
fn a_serde_json(bencher: Bencher<'_, '_>, case: &Case) {
    let bytes = case.bytes();
    bencher
        .counter(BytesCount::of_slice(&bytes))
        .bench_local(|| serde_json::from_slice::<Value>(&bytes).expect("written by serde_json"));
}

/// The strict reader, which is how an input really comes in.
#[divan::bench(args = cases(), sample_count = 10, sample_size = 1)]
fn b_strict_read(bencher: Bencher<'_, '_>, case: &Case) {
    let bytes = case.bytes();
    bencher
        .counter(BytesCount::of_slice(&bytes))
        .bench_local(|| json::read(&bytes, &Limits::default()).expect("no shape is refused"));
}

/// The kernel alone.
#[divan::bench(args = cases(), sample_count = 10, sample_size = 1)]
fn c_compose(bencher: Bencher<'_, '_>, case: &Case) {
    let input = case.input();
    bencher.counter(ItemsCount::new(case.size)).bench_local(|| compose(&input));
}

/// The result on its way out.
#[divan::bench(args = cases(), sample_count = 10, sample_size = 1)]
fn d_serialise(bencher: Bencher<'_, '_>, case: &Case) {
    let input = case.input();
    let outcome = compose(&input);
    bencher
        .counter(ItemsCount::new(case.size))
        .bench_local(|| serde_json::to_vec(&outcome).expect("a result is JSON"));
}
