//! What people and callers see of a session: pure functions of its state.
//!
//! None of this is stored as truth. The same events give the same tip, status, recap and order of
//! resume candidates on every machine; clocks are shown and never decide.
//!
//! * [`preferred_tip`], [`run_status`], [`current_output`], [`open_gaps`]: where a run is.
//! * [`recap`]: what happened on the way, newest first, within a budget.
//! * [`summary`]: one line of a list of sessions.
//! * [`resume`]: which sessions somebody most likely means.
//! * [`graph`]: a run as a picture.
//! * [`way`]: which step became pending at a node, its number, and what was skipped before it.

pub mod graph;
pub mod recap;
pub mod resume;
mod status;
pub mod summary;
mod tip;
pub mod way;

pub use status::{
    RunStatus, current_output, current_outputs, is_complete, open_gaps, run_status, run_status_when,
};
pub use tip::{Tip, preferred_leaf_below, preferred_tip, tips};

#[cfg(test)]
mod tests;
