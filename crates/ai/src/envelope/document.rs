//! The document around what a model says.

use std::sync::OnceLock;

use serde_json::{Value, json};

use super::outcome::Detail;
use super::timestamp::is_timestamp;
use crate::schema::Schema;
use crate::trust::Trust;
use crate::words::words;

/// The deepest nesting of an envelope.
pub const MAX_DEPTH: usize = 64;

words! {
    /// Who made an envelope.
    pub enum Source {
        /// A model.
        AiGeneration => "ai-generation",
        /// A person.
        User => "user",
        /// The engine.
        System => "system",
    }
}

/// A piece of an envelope that comes in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partial {
    /// Whether there are more.
    pub is_partial: bool,
    /// The how-many-eth, from 0.
    pub index: u64,
    /// How many there are; nothing where nobody knows.
    pub total: Option<u64>,
}

/// An envelope whose outside is as it has to be.
#[derive(Clone, Debug, PartialEq)]
pub struct Envelope {
    /// Its kind.
    pub kind: String,
    /// The version of its kind; 0 where it names none.
    pub schema_version: u64,
    /// Its name.
    pub envelope_id: String,
    /// What it is known by when it comes again.
    pub correlation_id: String,
    /// The node that it came from.
    pub node_id: Option<String>,
    /// What it says.
    pub payload: Value,
    /// Who made it.
    pub source: Source,
    /// Whether it may be believed, as it says itself.
    pub content_trust: Option<Trust>,
    /// The trace that it is a part of.
    pub traceparent: Option<String>,
    /// A piece of it only.
    pub partial: Option<Partial>,
}

/// The members of an envelope, those first that each one has.
const MEMBERS: [&str; 8] =
    ["type", "payload", "envelopeId", "correlationId", "meta", "schemaVersion", "nodeId", "partial"];

/// What stands around an envelope that a model made, and a model cannot know.
#[derive(Clone, Copy, Debug)]
pub struct Around<'a> {
    /// Its correlation id.
    pub correlation_id: &'a str,
    /// Its name.
    pub envelope_id: &'a str,
    /// When it came.
    pub at: &'a str,
    /// The version of its kind, where it is not said.
    pub version: Option<u64>,
}

impl Envelope {
    /// The kind of a document that is meant as an envelope, and whether it is one with all that stands around: a document with a kind
    /// and a payload, and nothing that an envelope does not have.
    pub fn meant(document: &Value) -> Option<(&str, bool)> {
        let members = document.as_object()?;
        let closed = members.keys().all(|name| MEMBERS.contains(&name.as_str()));
        let kind = members.get("type")?.as_str().filter(|_| closed && members.contains_key("payload"))?;
        Some((kind, MEMBERS[..5].iter().all(|name| members.contains_key(*name))))
    }

    /// Adds what is missing around a document that is meant as an envelope. What is there is left, to be judged.
    pub fn complete(document: &mut Value, around: Around<'_>) {
        let Some(members) = document.as_object_mut() else { return };
        let mut add = |name: &str, value: Value| {
            members.entry(name).or_insert(value);
        };
        add("envelopeId", around.envelope_id.into());
        add("correlationId", around.correlation_id.into());
        if let Some(version) = around.version {
            add("schemaVersion", version.into());
        }
        add("meta", json!({"source": Source::AiGeneration.as_str(), "ts": around.at}));
    }

    /// Reads an envelope.
    ///
    /// # Errors
    /// What is wrong with its outside. Of what it says nothing is looked at, and nothing is repeated.
    pub fn read(document: &Value) -> Result<Self, Vec<Detail>> {
        if !canon::json::within_depth(document, MAX_DEPTH) {
            return Err(vec![Detail::new(
                "",
                "/maxDepth",
                "maxDepth",
                format!("it is nested deeper than {MAX_DEPTH} levels"),
            )]);
        }
        let issues = schema().issues(document);
        if !issues.is_empty() {
            return Err(issues.iter().map(Detail::of).collect());
        }
        let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(ToOwned::to_owned);
        let needed = |name: &str| text(document, name).unwrap_or_default();
        let meta = document.get("meta").unwrap_or(&Value::Null);
        if !text(meta, "ts").is_some_and(|ts| is_timestamp(&ts)) {
            let message = "it is a date and a time with its offset".to_owned();
            return Err(vec![Detail::new(
                "/meta/ts",
                "/properties/meta/properties/ts/format",
                "format",
                message,
            )]);
        }
        let partial = document.get("partial").map(|partial| Partial {
            is_partial: partial.get("isPartial").and_then(Value::as_bool).unwrap_or(false),
            index: partial.get("index").and_then(Value::as_u64).unwrap_or(0),
            total: partial.get("total").and_then(Value::as_u64),
        });
        Ok(Self {
            kind: needed("type"),
            schema_version: whole(document.get("schemaVersion")),
            envelope_id: needed("envelopeId"),
            correlation_id: needed("correlationId"),
            node_id: text(document, "nodeId"),
            payload: document.get("payload").cloned().unwrap_or_default(),
            source: text(meta, "source")
                .and_then(|word| Source::parse(&word))
                .unwrap_or(Source::AiGeneration),
            content_trust: text(meta, "contentTrust").and_then(|word| Trust::parse(&word)),
            traceparent: text(meta, "traceparent"),
            partial,
        })
    }
}

/// A whole number from 0, however it is written: `1.0` is one too. What is too large for us is the largest.
fn whole(value: Option<&Value>) -> u64 {
    let Some(value) = value else { return 0 };
    // A cast of a float saturates.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "saturates, and the schema has refused what is below 0"
    )]
    let float = || value.as_f64().unwrap_or(0.0) as u64;
    value.as_u64().unwrap_or_else(float)
}

fn schema() -> &'static Schema {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    SCHEMA.get_or_init(|| Schema::compile(&shape()).expect("the shape below is a schema"))
}

fn shape() -> Value {
    let text = |most: u32| json!({"type": "string", "minLength": 1, "maxLength": most});
    let any = || json!({"type": "string", "maxLength": 4096});
    let sources: Vec<&str> = Source::ALL.iter().map(|source| source.as_str()).collect();
    let trust: Vec<&str> = Trust::ALL.iter().map(|trust| trust.as_str()).collect();
    json!({
        "type": "object",
        "required": ["type", "envelopeId", "correlationId", "payload", "meta"],
        "additionalProperties": false,
        "properties": {
            "type": text(256),
            "schemaVersion": {"type": "integer", "minimum": 0},
            "envelopeId": text(128),
            "correlationId": text(128),
            "nodeId": text(128),
            "payload": true,
            "meta": {
                "type": "object",
                "required": ["source", "ts"],
                "additionalProperties": false,
                "properties": {
                    "source": {"enum": sources},
                    "contentTrust": {"enum": trust},
                    "ts": {"type": "string"},
                    "traceparent": any(),
                    "label": {"type": "string", "maxLength": 256},
                    "rendering": {
                        "type": "object",
                        "additionalProperties": false,
                        "properties": {
                            "display": {"enum": ["markdown", "code", "card", "image", "audio", "file"]},
                            "mimeType": any(), "lang": any(), "alt": any(), "title": any(),
                        },
                    },
                },
            },
            "partial": {
                "type": "object",
                "required": ["isPartial", "index", "total"],
                "additionalProperties": false,
                "properties": {
                    "isPartial": {"type": "boolean"},
                    "index": {"type": "integer", "minimum": 0},
                    "total": {"type": "integer", "minimum": -1},
                },
            },
        },
    })
}
