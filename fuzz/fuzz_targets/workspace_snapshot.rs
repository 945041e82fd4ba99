//! Any bytes, as a packed snapshot and as the archive in one, both under a hash that fits, and as an index.
//! * Nothing panics, and memory use is proportional to the input.
//! * Returned entries are safe: below a requested slot, after their directory, never twice.
//! * An index that is read whole is written again to the same lines.
#![no_main]

use std::collections::BTreeSet;
use std::io::Write as _;

use libfuzzer_sys::fuzz_target;
use sha2::{Digest as _, Sha256};
use workspace::index::{self, Line, Reader, Writer};
use workspace::slot::Slot;
use workspace::snapshot::Snapshot;

fuzz_target!(|bytes: &[u8]| {
    unpack(bytes);
    unpack(&zstd::encode_all(bytes, 1).expect("bytes in memory can be packed"));
    reread(bytes);
});

fn unpack(packed: &[u8]) {
    let mut file = tempfile::tempfile().expect("a temporary file");
    file.write_all(packed).expect("room for it");
    let hash: String = Sha256::digest(packed).iter().map(|byte| format!("{byte:02x}")).collect();
    let Ok(snapshot) = Snapshot::from_file(file, &hash) else { return };
    let mut seen = BTreeSet::new();
    let _ = snapshot.unpack(&[Slot::Tmp, Slot::Deliverables], &mut |member| {
        let slot = index::slot_of(&member.path).expect("a slot");
        assert!(matches!(slot, Slot::Tmp | Slot::Deliverables));
        assert!(!member.path.split('/').any(|segment| matches!(segment, "" | "." | "..")));
        if let Some((parent, _)) = member.path.rsplit_once('/') {
            assert!(seen.contains(parent));
        }
        assert!(seen.insert(member.path));
        Ok(())
    });
}

fn reread(bytes: &[u8]) {
    let Ok(reader) = Reader::new(bytes) else { return };
    let header = reader.header().clone();
    let Ok(lines) = reader.collect::<Result<Vec<Line>, _>>() else { return };
    let mut writer = Writer::new(Vec::new(), &header).expect("a header that was read");
    lines.iter().for_each(|line| writer.push(line).expect("a line that was read"));
    let (written, _) = writer.finish().expect("memory");
    let again = Reader::new(written.as_slice()).expect("what was written");
    assert_eq!(again.collect::<Result<Vec<Line>, _>>().expect("whole"), lines);
}
