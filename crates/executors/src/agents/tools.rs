//! The tools that a node declares for its agent. They are names, never code.
//!
//! ```text
//! {name, kind, description?, config?} ─► shape ─► on the agent's list? ─► implemented by the host?
//!                                                                          ├─ mcp:<server>:<tool>, mcp:<tool>   a server of the settings
//!                                                                          └─ openwop:<node type>               a surface
//! ```
//!
//! All of it is checked when a workflow is registered, and again when its node starts, because packs and settings may have
//! changed.

use ai::tools::{MAX_DESCRIPTION_BYTES, MAX_ROUNDS, MAX_TOOLS};
use flow::definition::{CalledType, Family};
use packs::agents::may_use;
use packs::manifest::ToolRef;
use serde_json::{Map, Value, json};

use super::super::mcp::Servers;
use super::{Agent, inputs};

/// The parts of the host that implement tools.
#[derive(Clone, Copy)]
pub(in super::super) struct ToolContext<'w> {
    pub(in super::super) servers: Option<&'w Servers>,
    /// Storage, files and messages.
    pub(in super::super) surfaces: Option<&'w surfaces::Surfaces>,
}

/// A tool that a node declares.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Declared {
    /// The id, as in the list of the agent.
    pub(super) id: String,
    /// The description of the author.
    pub(super) description: Option<String>,
    /// What implements it.
    pub(super) implementation: Implementation,
}

/// What implements a tool.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Implementation {
    /// Another MCP server: the named one, or else the first that has the tool.
    Mcp { server: Option<String>, tool: String },
    /// A surface, used like a node of this type and configuration.
    Surface { called: CalledType, config: Map<String, Value> },
}

/// An invalid declaration of tools.
#[derive(Debug)]
pub(super) struct BadTools {
    pub(super) code: &'static str,
    pub(super) message: String,
    pub(super) details: Value,
}

/// The members of a declaration.
const MEMBERS: [&str; 4] = ["name", "kind", "description", "config"];

/// The valid tools that a node declares.
pub(super) fn declared(
    agent: &Agent,
    config: &Map<String, Value>,
    tool_context: ToolContext<'_>,
) -> Result<Vec<Declared>, BadTools> {
    let Some(tools) = config.get("tools").and_then(Value::as_array) else { return Ok(Vec::new()) };
    if tools.len() > MAX_TOOLS {
        let message = format!("the node declares {} tools; the limit is {MAX_TOOLS}", tools.len());
        return Err(BadTools { code: "INVALID_TOOL_DECLARATION", message, details: json!({}) });
    }
    let bad = |index: usize, code: &'static str, message: String| BadTools {
        code,
        message: format!("/{index}: {message}"),
        details: json!({"agentId": agent.manifest.agent_id, "place": index}),
    };
    // Permissions are checked for all tools first, so that an error does not reveal what the host implements.
    let mut allowed: Vec<(&str, Option<String>)> = Vec::new();
    for (index, tool) in tools.iter().enumerate() {
        let (name, description) =
            shape(tool).map_err(|message| bad(index, "INVALID_TOOL_DECLARATION", message))?;
        if !may_use(&agent.manifest, name) {
            let message = "the agent may not use this tool; see its `toolAllowlist`";
            return Err(bad(index, "tool_not_allowed", message.to_owned()));
        }
        if allowed.iter().any(|(other, _)| *other == name) {
            return Err(bad(index, "INVALID_TOOL_DECLARATION", "the tool is declared twice".to_owned()));
        }
        allowed.push((name, description));
    }
    let declare = |(index, (name, description)): (usize, (&str, Option<String>))| {
        let implementation = implementation(name, &tools[index], tool_context)
            .map_err(|(code, message)| bad(index, code, message))?;
        Ok(Declared { id: name.to_owned(), description, implementation })
    };
    allowed.into_iter().enumerate().map(declare).collect()
}

/// The problem with `maxRounds`, if it is invalid.
pub(super) fn rounds_problem(config: &Map<String, Value>) -> Option<String> {
    let rounds = config.get("maxRounds")?;
    let fits = rounds.as_u64().is_some_and(|rounds| (1..=u64::from(MAX_ROUNDS)).contains(&rounds));
    (!fits).then(|| format!("`maxRounds` must be an integer from 1 to {MAX_ROUNDS}"))
}

