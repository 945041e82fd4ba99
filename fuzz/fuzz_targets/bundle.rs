//! Any bytes, given to the importer of bundles.
//!
//! * It never panics.
//! * What it accepts it writes again, and reads the same.
//! * What it accepts can be planned as a new session.
#![no_main]

use guide::{bundle, derive};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    match bundle::read(bytes) {
        Ok(read) => {
            let text = read.to_json().expect("a bundle that was read can be written");
            assert_eq!(bundle::read(text.as_bytes()).expect("and read again"), read);
            let _ = bundle::as_new(read, &derive::session_id(&[1; 16]));
        }
        Err(refusal) => assert!(!refusal.envelope().suggestion().is_empty()),
    }
});
