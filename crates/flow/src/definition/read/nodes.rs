//! Reads nodes, their inputs, and edges.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::fields::Fields;
use crate::definition::condition::Path;
use crate::definition::config::NodeConfig;
use crate::definition::expression::Expression;
use crate::definition::pattern::Pattern;
use crate::definition::{
    CalledType, Capabilities, Condition, Edge, Node, NodeIndex, NodeType, Patterns, PortValue, Problem,
    TriggerRule,
};
use crate::id::NodeId;
use crate::interrupt::AUTH_REQUIRED;

/// The index of each node, by id.
pub(super) type NodeIndexes<'d> = BTreeMap<&'d str, NodeIndex>;

pub(super) fn nodes<'d>(
    list: &'d [Value],
    capabilities: &Capabilities,
    problems: &mut Vec<Problem>,
) -> (Vec<Node>, NodeIndexes<'d>) {
    let mut indexes = NodeIndexes::new();
    for (index, value) in list.iter().enumerate() {
        if let Some(id) = value.get("id").and_then(Value::as_str)
            && indexes.insert(id, index).is_some()
        {
            problems.push(Problem::at(format!("/nodes/{index}/id"), "another node has this id"));
        }
    }
    let mut nodes = Vec::with_capacity(list.len());
    let mut keys = BTreeSet::new();
    for (index, value) in list.iter().enumerate() {
        let Some(mut fields) = Fields::of(value, format!("/nodes/{index}"), problems) else { continue };
        let node = node(&mut fields, &indexes, capabilities);
        // In a run, each key is asked at most once.
        if let Some(NodeConfig::Interrupt(interrupt)) = node.as_ref().map(|node| &node.config)
            && let Some(key) = &interrupt.key
            && !keys.insert(key.clone())
        {
            fields.problem("config/key", "another node has this key");
        }
        nodes.extend(node);
    }
    (nodes, indexes)
}

fn node(fields: &mut Fields<'_, '_>, indexes: &NodeIndexes<'_>, capabilities: &Capabilities) -> Option<Node> {
    let id = fields.text("id", 1, 128);
    let type_id = fields.text("typeId", 1, 256);
    let name = fields.text("name", 1, 1024);
    let config = fields.object("config");
    let inputs = fields.object("inputs");
    position(fields);
    let disabled = fields.flag("disabled", false);
    if let Some(role) = fields.optional_text("outputRole") {
        fields.one_of("outputRole", &role, &["primary", "secondary"]);
    }
    let agent = agent(fields);
    let envelope_contract = fields.value("envelopeContract").cloned();
    let credential = fields
        .value("credentialsRef")
        .and_then(Value::as_str)
        .and_then(|text| text.strip_prefix("credential:"));
    let credential = credential.filter(|name| !name.is_empty()).map(str::to_owned);
    let settings = fields.value("settings").and_then(Value::as_object);
    let max_retries = settings.and_then(|settings| settings.get("maxRetries")).and_then(Value::as_u64);
    let sensitive = fields.value("outputSensitivity").and_then(Value::as_object).into_iter().flatten();
    let sensitive_outputs =
        sensitive.filter(|(_, flag)| **flag == Value::Bool(true)).map(|(port, _)| port.clone());
    let sensitive_outputs = sensitive_outputs.collect();
    let artifact_type = fields.value("artifactType").and_then(Value::as_str).map(str::to_owned);
    fields.only(&[
        "id",
        "typeId",
        "name",
        "position",
        "config",
        "inputs",
        "credentialsRef",
        "settings",
        "outputRole",
        "disabled",
        "notes",
        "groupId",
        "agent",
        "envelopeContract",
        "artifactType",
        "cardType",
        "outputSensitivity",
    ]);
    let (id, type_id) = (id?, type_id?);
    let kind = kind(fields, &id, &type_id, capabilities);
    let mut parsed = None;
    if let (Some(kind), Some(config)) = (kind, config) {
        let path = format!("{}/config", fields.path());
        match NodeConfig::check(kind, config, &path, capabilities) {
            Ok(config) => parsed = Some(config),
            Err(found) => {
                for problem in found {
                    fields.push(Problem {
                        offending_type_id: Some(type_id.clone()),
                        node_id: Some(NodeId::new(id.as_str())),
                        ..problem
                    });
                }
            }
        }
    }
    if credential.is_none()
        && fields.value("credentialsRef").is_some()
        && kind == Some(NodeType::Called(CalledType::HttpRequest))
    {
        fields.problem(
            "credentialsRef",
            "must be `credential:` and a name from `http.credentials` of the settings",
        );
    }
    if envelope_contract.is_some() && kind.is_some_and(|kind| !kind.asks_models()) {
        fields.problem("envelopeContract", "allowed only on nodes that call a model");
    }
    let declares = kind.and_then(NodeType::input_names).filter(|_| !capabilities.checked_before);
    for name in inputs.into_iter().flat_map(Map::keys) {
        if let Some(message) = declares.as_deref().and_then(|declared| undeclared(&type_id, name, declared)) {
            fields.problem(&format!("inputs/{name}"), message);
        }
    }
    let inputs = inputs.map(|inputs| ports(fields, inputs, indexes));
    Some(Node {
        id: NodeId::new(id),
        kind: kind?,
        pack_type: (kind? == NodeType::Pack).then_some(type_id),
        name: name?,
        config: parsed?,
        raw_config: config?.clone(),
        requires_key: config?.get("profile").and_then(Value::as_str) == Some(AUTH_REQUIRED),
        inputs: inputs?,
        disabled,
        agent,
        credential,
        envelope_contract,
        max_retries: max_retries.map(|retries| u32::try_from(retries.min(100)).unwrap_or(100)),
        sensitive_outputs,
        artifact_type: artifact_type.filter(|kind| !kind.is_empty()),
    })
}

