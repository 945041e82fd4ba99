//! Ids that are derived, so that a repeated step of a run has the same id.

use sha2::{Digest as _, Sha256};

use crate::id::{ArtifactId, EffectId, InterruptId, NodeId, RunId};
use crate::run::Genesis;

/// The maximum length of an id on the wire.
pub const MAX_ID_BYTES: usize = 128;

/// The id of an interrupt: readable if it is short enough, otherwise a digest.
pub fn interrupt_id(run_id: &RunId, node_id: &NodeId, count: u32) -> InterruptId {
    let readable = format!("{run_id}:{node_id}:{count}");
    if readable.len() <= MAX_ID_BYTES {
        return InterruptId::new(readable);
    }
    InterruptId::new(format!("int_{}", digest(&[run_id.as_str(), node_id.as_str(), &count.to_string()])))
}

/// The id of a child run. Starting the same child again has no effect.
///
/// A child is in the shard of its parent. Earlier versions derived the id without the shard. Ids in a log are kept: this function is called only
/// for children that are not in the log. If the id of the parent contains no shard, neither do those of its children.
pub fn child_run_id(run_id: &RunId, node_id: &NodeId, iteration: u32, attempt: u32, index: usize) -> RunId {
    let parts = [iteration.to_string(), attempt.to_string(), index.to_string()];
    let mut digits = digest(&[run_id.as_str(), node_id.as_str(), &parts[0], &parts[1], &parts[2]]);
    if let Some(shard) = run_id.written_shard() {
        digits.replace_range(12..15, &format!("{:03x}", shard.number()));
    }
    RunId::new(format!("run_{digits}"))
}

/// The id of a tool call. It is the same in a replay and in its source run.
pub fn call_id(node_id: &NodeId, iteration: u32, attempt: u32, index: usize) -> String {
    let parts = [iteration.to_string(), attempt.to_string(), index.to_string()];
    format!("call_{}", digest(&[node_id.as_str(), &parts[0], &parts[1], &parts[2]]))
}

/// The id of an artifact of a node.
pub fn artifact_id(run_id: &RunId, node_id: &NodeId, iteration: u32) -> ArtifactId {
    ArtifactId::new(format!("art_{}", digest(&[run_id.as_str(), node_id.as_str(), &iteration.to_string()])))
}

/// The id of the guided session of an attempt of a node. Starting the same session again has no effect.
pub fn session_id(genesis: &Genesis, node_id: &NodeId, iteration: u32, attempt: u32) -> String {
    let parts = [iteration.to_string(), attempt.to_string()];
    format!(
        "sess_{}",
        digest(&[genesis.tenant.as_str(), genesis.run_id.as_str(), node_id.as_str(), &parts[0], &parts[1]])
    )
}

/// The id of the artifact for a file that an agent delivered.
pub fn deliverable_id(
    run_id: &RunId,
    node_id: &NodeId,
    iteration: u32,
    attempt: u32,
    path: &str,
) -> ArtifactId {
    let parts = [iteration.to_string(), attempt.to_string()];
    ArtifactId::new(format!(
        "art_{}",
        digest(&[run_id.as_str(), node_id.as_str(), &parts[0], &parts[1], path])
    ))
}

/// The id of an effect. It is the same for all attempts of its node, so that the effect is executed at most once.
pub fn logical_invocation_id(
    genesis: &Genesis,
    node_id: &NodeId,
    ordinal: u32,
    provider_key: &str,
) -> EffectId {
    let text = format!(
        "openwop:activity:v2\0{}\0{}\0{node_id}\0{ordinal}\0{provider_key}",
        genesis.tenant, genesis.run_id
    );
    EffectId::new(base64url(&Sha256::digest(text.as_bytes())))
}

/// 16 bytes of a digest over length-prefixed parts.
fn digest(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(part.as_bytes());
    }
    canon::encoding::hex(&hash.finalize()[..16])
}

fn base64url(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let group = byte(0) << 16 | byte(1) << 8 | byte(2);
        for index in 0..=chunk.len() {
            let digit = group >> (18 - 6 * index) & 63;
            text.push(char::from(ALPHABET[digit as usize]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64url_has_no_padding() {
        let cases: [(&[u8], &str); 5] =
            [(b"", ""), (b"f", "Zg"), (b"fo", "Zm8"), (b"foo", "Zm9v"), (&[0xfb, 0xff], "-_8")];
        for (bytes, text) in cases {
            assert_eq!(base64url(bytes), text);
        }
    }

    #[test]
    fn a_long_interrupt_id_is_a_digest() {
        let (run, node) = (RunId::new("r"), NodeId::new("n".repeat(MAX_ID_BYTES)));
        assert_eq!(interrupt_id(&run, &NodeId::new("gate"), 0), "r:gate:0");
        let long = interrupt_id(&run, &node, 0);
        assert!(long.as_str().len() <= MAX_ID_BYTES && long != interrupt_id(&run, &node, 1));
    }

    #[test]
    fn a_child_is_in_the_shard_of_its_parent() {
        let node = NodeId::new("n");
        let parent = RunId::new("run_01a2b3c4d5e67ab0123456789abcdef0");
        let child = child_run_id(&parent, &node, 0, 0, 0);
        let grandchild = child_run_id(&child, &node, 0, 0, 0);
        assert_eq!((child.shard(), grandchild.shard()), (parent.shard(), parent.shard()));
        assert_ne!(child, child_run_id(&parent, &node, 0, 0, 1));
        // If the id of the parent contains no shard, the ids of its children are those of earlier versions.
        assert_eq!(child_run_id(&RunId::new("r"), &node, 0, 0, 0), "run_4220d5030716f023ab261972d2939bff");
    }
}
