//! `GET /v1/tools`: the tools of a tenant, each with what it needs and what it may do.
//!
//! A tool is a workflow, started with `POST /v1/runs`, or what a workflow exposes to MCP clients.

use executors::Executors;
use flow::definition::{CalledType, Definition, ExposedType, Family, NodeType, Surface, VariableKind};
use flow::id::WorkflowId;
use runs::exposed::Exposure;
use runs::{ApiCode, Refusal, Scope};
use serde_json::{Map, Value, json};

use super::super::exchange::CheckedRequest;
use super::super::response;
use super::super::route::HandlerResult;
use super::super::state::Service;

/// The maximum number of tools in one reply.
const MAX_LISTED: usize = 200;
/// Keywords that compose schemas. The compact view omits them.
const COMPOSING: [&str; 10] =
    ["$ref", "$dynamicRef", "$defs", "allOf", "anyOf", "oneOf", "not", "if", "then", "else"];

/// `GET /v1/tools`
pub(in super::super) async fn list(call: CheckedRequest) -> HandlerResult {
    let (workflows, exposed) = match call.query.text("source") {
        None => (true, true),
        Some("workflow") => (true, false),
        Some("mcp") => (false, true),
        // Sources of the protocol that this host does not have.
        Some("node-pack" | "connector" | "host-extension") => (false, false),
        Some(_) => {
            let message = "`source` must be one of node-pack, workflow, mcp, connector, host-extension";
            return Err(Refusal::new(ApiCode::ValidationError, message).detail("field", "source"));
        }
    };
    let compact = is_compact(&call)?;
    let after = call.query.text("cursor").unwrap_or_default();
    let remote = RemoteStores::of(&call.state);
    let mut tools: Vec<Value> = Vec::new();
    if exposed && remote.mount {
        let all = call.state.runs.definitions().exposed(&call.caller.tenant).await?;
        let rest = all.tools.iter().filter(|(name, _)| mcp_id(name).as_str() > after);
        tools.extend(rest.take(MAX_LISTED + 1).map(|(name, tool)| of_exposed(name, tool, remote)));
    }
    // Sorted by id: `mcp:` comes first.
    let mut last = after.strip_prefix("workflow:").map(WorkflowId::new);
    while workflows && tools.len() <= MAX_LISTED {
        let page =
            call.state.runs.definitions().workflow_page(&call.caller, last.as_ref(), MAX_LISTED).await?;
        let Some((id, _)) = page.last() else { break };
        last = Some(id.clone());
        for (id, _) in &page {
            // A workflow that can no longer be run is not a tool.
            let look = call.state.runs.definitions().look(&call.caller, id).await;
            let workflow = look.ok().and_then(|look| look.checked.ok());
            tools.extend(workflow.map(|workflow| of_workflow(&workflow, remote)));
        }
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
    Ok(response::json(200, &body))
}

/// `GET /v1/tools/{toolId}`
pub(in super::super) async fn read(call: CheckedRequest) -> HandlerResult {
    let none = || Refusal::new(ApiCode::NotFound, "no tool has this id; GET /v1/tools lists all tools");
    let compact = is_compact(&call)?;
    let remote = RemoteStores::of(&call.state);
    let tool = match call.param("toolId").split_once(':') {
        Some(("mcp", name)) if remote.mount => {
            let all = call.state.runs.definitions().exposed(&call.caller.tenant).await?;
            all.tools.get_key_value(name).map(|(name, tool)| of_exposed(name, tool, remote))
        }
        Some(("workflow", id)) => {
            let look = call.state.runs.definitions().look(&call.caller, &WorkflowId::new(id)).await.ok();
            look.and_then(|look| look.checked.ok()).map(|workflow| of_workflow(&workflow, remote))
        }
        _ => None,
    };
    let tool = tool.ok_or_else(none)?;
    Ok(response::json(200, &if compact { compacted(&tool) } else { tool }))
}

/// Whether the client requests the compact view. `full` is what earlier versions called the standard view.
fn is_compact(call: &CheckedRequest) -> Result<bool, Refusal> {
    match call.query.text("view") {
        None | Some("standard" | "full") => Ok(false),
        Some("compact") => Ok(true),
        Some(_) => {
            let message = "`view` must be `standard` or `compact`";
            Err(Refusal::new(ApiCode::ValidationError, message).detail("field", "view"))
        }
    }
}

fn mcp_id(name: &str) -> String {
    format!("mcp:{name}")
}

fn of_exposed(name: &str, tool: &Exposure, remote: RemoteStores) -> Value {
    let mut shown = described(&tool.workflow, remote);
    shown["toolId"] = mcp_id(name).into();
    shown["source"] = "mcp".into();
    shown["inputSchema"] = tool.input_schema();
    if let Some(description) = tool.text("description") {
        shown["description"] = description.into();
    }
    shown
}

fn of_workflow(workflow: &Definition, remote: RemoteStores) -> Value {
    let mut shown = described(workflow, remote);
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

/// What a run of a workflow needs and may do: the maximum over its nodes.
fn described(workflow: &Definition, remote: RemoteStores) -> Value {
    let nodes = || workflow.nodes.iter().filter(|node| !node.disabled).map(|node| node.kind);
    let tier = nodes().map(tier).max().unwrap_or(Tier::Pure);
    let asks = |kind: NodeType| matches!(kind, NodeType::ApprovalGate | NodeType::GovernanceGate);
    let egress = nodes().map(|kind| egress(kind, remote)).max().unwrap_or(Egress::None);
    json!({
        "title": workflow.name,
        "auth": {"scopes": [Scope::RunsCreate.as_str()], "credentialRef": false},
        "egress": match egress {
            Egress::None => "none",
            Egress::Mediated => "host-mediated",
            Egress::Owned => "host-owned",
        },
        // Whether a gate is reached depends on the path that a run takes.
        "approval": if nodes().any(asks) { "conditional" } else { "never" },
        // Effects are recorded under their identity and never repeated in a replay.
        "replayPolicy": if tier == Tier::Pure { "deterministic" } else { "idempotent" },
        "safetyTier": match tier {
            Tier::Pure => "pure",
            Tier::Read => "read",
            Tier::Write => "write",
        },
    })
}

/// Which stores are on other machines, and whether MCP clients are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RemoteStores {
    sql: bool,
    queue: bool,
    mount: bool,
}

impl RemoteStores {
    fn of(state: &Service) -> Self {
        let surfaces = state.runs.features().executors().and_then(Executors::surfaces);
        let advertised = surfaces.map(|surfaces| surfaces.advertise()).unwrap_or_default();
        let is_there = |pointer: &str, local: &str| {
            let named = advertised.pointer(pointer).and_then(Value::as_array);
            named.is_some_and(|named| named.iter().any(|name| name != local))
        };
        Self {
            sql: is_there("/sql/drivers", "sqlite"),
            queue: is_there("/queueBus/backends", "in-memory"),
            mount: state.runs.features().capabilities().mcp_mount,
        }
    }
}

/// Whether a node sends data to other machines, and who is responsible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Egress {
    None,
    Mediated,
    Owned,
}

