//! Any bytes, as a line of a segment or of a manifest: no panic, and what is accepted is written and read the same.
#![no_main]

use guide::record::{Event, ManifestRecord};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(event) = Event::decode(bytes) {
        assert_eq!(Event::decode(&event.encode()).expect("what was read can be read again"), event);
    }
    if let Ok(record) = ManifestRecord::decode(bytes) {
        assert_eq!(ManifestRecord::decode(&record.encode()).expect("what was read can be read again"), record);
    }
});
