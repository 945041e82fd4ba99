//! Reads triggers.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::fields::Fields;
use super::nodes::NodeIndexes;
use crate::definition::trigger::{
    ATTEMPTS, MAX_ATTEMPTS, MAX_MESSAGE_TRIGGERS, MAX_NAME_BYTES, MAX_RETRY_DELAY_MS, MessageTrigger,
    RETRY_DELAY_MS, SourceKind, UnservedKind, UnservedTrigger,
};
use crate::definition::{CalledType, Capabilities, Problem, Surface, Variable};
use crate::id::NodeId;

const KINDS: &[&str] = &[
    "manual",
    "schedule",
    "webhook",
    "event",
    "artifact",
    "canvas",
    "envelope",
    "command",
    "chat-message",
    "channel-write",
];

/// The parts of the workflow that triggers refer to.
pub(super) struct TriggerContext<'a> {
    pub(super) nodes: &'a [Value],
    pub(super) indexes: &'a NodeIndexes<'a>,
    pub(super) variables: &'a [Variable],
    pub(super) capabilities: &'a Capabilities,
    /// Whether the workflow is active, so that its triggers start runs.
    pub(super) is_active: bool,
}

/// Validates all triggers. Returns those that listen for messages, and those that this program does not support.
pub(super) fn triggers(
    list: &[Value],
    context: &TriggerContext<'_>,
    problems: &mut Vec<Problem>,
) -> (Vec<MessageTrigger>, Vec<UnservedTrigger>) {
    let mut unserved = Vec::new();
    let (mut ids, mut consumers, mut queues) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut listening: Vec<MessageTrigger> = Vec::new();
    for (index, value) in list.iter().enumerate() {
        let Some(mut fields) = Fields::of(value, format!("/triggers/{index}"), problems) else { continue };
        let id = fields.text("id", 1, 256);
        if let Some(id) = &id
            && !ids.insert(id.clone())
        {
            fields.problem("id", "another trigger has this id");
        }
        let kind = fields.text("type", 1, 64);
        if let Some(kind) = &kind {
            fields.one_of("type", kind, KINDS);
        }
        let node_id = fields.optional_text("nodeId");
        if let Some(node) = &node_id
            && !context.indexes.contains_key(node.as_str())
        {
            fields.problem("nodeId", "no node has this id");
            continue;
        }
        let enabled = fields.flag("enabled", true);
        fields.only(&["id", "type", "name", "description", "config", "enabled", "nodeId", "eventType"]);
        let unsupported = kind.as_deref().filter(|_| enabled).and_then(UnservedKind::parse);
        match (&id, unsupported) {
            (Some(id), Some(kind)) if context.capabilities.checked_before => {
                unserved.push(UnservedTrigger { id: id.clone(), kind });
            }
            (_, Some(kind)) => refuse(&mut fields, kind),
            (_, None) => {}
        }
        let (Some(id), Some("event")) = (id, kind.as_deref()) else { continue };
        let Some(trigger) = message_trigger(&mut fields, id, node_id, context) else { continue };
        let trigger = MessageTrigger { enabled: enabled && context.is_active, ..trigger };
        if !consumers.insert(trigger.consumer.clone()) {
            let message =
                "another trigger of this workflow has this consumer name; set a different `consumerGroup`";
            fields.problem("config/consumerGroup", message);
        }
        if trigger.kind == SourceKind::Queue && !queues.insert(trigger.source.clone()) {
            let message =
                "another trigger of this workflow listens to this queue; a message can start only one run";
            fields.problem("config/topic", message);
        }
        if listening.len() == MAX_MESSAGE_TRIGGERS {
            let message =
                format!("at most {MAX_MESSAGE_TRIGGERS} triggers of a workflow can listen for messages");
            fields.problem("type", message);
        }
        listening.push(trigger);
    }
    check_unused_groups(list, context, problems);
    (listening, unserved)
}

