//! One function for each operation: it translates, and the host does the work.

pub(super) mod control;
pub(super) mod events;
pub(super) mod history;
pub(super) mod interrupts;
pub(super) mod mcp;
pub(super) mod poll;
pub(super) mod runs;
pub(super) mod seams;
pub(super) mod service;
pub(super) mod webhooks;
pub(super) mod workflows;
