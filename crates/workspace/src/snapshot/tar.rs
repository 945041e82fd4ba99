//! Archive headers in their only accepted form.

use super::listing::{Listed, Type};

/// The block size.
pub(super) const BLOCK: usize = 512;

/// The name of the first member.
pub(super) const LISTING: &str = "snapshot.json";

/// The end of the archive.
pub(super) const END: [u8; 2 * BLOCK] = [0; 2 * BLOCK];

/// The largest size that fits into eleven octal digits.
const MAX_OCTAL: u64 = (1 << 33) - 1;

/// The name in the plain header of a member whose name needs a pax header.
const SUBSTITUTE: &str = "see-pax-header";

/// Everything before the content of the listing.
pub(super) fn listing_header(size: u64) -> Vec<u8> {
    header(LISTING, b'0', 0o644, size, 0, "").to_vec()
}

/// The size in the header of the listing. The rest of the header is checked by comparison.
pub(super) fn listing_size(header: &[u8; BLOCK]) -> Option<u64> {
    let digits = std::str::from_utf8(&header[124..135]).ok()?;
    u64::from_str_radix(digits, 8).ok()
}

/// Everything before the content of a member.
pub(super) fn member_header(member: &Listed) -> Vec<u8> {
    let (flag, path) = match member.kind {
        Type::File => (b'0', member.path.clone()),
        Type::Dir => (b'5', format!("{}/", member.path)),
        Type::Link => (b'2', member.path.clone()),
    };
    let target = member.target.as_deref().unwrap_or_default();
    let is_plain = |text: &str| text.len() <= 100 && text.is_ascii();
    let mut records = String::new();
    if !is_plain(target) {
        record(&mut records, "linkpath", target);
    }
    if !is_plain(&path) {
        record(&mut records, "path", &path);
    }
    if member.size > MAX_OCTAL {
        record(&mut records, "size", &member.size.to_string());
    }
    let mut bytes = Vec::with_capacity(BLOCK);
    if !records.is_empty() {
        bytes.extend(header("pax-header", b'x', 0o644, records.len() as u64, 0, ""));
        bytes.extend(records.as_bytes());
        bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
    }
    let name = if is_plain(&path) { path.as_str() } else { SUBSTITUTE };
    let size = if member.size > MAX_OCTAL { 0 } else { member.size };
    let target = if is_plain(target) { target } else { SUBSTITUTE };
    bytes.extend(header(name, flag, member.mode, size, member.mtime, target));
    bytes
}

/// The padding after content of this size.
pub(super) fn padding(size: u64) -> usize {
    const LENGTH: u64 = BLOCK as u64;
    usize::try_from(size.next_multiple_of(LENGTH) - size).unwrap_or(0)
}

/// The size of a member in the archive.
pub(super) fn length(member: &Listed) -> u64 {
    (member_header(member).len() as u64)
        .saturating_add(member.size)
        .saturating_add(padding(member.size) as u64)
}

/// A pax record: its length including its own digits, a space, `key=value`, and a line feed.
fn record(records: &mut String, key: &str, value: &str) {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    records.push_str(&format!("{length} {key}={value}\n"));
}

/// A ustar header without an owner. `name` and `target` have at most 100 bytes.
fn header(name: &str, flag: u8, mode: u32, size: u64, mtime: u64, target: &str) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, name.as_bytes());
    put(100, format!("{mode:07o}").as_bytes());
    put(108, b"0000000");
    put(116, b"0000000");
    put(124, format!("{size:011o}").as_bytes());
    put(136, format!("{:011o}", mtime.min(MAX_OCTAL)).as_bytes());
    // The checksum is computed with spaces in its field.
    put(148, b"        ");
    put(156, &[flag]);
    put(157, target.as_bytes());
    put(257, b"ustar\x0000");
    put(329, b"0000000");
    put(337, b"0000000");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_length_includes_itself() {
        for length in [1, 2, 80, 89, 90, 91, 980, 989, 990, 5000] {
            let mut records = String::new();
            record(&mut records, "path", &"x".repeat(length));
            let stated: usize = records.split(' ').next().unwrap().parse().unwrap();
            assert_eq!(stated, records.len(), "{length}");
        }
    }

    #[test]
    fn the_listing_size_is_read_from_its_header() {
        for size in [0, 1, 511, 512, 1 << 28] {
            let header: [u8; BLOCK] = listing_header(size).try_into().unwrap();
            assert_eq!(listing_size(&header), Some(size));
        }
        assert_eq!(listing_size(&[0xff; BLOCK]), None);
    }
}
