//! Events: the envelope and the payload.

mod members;
mod rules;
mod types;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

pub use self::types::{EventType, Extra, TYPES};

use crate::id;

/// The version of every payload schema that is written. It is raised for a type when its payload changes.
const SCHEMA_VERSION: u64 = 1;

/// Recorded while a pause waits for running nodes. Version 2 admits no types of unregistered vendors, so it is a log line there.
const PAUSE_REQUESTED: &str = "interlock.pauseRequested";
const LOG_APPENDED: &str = "log.appended";
const PAUSE: &str = "x-interlock-pause";
const PAUSE_MESSAGE: &str = "Pause requested. The run pauses when its running nodes have ended.";

/// The id of the cause, where it is not the id of an event.
const CAUSATION: &str = "x-interlock-causation";

/// Why an event cannot be shown in the other version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unprojectable {
    #[error("the type `{0}` is not registered")]
    Type(String),
    #[error("the member `{member}` of `{kind}` has no place in the other version")]
    Member { kind: String, member: String },
    #[error("`{kind}` answers a question of the node `{node}` that is not in the log before it")]
    Question { kind: String, node: String },
    #[error("the event has no valid `{0}`")]
    Envelope(&'static str),
}

/// The row of a type, by its name in version 1.
pub fn by_v1(name: &str) -> Option<&'static EventType> {
    TYPES.iter().find(|row| row.v1 == name)
}

/// The row of a type, by its name in version 2.
pub fn by_v2(name: &str) -> Option<&'static EventType> {
    TYPES.iter().find(|row| row.v2 == name)
}

/// What a question of a node is called, from `node.suspended`.
#[derive(Clone, Debug, PartialEq)]
struct Question {
    interrupt_id: String,
    key: String,
    content_trust: Option<Value>,
}

/// Translates the events of one run, in the order of the log.
///
/// An answer names in version 2 the question that it answers. So a projection remembers the last question of every node, and needs the
/// events from the beginning, or from before the question: see [`Projection::observe`] and [`Projection::lacks`].
#[derive(Clone, Debug)]
pub struct Projection {
    tenant: String,
    questions: BTreeMap<String, Question>,
}

impl Projection {
    /// For a run of a tenant.
    pub fn new(tenant: &str) -> Self {
        Self { tenant: tenant.to_owned(), questions: BTreeMap::new() }
    }

    /// Remembers what an event of version 1 says, without translating it.
    pub fn observe(&mut self, event: &Map<String, Value>) {
        if event.get("type").and_then(Value::as_str) != Some("node.suspended") {
            return;
        }
        let Some(Value::Object(payload)) = event.get("payload") else { return };
        let text = |name: &str| payload.get(name).and_then(Value::as_str).map(str::to_owned);
        if let (Some(node), Some(interrupt_id)) = (text("nodeId"), text("interruptId")) {
            let key = text("key").unwrap_or_else(|| interrupt_id.clone());
            let content_trust = payload.get("contentTrust").cloned();
            self.questions.insert(node, Question { interrupt_id, key, content_trust });
        }
    }

    /// Whether an event of version 1 refers to a question that this projection has not seen.
    pub fn lacks(&self, event: &Map<String, Value>) -> bool {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        let refers = text(event.get("type"))
            .and_then(|kind| by_v1(&kind))
            .is_some_and(|row| row.rules.iter().any(|rule| rule.needs_question()));
        let node = text(event.get("nodeId")).unwrap_or_default();
        refers && !self.questions.contains_key(&node)
    }

    /// The event in version 2.
    ///
    /// # Errors
    /// The type or a member has no place there.
    pub fn to_v2(&mut self, mut event: Map<String, Value>) -> Result<Map<String, Value>, Unprojectable> {
        self.observe(&event);
        let kind = take_text(&mut event, "type")?;
        let run_id = take_text(&mut event, "runId")?;
        let mut payload = take_payload(&mut event)?;
        let is_pause = kind == PAUSE_REQUESTED;
        let row = by_v1(if is_pause { LOG_APPENDED } else { &kind });
        let row = row.ok_or(Unprojectable::Type(kind))?;
        if is_pause {
            payload = Map::from_iter([
                ("level".to_owned(), json!("info")),
                ("message".to_owned(), json!(PAUSE_MESSAGE)),
                (PAUSE.to_owned(), payload.into()),
            ]);
        } else {
            payload = self.scope(row, &run_id, &event).payload_to_v2(payload)?;
        }
        if let Some(cause) = event.remove("causationId") {
            if cause.as_str().is_some_and(id::is_event_id) {
                event.insert("causationId".to_owned(), cause);
            } else if row.extra == Extra::Hatch {
                payload.insert(CAUSATION.to_owned(), cause);
            }
        }
        event.insert("payload".to_owned(), payload.into());
        event.insert("runId".to_owned(), id::bind(&self.tenant, &run_id).into());
        event.insert("schemaVersion".to_owned(), SCHEMA_VERSION.into());
        event.insert("type".to_owned(), row.v2.into());
        Ok(event)
    }

    /// The event in version 1.
    ///
    /// # Errors
    /// The type is not registered, or the event is malformed.
    pub fn to_v1(&mut self, mut event: Map<String, Value>) -> Result<Map<String, Value>, Unprojectable> {
        let kind = take_text(&mut event, "type")?;
        let row = by_v2(&kind).ok_or(Unprojectable::Type(kind))?;
        let bound = take_text(&mut event, "runId")?;
        let run_id =
            id::unbind(&self.tenant, &bound).map_err(|_| Unprojectable::Envelope("runId"))?.to_owned();
        event.remove("schemaVersion");
        let mut payload = take_payload(&mut event)?;
        if let Some(cause) = payload.remove(CAUSATION) {
            event.insert("causationId".to_owned(), cause);
        }
        let (name, payload) = match payload.remove(PAUSE) {
            Some(Value::Object(pause)) => (PAUSE_REQUESTED, pause),
            _ => (row.v1, self.scope(row, &run_id, &event).payload_to_v1(payload)?),
        };
        event.insert("payload".to_owned(), payload.into());
        event.insert("runId".to_owned(), run_id.into());
        event.insert("type".to_owned(), name.into());
        self.observe(&event);
        Ok(event)
    }

    fn scope<'s>(
        &'s self,
        row: &'static EventType,
        run_id: &'s str,
        event: &'s Map<String, Value>,
    ) -> rules::Scope<'s> {
        let text = |name: &str| event.get(name).and_then(Value::as_str).unwrap_or_default();
        let node = text("nodeId");
        rules::Scope {
            row,
            tenant: &self.tenant,
            run_id,
            node,
            timestamp: text("timestamp"),
            question: self.questions.get(node),
        }
    }
}

fn take_text(event: &mut Map<String, Value>, name: &'static str) -> Result<String, Unprojectable> {
    match event.remove(name) {
        Some(Value::String(text)) => Ok(text),
        _ => Err(Unprojectable::Envelope(name)),
    }
}

fn take_payload(event: &mut Map<String, Value>) -> Result<Map<String, Value>, Unprojectable> {
    match event.remove("payload") {
        Some(Value::Object(payload)) => Ok(payload),
        _ => Err(Unprojectable::Envelope("payload")),
    }
}
