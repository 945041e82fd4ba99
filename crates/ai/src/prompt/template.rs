//! Prompt templates: text with placeholders.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use serde_json::{Map, Value, json};

use super::PromptKind;
use super::reference::PromptRef;
use crate::schema::{Issue, Schema};
use crate::wire_enum::wire_enum;

/// The maximum length of a template, in characters.
pub const MAX_CHARACTERS: usize = 65_536;
/// The maximum number of variables.
pub const MAX_VARIABLES: usize = 256;

wire_enum! {
    /// The source of a variable's value.
    pub enum Source {
        /// A node input.
        Input => "input",
        /// A run variable.
        Variable => "variable",
        /// A secret. Never shown.
        Secret => "secret",
        /// Context from the host.
        Context => "context",
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    pub name: String,
    /// Whether a value is required.
    pub required: bool,
    pub source: Source,
    /// Selects a part of the value: names and indexes separated by dots.
    pub extract_path: Option<String>,
    /// Used if there is no value.
    pub default: Option<Value>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    pub template_id: String,
    pub version: String,
    pub kind: PromptKind,
    /// The text, with `{{name}}` placeholders.
    pub text: String,
    pub variables: Vec<Variable>,
    /// The pack that contains it.
    pub pack: Option<String>,
    document: Value,
}

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// The problems of the document.
    pub fn read(document: &Value) -> Result<Self, Vec<Issue>> {
        if !canon::json::within_depth(document, 32) {
            let text = || "maxDepth".to_owned();
            return Err(vec![Issue {
                instance_path: String::new(),
                schema_path: String::new(),
                keyword: text(),
                missing: None,
            }]);
        }
        let issues = schema().issues(document);
        if !issues.is_empty() {
            return Err(issues);
        }
        let text = |value: &Value, name: &str| {
            value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let maybe =
            |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(ToOwned::to_owned);
        let variable = |variable: &Value| Variable {
            name: text(variable, "name"),
            required: variable.get("required").and_then(Value::as_bool).unwrap_or(false),
            source: Source::parse(&text(variable, "source")).unwrap_or(Source::Input),
            extract_path: maybe(variable, "extractPath"),
            default: variable.get("defaultValue").cloned(),
        };
        let variables = document.get("variables").and_then(Value::as_array).into_iter().flatten();
        let variables: Vec<Variable> = variables.map(variable).collect();
        let names: BTreeSet<&str> = variables.iter().map(|variable| variable.name.as_str()).collect();
        if names.len() != variables.len() {
            let issue = Issue {
                instance_path: "/variables".to_owned(),
                schema_path: "/properties/variables/uniqueItems".to_owned(),
                keyword: "uniqueItems".to_owned(),
                missing: None,
            };
            return Err(vec![issue]);
        }
        Ok(Self {
            template_id: text(document, "templateId"),
            version: text(document, "version"),
            kind: PromptKind::parse(&text(document, "kind")).unwrap_or(PromptKind::User),
            text: text(document, "text"),
            variables,
            pack: document.get("meta").and_then(|meta| maybe(meta, "packName")),
            document: document.clone(),
        })
    }

    /// A template from an agent's inline text.
    pub fn inline(reference: &PromptRef, kind: PromptKind, text: &str) -> Self {
        Self {
            template_id: reference.template_id.clone(),
            version: reference.version.clone().unwrap_or_else(|| "0.0.0".to_owned()),
            kind,
            text: text.to_owned(),
            variables: Vec::new(),
            pack: None,
            document: json!({}),
        }
    }

    /// The reference to exactly this version.
    pub fn reference(&self) -> PromptRef {
        PromptRef {
            library_id: self.pack.clone(),
            template_id: self.template_id.clone(),
            version: Some(self.version.clone()),
            overrides: Map::new(),
        }
    }

    /// The original document.
    pub const fn document(&self) -> &Value {
        &self.document
    }
}

fn schema() -> &'static Schema {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    SCHEMA.get_or_init(|| Schema::compile(&shape()).expect("the schema below is valid"))
}

fn shape() -> Value {
    let version = json!({"type": "string", "pattern": "^\\d+\\.\\d+\\.\\d+(?:-[0-9A-Za-z.-]+)?(?:\\+[0-9A-Za-z.-]+)?$", "maxLength": 256});
    let kinds: Vec<&str> = PromptKind::ALL.iter().map(|kind| kind.as_str()).collect();
    let sources: Vec<&str> = Source::ALL.iter().map(|source| source.as_str()).collect();
    let text = |most: usize| json!({"type": "string", "maxLength": most});
    json!({
        "type": "object",
        "required": ["templateId", "version", "kind", "text"],
        "additionalProperties": false,
        "properties": {
            "templateId": {"type": "string", "pattern": "^[a-z0-9][a-z0-9._-]{0,127}$"},
            "version": version,
            "kind": {"enum": kinds},
            "text": text(MAX_CHARACTERS),
            "name": text(200),
            "description": text(2000),
            "variables": {"type": "array", "maxItems": MAX_VARIABLES, "items": {
                "type": "object",
                "required": ["name", "type", "required"],
                "additionalProperties": false,
                "properties": {
                    "name": {"type": "string", "pattern": "^[a-zA-Z_][a-zA-Z0-9_]{0,63}$"},
                    "type": {"enum": ["string", "number", "boolean", "array", "object"]},
                    "required": {"type": "boolean"},
                    "source": {"enum": sources},
                    "extractPath": text(512),
                    "defaultValue": true,
                    "description": text(500),
                },
            }},
            "modelHints": {"type": "object", "additionalProperties": false, "properties": {
                "modelClass": text(256),
                "temperature": {"type": "number", "minimum": 0, "maximum": 2},
                "maxTokens": {"type": "integer", "minimum": 1},
                "envelopeType": text(256),
            }},
            "tags": {"type": "array", "maxItems": 32, "items": {"type": "string", "minLength": 1, "maxLength": 64}},
            "meta": {
                "type": "object",
                "additionalProperties": false,
                "properties": {
                    "author": text(1024),
                    "createdAt": text(64),
                    "updatedAt": text(64),
                    "source": {"enum": ["host", "pack", "user"]},
                    "packName": {
                        "type": "string", "maxLength": 256,
                        "pattern": "^(core|vendor|community|private)\\.[a-z][a-z0-9_-]*(\\.[a-z][a-zA-Z0-9_-]*)+$",
                    },
                    "packVersion": version,
                },
                "if": {"properties": {"source": {"const": "pack"}}, "required": ["source"]},
                "then": {"required": ["packName", "packVersion"]},
            },
        },
    })
}
