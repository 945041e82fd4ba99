//! `GET /v1/tools`: what can be used here, each with what it needs and what it may do.
//!
//! A tool is a workflow, begun with `POST /v1/runs`, or what a workflow exposes to clients of MCP. Only the caller's own are there.

use flow::definition::{CalledType, Definition, Family, NodeType, VariableKind};
use host::runs::exposed::Exposure;
use host::runs::{ApiCode, Refusal, Scope};
use serde_json::{Map, Value, json};

use super::super::answer;
use super::super::exchange::Call;
use super::super::route::Answered;

/// How many tools one answer has at most.
const MAX_LISTED: usize = 200;
/// What composes schemas. A compact view has none of it.
const COMPOSING: [&str; 10] =
    ["$ref", "$dynamicRef", "$defs", "allOf", "anyOf", "oneOf", "not", "if", "then", "else"];

/// `GET /v1/tools`
pub(in super::super) async fn list(call: Call) -> Answered {
    let (workflows, exposed) = match call.query.text("source") {
        None => (true, true),
        Some("workflow") => (true, false),
        Some("mcp") => (false, true),
        // Known to the protocol, and nothing of it is here.
        Some("node-pack" | "connector" | "host-extension") => (false, false),
        Some(_) => {
            let message = "`source` is one of node-pack, workflow, mcp, connector, host-extension";
            return Err(Refusal::new(ApiCode::ValidationError, message).detail("field", "source"));
        }
    };
    let compact = match call.query.text("view") {
        None | Some("full") => false,
        Some("compact") => true,
        Some(_) => {
            let message = "`view` is `compact`, or left out";
            return Err(Refusal::new(ApiCode::ValidationError, message).detail("field", "view"));
        }
    };
    let after = call.query.text("cursor").unwrap_or_default();
    let mut tools: Vec<Value> = Vec::new();
    if exposed {
        let all = call.state.runs.exposed(&call.caller.tenant)?;
        let rest = all.tools.iter().filter(|(name, _)| mcp_id(name).as_str() > after);
        tools.extend(rest.take(MAX_LISTED + 1).map(|(name, tool)| of_exposed(name, tool)));
    }
    // Sorted by id: those of MCP come first.
    let mut last = after.strip_prefix("workflow:").map(str::to_owned);
    while workflows && tools.len() <= MAX_LISTED {
        let page = call.state.runs.workflow_page(&call.caller, last.as_deref(), MAX_LISTED)?;
        let Some((id, _)) = page.last() else { break };
        last = Some(id.clone());
        let looks = page.iter().map(|(id, _)| call.state.runs.workflow_look(&call.caller, id));
        // One that could not be run any more is no tool.
        tools.extend(looks.filter_map(|look| look.ok()?.checked.ok()).map(|workflow| of_workflow(&workflow)));
    }
    let more = tools.len() > MAX_LISTED;
    tools.truncate(MAX_LISTED);
    let next = tools.last().map(|tool| tool["toolId"].clone()).filter(|_| more);
    if compact {
        tools = tools.iter().map(compacted).collect();
    }
    let mut body = json!({"tools": tools});
    if let Some(next) = next {
        body["nextCursor"] = next;
    }
    Ok(answer::json(200, &body))
}

/// `GET /v1/tools/{toolId}`
pub(in super::super) async fn read(call: Call) -> Answered {
    let none =
        || Refusal::new(ApiCode::NotFound, "there is no tool of this id; list them with GET /v1/tools");
    let tool = match call.param("toolId").split_once(':') {
        Some(("mcp", name)) => {
            let all = call.state.runs.exposed(&call.caller.tenant)?;
            all.tools.get_key_value(name).map(|(name, tool)| of_exposed(name, tool))
        }
        Some(("workflow", id)) => {
            let look = call.state.runs.workflow_look(&call.caller, id).ok();
            look.and_then(|look| look.checked.ok()).map(|workflow| of_workflow(&workflow))
        }
        _ => None,
    };
    Ok(answer::json(200, &tool.ok_or_else(none)?))
}

fn mcp_id(name: &str) -> String {
    format!("mcp:{name}")
}

fn of_exposed(name: &str, tool: &Exposure) -> Value {
    let mut shown = described(&tool.workflow);
    shown["toolId"] = mcp_id(name).into();
    shown["source"] = "mcp".into();
    shown["inputSchema"] = tool.input_schema();
    if let Some(description) = tool.text("description") {
        shown["description"] = description.into();
    }
    shown
}

fn of_workflow(workflow: &Definition) -> Value {
    let mut shown = described(workflow);
    shown["toolId"] = format!("workflow:{}", workflow.id).into();
    shown["source"] = "workflow".into();
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for variable in &workflow.variables {
        properties.insert(variable.name.clone(), json!({"type": kind(variable.kind)}));
        if variable.required && variable.default.is_none() {
            required.push(variable.name.as_str());
        }
    }
    shown["inputSchema"] = json!({"type": "object", "properties": properties, "required": required});
    if let Some(about) = workflow.document.get("description").and_then(Value::as_str) {
        shown["description"] = about.chars().take(1000).collect::<String>().into();
    }
    shown
}

