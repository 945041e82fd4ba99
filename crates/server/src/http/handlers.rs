//! One function for each operation. Handlers translate between HTTP and the host, which does the work.

pub(super) mod chains;
pub(super) mod control;
pub(super) mod envelopes;
mod errors;
pub(super) mod events;
pub(super) mod history;
pub(super) mod interrupts;
pub(super) mod listening;
pub(super) mod mcp;
pub(super) mod models;
pub(super) mod mount;
pub(super) mod packs;
pub(super) mod plugins;
pub(super) mod poll;
pub(super) mod prompts;
pub(super) mod registry;
pub(super) mod runs;
pub(super) mod sample_workflows;
pub(super) mod sandboxed;
pub(super) mod seams;
pub(super) mod service;
pub(super) mod surfaces;
pub(super) mod toggles;
pub(super) mod tools;
pub(super) mod webhooks;
pub(super) mod workflows;

/// Error codes of the HTTP layer, which neither the run services nor the registry have.
pub(super) const OWN_CODES: [&str; 6] = [
    "agent_not_found",
    "blob_presign_expired",
    "blob_presign_not_found",
    "key_not_found",
    "invalid_request",
    "sandbox_pack_not_found",
];