fn position(fields: &mut Fields<'_, '_>) {
    let position = fields.object("position");
    let is_number = |name| position.and_then(|position| position.get(name)).is_some_and(Value::is_number);
    if position.is_some() && !(is_number("x") && is_number("y")) {
        fields.problem("position", "must have the numbers `x` and `y`");
    }
}

fn agent(fields: &mut Fields<'_, '_>) -> Option<Value> {
    let agent = fields.value("agent")?;
    let agent_id = agent.get("agentId").and_then(Value::as_str).unwrap_or_default();
    if !(3..=256).contains(&agent_id.chars().count()) {
        fields.problem("agent/agentId", "must be a string of 3 to 256 characters");
    }
    if agent.get("channel").is_some() {
        let message = "channels of agents are not supported by this host";
        let problem = Problem::at(format!("{}/agent/channel", fields.path()), message);
        fields.push(Problem { required_capability: Some("agents.deployment"), ..problem });
    }
    Some(agent.clone())
}

fn kind(
    fields: &mut Fields<'_, '_>,
    id: &str,
    type_id: &str,
    capabilities: &Capabilities,
) -> Option<NodeType> {
    let path = format!("{}/typeId", fields.path());
    let refused = |message: String, required_capability| Problem {
        required_capability,
        offending_type_id: Some(type_id.to_owned()),
        node_id: Some(NodeId::new(id)),
        ..Problem::at(path.clone(), message)
    };
    let Some(kind) = NodeType::parse(type_id) else {
        if capabilities.pack_types.contains(type_id) {
            return Some(NodeType::Pack);
        }
        // A pack provides this type but cannot be used. "Unknown type" would be misleading.
        if let Some(why) = capabilities.refused_types.get(type_id) {
            let message = format!("{} provides this type, but it cannot be used: {}", why.pack, why.message);
            fields.push(Problem { refused: Some(why.clone()), ..refused(message, None) });
            return None;
        }
        let similar = canon::nearest::nearest(type_id, NodeType::all().map(NodeType::as_str), 1);
        let hint = similar.first().map(|similar| format!("; did you mean `{similar}`?")).unwrap_or_default();
        fields.push(refused(format!("unknown node type{hint}"), None));
        return None;
    };
    if let Some(capability) = kind.missing_capability(capabilities) {
        fields.push(refused(
            format!("this type requires `{capability}`, which is not supported by this host"),
            Some(capability),
        ));
    }
    Some(kind)
}

