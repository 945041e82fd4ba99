//! The limits of a host.

use crate::definition::MAX_PATTERN_BYTES;
use crate::meter::MAX_STEPS;

/// How deeply runs may start runs. Deeper than any design, and soon enough to stop a workflow that starts itself.
pub const MAX_CHILD_DEPTH: u32 = 32;

/// What no run may exceed, whatever its options say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many nodes one run may start.
    pub max_node_executions: u64,
    /// How long one run may take, in milliseconds.
    pub max_run_duration_ms: u64,
    /// How many decisions a supervisor may take.
    pub max_loop_iterations: u64,
    /// How many children may run at once for one node.
    pub max_fan_out: u32,
    /// How many questions may be asked in one run.
    pub clarification_rounds: u32,
    /// How many steps the conditions and expressions of one decision may take: see [`crate::meter`].
    pub max_decision_steps: u64,
    /// How many steps the conditions of a run may take that are looked at whenever its log is read.
    pub max_run_steps: u64,
    /// How many bytes the events of one decision may take.
    pub max_append_bytes: u64,
    /// How many bytes all events of one run may take.
    pub max_run_bytes: u64,
    /// How many bytes the patterns of one definition may take once they are compiled.
    pub max_pattern_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_node_executions: 10_000,
            // A week: longer than any person takes to answer, and short enough to find what was forgotten.
            max_run_duration_ms: 7 * 86_400_000,
            max_loop_iterations: 100,
            max_fan_out: 64,
            clarification_rounds: 3,
            max_decision_steps: MAX_STEPS,
            max_run_steps: 5 * MAX_STEPS,
            max_append_bytes: 16 << 20,
            // It is read as a whole when the run goes on after a restart.
            max_run_bytes: 256 << 20,
            max_pattern_bytes: MAX_PATTERN_BYTES,
        }
    }
}
