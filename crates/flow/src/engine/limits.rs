//! The limits of a host.

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
        }
    }
}