/// Refuses a trigger that would never fire.
fn refuse(fields: &mut Fields<'_, '_>, kind: UnservedKind) {
    let (name, required) = (kind.as_str(), kind.capability());
    let message = format!(
        "a `{name}` trigger requires `{required}`, which is not supported by this host, so it would never start a run; \
         set `enabled` to false, and start runs with POST /v1/runs"
    );
    let path = format!("{}/type", fields.path());
    fields.push(Problem { required_capability: Some(required), ..Problem::at(path, message) });
}

/// Refuses the consumer group of a node that no trigger uses. Only triggers read as a group; a node would silently ignore it.
fn check_unused_groups(list: &[Value], context: &TriggerContext<'_>, problems: &mut Vec<Problem>) {
    let listens = |trigger: &&Value| trigger.get("type").is_some_and(|kind| kind == "event");
    let named = list.iter().filter(listens).filter_map(|trigger| trigger.get("nodeId")?.as_str());
    let named: BTreeSet<&str> = named.collect();
    for (id, index) in context.indexes {
        let has_group =
            source_node(id, context).is_some_and(|node| node.config.contains_key("consumerGroup"));
        if has_group && !named.contains(id) {
            let message = "only a trigger can read as a consumer group; reference this node in a trigger, or remove `consumerGroup`";
            problems.push(Problem::at(format!("/nodes/{index}/config/consumerGroup"), message));
        }
    }
}

/// The node of a trigger, if it is a node that outputs messages.
struct SourceNode<'d> {
    kind: SourceKind,
    config: &'d Map<String, Value>,
}

fn source_node<'d>(node_id: &str, context: &TriggerContext<'d>) -> Option<SourceNode<'d>> {
    let node = context.nodes.get(*context.indexes.get(node_id)?)?;
    let kind = match CalledType::parse(node.get("typeId")?.as_str()?)? {
        CalledType::MessageConsume => SourceKind::Queue,
        CalledType::StreamSubscribe => SourceKind::Stream,
        _ => return None,
    };
    Some(SourceNode { kind, config: node.get("config")?.as_object()? })
}

/// A trigger that listens for messages; `None` for other event types.
fn message_trigger(
    fields: &mut Fields<'_, '_>,
    id: String,
    node_id: Option<String>,
    context: &TriggerContext<'_>,
) -> Option<MessageTrigger> {
    let event_type = fields.optional_text("eventType");
    let named =
        event_type.as_deref().map(|text| SourceKind::ALL.into_iter().find(|kind| kind.event_type() == text));
    let node = node_id.as_deref().and_then(|node| source_node(node, context));
    let kind = match (named, node.as_ref().map(|node| node.kind)) {
        (Some(Some(named)), given) if node_id.is_none() || given == Some(named) => named,
        (Some(Some(named)), _) => {
            let expected = match named {
                SourceKind::Queue => CalledType::MessageConsume,
                SourceKind::Stream => CalledType::StreamSubscribe,
            };
            fields.problem(
                "nodeId",
                format!("the node of a `{}` trigger must be a `{expected}`", named.event_type()),
            );
            return None;
        }
        (None, Some(given)) => given,
        (Some(None), _) | (None, None) => return None,
    };
    if !context.capabilities.surfaces.contains(Surface::QueueBus) {
        let required = match kind {
            SourceKind::Queue => "queueBus.supported",
            SourceKind::Stream => "queueBus.stream.supported",
        };
        let message = format!("a message trigger requires `{required}`, which is not supported by this host");
        let path = format!("{}/eventType", fields.path());
        fields.push(Problem { required_capability: Some(required), ..Problem::at(path, message) });
    }
    let none = Map::new();
    let config = match fields.value("config") {
        None => &none,
        Some(Value::Object(config)) => config,
        Some(_) => {
            fields.problem("config", "expected an object");
            return None;
        }
    };
    let path = format!("{}/config", fields.path());
    fields.nested(config, path, |fields| {
        configured(fields, node.as_ref(), kind, context).map(|read| MessageTrigger {
            consumer: read.consumer.unwrap_or_else(|| id.clone()),
            id,
            kind,
            source: read.source,
            from_beginning: read.from_beginning,
            max_attempts: read.max_attempts,
            retry_delay_ms: read.retry_delay_ms,
            node_id: node_id.map(NodeId::new),
            inputs: read.inputs,
            enabled: true,
        })
    })
}

