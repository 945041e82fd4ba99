//! The operator's policy.

use serde::Serialize;
use serde_json::{Value, json};

use crate::VERSION;

/// Operations on contributions. Each has a unique id; their order has no effect.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Policy {
    policy_schema_version: &'static str,
    operations: Vec<Value>,
}

impl Default for Policy {
    fn default() -> Self {
        Self { policy_schema_version: VERSION, operations: Vec::new() }
    }
}

impl Policy {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn hide(self, id: &str, target: &str) -> Self {
        self.with(json!({"id": id, "kind": "hide", "target": target}))
    }

    /// Moves `target` before everything else in its collection.
    #[must_use]
    pub fn first(self, id: &str, target: &str) -> Self {
        self.with(json!({"id": id, "kind": "reorder", "target": target, "position": "first"}))
    }

    /// Moves `target` after everything else in its collection.
    #[must_use]
    pub fn last(self, id: &str, target: &str) -> Self {
        self.with(json!({"id": id, "kind": "reorder", "target": target, "position": "last"}))
    }

    /// Moves `target` anywhere before `anchor`.
    #[must_use]
    pub fn before(self, id: &str, target: &str, anchor: &str) -> Self {
        self.with(
            json!({"id": id, "kind": "reorder", "target": target, "position": "before", "anchor": anchor}),
        )
    }

    /// Moves `target` anywhere after `anchor`.
    #[must_use]
    pub fn after(self, id: &str, target: &str, anchor: &str) -> Self {
        self.with(
            json!({"id": id, "kind": "reorder", "target": target, "position": "after", "anchor": anchor}),
        )
    }

    /// Shows `replacement` instead of `target`.
    #[must_use]
    pub fn replace(self, id: &str, target: &str, replacement: &str) -> Self {
        self.with(json!({"id": id, "kind": "replace", "target": target, "replacement": replacement}))
    }

    /// Changes the path of the route `target`.
    #[must_use]
    pub fn path_alias(self, id: &str, target: &str, path: &str) -> Self {
        self.with(json!({"id": id, "kind": "pathAlias", "target": target, "path": path}))
    }

    /// Assigns a claim to one of its renderers.
    #[must_use]
    pub fn renderer_override(self, id: &str, claim: &str, renderer: &str) -> Self {
        self.with(json!({"id": id, "kind": "rendererOverride", "claim": claim, "use": renderer}))
    }

    fn with(mut self, operation: Value) -> Self {
        self.operations.push(operation);
        self
    }
}
