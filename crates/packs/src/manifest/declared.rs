//! Declarative packs: artifact types, cards and connections.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::common::{MODEL_CAPABILITIES, NAME, TEXTS, URI};
use super::grammar;
use super::problem::{ManifestErrorCode, Pointer, Problems};
use super::shape::{
    NON_EMPTY, Rule, Shape, TEXT, check, closed, list, matching, optional, reject_duplicates, required, some,
    text,
};

const ARTIFACT_TYPE: Shape = closed(&[
    required("artifactTypeId", NAME),
    required("schemaRef", NON_EMPTY),
    optional("schemaVersion", Rule::Integer { min: 0 }),
    optional("validation", Rule::OneOf(&["open", "closed"])),
    optional("displayName", TEXT),
    optional("rendering", Rule::Object(&RENDERING)),
    optional(
        "exportFormats",
        Rule::List {
            item: &matching(64, grammar::export_format, "a format such as `pdf`"),
            min: 0,
            max: usize::MAX,
            unique: true,
        },
    ),
    optional("syncOn", Rule::OneOf(&["completion", "approval", "manual"])),
    optional("supportsCheckpoint", Rule::Bool),
    optional("versionable", Rule::Bool),
    optional("diffable", Rule::Bool),
]);
const RENDERING: Shape = closed(&[
    optional("display", Rule::OneOf(&["markdown", "code", "image", "audio", "file"])),
    optional("mimeType", text(0, 255)),
    optional("lang", text(0, 64)),
    optional("alt", text(0, 1024)),
    optional("title", text(0, 255)),
]);

const CARD: Shape = closed(&[
    required("cardTypeId", NAME),
    required("prompt", Rule::Object(&CARD_PROMPT)),
    optional("schemaVersion", Rule::Integer { min: 0 }),
    optional("inputs", list(&Rule::Object(&FIELD))),
    optional("outputArtifactType", NAME),
    optional("outputSchemaRef", NON_EMPTY),
    optional("requiredModelCapabilities", MODEL_CAPABILITIES),
]);
const CARD_PROMPT: Shape = closed(&[
    required("template", NON_EMPTY),
    required("placeholderMapping", Rule::Map(&TEXT)),
    optional("systemPrompt", TEXT),
    optional("temperature", Rule::Number { min: 0.0, max: 2.0 }),
    optional("maxTokens", Rule::Integer { min: 1 }),
]);
const FIELD: Shape = closed(&[
    required("id", matching(256, grammar::variable, "a name of letters, digits and underscores")),
    required("type", matching(256, grammar::field_type, "a field type such as `text` or `x-colour`")),
    optional("label", TEXT),
    optional("required", Rule::Bool),
    optional("default", Rule::Any),
    optional("options", TEXTS),
]);

const HTTPS: Rule = matching(2048, grammar::https, "an `https://` URI");
const PROVIDER: Shape = closed(&[
    required("id", matching(256, grammar::slug, "an id such as `acme-mail`")),
    required("displayName", NON_EMPTY),
    required(
        "category",
        Rule::OneOf(&[
            "communication",
            "docs",
            "crm",
            "dev",
            "storage",
            "email-calendar",
            "ticketing",
            "data-warehouse",
            "marketing",
            "finance",
            "hr",
            "esignature",
            "support",
            "project-management",
            "payments",
            "other",
        ]),
    ),
    required("auth", Rule::Object(&AUTH)),
    required("reach", Rule::Object(&REACH)),
    optional("consumerNodes", TEXTS),
    optional("docsUrl", URI),
    optional(
        "apiHosts",
        Rule::List {
            item: &matching(253, grammar::host, "a host name such as `api.acme.example`"),
            min: 1,
            max: usize::MAX,
            unique: true,
        },
    ),
]);
const AUTH: Shape = closed(&[
    required("kind", Rule::OneOf(&["oauth2", "api_key", "bearer", "basic"])),
    optional("authFlow", Rule::OneOf(&["pkce", "client_credentials", "manual", "none"])),
    optional("scopeModel", Rule::OneOf(&["groups", "coarse", "capabilities"])),
    optional("endpoints", Rule::Object(&ENDPOINTS)),
    optional("scopes", Rule::Object(&SCOPES)),
    optional("instanceUrlTemplate", TEXT),
]);
const ENDPOINTS: Shape =
    closed(&[optional("authorize", HTTPS), optional("token", HTTPS), optional("revoke", HTTPS)]);
