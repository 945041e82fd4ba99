//! Putting values into a template.
//!
//! Two texts come out: the one that the model reads, with everything in it, and the one that is shown, hashed and recorded,
//! with `[REDACTED:<id>]` in the place of secrets. Values that are not trusted are marked in both. A value is put in once
//! and never looked into, so it cannot ask for another.

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
use crate::words::words;

/// The longest prompt, in bytes.
pub const MAX_BYTES: usize = 1 << 20;

words! {
    /// How much of a prompt is recorded.
    pub enum Observability {
        /// Nothing.
        Off => "off",
        /// Digests.
        Hashed => "hashed",
        /// All but secrets.
        Full => "full",
    }
}

/// A value for a variable.
#[derive(Clone, Debug)]
pub enum Binding {
    /// A value that may be shown.
    Open {
        /// The value.
        value: Value,
        /// Whether it may be believed.
        trust: Trust,
    },
    /// A value that may not.
    Secret(Secret),
}

/// Values by the names of their variables.
pub type Bindings = BTreeMap<String, Binding>;

/// Values for the variables of a template: from `values`, and secrets from `secret` by their names. `trust` says which
/// values are not to be believed.
///
/// The name of a secret stands where its value would, or under `secretRef`.
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

/// Why a prompt cannot be put together. A value is not repeated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ComposeError {
    /// A variable has no value.
    #[error("the variable `{0}` has no value")]
    Unresolved(String),
    /// The prompt is too long.
    #[error("the prompt has more than {MAX_BYTES} bytes")]
    TooLong,
}

impl ComposeError {
    /// Why the node fails.
    pub const fn code(&self) -> FailureCode {
        match self {
            Self::Unresolved(_) => FailureCode::PromptVariableUnresolved,
            Self::TooLong => FailureCode::ValidationError,
        }
    }
}

/// A prompt that was put together.
#[derive(Clone)]
pub struct Composed {
    /// What it is for.
    pub kind: PromptKind,
    /// The template.
    pub reference: PromptRef,
    /// What the model reads. It may hold secrets.
    sent: String,
    /// The secrets that it may hold.
    secrets: Vec<Secret>,
    /// What is shown.
    pub shown: String,
    /// The digest of what is shown.
    pub hash: Digest,
    /// The digests of the values, those of secrets without them.
    pub variable_hashes: BTreeMap<String, Digest>,
    /// The values, without secrets.
    pub variable_bindings: Map<String, Value>,
    /// Whether all that went in may be believed.
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
    /// What the model reads, for the one who sends it. It may hold secrets.
    pub fn expose(&self) -> &str {
        &self.sent
    }

    /// The secrets that the model is told, and may repeat.
    pub fn secrets(&self) -> &[Secret] {
        &self.secrets
    }

    /// The event of the prompt; none where nothing is recorded.
    pub fn event(&self, node_id: &str, observability: Observability) -> Option<RunEvent> {
        let full = match observability {
            Observability::Off => return None,
            Observability::Hashed => false,
            Observability::Full => true,
        };
        // What a reply looks like is said beside how to behave, and examples beside the question.
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

/// Puts values into a template. Those that the reference brings along come first.
///
/// # Errors
/// A variable that has to have a value has none, or the prompt gets too long.
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
    // A place without a declaration takes an input of its name.
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

/// A part of a value: names and numbers with dots between them, after an optional `$`.
fn extract<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    let path = path.strip_prefix('$').unwrap_or(path);
    let path = path.replace('[', ".").replace(']', "");
    path.split('.').filter(|part| !part.is_empty()).try_fold(value, |value, part| match value {
        Value::Array(items) => part.parse::<usize>().ok().and_then(|place| items.get(place)),
        other => other.get(part),
    })
}

/// A template on its way to being a prompt.
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
            // Names are short: an opening without an end is not looked through again and again.
            let window = inner.char_indices().nth(96).map_or(inner, |(end, _)| &inner[..end]);
            match window.find("}}").map(|end| (inner[..end].trim(), end)) {
                Some((name, end)) if is_name(name) => {
                    self.put(name)?;
                    rest = &inner[end + 2..];
                }
                _ => {
                    // The second brace may be the first of another pair.
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
        // A secret that also came in by another way goes as well.
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

/// A value as text: texts as they are, all else as JSON.
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
