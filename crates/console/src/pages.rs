//! The pages, one file each. A page is a function from a read model to markup.

pub(crate) mod actions;
pub(crate) mod approvals;
pub(crate) mod artifact;
pub(crate) mod diagnostics;
pub(crate) mod diff;
pub(crate) mod events;
pub(crate) mod graph;
mod guided;
pub(crate) mod keys;
pub(crate) mod module;
pub(crate) mod modules;
pub(crate) mod overview;
pub(crate) mod plugin;
pub(crate) mod run;
mod run_list;
pub(crate) mod runs;
pub(crate) mod session;
pub(crate) mod session_answer;
pub(crate) mod session_node;
pub(crate) mod session_workflow;
pub(crate) mod sessions;
pub(crate) mod settings;
#[cfg(test)]
mod tests;
pub(crate) mod workflow;
pub(crate) mod workflows;
pub(crate) mod workspace;
pub(crate) mod workspaces;
