//! Computes the reference of a snapshot in one pass over its completed steps.
//!
//! The reference of a snapshot is the digest of its canonical JSON. Nearly all of that JSON is the list of
//! completed steps. A general canonicalizer (serialize, check, collect, sort, write) costs a dozen times the
//! hashing itself and grows with every step. Here the canonical pieces that the set stores are hashed
//! directly.

use std::sync::Arc;

use canon::canonical;
use canon::digest::Digest;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::record::{CompletedSteps, EngineState, ExecutionSnapshot, SnapshotRef};

/// A snapshot with its reference. The reference is computed from the snapshot, so the two always match. Cheap
/// to clone.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedSnapshot {
    snapshot: Arc<ExecutionSnapshot>,
    reference: SnapshotRef,
}

impl NamedSnapshot {
    /// Computes the reference of a snapshot.
    pub fn new(snapshot: ExecutionSnapshot) -> Self {
        Self { reference: snapshot_ref(&snapshot), snapshot: Arc::new(snapshot) }
    }

    pub const fn snapshot(&self) -> &Arc<ExecutionSnapshot> {
        &self.snapshot
    }

    pub const fn reference(&self) -> SnapshotRef {
        self.reference
    }
}

/// The reference of `snapshot`: always equal to [`ExecutionSnapshot::snapshot_ref`].
pub fn snapshot_ref(snapshot: &ExecutionSnapshot) -> SnapshotRef {
    let mut sink = Sink { hasher: Sha256::new(), buffer: Vec::with_capacity(BUFFER) };
    // Members in canonical order, which for these names is byte order.
    match snapshot.state() {
        EngineState::Init | EngineState::Complete => {
            sink.text("{\"enginePayload\":{\"engineState\":");
            sink.small(snapshot.state());
        }
        EngineState::Running(running) => {
            sink.text("{\"enginePayload\":{\"engineState\":{\"completed\":");
            sink.completed(&running.completed);
            sink.text(",\"kind\":\"running\",\"loopStack\":");
            sink.small(&running.loop_stack);
            sink.text(",\"pending\":");
            sink.small(&running.pending);
            sink.text("}");
        }
        EngineState::Blocked(blocked) => {
            sink.text("{\"enginePayload\":{\"engineState\":{\"blocked\":");
            sink.small(&blocked.blocked);
            sink.text(",\"completed\":");
            sink.completed(&blocked.completed);
            sink.text(",\"kind\":\"blocked\",\"loopStack\":");
            sink.small(&blocked.loop_stack);
            sink.text(",\"pending\":");
            sink.small(&blocked.pending);
            sink.text("}");
        }
    }
    sink.text(&format!(",\"v\":{}}},\"kind\":", snapshot.engine_payload.v));
    sink.small(&snapshot.kind);
    sink.text(&format!(",\"v\":{}}}", snapshot.v));
    sink.finish()
}

/// Small writes are buffered: hashing many blocks at once is fastest.
const BUFFER: usize = 4096;

struct Sink {
    hasher: Sha256,
    buffer: Vec<u8>,
}

impl Sink {
    /// Makes room for `bytes` more.
    fn reserve(&mut self, bytes: usize) {
        if self.buffer.len() + bytes > BUFFER {
            self.hasher.update(&self.buffer);
            self.buffer.clear();
        }
    }

    fn text(&mut self, text: &str) {
        self.reserve(text.len());
        self.buffer.extend_from_slice(text.as_bytes());
    }

    /// Writes a value whose size does not grow with the session.
    fn small<T: Serialize>(&mut self, value: &T) {
        let text = canonical::to_string(value).expect("a snapshot has small numbers and bounded depth");
        self.text(&text);
    }

    fn completed(&mut self, completed: &CompletedSteps) {
        self.text("{\"kind\":\"set\",\"values\":[");
        // Nearly all bytes of a long session: they are hashed without a copy.
        self.hasher.update(&self.buffer);
        self.buffer.clear();
        for (number, piece) in completed.values.canonical_pieces().enumerate() {
            // The first key has no comma before it.
            self.hasher.update(&piece.as_bytes()[usize::from(number == 0)..]);
        }
        self.text("]}");
    }

    fn finish(mut self) -> SnapshotRef {
        self.hasher.update(&self.buffer);
        SnapshotRef(Digest::from_bytes(self.hasher.finalize().into()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn snapshot(state: &serde_json::Value) -> ExecutionSnapshot {
        let whole =
            json!({"v": 1, "kind": "execution_snapshot", "enginePayload": {"v": 1, "engineState": state}});
        ExecutionSnapshot::from_value(whole).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn the_streamed_digest_is_the_digest_of_the_canonical_json(
            keys in proptest::collection::btree_set("[a-z@/:0-9]{1,12}|\\PC{1,4}|[\\x00-\\x7f]{1,4}", 0..80),
            shape in 0..5_u8,
            iteration in 0..9_u32,
        ) {
            let keys: Vec<_> = keys.into_iter().filter(|key| key != "zz").collect();
            let completed = json!({"kind": "set", "values": keys});
            let stack = json!([{"loopId": "loop", "iteration": iteration, "bodyIndex": 1}]);
            let path = json!([{"loopId": "loop", "iteration": iteration}]);
            let pending = json!({"kind": "some", "step": {"stepId": "step-z", "loopPath": path}});
            let state = match shape {
                0 => json!({"kind": "init"}),
                1 => json!({"kind": "complete"}),
                2 => json!({"kind": "running", "completed": completed, "loopStack": [], "pending": {"kind": "none"}}),
                3 => json!({"kind": "running", "completed": completed, "loopStack": stack, "pending": pending}),
                _ => json!({"kind": "blocked", "completed": completed, "loopStack": stack, "pending": pending,
                    "blocked": {"kind": "terminal_block", "reason": {"kind": "invariant_violation"},
                        "blockers": {"blockers": [{"code": "INVARIANT_VIOLATION",
                            "pointer": {"kind": "session"}, "message": "é \"x\""}]}}}),
            };
            let snapshot = snapshot(&state);
            prop_assert_eq!(snapshot_ref(&snapshot), snapshot.snapshot_ref());
        }
    }
}
