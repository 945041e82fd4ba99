//! Agents in packs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::grammar;
use super::problem::{Pointer, Problems};
use super::prompt::{PROMPT_REF, TEMPLATE_ID};
use super::shape::{NON_EMPTY, Rule, Shape, closed, list, matching, optional, required, text, unique};

pub(super) const AGENT: Shape = closed(&[
    required("agentId", matching(256, grammar::agent_id, "an id such as `vendor.acme.agents.writer`")),
    required("persona", text(1, 200)),
    required(
        "modelClass",
        Rule::OneOf(&["reasoning", "writing", "coding", "research", "classification", "general"]),
    ),
    optional("systemPrompt", NON_EMPTY),
    optional("systemPromptRef", NON_EMPTY),
    optional("evalSuiteRef", NON_EMPTY),
    optional("toolAllowlist", list(&TOOL)),
    optional("requiresCapabilities", unique(&NON_EMPTY)),
    optional("memoryShape", Rule::Object(&MEMORY)),
    optional("confidence", Rule::Object(&CONFIDENCE)),
    optional("handoff", Rule::Object(&HANDOFF)),
    optional("label", text(1, 100)),
    optional("description", text(0, 500)),
    optional("promptLibraryRef", TEMPLATE_ID),
    optional("promptOverrides", Rule::Object(&OVERRIDES)),
]);

const TOOL: Rule = matching(
    512,
    |text| ToolRef::parse(text).is_some(),
    "a scoped tool such as `openwop:fetch`, `mcp:server:tool` or `vendor.acme.fetch`",
);
const MEMORY: Shape = closed(&[
    optional("scratchpad", Rule::Bool),
    optional("conversation", Rule::Bool),
    optional("longTerm", Rule::Bool),
]);
const CONFIDENCE: Shape = closed(&[optional("defaultThreshold", Rule::Number { min: 0.0, max: 1.0 })]);
const HANDOFF: Shape =
    closed(&[optional("taskSchemaRef", NON_EMPTY), optional("returnSchemaRef", NON_EMPTY)]);
const OVERRIDES: Shape = closed(&[
    optional("system", PROMPT_REF),
    optional("user", PROMPT_REF),
    optional("few-shot", PROMPT_REF),
    optional("schema-hint", PROMPT_REF),
]);

/// An agent has one system prompt: inline or by path.
pub(super) fn check_prompt(value: &Value, at: &Pointer<'_>, problems: &mut Problems) {
    if !value.is_object() {
        return;
    }
    match (value.get("systemPrompt").is_some(), value.get("systemPromptRef").is_some()) {
        (true, true) => {
            problems.invalid(&at.member("systemPromptRef"), "cannot be combined with `systemPrompt`");
        }
        (false, false) => problems
            .invalid(&at.member("systemPrompt"), "either `systemPrompt` or `systemPromptRef` is required"),
        _ => {}
    }
}

/// An agent as declared by its pack.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentManifest {
    pub agent_id: String,
    pub persona: String,
    /// The required model class.
    pub model_class: String,
    /// The system prompt. Not part of the catalog.
    pub system_prompt: Option<String>,
    /// The archive path of the system prompt.
    pub system_prompt_ref: Option<String>,
    #[serde(default)]
    pub tool_allowlist: Vec<String>,
    /// Required host capabilities.
    #[serde(default)]
    pub requires_capabilities: Vec<String>,
    pub memory_shape: Option<MemoryShape>,
    /// When it asks a person.
    #[serde(default)]
    pub confidence: Confidence,
    /// Schemas of tasks and results.
    #[serde(default)]
    pub handoff: Handoff,
    pub label: Option<String>,
    pub description: Option<String>,
    pub prompt_library_ref: Option<String>,
    #[serde(default)]
    pub prompt_overrides: BTreeMap<String, Value>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MemoryShape {
    /// Notes of one run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scratchpad: Option<bool>,
    /// The conversation history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation: Option<bool>,
    /// Memory across runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub long_term: Option<bool>,
}

/// When an agent asks a person.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Confidence {
    /// Below this confidence it asks.
    pub default_threshold: Option<f64>,
}

/// The archive paths of the schemas of tasks and results.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Handoff {
    pub task_schema_ref: Option<String>,
    pub return_schema_ref: Option<String>,
}

impl AgentManifest {
    /// The files that the agent refers to, each with its member name.
    pub(crate) fn file_refs(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [
            ("systemPromptRef", self.system_prompt_ref.as_deref()),
            ("handoff/taskSchemaRef", self.handoff.task_schema_ref.as_deref()),
            ("handoff/returnSchemaRef", self.handoff.return_schema_ref.as_deref()),
        ]
        .into_iter()
        .filter_map(|(name, reference)| Some((name, reference?)))
        // A prompt library reference is not a file.
        .filter(|(_, reference)| !reference.starts_with("prompt:"))
    }
}

/// A tool in an allow list: scope and name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolRef<'a> {
    /// `openwop`, `mcp`, `host`, or a pack scope.
    pub scope: &'a str,
    pub name: &'a str,
}

impl<'a> ToolRef<'a> {
    /// Parses `openwop:x`, `mcp:x`, `host:x`, or a dotted pack name with optional `:x`.
    pub fn parse(text: &'a str) -> Option<Self> {
        let clean = !text.chars().any(|letter| letter.is_control() || letter.is_whitespace());
        let prefixes = ["openwop:", "mcp:", "host:", "vendor.", "community.", "private.", "local."];
        let (prefix, name) =
            prefixes.into_iter().find_map(|prefix| Some((prefix, text.strip_prefix(prefix)?)))?;
        let scope = prefix.trim_end_matches([':', '.']);
        (clean && !name.is_empty()).then_some(Self { scope, name })
    }
}