const SCOPES: Shape =
    closed(&[optional("read", list(&Rule::Object(&SCOPE))), optional("write", list(&Rule::Object(&SCOPE)))]);
const SCOPE: Shape = closed(&[
    required("key", matching(256, grammar::scope_key, "a key such as `mail.read`")),
    required("label", NON_EMPTY),
    required("scopes", TEXTS),
]);
const REACH: Shape = closed(&[
    optional("mcp", Rule::Object(&REACH_MCP)),
    optional("openapi", Rule::Object(&REACH_OPENAPI)),
    optional("integration", Rule::Object(&REACH_INTEGRATION)),
]);
const REACH_MCP: Shape = closed(&[required("server", Rule::Object(&MCP_SERVER))]);
const MCP_SERVER: Shape =
    closed(&[required("url", HTTPS), required("transport", Rule::OneOf(&["http", "sse"]))]);
const REACH_OPENAPI: Shape = closed(&[required("ref", TEXT)]);
const REACH_INTEGRATION: Shape = closed(&[required("node", TEXT)]);

pub(super) fn check_artifact_types(value: &Value, at: &Pointer<'_>, problems: &mut Problems) {
    items(value, "artifactTypes", &Rule::Object(&ARTIFACT_TYPE), "artifactTypeId", at, problems);
}

pub(super) fn check_cards(value: &Value, at: &Pointer<'_>, problems: &mut Problems) {
    items(value, "cards", &Rule::Object(&CARD), "cardTypeId", at, problems);
}

fn items(
    value: &Value,
    name: &str,
    rule: &'static Rule,
    id: &str,
    at: &Pointer<'_>,
    problems: &mut Problems,
) {
    let at = at.member(name);
    let Some(items) = value.get(name) else { return problems.invalid(&at, "required") };
    check(items, &some(rule), &at, problems);
    reject_duplicates(items, id, ManifestErrorCode::Invalid, &at, problems);
}

pub(super) fn check_provider(value: &Value, at: &Pointer<'_>, problems: &mut Problems) {
    let at = at.member("provider");
    let Some(provider) = value.get("provider") else {
        return problems.invalid(&at, "required");
    };
    check(provider, &Rule::Object(&PROVIDER), &at, problems);
    let Some(reach) = provider.get("reach").and_then(Value::as_object) else { return };
    if reach.len() != 1 {
        problems.invalid(&at.member("reach"), "must have exactly one of `mcp`, `openapi` and `integration`");
    }
    if reach.contains_key("openapi") && provider.get("apiHosts").is_none() {
        problems.invalid(&at.member("apiHosts"), "required if the provider is reached by `openapi`");
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactType {
    pub artifact_type_id: String,
    /// The archive path of its schema.
    pub schema_ref: String,
    pub schema_version: Option<u64>,
    /// Whether unknown members are rejected.
    pub validation: Option<String>,
    pub display_name: Option<String>,
    pub rendering: Option<Value>,
    #[serde(default)]
    pub export_formats: Vec<String>,
}

/// A chat card.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Card {
    pub card_type_id: String,
    pub prompt: CardPrompt,
    #[serde(default)]
    pub inputs: Vec<Value>,
    pub output_artifact_type: Option<String>,
    /// The archive path of the output schema.
    pub output_schema_ref: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CardPrompt {
    /// The text with placeholders.
    pub template: String,
    /// The field of each placeholder.
    pub placeholder_mapping: BTreeMap<String, String>,
    pub system_prompt: Option<String>,
}

/// A service provider. It contains no credentials.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Provider {
    pub id: String,
    pub display_name: String,
    pub category: String,
    /// The authentication method.
    pub auth: Value,
    /// The access method: `mcp`, `openapi` or `integration`.
    pub reach: BTreeMap<String, Value>,
    /// The only allowed hosts.
    #[serde(default)]
    pub api_hosts: Vec<String>,
    #[serde(default)]
    pub consumer_nodes: Vec<String>,
}
