//! Any bytes, given to the strict reader.
//!
//! * It never panics, whatever the limits.
//! * What it accepts, `serde_json` reads as the same value; deeper than `serde_json` goes,
//!   only the depth differs.
//! * What it refuses and `serde_json` accepts, it refuses for a reason `serde_json` does not know.
//! * The canonical form of an accepted value is a fixed point.
#![no_main]

use canon::{
    canonical,
    json::{self, Limits, Numbers, ReadErrorCode},
};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|bytes: &[u8]| {
    let limits = Limits::default();
    let theirs = serde_json::from_slice::<Value>(bytes);
    match json::read(bytes, &limits) {
        Ok(ours) => {
            match theirs {
                Ok(theirs) => {
                    assert_eq!(ours, theirs);
                    assert_eq!(canonical::string_of(&ours), canonical::string_of(&theirs));
                }
                Err(cause) => assert_eq!(json::depth_of(&ours), json::MAX_DEPTH, "{cause}"),
            }
            let once = canonical::string_of(&ours);
            let again = json::read(once.as_bytes(), &limits).expect("canonical text is JSON");
            assert_eq!(canonical::string_of(&again), once);
        }
        Err(refusal) => {
            assert!(refusal.position.offset <= bytes.len());
            let _ = refusal.envelope().to_string();
            if theirs.is_ok() {
                assert_eq!(refusal.code(), ReadErrorCode::DuplicateKey, "{refusal}");
            }
        }
    }

    // With exact numbers nothing new is accepted, and what is accepted is the same value.
    if let Ok(exact) = json::read(bytes, &limits.numbers(Numbers::Exact)) {
        assert_eq!(json::read(bytes, &limits).as_ref(), Ok(&exact));
        if let Ok(text) = canonical::to_string(&exact) {
            assert_eq!(text, canonical::string_of(&exact));
        }
    }
    let _ = json::read(bytes, &limits.max_bytes(bytes.len() / 2).max_depth(2));
});