struct Configured {
    source: String,
    consumer: Option<String>,
    from_beginning: bool,
    max_attempts: u64,
    retry_delay_ms: u64,
    inputs: Option<BTreeMap<String, String>>,
}

fn configured(
    fields: &mut Fields<'_, '_>,
    node: Option<&SourceNode<'_>>,
    kind: SourceKind,
    context: &TriggerContext<'_>,
) -> Option<Configured> {
    let max_attempts = fields.optional_integer("maxAttempts", 1, MAX_ATTEMPTS).unwrap_or(ATTEMPTS);
    let delay = fields.optional_integer("retryDelayMs", 1, MAX_RETRY_DELAY_MS);
    let inputs = inputs(fields, kind, context);
    let own = ["maxAttempts", "retryDelayMs", "inputs"];
    let (source, consumer, from_beginning) = if let Some(SourceNode { config, .. }) = node {
        // The node has these settings, so the trigger must not repeat them.
        for name in [kind.named_by(), "consumerGroup", "fromBeginning"] {
            if fields.value(name).is_some() {
                fields.problem(name, "already set in the node of the trigger; remove it here");
            }
        }
        fields.only(&[&own[..], &[kind.named_by(), "consumerGroup", "fromBeginning"]].concat());
        let text = |name: &str| config.get(name).and_then(Value::as_str).map(str::to_owned);
        let from_beginning = config.get("fromBeginning").and_then(Value::as_bool);
        (text(kind.named_by()), text("consumerGroup"), from_beginning.unwrap_or(false))
    } else {
        let source = fields.text(kind.named_by(), 1, MAX_NAME_BYTES);
        let consumer = fields.optional_text("consumerGroup");
        let known: &[&str] = match kind {
            SourceKind::Queue => &["topic", "consumerGroup"],
            SourceKind::Stream => &["stream", "consumerGroup", "fromBeginning"],
        };
        fields.only(&[&own[..], known].concat());
        (source, consumer, kind == SourceKind::Stream && fields.flag("fromBeginning", false))
    };
    if let Some(source) = &source {
        check_name(fields, kind.named_by(), source);
    }
    if let Some(consumer) = &consumer {
        check_name(fields, "consumerGroup", consumer);
    }
    let retry_delay_ms = delay.unwrap_or(RETRY_DELAY_MS);
    Some(Configured { source: source?, consumer, from_beginning, max_attempts, retry_delay_ms, inputs })
}

/// Checks the name of a queue, a stream or a consumer.
fn check_name(fields: &mut Fields<'_, '_>, member: &str, text: &str) {
    if text.is_empty() || text.len() > MAX_NAME_BYTES {
        fields.problem(member, format!("must have 1 to {MAX_NAME_BYTES} bytes, but has {}", text.len()));
    }
    if let Some(control) = text.chars().find(|c| c.is_control()) {
        let code = u32::from(control);
        fields.problem(member, format!("must not contain control characters, but contains U+{code:04X}"));
    }
}

/// The JSON pointer of each input into the data of the trigger.
fn inputs(
    fields: &mut Fields<'_, '_>,
    kind: SourceKind,
    context: &TriggerContext<'_>,
) -> Option<BTreeMap<String, String>> {
    let Value::Object(members) = fields.value("inputs")? else {
        fields.problem("inputs", "expected an object");
        return None;
    };
    let mut mapped = BTreeMap::new();
    for (variable, pointer) in members {
        let member = format!("inputs/{variable}");
        if !context.variables.iter().any(|known| known.name == *variable) {
            fields.problem(&member, "no variable has this name");
        }
        let pointer = pointer.as_str().unwrap_or_default();
        let first = pointer.strip_prefix('/').and_then(|rest| rest.split('/').next());
        if !first.is_some_and(|first| [kind.payload(), kind.id()].contains(&first)) {
            let (payload, id) = (kind.payload(), kind.id());
            fields.problem(
                &member,
                format!("must be a JSON pointer that starts with `/{payload}` or is `/{id}`"),
            );
        }
        mapped.insert(variable.clone(), pointer.to_owned());
    }
    Some(mapped)
}
