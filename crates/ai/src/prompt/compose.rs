//! Inserts values into a template.
//!
//! The result is two texts: the one sent to the model, with all values, and a redacted one with `[REDACTED:<id>]` for
//! secrets, which is shown, hashed and recorded. Untrusted values are marked in both. Values are inserted once and
//! never interpreted, so a value cannot refer to another.

use std::collections::BTreeMap;

use canon::digest::Digest;
use serde_json::{Map, Value};

use super::PromptKind;
use super::reference::PromptRef;
use super::template::{Source, Template, Variable};
use crate::event::{EventKind, RunEvent};
use crate::failure::FailureCode;
use crate::redact::{Redactor, Secret};
use crate::trust::{self, Trust};
use crate::wire_enum::wire_enum;

/// The maximum size of a prompt, in bytes.
pub const MAX_BYTES: usize = 1 << 20;

wire_enum! {
    /// How much of a prompt is recorded.
    pub enum Observability {
        Off => "off",
        /// Only digests.
        Hashed => "hashed",
        /// Everything except secrets.
        Full => "full",
    }
}

/// The value of a variable.
#[derive(Clone, Debug)]
pub enum Binding {
    /// A value that may be shown.
    Open { value: Value, trust: Trust },
    /// A value that must not be shown.
    Secret(Secret),
}

/// Values by variable name.
pub type Bindings = BTreeMap<String, Binding>;

/// Collects the values for the variables of a template: from `values`, and secrets by name from `secret`. `trust`
/// returns the trust of a value.
///
/// The name of a secret is given in place of its value, or under `secretRef`.
pub fn bind(
    template: &Template,
    values: &Map<String, Value>,
    trust: impl Fn(&str) -> Trust,
    secret: impl Fn(&str) -> Option<Secret>,
) -> Bindings {
    let secrets = |name: &str| {
        template.variables.iter().any(|variable| variable.name == name && variable.source == Source::Secret)
    };
    let mut bindings = Bindings::new();
    for variable in &template.variables {
        if secrets(&variable.name) {
            let reference =
                values.get(&variable.name).or_else(|| values.get("secretRef")).and_then(Value::as_str);
            let found = reference.or(Some(variable.name.as_str())).and_then(&secret);
            bindings.extend(found.map(|found| (variable.name.clone(), Binding::Secret(found))));
        }
    }
    for (name, value) in values.iter().filter(|(name, value)| !secrets(name) && !value.is_null()) {
        bindings.insert(name.clone(), Binding::Open { value: value.clone(), trust: trust(name) });
    }
    bindings
}

/// Why a prompt cannot be composed. Values are not quoted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ComposeError {
    #[error("the variable `{0}` has no value")]
    Unresolved(String),
    #[error("the prompt is larger than {MAX_BYTES} bytes")]
    TooLong,
}

impl ComposeError {
    pub const fn code(&self) -> FailureCode {
        match self {
            Self::Unresolved(_) => FailureCode::PromptVariableUnresolved,
            Self::TooLong => FailureCode::ValidationError,
        }
    }
}

#[derive(Clone)]
pub struct Composed {
    pub kind: PromptKind,
    /// The template.
    pub reference: PromptRef,
    /// The text sent to the model. It may contain secrets.
    sent: String,
    /// The secrets in `sent`.
    secrets: Vec<Secret>,
    pub shown: String,
    /// The digest of the redacted text.
    pub hash: Digest,
    /// Digests of the values; secrets are redacted first.
    pub variable_hashes: BTreeMap<String, Digest>,
    /// The redacted values.
    pub variable_bindings: Map<String, Value>,
    /// Whether all inserted values are trusted.
    pub trust: Trust,
}

impl std::fmt::Debug for Composed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Composed")
            .field("reference", &self.reference)
            .field("hash", &self.hash)
            .finish_non_exhaustive()
    }
}

