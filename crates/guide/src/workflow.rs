//! Workflows: what an author writes, and the compiled form that a run is pinned to.
//!
//! * `source`: the authoring format, JSON or YAML; unknown fields are rejected.
//! * `compile`: deterministic passes from source to [`compiled`].
//! * [`pinned`]: a compiled workflow with its canonical bytes and their digest.
//! * `condition`, `criteria`, `contract`: the small languages inside, with their evaluators.
//! * `needs`: what a step needs from the user.
//! * `context_keys`: the context keys that steps declare.
//! * [`preview`]: draws a workflow. [`staleness`]: whether it was reviewed against the current authoring
//!   rules.
//! * `registry`: the closed sets that come with the program.

pub mod compile;
pub mod compiled;
pub mod condition;
pub mod context_keys;
pub mod contract;
pub mod criteria;
pub mod ids;
pub mod needs;
pub mod pinned;
mod positions;
pub mod preview;
pub mod problem;
pub mod registry;
pub mod source;
pub mod staleness;
mod words;