fn egress(kind: NodeType, remote: RemoteStores) -> Egress {
    match kind {
        NodeType::Called(called) => match called.family() {
            Family::Model | Family::Agent | Family::Mcp { .. } | Family::Http => Egress::Mediated,
            Family::Surface { surface: Surface::Sql, .. } if remote.sql => Egress::Mediated,
            Family::Surface { surface: Surface::QueueBus, .. } if remote.queue => Egress::Mediated,
            Family::Surface { .. } | Family::Host => Egress::None,
        },
        // Children may be any workflow, and sampling calls a model.
        NodeType::SubWorkflow | NodeType::Dispatch | NodeType::Exposed(ExposedType::Sampling) => {
            Egress::Mediated
        }
        // An agent runs on its own machine.
        NodeType::Guided => Egress::Owned,
        // Pack nodes are sandboxed without network access.
        _ => Egress::None,
    }
}

/// What a node may change outside of its run.
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
        | NodeType::Exposed(ExposedType::Sampling)
        | NodeType::SecretEcho => Tier::Read,
        // Children, packs and agents may do anything.
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

/// The members that are needed to choose and call a tool.
fn compacted(tool: &Value) -> Value {
    let kept = ["toolId", "source", "safetyTier", "title", "description", "inputSchema"];
    let mut shown: Map<String, Value> =
        kept.iter().filter_map(|name| Some(((*name).to_owned(), tool.get(*name)?.clone()))).collect();
    if let Some(schema) = shown.get_mut("inputSchema") {
        plain(schema);
    }
    Value::Object(shown)
}

/// Removes the composing keywords from a schema. Documents are limited in depth, so the recursion is too.
///
/// Members of `properties` are names that the author chose, and a constant contains no schema, so both are kept.
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
    fn every_node_type_has_an_egress_class_and_an_effect_tier() {
        let near = RemoteStores { sql: false, queue: false, mount: true };
        let far = RemoteStores { sql: true, queue: true, mount: true };
        let cases = [
            ("core.noop", Egress::None, Egress::None, Tier::Pure),
            ("core.openwop.mcp.expose-tool", Egress::None, Egress::None, Tier::Pure),
            ("core.storage.kv-get", Egress::None, Egress::None, Tier::Read),
            ("core.db.sql-query", Egress::None, Egress::Mediated, Tier::Read),
            ("core.storage.queue-enqueue", Egress::None, Egress::Mediated, Tier::Write),
            ("core.messaging.publish", Egress::None, Egress::Mediated, Tier::Write),
            ("core.ai.callPrompt", Egress::Mediated, Egress::Mediated, Tier::Read),
            ("core.openwop.mcp.handle-sampling", Egress::Mediated, Egress::Mediated, Tier::Read),
            ("core.openwop.mcp.invoke-tool", Egress::Mediated, Egress::Mediated, Tier::Write),
            ("core.agents.run", Egress::Mediated, Egress::Mediated, Tier::Write),
            ("core.subWorkflow", Egress::Mediated, Egress::Mediated, Tier::Write),
            ("core.dispatch", Egress::Mediated, Egress::Mediated, Tier::Write),
            ("interlock.guided", Egress::Owned, Egress::Owned, Tier::Write),
        ];
        for (type_id, in_reach, out_of_reach, changes) in cases {
            let kind = NodeType::parse(type_id).unwrap_or_else(|| panic!("{type_id}"));
            let classes = (egress(kind, near), egress(kind, far), tier(kind));
            assert_eq!(classes, (in_reach, out_of_reach, changes), "{type_id}");
        }
        assert_eq!((egress(NodeType::Pack, far), tier(NodeType::Pack)), (Egress::None, Tier::Write));
    }

    #[test]
    fn composed_schemas_are_removed_and_names_and_constants_are_kept() {
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
