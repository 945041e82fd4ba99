//! Prompt templates.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::common::{NAME, VERSION};
use super::grammar;
use super::problem::{ManifestErrorCode, Pointer, Problems};
use super::shape::{
    ANY_OBJECT, Rule, Shape, TEXT, check_object, closed, list, matching, optional, reject_duplicates,
    required, text,
};
use crate::version::Version;

pub(super) const TEMPLATE_ID: Rule = matching(128, grammar::template_id, "an id such as `summary.short`");
pub(super) const PROMPT_REF: Rule = Rule::Custom(prompt_ref);

const TEMPLATE: Shape = closed(&[
    required("templateId", TEMPLATE_ID),
    required("version", VERSION),
    required("kind", Rule::OneOf(&["system", "user", "few-shot", "schema-hint"])),
    required("text", text(0, 65_536)),
    optional("name", text(0, 200)),
    optional("description", text(0, 2000)),
    optional("variables", list(&Rule::Object(&VARIABLE))),
    optional("modelHints", Rule::Object(&HINTS)),
    optional("tags", Rule::List { item: &text(1, 64), min: 0, max: 32, unique: false }),
    optional("meta", Rule::Object(&META)),
]);
const VARIABLE: Shape = closed(&[
    required("name", matching(64, grammar::variable, "a name of letters, digits and underscores")),
    required("type", Rule::OneOf(&["string", "number", "boolean", "array", "object"])),
    required("required", Rule::Bool),
    optional("source", Rule::OneOf(&["input", "variable", "secret", "context"])),
    optional("extractPath", TEXT),
    optional("defaultValue", Rule::Any),
    optional("description", text(0, 500)),
]);
const HINTS: Shape = closed(&[
    optional("modelClass", TEXT),
    optional("temperature", Rule::Number { min: 0.0, max: 2.0 }),
    optional("maxTokens", Rule::Integer { min: 1 }),
    optional("envelopeType", TEXT),
]);
const MOMENT: Rule = matching(64, grammar::date_time, "an RFC 3339 date and time");
const META: Shape = closed(&[
    optional("author", TEXT),
    optional("createdAt", MOMENT),
    optional("updatedAt", MOMENT),
    optional("source", Rule::OneOf(&["host", "pack", "user"])),
    optional("packName", NAME),
    optional("packVersion", VERSION),
]);
const REFERENCE: Shape = closed(&[
    required("templateId", TEMPLATE_ID),
    optional("libraryId", TEMPLATE_ID),
    optional("version", VERSION),
    optional("variableOverrides", ANY_OBJECT),
]);

/// `prompt:<id>` with optional `@<version>`, or the object form.
fn prompt_ref(value: &Value, at: &Pointer<'_>, problems: &mut Problems) {
    let Some(text) = value.as_str() else { return check_object(value, &REFERENCE, at, problems) };
    if PromptRef::parse(text).is_none() {
        problems.invalid(at, "must be a reference such as `prompt:summary.short@1.0.0`");
    }
}

/// A parsed prompt reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptRef {
    pub template_id: String,
    /// The version; the highest if `None`.
    pub version: Option<Version>,
}

impl PromptRef {
    /// Parses `prompt:<id>` or `prompt:<id>@<version>`.
    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("prompt:")?;
        let (id, version) = match rest.split_once('@') {
            Some((id, version)) => (id, Some(crate::version::parse(version)?)),
            None => (rest, None),
        };
        grammar::template_id(id).then(|| Self { template_id: id.to_owned(), version })
    }
}

pub(super) fn check_content(value: &Value, at: &Pointer<'_>, problems: &mut Problems) {
    let at = at.member("prompts");
    let Some(prompts) = value.get("prompts") else { return problems.invalid(&at, "required") };
    let Some(list) = prompts.as_array().filter(|list| !list.is_empty()) else {
        return problems.invalid(&at, "must be a list with at least one template");
    };
    for (place, template) in list.iter().enumerate() {
        let mut found = Problems::default();
        check_template(template, &at.item(place), &mut found);
        for problem in found.list() {
            problems.keep(ManifestErrorCode::PromptTemplateInvalid, problem);
        }
    }
    reject_duplicate_versions(list, &at, problems);
}

pub(crate) fn check_template(template: &Value, at: &Pointer<'_>, problems: &mut Problems) {
    check_object(template, &TEMPLATE, at, problems);
    if let Some(variables) = template.get("variables") {
        reject_duplicates(
            variables,
            "name",
            ManifestErrorCode::PromptTemplateInvalid,
            &at.member("variables"),
            problems,
        );
    }
    let meta = template.get("meta");
    if meta.and_then(|meta| meta.get("source")).and_then(Value::as_str) == Some("pack") {
        for name in ["packName", "packVersion"] {
            if meta.and_then(|meta| meta.get(name)).is_none() {
                problems.invalid(&at.member("meta").member(name), "required if `source` is `pack`");
            }
        }
    }
}

/// A pack may have several versions of one template.
fn reject_duplicate_versions(list: &[Value], at: &Pointer<'_>, problems: &mut Problems) {
    let mut seen = HashSet::new();
    for (place, template) in list.iter().enumerate() {
        let member = |name: &str| template.get(name).and_then(Value::as_str);
        if let (Some(id), Some(version)) = (member("templateId"), member("version"))
            && !seen.insert((id, version))
        {
            let message = format!("duplicate `{}@{}`", crate::name::shown(id), crate::name::shown(version));
            problems.add(
                ManifestErrorCode::PromptTemplateInvalid,
                &at.item(place).member("templateId"),
                message,
            );
        }
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PromptTemplate {
    pub template_id: String,
    pub version: Version,
    pub kind: PromptKind,
    /// The text, with `{{name}}`.
    pub text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<PromptVariable>,
    /// Model settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_hints: Option<Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Its origin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meta: Option<Value>,
}

/// The part of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PromptKind {
    System,
    User,
    FewShot,
    /// The reply format.
    SchemaHint,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PromptVariable {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub required: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Selects a part of the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extract_path: Option<String>,
    /// The default value. `null` is a value.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub default_value: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// Distinguishes `null` from a missing member.
fn given<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}
