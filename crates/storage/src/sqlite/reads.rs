//! The queries, one module per read trait of the port. Each method copies its arguments, which are cheap to clone, and runs its
//! query on a reader thread.

mod annotations;
pub(super) mod artifacts;
pub(super) mod audit;
mod definitions;
pub(super) mod effects;
pub(super) mod keys;
mod listeners;
pub(super) mod lists;
mod log;
pub(super) mod replies;
mod retention;
mod timers;
mod webhooks;
