//! The tools that a node declares for its agent: names, and never code.
//!
//! ```text
//! {name, kind, description?, config?} ─► shape ─► on the agent's list? ─► somebody who does it?
//!                                                                          ├─ mcp:<server>:<tool>, mcp:<tool>   a server of the settings
//!                                                                          └─ openwop:<type of node>            a surface
//! ```
//!
//! All of it is judged when a workflow is registered, and once more when its node begins: packs and settings change in
//! between.

use ai::tools::{MAX_DESCRIPTION_BYTES, MAX_ROUNDS, MAX_TOOLS};
use flow::definition::{CalledType, Family};
use packs::agents::may_use;
use packs::manifest::ToolRef;
use serde_json::{Map, Value, json};

use super::super::mcp::Servers;
use super::{Agent, inputs};

/// What the host has for tools.
#[derive(Clone, Copy)]
pub(in super::super) struct ToolContext<'w> {
    /// Other MCP servers.
    pub(in super::super) servers: Option<&'w Servers>,
    /// Storage, files and messages.
    pub(in super::super) surfaces: Option<&'w surfaces::Surfaces>,
}

/// A tool that a node declares.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Declared {
    /// As the list of the agent writes it.
    pub(super) id: String,
    /// What the author says of it.
    pub(super) description: Option<String>,
    /// Who does it.
    pub(super) done_by: DoneBy,
}

/// Who does what a tool does.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum DoneBy {
    /// Another MCP server; the first that has the tool, where none is named.
    Mcp { server: Option<String>, tool: String },
    /// A surface, as a node of this type and configuration would use it.
    Surface { called: CalledType, config: Map<String, Value> },
}

/// What is wrong with a declaration of tools.
#[derive(Debug)]
pub(super) struct BadTools {
    pub(super) code: &'static str,
    pub(super) message: String,
    pub(super) details: Value,
}

/// What a declaration may have.
const MEMBERS: [&str; 4] = ["name", "kind", "description", "config"];

/// The tools that a node declares, each of which can be used.
pub(super) fn declared(
    agent: &Agent,
    config: &Map<String, Value>,
    tool_context: ToolContext<'_>,
) -> Result<Vec<Declared>, BadTools> {
    let Some(tools) = config.get("tools").and_then(Value::as_array) else { return Ok(Vec::new()) };
    if tools.len() > MAX_TOOLS {
        let message = format!("a node declares at most {MAX_TOOLS} tools, and these are {}", tools.len());
        return Err(BadTools { code: "INVALID_TOOL_DECLARATION", message, details: json!({}) });
    }
    let bad = |place: usize, code: &'static str, message: String| BadTools {
        code,
        message: format!("/{place}: {message}"),
        details: json!({"agentId": agent.manifest.agent_id, "place": place}),
    };
    // Whether somebody does what a tool does is nothing to ask before all of them are allowed.
    let mut allowed: Vec<(&str, Option<String>)> = Vec::new();
    for (place, tool) in tools.iter().enumerate() {
        let (name, description) =
            shape(tool).map_err(|message| bad(place, "INVALID_TOOL_DECLARATION", message))?;
        if !may_use(&agent.manifest, name) {
            let message = "the agent may not use a tool that the node declares; see its `toolAllowlist`";
            return Err(bad(place, "tool_not_allowed", message.to_owned()));
        }
        if allowed.iter().any(|(other, _)| *other == name) {
            return Err(bad(place, "INVALID_TOOL_DECLARATION", "the tool is declared twice".to_owned()));
        }
        allowed.push((name, description));
    }
    let declare = |(place, (name, description)): (usize, (&str, Option<String>))| {
        let done_by = done_by(name, &tools[place], tool_context)
            .map_err(|(code, message)| bad(place, code, message))?;
        Ok(Declared { id: name.to_owned(), description, done_by })
    };
    allowed.into_iter().enumerate().map(declare).collect()
}

