//! Triggers.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::fields::Fields;
use super::nodes::Places;
use crate::definition::trigger::{
    ATTEMPTS, Listening, MAX_ATTEMPTS, MAX_LISTENING, MAX_NAME_BYTES, MAX_RETRY_DELAY_MS, RETRY_DELAY_MS,
    SourceKind, UnservedKind, UnservedTrigger,
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

/// What a trigger is read against.
pub(super) struct TriggerContext<'a> {
    pub(super) nodes: &'a [Value],
    pub(super) indexes: &'a Places<'a>,
    pub(super) variables: &'a [Variable],
    pub(super) capabilities: &'a Capabilities,
    /// Whether the workflow is one that starts runs by itself.
    pub(super) is_active: bool,
}

/// Checks every trigger, and gives those that listen, and those that nothing serves.
pub(super) fn triggers(
    list: &[Value],
    context: &TriggerContext<'_>,
    problems: &mut Vec<Problem>,
) -> (Vec<Listening>, Vec<UnservedTrigger>) {
    let mut unserved = Vec::new();
    let (mut ids, mut consumers, mut queues) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut listening: Vec<Listening> = Vec::new();
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
        let silent = kind.as_deref().filter(|_| enabled).and_then(UnservedKind::parse);
        match (&id, silent) {
            (Some(id), Some(kind)) if context.capabilities.checked_before => {
                unserved.push(UnservedTrigger { id: id.clone(), kind });
            }
            (_, Some(kind)) => refuse(&mut fields, kind),
            (_, None) => {}
        }
        let (Some(id), Some("event")) = (id, kind.as_deref()) else { continue };
        let Some(found) = listen(&mut fields, id, node_id, context) else { continue };
        let found = Listening { enabled: enabled && context.is_active, ..found };
        if !consumers.insert(found.consumer.clone()) {
            let message = "another trigger of this workflow reads as this consumer; give each a `consumerGroup` of its own";
            fields.problem("config/consumerGroup", message);
        }
        if found.kind == SourceKind::Queue && !queues.insert(found.source.clone()) {
            let message =
                "another trigger of this workflow listens to this queue, and a message starts one run";
            fields.problem("config/topic", message);
        }
        if listening.len() == MAX_LISTENING {
            fields.problem(
                "type",
                format!("at most {MAX_LISTENING} triggers of a workflow listen to messages"),
            );
        }
        listening.push(found);
    }
    unheeded_groups(list, context, problems);
    (listening, unserved)
}

/// Refuses a trigger that would never fire.
fn refuse(fields: &mut Fields<'_, '_>, kind: UnservedKind) {
    let (name, required) = (kind.as_str(), kind.capability());
    let message = format!(
        "a `{name}` trigger needs `{required}`, which is not served here, so it would never start a run; \
         set `enabled` to false, and start runs with POST /v1/runs"
    );
    let path = format!("{}/type", fields.path());
    fields.push(Problem { required_capability: Some(required), ..Problem::at(path, message) });
}

/// Refuses a group of consumers where no trigger reads as it: whoever else takes a message is one of all that do.
fn unheeded_groups(list: &[Value], context: &TriggerContext<'_>, problems: &mut Vec<Problem>) {
    let listens = |trigger: &&Value| trigger.get("type").is_some_and(|kind| kind == "event");
    let named = list.iter().filter(listens).filter_map(|trigger| trigger.get("nodeId")?.as_str());
    let named: BTreeSet<&str> = named.collect();
    for (id, index) in context.indexes {
        let has_group = giver(id, context).is_some_and(|giver| giver.config.contains_key("consumerGroup"));
        if has_group && !named.contains(id) {
            let message =
                "only a trigger reads as a group of consumers; name this node in one, or leave it out";
            problems.push(Problem::at(format!("/nodes/{index}/config/consumerGroup"), message));
        }
    }
}

/// The node that a trigger names, where it is one that gives messages.
struct Giver<'d> {
    kind: SourceKind,
    config: &'d Map<String, Value>,
}

fn giver<'d>(node_id: &str, context: &TriggerContext<'d>) -> Option<Giver<'d>> {
    let node = context.nodes.get(*context.indexes.get(node_id)?)?;
    let kind = match CalledType::parse(node.get("typeId")?.as_str()?)? {
        CalledType::MessageConsume => SourceKind::Queue,
        CalledType::StreamSubscribe => SourceKind::Stream,
        _ => return None,
    };
    Some(Giver { kind, config: node.get("config")?.as_object()? })
}

/// A trigger that listens to messages; other events are nobody's here.
fn listen(
    fields: &mut Fields<'_, '_>,
    id: String,
    node_id: Option<String>,
    context: &TriggerContext<'_>,
) -> Option<Listening> {
    let event_type = fields.optional_text("eventType");
    let named =
        event_type.as_deref().map(|text| SourceKind::ALL.into_iter().find(|kind| kind.event_type() == text));
    let giver = node_id.as_deref().and_then(|node| giver(node, context));
    let kind = match (named, giver.as_ref().map(|giver| giver.kind)) {
        (Some(Some(named)), given) if node_id.is_none() || given == Some(named) => named,
        (Some(Some(named)), _) => {
            let wanted = match named {
                SourceKind::Queue => CalledType::MessageConsume,
                SourceKind::Stream => CalledType::StreamSubscribe,
            };
            fields.problem("nodeId", format!("the node of a `{}` is a `{wanted}`", named.event_type()));
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
        let message = format!("a trigger by messages needs `{required}`, which is not served here");
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
        configured(fields, giver.as_ref(), kind, context).map(|read| Listening {
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
    giver: Option<&Giver<'_>>,
    kind: SourceKind,
    context: &TriggerContext<'_>,
) -> Option<Configured> {
    let max_attempts = fields.optional_integer("maxAttempts", 1, MAX_ATTEMPTS).unwrap_or(ATTEMPTS);
    let delay = fields.optional_integer("retryDelayMs", 1, MAX_RETRY_DELAY_MS);
    let inputs = inputs(fields, kind, context);
    let own = ["maxAttempts", "retryDelayMs", "inputs"];
    let (source, consumer, from_beginning) = if let Some(Giver { config, .. }) = giver {
        // What the node says is said once.
        for name in [kind.named_by(), "consumerGroup", "fromBeginning"] {
            if fields.value(name).is_some() {
                fields.problem(name, "the node of the trigger says this; leave it out here");
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
        name(fields, kind.named_by(), source);
    }
    if let Some(consumer) = &consumer {
        name(fields, "consumerGroup", consumer);
    }
    let retry_delay_ms = delay.unwrap_or(RETRY_DELAY_MS);
    Some(Configured { source: source?, consumer, from_beginning, max_attempts, retry_delay_ms, inputs })
}

/// Whether a name is one of a queue, a stream or a consumer.
fn name(fields: &mut Fields<'_, '_>, member: &str, text: &str) {
    if text.is_empty() || text.len() > MAX_NAME_BYTES {
        fields.problem(member, format!("a name of 1 to {MAX_NAME_BYTES} bytes, and this has {}", text.len()));
    }
    if let Some(control) = text.chars().find(|c| c.is_control()) {
        let code = u32::from(control);
        fields.problem(member, format!("a name without control characters, and this has U+{code:04X}"));
    }
}

/// Which part of the message each input is.
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
            fields.problem(&member, format!("a JSON pointer that begins with `/{payload}` or is `/{id}`"));
        }
        mapped.insert(variable.clone(), pointer.to_owned());
    }
    Some(mapped)
}
