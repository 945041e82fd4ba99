//! The digest of the applied content.

use canon::canonical;
use canon::digest::Digest;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{Grant, ValidEntry};

/// SHA-256 of the canonical JSON of `{entries, slots}`, in hexadecimal. It is written entry by
/// entry, so that the text of a large plan is never held as a whole.
pub(super) fn of(entries: &[ValidEntry], grants: &[Grant]) -> String {
    let mut hasher = Sha256::new();
    let mut text = br#"{"entries":["#.to_vec();
    for (index, entry) in entries.iter().enumerate() {
        let source = serde_json::to_value(&entry.source).expect("a source has text keys and finite numbers");
        let members: [(&str, &Value); 5] = [
            ("mode", &entry.mode.as_str().into()),
            ("mountKey", &entry.mount_key.as_str().into()),
            ("relPath", &entry.rel_path.as_str().into()),
            ("slot", &entry.slot.path().into()),
            ("source", &source),
        ];
        if index > 0 {
            text.push(b',');
        }
        write_members(&mut text, members);
        hasher.update(&text);
        text.clear();
    }
    text.extend_from_slice(br#"],"slots":["#);
    for (index, grant) in grants.iter().enumerate() {
        if index > 0 {
            text.push(b',');
        }
        let members: [(&str, &Value); 2] =
            [("mode", &grant.mode.as_str().into()), ("mount", &grant.slot.path().into())];
        write_members(&mut text, members);
    }
    text.extend_from_slice(b"]}");
    hasher.update(&text);
    Digest::from_bytes(hasher.finalize().into()).to_hex()
}

/// Writes an object with its members in key order.
fn write_members<'a>(out: &mut Vec<u8>, members: impl IntoIterator<Item = (&'a str, &'a Value)>) {
    let mut before = b'{';
    for (key, member) in members {
        out.push(before);
        serde_json::to_writer(&mut *out, key).expect("writing to memory does not fail");
        out.push(b':');
        write(out, member);
        before = b',';
    }
    out.extend_from_slice(if before == b'{' { b"{}" } else { b"}" });
}

/// Writes simple values directly and leaves the rest to the general writer, which copies more.
/// Recurses as deep as the plan, which was limited.
fn write(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                out.push(if index == 0 { b'[' } else { b',' });
                write(out, item);
            }
            out.extend_from_slice(if items.is_empty() { b"[]" } else { b"]" });
        }
        // Only then do bytes and UTF-16 units sort alike, whatever order the map has.
        Value::Object(members) if members.keys().all(|key| key.is_ascii()) && members.keys().is_sorted() => {
            write_members(out, members.iter().map(|(key, member)| (key.as_str(), member)));
        }
        other => canonical::write_to(out, other),
    }
}
