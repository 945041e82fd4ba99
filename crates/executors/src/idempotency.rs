//! Idempotency keys for requests of nodes.
//!
//! A key is derived from the run, the node and the payload, so that every attempt of the node sends the same key. It is recorded as the
//! result of an effect: a replay gets the key that was sent, although its run has another id.

use flow::id::{NodeId, RunId};
use flow::state::RunError;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{NodeRequest, Performed};
use crate::failure::ExecutorErrorCode;

/// Derives the key of a node.
pub(super) fn perform(asked: NodeRequest<'_>) -> Performed {
    let payload = asked.call.inputs.get("payload").unwrap_or(&Value::Null);
    let mode = asked.call.config.get("mode").and_then(Value::as_str).unwrap_or("composite");
    Performed::plain(match mode {
        "composite" => Ok(json!({"key": composite(asked.run_id, asked.node_id, payload)})),
        "hash" => Ok(json!({"key": encode(&Sha256::digest(payload.to_string()))})),
        _ => {
            let message = "`mode` must be `composite` or `hash`; a random key would not be idempotent";
            Err(RunError::of(ExecutorErrorCode::ConfigInvalid, message))
        }
    })
}

fn composite(run_id: &RunId, node_id: &NodeId, payload: &Value) -> String {
    let mut hash = Sha256::new();
    for part in [run_id.as_str(), node_id.as_str()] {
        hash.update(part);
        hash.update([0]);
    }
    if !payload.is_null() {
        hash.update(payload.to_string());
    }
    encode(&hash.finalize())
}

fn encode(digest: &[u8]) -> String {
    format!("openwop-{}", canon::encoding::hex(&digest[..8]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_derived_from_the_run_the_node_and_the_payload() {
        let key = composite(&RunId::new("run"), &NodeId::new("node"), &json!({"a": 1}));
        assert_eq!(key, composite(&RunId::new("run"), &NodeId::new("node"), &json!({"a": 1})));
        assert_eq!(key.len(), "openwop-".len() + 16);
        // printf 'run\0node\0{"a":1}' | sha256sum
        assert_eq!(key, "openwop-6da4754bf7144d76");
        // printf 'run\0node\0' | sha256sum
        assert_eq!(
            composite(&RunId::new("run"), &NodeId::new("node"), &Value::Null),
            "openwop-8387d6b76cb2d860"
        );
        let others = [
            ("run2", "node", json!({"a": 1})),
            ("run", "node2", json!({"a": 1})),
            ("run", "node", json!({"a": 2})),
        ];
        for (run_id, node_id, payload) in others {
            assert_ne!(key, composite(&RunId::new(run_id), &NodeId::new(node_id), &payload));
        }
    }
}
