//! Any bytes, as a workspace manifest in JSON or YAML and as a template: no panic, every problem has its place, and what
//! compiles binds to the same bytes again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::{Map, json};
use workspace::manifest::{self, Format, Surface};

fuzz_target!(|bytes: &[u8]| {
    for format in [Format::Json, Format::Yaml] {
        match manifest::compile(bytes, "fuzz", format) {
            Err(error) => assert!(error.details().contains_key("path"), "{error}"),
            Ok((manifest, _)) => {
                let bind = |surface| {
                    let bound = manifest.bind(surface, &Map::new(), Map::new()).ok()?;
                    Some(serde_json::to_vec(&bound.manifest).expect("a bound manifest is JSON"))
                };
                for surface in Surface::ALL {
                    let once = bind(*surface);
                    assert_eq!(once, bind(*surface));
                    if let Some(written) = once {
                        canon::json::read(&written, &canon::json::Limits::default()).expect("strict JSON");
                    }
                }
            }
        }
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = workspace::template::render(text, &json!({"a": [1, {"b": "x"}], "b": true, "c": {"d": null}}));
    }
});
