//! The mount plan: the contents of a workspace and their sources.
//!
//! [`MountPlan`] is what [`compose`](crate::compose) returns and what is stored as JSON. A composed
//! plan is not necessarily safe: [`validate`] turns any plan into a [`ValidPlan`], and only that
//! can be applied.

mod source;
pub mod validate;

use serde::Serialize;
use serde_json::Value;

pub use self::source::{
    AgentMode, RenderParams, RenderedInputArtifact, RenderedMount, RenderedWorkingFile, Source, SourceKind,
};
pub use self::validate::{Grant, ValidEntry, ValidPlan};
use crate::slot::Mode;

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MountPlan {
    /// The identity of the request, 64 hexadecimal digits.
    pub apply_id: String,
    /// The mounts, in composition order.
    pub entries: Vec<Entry>,
}

impl MountPlan {
    /// The plan as JSON, as it is stored and as [`ValidPlan::check`] takes it.
    pub fn to_value(&self) -> Value {
        serde_json::to_value(self).expect("a plan has text keys and finite numbers")
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// The name of the mount, for people and reports.
    pub mount_key: String,
    /// The path of the slot, `/workspace/…`.
    pub slot: String,
    /// The path within the slot; empty for a single-file slot.
    pub rel_path: String,
    pub mode: Mode,
    pub source: Source,
}
