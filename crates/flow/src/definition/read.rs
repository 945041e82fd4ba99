//! Reads a document into a definition.
//!
//! All problems are collected, each with its location. An invalid part is left out, so that the rest is still validated. The definition
//! is built only if there are no problems.

mod channels;
mod fields;
mod nodes;
mod triggers;

use std::collections::BTreeSet;
use std::sync::Arc;

use canon::digest::Digest;
use canon::json;
use serde_json::{Map, Value};

use self::fields::Fields;
use super::{Capabilities, Definition, Graph, Masking, Patterns, Problem, Settings, Variable, VariableKind};
use crate::id::WorkflowId;

/// The maximum number of nodes of a workflow. The limit exists because the state of a run is kept in memory.
const MAX_NODES: usize = 10_000;
/// The maximum number of edges of a workflow.
const MAX_EDGES: usize = 50_000;
/// The maximum number of reported problems.
const MAX_PROBLEMS: usize = 100;

/// The default limit for the iterations of a loop.
const LOOPBACK_ITERATIONS: u32 = 5;

/// Reads a document. `readable` is the document, or the usable part of it; `document` is kept and digested.
pub(super) fn read(
    document: &Value,
    readable: &Value,
    capabilities: &Capabilities,
    patterns: Patterns,
) -> Result<Definition, Vec<Problem>> {
    let mut problems = Vec::new();
    let definition = build(document, readable, capabilities, patterns, &mut problems);
    problems.truncate(MAX_PROBLEMS);
    match definition {
        Some(definition) if problems.is_empty() => Ok(definition),
        _ => {
            debug_assert!(!problems.is_empty(), "a part is left out only with a problem");
            Err(problems)
        }
    }
}

/// Problems of node ids that cannot be a segment of a path, so that requests that name the node would not reach it.
///
/// Only new documents are checked: stored ones with such ids still load, and their runs can be answered by token.
pub(super) fn unaddressable_node_ids(document: &Value) -> Vec<Problem> {
    let nodes = document.get("nodes").and_then(Value::as_array).into_iter().flatten().enumerate();
    let ids = nodes.filter_map(|(index, node)| Some((index, node.get("id")?.as_str()?)));
    let unaddressable = ids.filter(|(_, id)| {
        matches!(*id, "." | "..") || id.chars().any(|found| found.is_control() || matches!(found, '/' | '\\'))
    });
    let problems = unaddressable.map(|(index, _)| {
        Problem::at(
            format!("/nodes/{index}/id"),
            "must not contain `/`, `\\` or control characters, and must not be `.` or `..`",
        )
    });
    problems.take(MAX_PROBLEMS).collect()
}

fn build(
    document: &Value,
    readable: &Value,
    capabilities: &Capabilities,
    patterns: Patterns,
    problems: &mut Vec<Problem>,
) -> Option<Definition> {
    if !json::within_depth(document, json::MAX_DEPTH) {
        problems.push(Problem::at("", format!("must be nested at most {} levels deep", json::MAX_DEPTH)));
        return None;
    }
    let Value::Object(root) = readable else {
        problems.push(Problem::at("", "a workflow must be a JSON object"));
        return None;
    };
    let mut fields = Fields::new(root, String::new(), problems);
    let id = fields.text("id", 1, 128);
    if let Some(id) = &id
        && !is_workflow_id(id)
    {
        fields.problem("id", "must be a lower-case letter, then lower-case letters, digits, `_` and `-`");
    }
    let name = fields.text("name", 1, 256);
    let version = fields.text("version", 1, 256);
    let status = fields.optional_text("status");
    if let Some(status) = &status {
        fields.one_of("status", status, &["active", "inactive", "draft", "archived"]);
    }
    let is_active =
        status.is_none_or(|status| status == "active") && root.get("isActive") != Some(&Value::Bool(false));
    let node_list = fields.list("nodes", 1, MAX_NODES);
    let edge_list = fields.list("edges", 0, MAX_EDGES);
    let trigger_list = fields.list("triggers", 0, 1000);
    let variable_list = fields.list("variables", 0, 10_000);
    let metadata = fields.object("metadata");
    let settings = fields.object("settings");
    fields.only(&[
        "id",
        "name",
        "version",
        "description",
        "type",
        "slug",
        "isActive",
        "status",
        "tenantId",
        "scopeId",
        "createdAt",
        "updatedAt",
        "nodes",
        "edges",
        "triggers",
        "variables",
        "channels",
        "configurableSchema",
        "defaults",
        "groups",
        "acceptsInheritedArtifacts",
        "metadata",
        "settings",
    ]);
    let (nodes, indexes) = nodes::nodes(node_list.unwrap_or_default(), capabilities, problems);
    let edges = nodes::edges(
        edge_list.unwrap_or_default(),
        node_list.unwrap_or_default(),
        &indexes,
        capabilities,
        patterns,
        problems,
    );
    let variables = variables(variable_list.unwrap_or_default(), problems);
    let context = triggers::TriggerContext {
        nodes: node_list.unwrap_or_default(),
        indexes: &indexes,
        variables: &variables,
        capabilities,
        is_active,
    };
    let (triggers, unserved_triggers) =
        triggers::triggers(trigger_list.unwrap_or_default(), &context, problems);
    let channels = channels::channels(root.get("channels"), problems);
    let configurable_schema = configurable_schema(root.get("configurableSchema"), problems);
    let settings = read_settings(settings.unwrap_or(&Map::new()), problems);
    let masking = masking(metadata.unwrap_or(&Map::new()), problems);
    let required_agent = required_agent(metadata.unwrap_or(&Map::new()), capabilities, problems);
    if !problems.is_empty() {
        return None;
    }
    let digest = match Digest::of_canonical(document) {
        Ok(digest) => digest,
        Err(error) => {
            problems.push(Problem::at("", error.to_string()));
            return None;
        }
    };
    let graph = Graph::new(&nodes, &edges);
    let weight = nodes::weight(&nodes, &edges);
    Some(Definition {
        id: WorkflowId::new(id?),
        name: name?,
        version: version?,
        digest,
        document: Arc::new(document.clone()),
        node_indexes: Arc::new(
            nodes.iter().enumerate().map(|(index, node)| (node.id.clone(), index)).collect(),
        ),
        nodes,
        edges,
        graph,
        variables,
        channels,
        settings,
        configurable_schema,
        masking,
        required_agent,
        triggers,
        unserved_triggers,
        patterns,
        weight,
        bytes: crate::event::size::of_value(document),
    })
}

