//! Envelope kinds and their payload schemas.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::{Value, json};

use super::caps::CapKind;
use crate::schema::{Issue, Schema, SchemaError};
use crate::wire_enum::wire_enum;

wire_enum! {
    /// The kinds that every contract accepts.
    pub enum Universal {
        /// The model asks a person.
        ClarificationRequest => "clarification.request",
        /// The model asks for the schema of a kind.
        SchemaRequest => "schema.request",
        /// The model confirms the schema.
        SchemaResponse => "schema.response",
        /// The model reports that it cannot do the task. The node does not fail.
        Error => "error",
    }
}

impl Universal {
    /// The limit that it counts against in addition to the limit of all envelopes.
    pub const fn cap(self) -> Option<CapKind> {
        match self {
            Self::ClarificationRequest => Some(CapKind::Clarification),
            Self::SchemaRequest => Some(CapKind::Schema),
            Self::SchemaResponse | Self::Error => None,
        }
    }
}

/// Optional kinds with a standard schema.
pub const MEDIA: [&str; 3] = ["media.image", "media.audio", "media.file"];

/// The standard schema of a kind, or `None` for any other kind.
pub fn schema_of(kind: &str) -> Option<Value> {
    let text = || json!({"type": "string"});
    let bounded = |most: u32| json!({"type": "string", "minLength": 1, "maxLength": most});
    let (title, required, properties) = match (Universal::parse(kind), kind) {
        (Some(Universal::ClarificationRequest), _) => (
            "ClarificationRequestPayload",
            json!(["questions"]),
            json!({
                "questions": {"type": "array", "minItems": 1, "items": {
                    "type": "object",
                    "required": ["id", "question"],
                    "additionalProperties": false,
                    "properties": {
                        "id": bounded(128),
                        "question": {"type": "string", "minLength": 1},
                        "schema": {"type": "object"},
                        "context": {"type": "object"},
                    },
                }},
                "contextType": {"type": "string", "maxLength": 128},
                "reasoning": text(),
            }),
        ),
        (Some(Universal::SchemaRequest), _) => (
            "SchemaRequestPayload",
            json!(["envelopeType"]),
            json!({"envelopeType": bounded(256), "reason": {"type": "string", "maxLength": 1024}, "reasoning": text()}),
        ),
        (Some(Universal::SchemaResponse), _) => (
            "SchemaResponsePayload",
            json!(["envelopeType", "ack"]),
            json!({"envelopeType": bounded(256), "ack": {"type": "boolean", "const": true}}),
        ),
        (Some(Universal::Error), _) => (
            "ErrorEnvelopePayload",
            json!(["code", "message"]),
            json!({
                "code": bounded(128), "message": {"type": "string", "minLength": 1}, "details": {"type": "object"}, "reasoning": text(),
            }),
        ),
        (None, "media.image" | "media.audio" | "media.file") => {
            let mut properties = json!({
                "url": {"type": "string", "format": "uri"}, "base64": text(), "bytes": {"type": "integer", "minimum": 0},
                "mimeType": text(), "alt": text(),
            });
            let title = match kind {
                "media.audio" => {
                    properties["durationSeconds"] = json!({"type": "number", "minimum": 0});
                    "MediaAudioPayload"
                }
                "media.file" => {
                    properties["name"] = text();
                    "MediaFilePayload"
                }
                _ => "MediaImagePayload",
            };
            (title, json!(["bytes"]), properties)
        }
        (None, _) => return None,
    };
    Some(json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": format!("https://openwop.dev/spec/v1/envelopes/{kind}.schema.json"),
        "title": title,
        "type": "object",
        "required": required,
        "additionalProperties": false,
        "properties": properties,
    }))
}

/// The kinds that a host supports, with their schemas and versions.
#[derive(Clone, Debug, Default)]
pub struct Kinds {
    schemas: BTreeMap<String, Schema>,
    versions: BTreeMap<String, u64>,
    /// The accepted kinds besides the universal ones. `None` means all.
    supported: Option<Vec<String>>,
}

impl Kinds {
    /// The universal kinds and any other kind.
    pub fn any() -> Self {
        Self::default()
    }

    /// The universal kinds and the listed ones.
    pub fn only(supported: impl IntoIterator<Item = String>) -> Self {
        Self { supported: Some(supported.into_iter().collect()), ..Self::default() }
    }

    /// Sets the current version of a kind.
    pub fn version(&mut self, kind: impl Into<String>, version: u64) {
        self.versions.insert(kind.into(), version);
    }

    /// Sets the schema of a kind.
    ///
    /// # Errors
    /// The schema is invalid.
    pub fn schema(&mut self, kind: impl Into<String>, schema: &Value) -> Result<(), SchemaError> {
        self.schemas.insert(kind.into(), Schema::compile(schema)?);
        Ok(())
    }

    /// Adds a kind with its schema and current version.
    pub fn add(&mut self, kind: impl Into<String>, schema: Schema, version: u64) {
        let kind = kind.into();
        if let Some(supported) = &mut self.supported
            && !supported.contains(&kind)
        {
            supported.push(kind.clone());
        }
        self.versions.insert(kind.clone(), version);
        self.schemas.insert(kind, schema);
    }

    /// The schema of a kind, if known.
    pub fn source(&self, kind: &str) -> Option<&Value> {
        self.schemas.get(kind).or_else(|| ours().get(kind)).map(Schema::source)
    }

    /// Whether a kind is accepted.
    pub fn is_known(&self, kind: &str) -> bool {
        Universal::parse(kind).is_some()
            || self.supported.as_ref().is_none_or(|kinds| kinds.iter().any(|known| known == kind))
    }

    /// The accepted kinds; only the universal ones if any kind is accepted.
    pub fn known(&self) -> Vec<String> {
        let universal = Universal::ALL.iter().map(|kind| kind.as_str().to_owned());
        let others = self.supported.iter().flatten().filter(|kind| Universal::parse(kind).is_none());
        universal.chain(others.cloned()).collect()
    }

    /// The current version of a kind, if declared.
    pub fn current(&self, kind: &str) -> Option<u64> {
        self.versions.get(kind).copied()
    }

    /// Validates the payload of a kind.
    pub fn issues(&self, kind: &str, payload: &Value) -> Vec<Issue> {
        let own = self.schemas.get(kind).or_else(|| ours().get(kind));
        own.map(|schema| schema.issues(payload)).unwrap_or_default()
    }
}

fn ours() -> &'static BTreeMap<&'static str, Schema> {
    static OURS: OnceLock<BTreeMap<&'static str, Schema>> = OnceLock::new();
    OURS.get_or_init(|| {
        let kinds = Universal::ALL.iter().map(|kind| kind.as_str()).chain(MEDIA);
        let compiled =
            |kind| Some((kind, Schema::compile(&schema_of(kind)?).expect("the schemas above are valid")));
        kinds.filter_map(compiled).collect()
    })
}
