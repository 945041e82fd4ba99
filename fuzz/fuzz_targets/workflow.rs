//! Any bytes, as a workflow in JSON or YAML: no panic, and the same bytes compile to the same hash.
#![no_main]

use guide::workflow::compile::{self, Bindings};
use guide::workflow::source::{self, Format};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for format in [Format::Json, Format::Yaml] {
        let Ok(source) = source::parse(bytes, format) else { continue };
        let once = compile::compile(&source, &Bindings::default()).map(|compiled| compiled.workflow.hash());
        let again = compile::compile(&source, &Bindings::default()).map(|compiled| compiled.workflow.hash());
        assert_eq!(once, again);
    }
});
