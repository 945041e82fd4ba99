//! Seams for prompts without a run: which template a node gets, and what it renders to.

use ai::node::{Node, NodeType};
use ai::prompt::compose::{Bindings, Observability, bind, compose};
use ai::prompt::resolve::{Agent, ByKind, Layers, Slot, by_kind, resolve};
use ai::prompt::{PromptKind, PromptRef};
use ai::trust::Trust;
use axum::response::Response;
use executors::Executors;
use executors::models::Models;
use serde_json::{Map, Value, json};

use super::super::exchange::CheckedRequest;
use super::super::response;
use super::super::route::HandlerResult;
use super::errors::{invalid_argument, nested};

/// The default node.
const NODE: &str = "node";
/// The highest slot of an example, given the maximum number of examples of a node.
const MAX_SLOT: u64 = 31;

fn models(call: &CheckedRequest) -> Option<&Models> {
    call.state.runs.features().executors().and_then(Executors::models).filter(|models| models.is_served())
}

fn not_served() -> Response {
    nested(404, "host_capability_missing", "this host has no prompts")
}

/// `POST /v1/host/sample/prompt/compose`
pub(in super::super) async fn composed(call: CheckedRequest) -> HandlerResult {
    let Some(models) = models(&call) else { return Ok(not_served()) };
    Ok(compose_for(&call, models).unwrap_or_else(|refused| *refused))
}

fn compose_for(call: &CheckedRequest, models: &Models) -> Result<Response, Box<Response>> {
    let wrong = |message: &str| Box::new(invalid_argument(message));
    let body = &call.body;
    let text = |name: &str| body.get(name).and_then(Value::as_str);
    let id = text("templateId").ok_or_else(|| wrong("`templateId` is missing"))?;
    let reference = PromptRef::parse(id).or_else(|| PromptRef::parse(&format!("prompt:{id}")));
    let template = reference.as_ref().and_then(|reference| models.library().find(reference).ok());
    let template =
        template.ok_or_else(|| Box::new(nested(404, "template_not_found", "template not found")))?;
    let observability = match text("observability") {
        None => models.observability(),
        Some(word) => Observability::parse(word).ok_or_else(|| {
            wrong(
                "`observability` must be `off`, `hashed` or \
                                                            `full`",
            )
        })?,
    };
    let bindings = bindings_of(call, models, template)?;
    let composed = compose(template, &template.reference(), &bindings)
        .map_err(|error| Box::new(nested(400, error.code().as_str(), &error.to_string())))?;
    let event = composed.event(text("nodeId").unwrap_or(NODE), observability);
    Ok(response::json(200, &Value::Object(event.map(|event| event.payload).unwrap_or_default())))
}

/// The bindings of the request. Secrets are given by name and resolved for the caller's tenant.
fn bindings_of(
    call: &CheckedRequest,
    models: &Models,
    template: &ai::prompt::Template,
) -> Result<Bindings, Box<Response>> {
    let none = Map::new();
    let values = match call.body.get("bindings") {
        None | Some(Value::Null) => &none,
        Some(Value::Object(values)) => values,
        Some(_) => {
            return Err(Box::new(invalid_argument("`bindings` must be an object of names and values")));
        }
    };
    let trusts = call.body.get("bindingTrust").unwrap_or(&Value::Null);
    let words = trusts.as_object().map_or_else(|| vec![trusts], |trusts| trusts.values().collect());
    if words.iter().any(|word| !word.is_null() && word.as_str().and_then(Trust::parse).is_none()) {
        return Err(Box::new(invalid_argument(
            "`bindingTrust` must be `trusted` or `untrusted`, for all bindings or by name",
        )));
    }
    let trust = |name: &str| {
        let word = trusts.as_str().or_else(|| trusts.get(name).and_then(Value::as_str));
        word.and_then(Trust::parse).unwrap_or(Trust::Trusted)
    };
    Ok(bind(template, values, trust, |id| models.prompt_secret(&call.caller.tenant, id)))
}

/// `POST /v1/host/sample/prompt/resolve`
pub(in super::super) async fn resolved(call: CheckedRequest) -> HandlerResult {
    let Some(models) = models(&call) else { return Ok(not_served()) };
    Ok(resolve_for(&call.body, models).unwrap_or_else(invalid_argument))
}

fn resolve_for(body: &Value, models: &Models) -> Result<Response, &'static str> {
    let kind = body.get("kind").and_then(Value::as_str).and_then(PromptKind::parse);
    let kind = kind.ok_or("`kind` must be one of system, user, few-shot, schema-hint")?;
    let index = body.get("slotIndex").map_or(Some(0), Value::as_u64).filter(|index| *index <= MAX_SLOT);
    let index = index.ok_or("`slotIndex` must be the index of an example, from 0 to 31")?;
    let node = body.get("node").unwrap_or(&Value::Null);
    let node_id = node.get("nodeId").and_then(Value::as_str).ok_or("`node.nodeId` is missing")?;
    let config = node.get("config").cloned().unwrap_or_else(|| json!({}));
    let node = Node::read(NodeType::MockAi, &config);
    let node = node.map_err(|_| "`node.config` is not valid for a model node")?;
    let agent = match body.get("agentManifest").filter(|manifest| !manifest.is_null()) {
        None => None,
        Some(manifest) => Some(Agent::read(manifest).ok_or("`agentManifest.agentId` is missing")?),
    };
    let defaults = |value: Option<&Value>| value.map(by_kind).unwrap_or_default();
    let (workflow, host) =
        (defaults(body.pointer("/workflowDefaults/promptRefs")), defaults(body.get("hostDefaults")));
    let layers = Layers {
        run: &ByKind::default(),
        node: &node.call().prompts,
        agent: agent.as_ref(),
        agent_bindings: body.get("agentBindingsSupported").and_then(Value::as_bool).unwrap_or(true),
        workflow: &workflow,
        host: &host,
    };
    let slot = Slot { kind, index: usize::try_from(index).unwrap_or(0) };
    let resolution = resolve(slot, &layers, models.library());
    Ok(response::json(200, &resolution.to_value(node_id)))
}
