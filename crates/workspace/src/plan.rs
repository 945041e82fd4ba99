//! The mount plan: what a workspace is to hold, and where each byte comes from.
//!
//! [`MountPlan`] is what [`compose`](crate::compose) returns and what is kept as JSON. It is as
//! composed, which does not mean safe: [`validate`] turns a plan, wherever it came from, into a
//! [`ValidPlan`], and only that can be applied.

mod source;
pub mod validate;

use serde::Serialize;
use serde_json::Value;

pub use self::source::{
    AgentMode, RenderParams, RenderedInputArtifact, RenderedMount, RenderedWorkingFile, Source, SourceKind,
};
pub use self::validate::{Grant, ValidEntry, ValidPlan};
use crate::slot::Mode;

/// A composed workspace.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MountPlan {
    /// The identity of the request, 64 hexadecimal digits.
    pub apply_id: String,
    /// What is mounted, in the order in which it was composed.
    pub entries: Vec<Entry>,
}

impl MountPlan {
    /// The plan as JSON, which is how it is kept and what [`ValidPlan::check`] takes.
    pub fn to_value(&self) -> Value {
        serde_json::to_value(self).expect("a plan has text keys and finite numbers")
    }
}

/// One mount of a plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// The name of the mount, for people and for reports.
    pub mount_key: String,
    /// The path of the slot, `/workspace/…`.
    pub slot: String,
    /// The path within the slot; empty for a single-file slot.
    pub rel_path: String,
    /// What the agent may do with it.
    pub mode: Mode,
    /// Where the bytes come from.
    pub source: Source,
}
