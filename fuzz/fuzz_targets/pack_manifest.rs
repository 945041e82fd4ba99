//! Any bytes, as a manifest and as a lockfile.
#![no_main]

use libfuzzer_sys::fuzz_target;
use packs::lock::Lockfile;
use packs::manifest::{MAX_PROBLEMS, Manifest, ManifestError};
use serde_json::Value;

fuzz_target!(|bytes: &[u8]| {
    match Manifest::read(bytes) {
        Ok(manifest) => {
            let again = Manifest::from_value(&Value::Object(manifest.document().clone())).expect("it was read before");
            assert_eq!(manifest, again);
            let _ = (manifest.type_ids(), manifest.file_refs(), manifest.id());
        }
        Err(ManifestError::Problems(problems)) => {
            assert!(!problems.list().is_empty() && problems.list().len() <= MAX_PROBLEMS);
            assert!(problems.list().iter().all(|problem| problem.pointer.is_empty() || problem.pointer.starts_with('/')));
        }
        Err(_) => {}
    }
    if let Ok(lock) = Lockfile::read(bytes) {
        let written = lock.write();
        let again = Lockfile::read(&written).expect("it was written");
        assert_eq!(again.write(), written);
    }
});