/// What a run of a workflow needs, and what it may do: the most that one of its nodes does.
fn described(workflow: &Definition) -> Value {
    let nodes = || workflow.nodes.iter().filter(|node| !node.disabled).map(|node| node.kind);
    let tier = nodes().map(tier).max().unwrap_or(Tier::Pure);
    let asks = |kind: NodeType| matches!(kind, NodeType::ApprovalGate | NodeType::GovernanceGate);
    let leaves = |kind: NodeType| matches!(kind, NodeType::Called(called) if matches!(called.family(), Family::Model | Family::Mcp { .. }));
    json!({
        "title": workflow.name,
        "auth": {"scopes": [Scope::RunsCreate.as_str()], "credentialRef": false},
        "egress": if nodes().any(leaves) { "host-mediated" } else { "none" },
        // Whether a gate is reached depends on the way that a run takes.
        "approval": if nodes().any(asks) { "conditional" } else { "never" },
        // What had an effect is recorded under its identity, and never made again in a replay.
        "replayPolicy": if tier == Tier::Pure { "deterministic" } else { "idempotent" },
        "safetyTier": match tier {
            Tier::Pure => "pure",
            Tier::Read => "read",
            Tier::Write => "write",
        },
    })
}

/// What a node may do to what is outside of its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Tier {
    Pure,
    Read,
    Write,
}

fn tier(kind: NodeType) -> Tier {
    use CalledType as C;
    match kind {
        NodeType::Called(
            C::KvGet
            | C::KvList
            | C::TableQuery
            | C::TableCount
            | C::CacheGet
            | C::BlobGet
            | C::BlobPresign
            | C::SqlQuery
            | C::SearchQuery
            | C::VectorQuery
            | C::FilesRead
            | C::FilesStat
            | C::FilesList
            | C::StreamSubscribe
            | C::CallPrompt
            | C::StructuredOutput
            | C::MockAi
            | C::McpListTools
            | C::McpListResources
            | C::McpReadResource
            | C::McpListPrompts
            | C::McpGetPrompt
            | C::McpPing,
        )
        | NodeType::SecretEcho => Tier::Read,
        // Children and packs may do anything, and so may an agent.
        NodeType::Called(_)
        | NodeType::Pack
        | NodeType::SubWorkflow
        | NodeType::Dispatch
        | NodeType::Guided
        | NodeType::SideEffect => Tier::Write,
        _ => Tier::Pure,
    }
}

const fn kind(kind: VariableKind) -> &'static str {
    match kind {
        VariableKind::String => "string",
        VariableKind::Number => "number",
        VariableKind::Boolean => "boolean",
        VariableKind::Object => "object",
        VariableKind::Array => "array",
    }
}

/// What is needed to choose a tool and to call it, and nothing else.
fn compacted(tool: &Value) -> Value {
    let kept = ["toolId", "source", "safetyTier", "title", "description", "inputSchema"];
    let mut shown: Map<String, Value> =
        kept.iter().filter_map(|name| Some(((*name).to_owned(), tool.get(*name)?.clone()))).collect();
    if let Some(schema) = shown.get_mut("inputSchema") {
        plain(schema);
    }
    Value::Object(shown)
}

/// Takes out of a schema what composes it. Documents are bounded in depth, so this is.
///
/// Members of `properties` are names of the caller's, whatever they are called, and what a constant holds is no schema.
fn plain(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            members.retain(|name, _| !COMPOSING.contains(&name.as_str()));
            for (name, value) in members {
                match (name.as_str(), value) {
                    ("properties" | "patternProperties" | "dependentSchemas", Value::Object(named)) => {
                        named.values_mut().for_each(plain);
                    }
                    ("enum" | "const" | "default" | "examples", _) => {}
                    (_, value) => plain(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(plain),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_composes_a_schema_goes_and_names_and_constants_stay() {
        let mut schema = json!({
            "type": "object", "required": ["not", "a"], "$defs": {"d": {}}, "allOf": [{}],
            "properties": {
                "not": {"type": "string", "not": {"const": ""}},
                "a": {"$ref": "#/$defs/d", "default": {"if": 1}},
                "list": {"type": "array", "items": {"oneOf": [{}], "enum": [{"then": 1}]}},
            },
        });
        plain(&mut schema);
        let expected = json!({
            "type": "object", "required": ["not", "a"],
            "properties": {
                "not": {"type": "string"},
                "a": {"default": {"if": 1}},
                "list": {"type": "array", "items": {"enum": [{"then": 1}]}},
            },
        });
        assert_eq!(schema, expected);
    }
}
