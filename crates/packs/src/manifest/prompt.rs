//! Templates of prompts.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::common::{NAME, VERSION};
use super::grammar;
use super::problem::{ManifestErrorCode, Pointer, Problems};
use super::shape::{
    ANY_OBJECT, Rule, Shape, TEXT, check_object, closed, list, matching, optional, refuse_twice, required,
    text,
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
const MOMENT: Rule = matching(64, grammar::date_time, "a date and a time of RFC 3339");
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

/// `prompt:<id>`, with `@<version>` behind it or not, or the same in members.
fn prompt_ref(value: &Value, at: &Pointer<'_>, problems: &mut Problems) {
    let Some(text) = value.as_str() else { return check_object(value, &REFERENCE, at, problems) };
    if PromptRef::parse(text).is_none() {
        problems.invalid(at, "has to be a reference such as `prompt:summary.short@1.0.0`");
    }
}

/// A template, read in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptRef {
    /// The template.
    pub template_id: String,
    /// Its version; without one, the highest.
    pub version: Option<Version>,
}

impl PromptRef {
    /// Reads `prompt:<id>` or `prompt:<id>@<version>`.
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
    let Some(prompts) = value.get("prompts") else { return problems.invalid(&at, "is required and missing") };
    let Some(list) = prompts.as_array().filter(|list| !list.is_empty()) else {
        return problems.invalid(&at, "has to be a list with at least one template");
    };
    for (place, template) in list.iter().enumerate() {
        let mut found = Problems::default();
        check_template(template, &at.item(place), &mut found);
        for problem in found.list() {
            problems.keep(ManifestErrorCode::PromptTemplateInvalid, problem);
        }
    }
    refuse_twice_with_version(list, &at, problems);
}

/// Everything that can be wrong with one template.
pub(crate) fn check_template(template: &Value, at: &Pointer<'_>, problems: &mut Problems) {
    check_object(template, &TEMPLATE, at, problems);
    if let Some(variables) = template.get("variables") {
        refuse_twice(
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
                problems.invalid(&at.member("meta").member(name), "is required when `source` is `pack`");
            }
        }
    }
}

/// Several versions of one template may be in one pack.
fn refuse_twice_with_version(list: &[Value], at: &Pointer<'_>, problems: &mut Problems) {
    let mut seen = HashSet::new();
    for (place, template) in list.iter().enumerate() {
        let member = |name: &str| template.get(name).and_then(Value::as_str);
        if let (Some(id), Some(version)) = (member("templateId"), member("version"))
            && !seen.insert((id, version))
        {
            let message =
                format!("`{}@{}` stands twice", crate::name::shown(id), crate::name::shown(version));
            problems.add(
                ManifestErrorCode::PromptTemplateInvalid,
                &at.item(place).member("templateId"),
                message,
            );
        }
    }
}

/// A template of a prompt.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PromptTemplate {
    /// Its id.
    pub template_id: String,
    /// Its version.
    pub version: Version,
    /// What part of a prompt it is.
    pub kind: PromptKind,
    /// The text, with `{{name}}` in it.
    pub text: String,
    /// What people see.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What is put in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<PromptVariable>,
    /// What a model should be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_hints: Option<Value>,
    /// Words to find it by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Where it comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meta: Option<Value>,
}

/// What part of a prompt a template is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PromptKind {
    /// What the model is told first.
    System,
    /// What it is asked.
    User,
    /// Examples.
    FewShot,
    /// The form of the answer.
    SchemaHint,
}

/// Something that is put into a prompt.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PromptVariable {
    /// Its name.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether the prompt cannot be made without.
    pub required: bool,
    /// Where it comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Which part of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extract_path: Option<String>,
    /// What stands in when there is none. `null` is a value.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub default_value: Option<Value>,
    /// What it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// Keeps `null` apart from nothing.
fn given<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}