fn shape(tool: &Value) -> Result<(&str, Option<String>), String> {
    let text = |name: &str| tool.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    if tool.get("handler").is_some() {
        return Err("`handler` is not allowed: a workflow cannot bring code for tools".to_owned());
    }
    let (Some(name), Some(_)) = (text("name"), text("kind")) else {
        return Err("a tool must be an object with the strings `name` and `kind`".to_owned());
    };
    let members = tool.as_object().into_iter().flatten();
    if let Some((other, _)) = members.into_iter().find(|(name, _)| !MEMBERS.contains(&name.as_str())) {
        let other: String = other.chars().take(64).collect();
        return Err(format!("unknown member `{other}`; a tool has {}", MEMBERS.join(", ")));
    }
    match tool.get("description") {
        None => Ok((name, None)),
        Some(Value::String(text)) if text.len() <= MAX_DESCRIPTION_BYTES => Ok((name, Some(text.clone()))),
        Some(_) => Err(format!("`description` must be a string of at most {MAX_DESCRIPTION_BYTES} bytes")),
    }
}

fn implementation(
    name: &str,
    tool: &Value,
    tool_context: ToolContext<'_>,
) -> Result<Implementation, (&'static str, String)> {
    let config = match tool.get("config") {
        None => Map::new(),
        Some(Value::Object(config)) => config.clone(),
        Some(_) => return Err(("INVALID_TOOL_DECLARATION", "`config` must be an object".to_owned())),
    };
    let reference = ToolRef::parse(name);
    match reference.map(|reference| (reference.scope, reference.name)) {
        Some(("mcp", name)) => {
            if !config.is_empty() {
                let message = "`config` is not allowed for a tool of another server, which gets all its arguments from the model";
                return Err(("INVALID_TOOL_DECLARATION", message.to_owned()));
            }
            let (server, tool) = match name.split_once(':') {
                Some((server, tool)) => (Some(server), tool),
                None => (None, name),
            };
            let knows = |servers: &Servers| server.map_or(!servers.is_empty(), |id| servers.knows(id));
            if tool.is_empty() || !tool_context.servers.is_some_and(knows) {
                return Err(("unknown_tool", unknown_tool(tool_context)));
            }
            Ok(Implementation::Mcp { server: server.map(str::to_owned), tool: tool.to_owned() })
        }
        Some(("openwop", type_id)) => {
            let called = CalledType::parse(type_id).filter(|called| inputs::inputs_of(*called).is_some());
            let Some(called) = called.filter(|_| tool_context.surfaces.is_some()) else {
                return Err(("unknown_tool", unknown_tool(tool_context)));
            };
            let schema = ai::schema::Schema::compile(&called.config_schema());
            let issues = schema.map(|schema| schema.issues(&Value::Object(config.clone())));
            match issues {
                Ok(issues) if issues.is_empty() => Ok(Implementation::Surface { called, config }),
                Ok(issues) => {
                    let message =
                        format!("`config` is invalid for `{called}`: {}", ai::schema::summary(&issues));
                    Err(("INVALID_TOOL_DECLARATION", message))
                }
                Err(error) => Err(("INVALID_TOOL_DECLARATION", error.to_string())),
            }
        }
        _ => Err(("unknown_tool", unknown_tool(tool_context))),
    }
}

/// The message for an unknown tool, with the available kinds of tools.
fn unknown_tool(tool_context: ToolContext<'_>) -> String {
    let mut known = Vec::new();
    if tool_context.servers.is_some_and(|servers| !servers.is_empty()) {
        known.push(
            "`mcp:<server>:<tool>` with a server that the settings name under `mcp.servers`".to_owned(),
        );
    }
    if tool_context.surfaces.is_some() {
        let types: Vec<&str> = CalledType::ALL
            .iter()
            .filter(|called| {
                matches!(called.family(), Family::Surface { .. }) && inputs::inputs_of(**called).is_some()
            })
            .map(|called| called.as_str())
            .collect();
        known.push(format!("`openwop:<node type>` with one of {}", types.join(", ")));
    }
    if known.is_empty() {
        return "unknown tool: this host has neither other MCP servers nor surfaces".to_owned();
    }
    format!("unknown tool; use {}", known.join(", or "))
}
