//! The limits of a host.

use crate::definition::MAX_PATTERN_BYTES;
use crate::meter::MAX_STEPS;

/// The maximum nesting of child runs. It stops workflows that start themselves.
pub const MAX_CHILD_DEPTH: u32 = 32;

/// The limits of all runs. Options of a run can only lower them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The maximum number of nodes that one run starts.
    pub max_node_executions: u64,
    /// The maximum duration of one run, in milliseconds.
    pub max_run_duration_ms: u64,
    /// The maximum number of decisions of a supervisor.
    pub max_loop_iterations: u64,
    /// The maximum number of concurrent children of one node.
    pub max_fan_out: u32,
    /// The maximum number of questions of dispatches in one run.
    pub clarification_rounds: u32,
    /// The maximum number of steps of the conditions and expressions of one decision: see [`crate::meter`].
    pub max_decision_steps: u64,
    /// The maximum number of steps of the conditions of a run. Reading its log repeats these steps.
    pub max_run_steps: u64,
    /// The maximum size of the events of one decision, in bytes.
    pub max_append_bytes: u64,
    /// The maximum size of all events of one run, in bytes.
    pub max_run_bytes: u64,
    /// The maximum size of the compiled patterns of one definition, in bytes.
    pub max_pattern_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_node_executions: 10_000,
            // One week: longer than people usually take to answer, and short enough to end forgotten runs.
            max_run_duration_ms: 7 * 86_400_000,
            max_loop_iterations: 100,
            max_fan_out: 64,
            clarification_rounds: 3,
            max_decision_steps: MAX_STEPS,
            max_run_steps: 5 * MAX_STEPS,
            max_append_bytes: 16 << 20,
            // The complete log is read when the run continues after a restart.
            max_run_bytes: 256 << 20,
            max_pattern_bytes: MAX_PATTERN_BYTES,
        }
    }
}
