//! Views of a session: pure functions of its state.
//!
//! Nothing here is stored as the source of truth. The same events produce the same tip, status, recap and
//! order of resume candidates on every machine. Clock times are shown but never compared.
//!
//! * [`preferred_tip`], [`run_status`], [`current_output`], [`open_gaps`]: the position and status of a run.
//! * [`attempt_that_made`], [`submitted_notes`], [`submitted_artifacts`]: the attempt behind a node, and what a person has to approve.
//! * [`recap`]: the notes on the path to a node, newest first, within a budget.
//! * [`summary`]: one line in a list of sessions.
//! * [`resume`]: ranks the sessions that a caller may want to resume.
//! * [`graph`]: draws a run.
//! * [`arrival`]: the step that became pending at a node, its position, and the steps skipped before it.

pub mod arrival;
pub mod graph;
pub mod recap;
pub mod resume;
mod status;
mod submitted;
pub mod summary;
mod tip;

pub use status::{
    RunStatus, current_output, current_outputs, is_complete, open_gaps, run_status, run_status_when,
};
pub use submitted::{attempt_that_made, submitted_artifacts, submitted_notes};
pub use tip::{Tip, preferred_leaf_below, preferred_tip, tips};

#[cfg(test)]
mod tests;
