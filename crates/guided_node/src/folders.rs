//! The folder of a node's workspace: `<runId>/<nodeId>`, escaped so that any id is valid.

use canon::digest::Digest;
use flow::id::{NodeId, RunId};

/// The maximum length of a name before it is replaced by a digest, in bytes. File systems allow 255.
const MAX_NAME_BYTES: usize = 200;

/// The folder of a node's workspace, relative to the folder of workspaces.
pub(super) fn of(run_id: &RunId, node_id: &NodeId) -> String {
    format!("{}/{}", name(run_id.as_str()), name(node_id.as_str()))
}

/// An id as the name of one folder. Plain characters are kept, every other byte becomes `%` and two hexadecimal digits,
/// and a name that is too long becomes a digest. The names of different ids differ.
pub(super) fn name(id: &str) -> String {
    let mut name = String::with_capacity(id.len());
    for (place, byte) in id.bytes().enumerate() {
        let plain =
            byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-') || (byte == b'.' && place > 0);
        if plain {
            name.push(char::from(byte));
        } else {
            name.push_str(&format!("%{byte:02X}"));
        }
    }
    if name.is_empty() || name.len() > MAX_NAME_BYTES {
        return format!("%{}", Digest::of_bytes(id.as_bytes()).to_hex());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_id_is_one_name_and_none_leads_elsewhere() {
        let cases = [
            ("run_1", "review", "run_1/review"),
            ("run_1", "../../etc", "run_1/%2E.%2F..%2Fetc"),
            ("run_1", "a b/ü", "run_1/a%20b%2F%C3%BC"),
            ("run_1", ".hidden", "run_1/%2Ehidden"),
            ("run_1", "..", "run_1/%2E."),
        ];
        for (run_id, node_id, folder) in cases {
            assert_eq!(of(&RunId::new(run_id), &NodeId::new(node_id)), folder);
        }
        let long = of(&RunId::new("r"), &NodeId::new("ü".repeat(128)));
        assert!(long.len() < 80 && long != of(&RunId::new("r"), &NodeId::new("ö".repeat(128))));
        assert_ne!(name("%2E"), name("."));
    }
}