impl Composed {
    /// The text sent to the model. It may contain secrets: use it only to send the request.
    pub fn expose(&self) -> &str {
        &self.sent
    }

    /// The secrets in the prompt, which the model may repeat.
    pub fn secrets(&self) -> &[Secret] {
        &self.secrets
    }

    /// The `prompt.composed` event; `None` if nothing is recorded.
    pub fn event(&self, node_id: &str, observability: Observability) -> Option<RunEvent> {
        let full = match observability {
            Observability::Off => return None,
            Observability::Hashed => false,
            Observability::Full => true,
        };
        // Schema hints are recorded as system prompts, and examples as user prompts.
        let kind = match self.kind {
            PromptKind::System | PromptKind::SchemaHint => "system-only",
            PromptKind::User | PromptKind::FewShot => "user-only",
        };
        let hashes: Map<String, Value> =
            self.variable_hashes.iter().map(|(name, hash)| (name.clone(), hash.to_string().into())).collect();
        let body = |wanted: bool| if full && wanted { Value::from(self.shown.as_str()) } else { Value::Null };
        Some(RunEvent::new(
            EventKind::PromptComposed,
            [
                ("nodeId", node_id.into()),
                ("refs", vec![self.reference.to_string()].into()),
                ("kind", kind.into()),
                ("hash", self.hash.to_string().into()),
                ("composed", body(true)),
                ("systemPrompt", body(self.kind == PromptKind::System)),
                ("userPrompt", body(self.kind == PromptKind::User)),
                ("variableBindings", if full { self.variable_bindings.clone().into() } else { Value::Null }),
                ("variableHashes", hashes.into()),
                ("contentTrust", self.trust.into()),
            ],
        ))
    }
}

/// Inserts values into a template. Overrides of the reference take precedence.
///
/// # Errors
/// A required variable has no value, or the prompt is too long.
pub fn compose(
    template: &Template,
    reference: &PromptRef,
    bindings: &Bindings,
) -> Result<Composed, ComposeError> {
    let mut values = BTreeMap::new();
    for variable in &template.variables {
        match value_of(variable, reference, bindings) {
            Some(binding) => values.insert(variable.name.as_str(), binding),
            None if variable.required => return Err(ComposeError::Unresolved(variable.name.clone())),
            None => None,
        };
    }
    // An undeclared placeholder takes the input with its name.
    for (name, binding) in bindings {
        if !template.variables.iter().any(|variable| variable.name == *name) {
            values.insert(name, binding.clone());
        }
    }
    for (name, value) in &reference.overrides {
        values.insert(name, Binding::Open { value: value.clone(), trust: Trust::Trusted });
    }
    let mut composition = Composition::new(template, &values);
    composition.run()?;
    Ok(composition.finish(reference.clone()))
}

fn value_of(variable: &Variable, reference: &PromptRef, bindings: &Bindings) -> Option<Binding> {
    if let Some(value) = reference.overrides.get(&variable.name) {
        return Some(Binding::Open { value: value.clone(), trust: Trust::Trusted });
    }
    let found = bindings.get(&variable.name).and_then(|binding| match (binding, &variable.extract_path) {
        (Binding::Open { value, trust }, Some(path)) => {
            extract(value, path).map(|part| Binding::Open { value: part.clone(), trust: *trust })
        }
        (binding, _) => Some(binding.clone()),
    });
    found.or_else(|| variable.default.clone().map(|value| Binding::Open { value, trust: Trust::Trusted }))
}

/// Selects a part of a value: names and indexes separated by dots, after an optional `$`.
fn extract<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    let path = path.strip_prefix('$').unwrap_or(path);
    let path = path.replace('[', ".").replace(']', "");
    path.split('.').filter(|part| !part.is_empty()).try_fold(value, |value, part| match value {
        Value::Array(items) => part.parse::<usize>().ok().and_then(|place| items.get(place)),
        other => other.get(part),
    })
}

