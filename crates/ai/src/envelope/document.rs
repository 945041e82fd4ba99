//! The envelope document.

use std::sync::OnceLock;

use serde_json::{Value, json};

use super::outcome::Detail;
use super::timestamp::is_timestamp;
use crate::schema::Schema;
use crate::trust::Trust;
use crate::wire_enum::wire_enum;

/// The maximum nesting depth of an envelope.
pub const MAX_DEPTH: usize = 64;

wire_enum! {
    /// The producer of an envelope.
    pub enum Source {
        AiGeneration => "ai-generation",
        User => "user",
        System => "system",
    }
}

/// One part of an envelope that is sent in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partial {
    /// Whether more parts follow.
    pub is_partial: bool,
    /// Zero-based index of the part.
    pub index: u64,
    /// The number of parts, if known.
    pub total: Option<u64>,
}

/// An envelope with a valid shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Envelope {
    pub kind: String,
    /// The schema version; 0 if missing.
    pub schema_version: u64,
    pub envelope_id: String,
    /// Identifies the envelope if it arrives again.
    pub correlation_id: String,
    /// The node that sent it.
    pub node_id: Option<String>,
    pub payload: Value,
    pub source: Source,
    /// The trust that the envelope claims.
    pub content_trust: Option<Trust>,
    /// The W3C trace context.
    pub traceparent: Option<String>,
    /// Set if this is one part of an envelope.
    pub partial: Option<Partial>,
}

/// The members of an envelope, the required ones first.
const MEMBERS: [&str; 8] =
    ["type", "payload", "envelopeId", "correlationId", "meta", "schemaVersion", "nodeId", "partial"];

/// Metadata for an envelope from a model, which cannot know it.
#[derive(Clone, Copy, Debug)]
pub struct EnvelopeDefaults<'a> {
    pub correlation_id: &'a str,
    pub envelope_id: &'a str,
    /// When it arrived.
    pub at: &'a str,
    /// The schema version, if the envelope has none.
    pub version: Option<u64>,
}

impl Envelope {
    /// Returns the kind of a document that is meant as an envelope, and whether it has all envelope metadata. Such a
    /// document has a kind, a payload, and no member that envelopes do not have.
    pub fn meant(document: &Value) -> Option<(&str, bool)> {
        let members = document.as_object()?;
        let closed = members.keys().all(|name| MEMBERS.contains(&name.as_str()));
        let kind = members.get("type")?.as_str().filter(|_| closed && members.contains_key("payload"))?;
        Some((kind, MEMBERS[..5].iter().all(|name| members.contains_key(*name))))
    }

    /// Adds missing metadata to a document that is meant as an envelope. Existing members are kept and validated later.
    pub fn complete(document: &mut Value, around: EnvelopeDefaults<'_>) {
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
    /// Every problem of its shape. The payload is not examined and not quoted.
    pub fn read(document: &Value) -> Result<Self, Vec<Detail>> {
        if !canon::json::within_depth(document, MAX_DEPTH) {
            return Err(vec![Detail::new(
                "",
                "/maxDepth",
                "maxDepth",
                format!("the nesting is deeper than {MAX_DEPTH} levels"),
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
            let message = "must be an RFC 3339 date and time with an offset".to_owned();
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

/// A non-negative integer, also if written as `1.0`. Values that are too large become the maximum.
fn whole(value: Option<&Value>) -> u64 {
    let Some(value) = value else { return 0 };
    // The cast of a float saturates.
    #[expect(clippy::cast_possible_truncation, reason = "saturates, and the schema rejects values below 0")]
    let float = || value.as_f64().unwrap_or(0.0) as u64;
    value.as_u64().unwrap_or_else(float)
}

fn schema() -> &'static Schema {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    SCHEMA.get_or_init(|| Schema::compile(&shape()).expect("the schema below is valid"))
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
