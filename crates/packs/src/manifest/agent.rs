//! Agents that packs bring.

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
    "a tool with its scope, such as `openwop:fetch`, `mcp:server:tool` or `vendor.acme.fetch`",
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

/// An agent has one system prompt: its text, or where it is.
pub(super) fn check_prompt(value: &Value, at: &Pointer<'_>, problems: &mut Problems) {
    if !value.is_object() {
        return;
    }
    match (value.get("systemPrompt").is_some(), value.get("systemPromptRef").is_some()) {
        (true, true) => problems
            .invalid(&at.member("systemPromptRef"), "stands beside `systemPrompt`; only one of them may"),
        (false, false) => problems
            .invalid(&at.member("systemPrompt"), "is missing, and so is `systemPromptRef`; one is needed"),
        _ => {}
    }
}

/// An agent as its pack declares it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentManifest {
    /// The id of the agent.
    pub agent_id: String,
    /// Who it is.
    pub persona: String,
    /// The kind of model that it wants.
    pub model_class: String,
    /// Its system prompt. Never part of a catalogue.
    pub system_prompt: Option<String>,
    /// Its system prompt, as a path in the archive.
    pub system_prompt_ref: Option<String>,
    /// The tools that it may use; no others.
    #[serde(default)]
    pub tool_allowlist: Vec<String>,
    /// The capabilities of the host that it cannot do without.
    #[serde(default)]
    pub requires_capabilities: Vec<String>,
    /// What it remembers.
    pub memory_shape: Option<MemoryShape>,
    /// When it asks a person.
    #[serde(default)]
    pub confidence: Confidence,
    /// What it is handed and what it returns.
    #[serde(default)]
    pub handoff: Handoff,
    /// What people see.
    pub label: Option<String>,
    /// What it does.
    pub description: Option<String>,
    /// The library that its prompts come from.
    pub prompt_library_ref: Option<String>,
    /// Prompts in place of those of the host, by their kind.
    #[serde(default)]
    pub prompt_overrides: BTreeMap<String, Value>,
}

/// What an agent remembers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MemoryShape {
    /// Notes of one run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scratchpad: Option<bool>,
    /// What was said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation: Option<bool>,
    /// What outlives a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub long_term: Option<bool>,
}

/// When an agent asks a person.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Confidence {
    /// Below this it asks.
    pub default_threshold: Option<f64>,
}

/// What an agent is handed and what it returns, as paths of schemas in the archive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Handoff {
    /// The schema of the task.
    pub task_schema_ref: Option<String>,
    /// The schema of what comes back.
    pub return_schema_ref: Option<String>,
}

impl AgentManifest {
    /// The files that the agent refers to, each with the member that does.
    pub(crate) fn file_refs(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [
            ("systemPromptRef", self.system_prompt_ref.as_deref()),
            ("handoff/taskSchemaRef", self.handoff.task_schema_ref.as_deref()),
            ("handoff/returnSchemaRef", self.handoff.return_schema_ref.as_deref()),
        ]
        .into_iter()
        .filter_map(|(name, reference)| Some((name, reference?)))
        // A reference to a library of prompts is no file.
        .filter(|(_, reference)| !reference.starts_with("prompt:"))
    }
}

/// A tool in an allow-list: a scope, and a name in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolRef<'a> {
    /// `openwop`, `mcp`, `host`, or a scope of packs.
    pub scope: &'a str,
    /// The name behind the scope.
    pub name: &'a str,
}

impl<'a> ToolRef<'a> {
    /// Reads `openwop:x`, `mcp:x`, `host:x`, or a dotted name in a scope of packs, with or without `:x` behind it.
    pub fn parse(text: &'a str) -> Option<Self> {
        let clean = !text.chars().any(|letter| letter.is_control() || letter.is_whitespace());
        let prefixes = ["openwop:", "mcp:", "host:", "vendor.", "community.", "private.", "local."];
        let (prefix, name) =
            prefixes.into_iter().find_map(|prefix| Some((prefix, text.strip_prefix(prefix)?)))?;
        let scope = prefix.trim_end_matches([':', '.']);
        (clean && !name.is_empty()).then_some(Self { scope, name })
    }
}
