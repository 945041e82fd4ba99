//! What the operator wants changed.

use serde::Serialize;
use serde_json::{Value, json};

use crate::VERSION;

/// Operations on what was contributed. Each has an id of its own; their order decides nothing.
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
    /// No operations yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Shows `target` no more.
    #[must_use]
    pub fn hide(self, id: &str, target: &str) -> Self {
        self.with(json!({"id": id, "kind": "hide", "target": target}))
    }

    /// Puts `target` before everything else of its collection.
    #[must_use]
    pub fn first(self, id: &str, target: &str) -> Self {
        self.with(json!({"id": id, "kind": "reorder", "target": target, "position": "first"}))
    }

    /// Puts `target` after everything else of its collection.
    #[must_use]
    pub fn last(self, id: &str, target: &str) -> Self {
        self.with(json!({"id": id, "kind": "reorder", "target": target, "position": "last"}))
    }

    /// Puts `target` somewhere before `anchor`.
    #[must_use]
    pub fn before(self, id: &str, target: &str, anchor: &str) -> Self {
        self.with(
            json!({"id": id, "kind": "reorder", "target": target, "position": "before", "anchor": anchor}),
        )
    }

    /// Puts `target` somewhere after `anchor`.
    #[must_use]
    pub fn after(self, id: &str, target: &str, anchor: &str) -> Self {
        self.with(
            json!({"id": id, "kind": "reorder", "target": target, "position": "after", "anchor": anchor}),
        )
    }

    /// Shows `replacement` and not `target`.
    #[must_use]
    pub fn replace(self, id: &str, target: &str, replacement: &str) -> Self {
        self.with(json!({"id": id, "kind": "replace", "target": target, "replacement": replacement}))
    }

    /// Lets the route `target` answer another path.
    #[must_use]
    pub fn path_alias(self, id: &str, target: &str, path: &str) -> Self {
        self.with(json!({"id": id, "kind": "pathAlias", "target": target, "path": path}))
    }

    /// Gives a claim to one of the renderers that have it.
    #[must_use]
    pub fn renderer_override(self, id: &str, claim: &str, renderer: &str) -> Self {
        self.with(json!({"id": id, "kind": "rendererOverride", "claim": claim, "use": renderer}))
    }

    fn with(mut self, operation: Value) -> Self {
        self.operations.push(operation);
        self
    }
}