/// What is wrong with how many rounds a node wants.
pub(super) fn rounds_problem(config: &Map<String, Value>) -> Option<String> {
    let rounds = config.get("maxRounds")?;
    let fits = rounds.as_u64().is_some_and(|rounds| (1..=u64::from(MAX_ROUNDS)).contains(&rounds));
    (!fits).then(|| format!("`maxRounds` is a whole number from 1 to {MAX_ROUNDS}"))
}

fn shape(tool: &Value) -> Result<(&str, Option<String>), String> {
    let text = |name: &str| tool.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    if tool.get("handler").is_some() {
        return Err("a tool has no `handler`: nothing that a workflow brings is run as a tool".to_owned());
    }
    let (Some(name), Some(_)) = (text("name"), text("kind")) else {
        return Err("a tool is an object with `name` and `kind`, two texts".to_owned());
    };
    let members = tool.as_object().into_iter().flatten();
    if let Some((other, _)) = members.into_iter().find(|(name, _)| !MEMBERS.contains(&name.as_str())) {
        let other: String = other.chars().take(64).collect();
        return Err(format!("a tool has no `{other}`; it has {}", MEMBERS.join(", ")));
    }
    match tool.get("description") {
        None => Ok((name, None)),
        Some(Value::String(text)) if text.len() <= MAX_DESCRIPTION_BYTES => Ok((name, Some(text.clone()))),
        Some(_) => Err(format!("`description` is a text of at most {MAX_DESCRIPTION_BYTES} bytes")),
    }
}

fn done_by(
    name: &str,
    tool: &Value,
    tool_context: ToolContext<'_>,
) -> Result<DoneBy, (&'static str, String)> {
    let config = match tool.get("config") {
        None => Map::new(),
        Some(Value::Object(config)) => config.clone(),
        Some(_) => return Err(("INVALID_TOOL_DECLARATION", "`config` is an object".to_owned())),
    };
    let reference = ToolRef::parse(name);
    match reference.map(|reference| (reference.scope, reference.name)) {
        Some(("mcp", name)) => {
            if !config.is_empty() {
                let message = "a tool of another server has no `config`: the model gives all it gets";
                return Err(("INVALID_TOOL_DECLARATION", message.to_owned()));
            }
            let (server, tool) = match name.split_once(':') {
                Some((server, tool)) => (Some(server), tool),
                None => (None, name),
            };
            let knows = |servers: &Servers| server.map_or(!servers.is_empty(), |id| servers.knows(id));
            if tool.is_empty() || !tool_context.servers.is_some_and(knows) {
                return Err(("unknown_tool", nobody(tool_context)));
            }
            Ok(DoneBy::Mcp { server: server.map(str::to_owned), tool: tool.to_owned() })
        }
        Some(("openwop", type_id)) => {
            let called = CalledType::parse(type_id).filter(|called| inputs::of(*called).is_some());
            let Some(called) = called.filter(|_| tool_context.surfaces.is_some()) else {
                return Err(("unknown_tool", nobody(tool_context)));
            };
            let schema = ai::schema::Schema::compile(&called.config_schema());
            let issues = schema.map(|schema| schema.issues(&Value::Object(config.clone())));
            match issues {
                Ok(issues) if issues.is_empty() => Ok(DoneBy::Surface { called, config }),
                Ok(issues) => {
                    let message =
                        format!("`config` is not what `{called}` takes: {}", ai::schema::summary(&issues));
                    Err(("INVALID_TOOL_DECLARATION", message))
                }
                Err(error) => Err(("INVALID_TOOL_DECLARATION", error.to_string())),
            }
        }
        _ => Err(("unknown_tool", nobody(tool_context))),
    }
}

/// What may be named instead of a tool that nobody has.
fn nobody(tool_context: ToolContext<'_>) -> String {
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
                matches!(called.family(), Family::Surface { .. }) && inputs::of(**called).is_some()
            })
            .map(|called| called.as_str())
            .collect();
        known.push(format!("`openwop:<type of node>` with one of {}", types.join(", ")));
    }
    if known.is_empty() {
        return "nobody here does what the tool does: the host serves neither other MCP servers nor surfaces"
            .to_owned();
    }
    format!("nobody here does what the tool does; a tool is {}", known.join(", or "))
}