/// The agent that a workflow is written for.
fn required_agent(
    metadata: &Map<String, Value>,
    capabilities: &Capabilities,
    problems: &mut Vec<Problem>,
) -> Option<String> {
    let named = metadata.get("requiresAgentId")?;
    let agent_id = named.as_str().filter(|id| (3..=256).contains(&id.chars().count()));
    // A workflow that an earlier version accepted without this check is not refused now.
    if agent_id.is_none() && !capabilities.checked_before {
        let message = "must be the id of an agent, a string of 3 to 256 characters";
        problems.push(Problem::at("/metadata/requiresAgentId", message));
    }
    agent_id.map(str::to_owned)
}

fn is_workflow_id(id: &str) -> bool {
    id.starts_with(|c: char| c.is_ascii_lowercase())
        && id.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'))
}

fn variables(list: &[Value], problems: &mut Vec<Problem>) -> Vec<Variable> {
    let mut names = BTreeSet::new();
    let mut variables = Vec::with_capacity(list.len());
    for (index, value) in list.iter().enumerate() {
        let path = format!("/variables/{index}");
        let Some(mut fields) = Fields::of(value, path, problems) else { continue };
        let name = fields.text("name", 1, 256);
        let kind = fields.text("type", 1, 16).and_then(|kind| match kind.as_str() {
            "string" => Some(VariableKind::String),
            "number" => Some(VariableKind::Number),
            "boolean" => Some(VariableKind::Boolean),
            "object" => Some(VariableKind::Object),
            "array" => Some(VariableKind::Array),
            _ => {
                fields.problem("type", "must be one of string, number, boolean, object, array");
                None
            }
        });
        let required = fields.flag("required", false);
        let sensitive = fields.flag("sensitive", false);
        let default = fields.value("defaultValue").cloned();
        fields.only(&["name", "type", "description", "required", "defaultValue", "sensitive"]);
        if let (Some(name), Some(kind)) = (name, kind) {
            if !names.insert(name.clone()) {
                fields.problem("name", "another variable has this name");
            }
            variables.push(Variable { name, kind, required, default, sensitive });
        }
    }
    variables
}

fn configurable_schema(schema: Option<&Value>, problems: &mut Vec<Problem>) -> Option<jsonschema::Validator> {
    match super::schema::compiled(schema?) {
        Ok(validator) => Some(validator),
        Err(message) => {
            problems.push(Problem::at("/configurableSchema", message));
            None
        }
    }
}

fn read_settings(settings: &Map<String, Value>, problems: &mut Vec<Problem>) -> Settings {
    let mut fields = Fields::new(settings, "/settings".into(), problems);
    let timeout = fields.optional_integer("timeout", 0, u64::MAX);
    let retries = fields.optional_integer("maxRetries", 0, 100);
    let loops = fields.optional_integer("maxLoopbackIterations", 1, 1_000_000);
    Settings {
        timeout_ms: timeout.filter(|timeout| *timeout > 0),
        max_retries: retries.and_then(|retries| u32::try_from(retries).ok()).unwrap_or(0),
        max_loopback_iterations: loops
            .and_then(|loops| u32::try_from(loops).ok())
            .unwrap_or(LOOPBACK_ITERATIONS),
    }
}

fn masking(metadata: &Map<String, Value>, problems: &mut Vec<Problem>) -> Masking {
    let mut fields = Fields::new(metadata, "/metadata".into(), problems);
    if let Some(class) = fields.optional_text("complianceClass") {
        fields.one_of("complianceClass", &class, &["public", "pii", "phi", "pci", "regulated"]);
    }
    let mode = metadata.get("complianceConfig").and_then(|config| config.get("maskingMode"));
    match mode.map(|mode| mode.as_str().unwrap_or_default()) {
        None | Some("mask") => Masking::Mask,
        Some("omit") => Masking::Omit,
        Some("hash") => Masking::Hash,
        Some("passthrough") => Masking::Passthrough,
        Some(_) => {
            fields.problem("complianceConfig/maskingMode", "must be one of mask, omit, hash, passthrough");
            Masking::Mask
        }
    }
}
