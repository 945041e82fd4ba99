//! Any bytes, as an archive, as the tar in one, and as something to publish.
#![no_main]

use std::collections::BTreeMap;
use std::io::Write as _;

use flate2::{Compression, write::GzEncoder};
use libfuzzer_sys::fuzz_target;
use packs::archive::{Archive, Limits, write};
use packs::publish::{PublishRequest, PublishRules, check};

const LIMITS: Limits = Limits { packed_bytes: 1 << 20, unpacked_bytes: 1 << 20, entries: 100, ratio: 50 };

fuzz_target!(|bytes: &[u8]| {
    look(bytes);
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(bytes).expect("memory takes it");
    look(&packer.finish().expect("memory takes it"));
});

fn look(bytes: &[u8]) {
    let request = PublishRequest {
        name: "vendor.acme.tools",
        version: "1.0.0",
        content_type: None,
        sha256: None,
        signing_method: None,
        body: bytes,
    };
    let _ = check(&request, &PublishRules { limits: LIMITS, ..PublishRules::private() });
    let Ok(archive) = Archive::read(bytes, &LIMITS) else { return };
    assert!(archive.entries().len() <= LIMITS.entries);
    let mut files = BTreeMap::new();
    for entry in archive.entries() {
        assert!(entry.path.segments().all(|segment| !matches!(segment, "" | "." | "..")));
        let before = files.insert(entry.path.clone(), (archive.content(entry), entry.executable));
        assert!(before.is_none(), "a path occurs once");
    }
    if files.is_empty() {
        return;
    }
    let written = write(&files).expect("memory takes it");
    let again = Archive::read(&written, &Limits::DEFAULT).expect("what is written is read");
    assert_eq!(again.entries().len(), files.len());
    for (path, (content, _)) in &files {
        assert_eq!(again.file_at(path), Some(*content));
    }
}