/// A template being composed.
struct Composition<'c> {
    template: &'c Template,
    values: &'c BTreeMap<&'c str, Binding>,
    secrets: Vec<Secret>,
    redactor: Redactor,
    sent: String,
    shown: String,
    trust: Trust,
}

impl<'c> Composition<'c> {
    fn new(template: &'c Template, values: &'c BTreeMap<&'c str, Binding>) -> Self {
        let secrets = values.values().filter_map(|binding| match binding {
            Binding::Secret(secret) => Some(secret.clone()),
            Binding::Open { .. } => None,
        });
        let secrets: Vec<Secret> = secrets.collect();
        let redactor = Redactor::new(secrets.iter().cloned());
        let (sent, shown) = (String::new(), String::new());
        Self { template, values, secrets, redactor, sent, shown, trust: Trust::Trusted }
    }

    fn run(&mut self) -> Result<(), ComposeError> {
        let mut rest = self.template.text.as_str();
        while let Some(open) = rest.find("{{") {
            let (before, after) = rest.split_at(open);
            self.push(before, before)?;
            let inner = &after[2..];
            // Names are short, so an unclosed `{{` is not searched to the end of the text.
            let window = inner.char_indices().nth(96).map_or(inner, |(end, _)| &inner[..end]);
            match window.find("}}").map(|end| (inner[..end].trim(), end)) {
                Some((name, end)) if is_name(name) => {
                    self.put(name)?;
                    rest = &inner[end + 2..];
                }
                _ => {
                    // The second brace may start another pair.
                    self.push("{", "{")?;
                    rest = &after[1..];
                }
            }
        }
        self.push(rest, rest)
    }

    fn put(&mut self, name: &str) -> Result<(), ComposeError> {
        match self.values.get(name) {
            None => Ok(()),
            Some(Binding::Secret(secret)) => {
                let mark = format!("[REDACTED:{}]", secret.id());
                self.push(secret.expose(), &mark)
            }
            Some(Binding::Open { value, trust }) => {
                let text = rendered(value);
                self.trust = self.trust.meet(*trust);
                match trust {
                    Trust::Trusted => self.push(&text, &text),
                    Trust::Untrusted => {
                        let wrapped = trust::wrap(&text);
                        self.push(&wrapped, &wrapped)
                    }
                }
            }
        }
    }

    fn push(&mut self, sent: &str, shown: &str) -> Result<(), ComposeError> {
        if self.sent.len() + sent.len() > MAX_BYTES || self.shown.len() + shown.len() > MAX_BYTES {
            return Err(ComposeError::TooLong);
        }
        self.sent.push_str(sent);
        self.shown.push_str(shown);
        Ok(())
    }

    fn finish(self, reference: PromptRef) -> Composed {
        // Also redacts a secret that arrived through another variable.
        let shown = self.redactor.clean(&self.shown);
        let mut variable_bindings = Map::new();
        let mut variable_hashes = BTreeMap::new();
        for (name, binding) in self.values {
            let mut value = match binding {
                Binding::Open { value, .. } => value.clone(),
                Binding::Secret(secret) => format!("[REDACTED:{}]", secret.id()).into(),
            };
            self.redactor.value(&mut value);
            variable_hashes.insert((*name).to_owned(), Digest::of_bytes(rendered(&value).as_bytes()));
            variable_bindings.insert((*name).to_owned(), value);
        }
        let exact = PromptRef { version: Some(self.template.version.clone()), ..reference };
        Composed {
            kind: self.template.kind,
            reference: exact,
            sent: self.sent,
            secrets: self.secrets,
            hash: Digest::of_bytes(shown.as_bytes()),
            shown,
            variable_hashes,
            variable_bindings,
            trust: self.trust,
        }
    }
}

/// Strings as they are, other values as JSON.
fn rendered(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    (1..=64).contains(&bytes.len())
        && !bytes[0].is_ascii_digit()
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}