fn ports(
    fields: &mut Fields<'_, '_>,
    inputs: &Map<String, Value>,
    indexes: &NodeIndexes<'_>,
) -> Vec<(String, PortValue)> {
    let mut ports = Vec::with_capacity(inputs.len());
    for (name, value) in inputs {
        match port(value, indexes) {
            Ok(port) => ports.push((name.clone(), port)),
            Err(message) => fields.problem(&format!("inputs/{name}"), message),
        }
    }
    ports
}

fn port(value: &Value, indexes: &NodeIndexes<'_>) -> Result<PortValue, String> {
    let Value::Object(object) = value else {
        return Err("expected an object with `type`".into());
    };
    let text = |name: &str| {
        let text = object.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        text.map(str::to_owned).ok_or_else(|| format!("`{name}` is required and must be a string"))
    };
    let only = |names: &[&str]| match object.keys().find(|name| !names.contains(&name.as_str())) {
        Some(name) => Err(format!("`{name}` is unknown")),
        None => Ok(()),
    };
    let optional = object.get("optional").is_some_and(|optional| *optional == Value::Bool(true));
    match object.get("type").and_then(Value::as_str) {
        Some("static") => {
            only(&["type", "value"])?;
            object
                .get("value")
                .map(|value| PortValue::Static(value.clone()))
                .ok_or("`value` is required".into())
        }
        Some("expression") => {
            only(&["type", "expression"])?;
            let expression = Expression::parse(&text("expression")?).map_err(|error| error.to_string())?;
            Ok(PortValue::Expression(expression))
        }
        Some("connection") => {
            only(&["type", "nodeId", "outputKey", "optional"])?;
            let node = text("nodeId")?;
            let node = *indexes.get(node.as_str()).ok_or_else(|| format!("no node has the id `{node}`"))?;
            Ok(PortValue::Connection { node, output_key: text("outputKey")?, optional })
        }
        Some("variable") => {
            only(&["type", "variableName", "optional"])?;
            Ok(PortValue::Variable { name: text("variableName")?, optional })
        }
        _ => Err("`type` must be one of static, expression, connection, variable".into()),
    }
}

