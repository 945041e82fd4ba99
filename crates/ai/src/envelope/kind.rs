//! The kinds of envelopes, and what each has to say.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::{Value, json};

use super::caps::CapKind;
use crate::schema::{Issue, Schema, SchemaError};
use crate::words::words;

words! {
    /// The kinds that everybody knows. No contract refuses them.
    pub enum Universal {
        /// The model asks a person.
        ClarificationRequest => "clarification.request",
        /// The model asks what a kind looks like.
        SchemaRequest => "schema.request",
        /// The model has seen it.
        SchemaResponse => "schema.response",
        /// The model could not do it. That is no failure of the node.
        Error => "error",
    }
}

impl Universal {
    /// The limit that it counts against, beside the one of all envelopes.
    pub const fn cap(self) -> Option<CapKind> {
        match self {
            Self::ClarificationRequest => Some(CapKind::Clarification),
            Self::SchemaRequest => Some(CapKind::Schema),
            Self::SchemaResponse | Self::Error => None,
        }
    }
}

/// Kinds that a host may offer beside those, with a schema that is known everywhere.
pub const MEDIA: [&str; 3] = ["media.image", "media.audio", "media.file"];

/// The schema of a kind, as it is served; nothing where it is not one of ours.
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

/// The kinds that a host knows, with their schemas and versions.
#[derive(Clone, Debug, Default)]
pub struct Kinds {
    schemas: BTreeMap<String, Schema>,
    versions: BTreeMap<String, u64>,
    /// The kinds that are taken beside the universal ones. Without a list, all are.
    supported: Option<Vec<String>>,
}

impl Kinds {
    /// The universal kinds, and whatever else there is.
    pub fn any() -> Self {
        Self::default()
    }

    /// The universal kinds, and these.
    pub fn only(supported: impl IntoIterator<Item = String>) -> Self {
        Self { supported: Some(supported.into_iter().collect()), ..Self::default() }
    }

    /// Says which version of a kind is current.
    pub fn version(&mut self, kind: impl Into<String>, version: u64) {
        self.versions.insert(kind.into(), version);
    }

    /// Says what a kind has to be.
    ///
    /// # Errors
    /// The schema cannot be used.
    pub fn schema(&mut self, kind: impl Into<String>, schema: &Value) -> Result<(), SchemaError> {
        self.schemas.insert(kind.into(), Schema::compile(schema)?);
        Ok(())
    }

    /// Takes a kind more: what it has to be, and which version of it is current.
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

    /// What a kind has to be, where that is known.
    pub fn source(&self, kind: &str) -> Option<&Value> {
        self.schemas.get(kind).or_else(|| ours().get(kind)).map(Schema::source)
    }

    /// Whether a kind is taken.
    pub fn is_known(&self, kind: &str) -> bool {
        Universal::parse(kind).is_some()
            || self.supported.as_ref().is_none_or(|kinds| kinds.iter().any(|known| known == kind))
    }

    /// The kinds that are taken; only the universal ones where any other is taken too.
    pub fn known(&self) -> Vec<String> {
        let universal = Universal::ALL.iter().map(|kind| kind.as_str().to_owned());
        let others = self.supported.iter().flatten().filter(|kind| Universal::parse(kind).is_none());
        universal.chain(others.cloned()).collect()
    }

    /// The current version of a kind, where there is one.
    pub fn current(&self, kind: &str) -> Option<u64> {
        self.versions.get(kind).copied()
    }

    /// What is wrong with what an envelope of a kind says.
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
            |kind| Some((kind, Schema::compile(&schema_of(kind)?).expect("the schemas above are schemas")));
        kinds.filter_map(compiled).collect()
    })
}