/// The problem with an input name that the node type does not declare.
fn undeclared(type_id: &str, name: &str, declared: &[&'static str]) -> Option<String> {
    if declared.contains(&name) {
        return None;
    }
    let advice = match canon::nearest::nearest(name, declared, 1).first() {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("its inputs are {}", declared.join(", ")),
    };
    Some(format!("`{type_id}` has no input of this name; {advice}"))
}

/// The input that an edge feeds. If the author names one, the target must declare it. Otherwise the edge feeds `input`, if the target
/// declares it.
fn target_input(
    fields: &mut Fields<'_, '_>,
    target: Option<&Value>,
    capabilities: &Capabilities,
) -> Option<String> {
    const IMPLICIT: &str = "input";
    let named = fields.optional_text("targetInput");
    let type_id = target.and_then(|target| target.get("typeId")?.as_str()).unwrap_or_default();
    let declared = NodeType::parse(type_id).and_then(NodeType::input_names);
    let Some(named) = named else {
        let is_fed = declared.is_none_or(|declared| declared.contains(&IMPLICIT));
        return is_fed.then(|| IMPLICIT.to_owned());
    };
    let refused = declared.and_then(|declared| undeclared(type_id, &named, &declared));
    if let Some(message) = refused.filter(|_| !capabilities.checked_before) {
        fields.problem("targetInput", message);
    }
    Some(named)
}

pub(super) fn edges(
    list: &[Value],
    nodes: &[Value],
    indexes: &NodeIndexes<'_>,
    capabilities: &Capabilities,
    patterns: Patterns,
    problems: &mut Vec<Problem>,
) -> Vec<Edge> {
    let mut ids = BTreeSet::new();
    let mut edges = Vec::with_capacity(list.len());
    for (index, value) in list.iter().enumerate() {
        let Some(mut fields) = Fields::of(value, format!("/edges/{index}"), problems) else { continue };
        let id = fields.text("id", 1, 256);
        if let Some(id) = &id
            && !ids.insert(id.clone())
        {
            fields.problem("id", "another edge has this id");
        }
        let mut end = |name: &str| {
            let node = fields.text(name, 1, 128)?;
            let index = indexes.get(node.as_str()).copied();
            if index.is_none() {
                fields.problem(name, "no node has this id");
            }
            index
        };
        let (source, target) = (end("sourceNodeId"), end("targetNodeId"));
        let source_output = fields.optional_text("sourceOutput").unwrap_or_else(|| "output".into());
        let target_input = target_input(&mut fields, target.and_then(|index| nodes.get(index)), capabilities);
        let trigger_rule = match fields.optional_text("triggerRule") {
            None => TriggerRule::default(),
            Some(rule) => TriggerRule::parse(&rule).unwrap_or_else(|| {
                let rules = "must be one of all_success, any_success, all_complete, none_failed, any_failed";
                fields.problem("triggerRule", rules);
                TriggerRule::default()
            }),
        };
        let condition = match fields.value("condition").map(|value| condition(value, patterns)) {
            None => None,
            Some(Ok(condition)) => Some(condition),
            Some(Err(message)) => {
                fields.problem("condition", message);
                None
            }
        };
        fields.only(&[
            "id",
            "sourceNodeId",
            "sourceOutput",
            "targetNodeId",
            "targetInput",
            "condition",
            "label",
            "triggerRule",
        ]);
        if let (Some(id), Some(source), Some(target)) = (id, source, target) {
            edges.push(Edge { id, source, target, source_output, target_input, condition, trigger_rule });
        }
    }
    edges
}

/// An estimate of the work of a decision.
pub(super) fn weight(nodes: &[Node], edges: &[Edge]) -> u64 {
    let of_node = |node: &Node| {
        let of_port = |port: &PortValue| match port {
            PortValue::Expression(expression) => expression.weight(),
            PortValue::Static(_) | PortValue::Connection { .. } | PortValue::Variable { .. } => 1,
        };
        let expression = if let NodeConfig::Conditional(config) = &node.config {
            config.expression.as_deref()
        } else {
            None
        };
        let own = expression.map_or(0, str::len) as u64;
        1 + own + node.inputs.iter().map(|(_, port)| of_port(port)).sum::<u64>()
    };
    let of_edge = |edge: &Edge| 1 + edge.condition.as_ref().map_or(0, Condition::weight);
    nodes
        .iter()
        .map(of_node)
        .sum::<u64>()
        .saturating_add(edges.iter().map(of_edge).fold(0, u64::saturating_add))
}

fn condition(value: &Value, patterns: Patterns) -> Result<Condition, String> {
    let Value::Object(object) = value else {
        return Err("expected an object".into());
    };
    if let Some(name) =
        object.keys().find(|name| !["type", "left", "right", "expression"].contains(&name.as_str()))
    {
        return Err(format!("`{name}` is unknown"));
    }
    let text = |name: &str| {
        object
            .get(name)
            .and_then(Value::as_str)
            .ok_or_else(|| format!("`{name}` is required and must be a string"))
    };
    let left = || text("left").map(Path::parse);
    let right = || object.get("right").cloned().unwrap_or(Value::Null);
    match object.get("type").and_then(Value::as_str) {
        Some("equals") => Ok(Condition::Equals(left()?, right())),
        Some("notEquals") => Ok(Condition::NotEquals(left()?, right())),
        Some("contains") => Ok(Condition::Contains(left()?, right())),
        Some("regex") => {
            let pattern =
                text("right").map_err(|_| "`right` is required and must be a pattern".to_owned())?;
            let pattern = match patterns.over {
                None => Pattern::new(pattern)?,
                Some(_) => Pattern::uncompiled(pattern),
            };
            Ok(Condition::Regex(left()?, pattern))
        }
        Some("expression") => Ok(Condition::Expression(
            Expression::parse(text("expression")?).map_err(|error| error.to_string())?,
        )),
        _ => Err("`type` must be one of expression, equals, notEquals, contains, regex".into()),
    }
}
