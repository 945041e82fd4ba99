//! Reads the fields of one object and reports invalid ones.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::diagnostic::{Details, Expected, Findings, StructureReason, Subject};

/// Names of expected types.
pub(crate) mod token {
    pub(crate) const STRING: &str = "string";
    pub(crate) const ARRAY: &str = "array";
    pub(crate) const OBJECT: &str = "object";
    pub(crate) const ABSENT: &str = "absent";
    pub(crate) const NON_EMPTY: &str = "non-empty";
    pub(crate) const ROUTE_PATH: &str = "RoutePath";
    pub(crate) const RENDERER_CLAIM: &str = "RendererClaim";
    pub(crate) const RENDER_HANDLE: &str = "RenderHandle";
    pub(crate) const OWNER: &str = "ContributionOwner";
    pub(crate) const CONTRIBUTIONS: &str = "WorkspaceContributions";
    pub(crate) const KEY: &str = "CanonicalContributionKey";
    pub(crate) const JSON_OBJECT: &str = "CompositionJsonObject";
    pub(crate) const OPERATION: &str = "CompositionPolicyOperation";
    pub(crate) const ACTION: &str = "RuntimeAction";
    pub(crate) const STATUSES: &str = "ModuleRuntimeStatus[]";
    pub(crate) const RUNTIME: &str = "ResolvedModuleRuntime";
}

/// The maximum number of characters of a quoted value.
const RECEIVED_CHARACTERS: usize = 256;

/// A value as quoted in a diagnostic.
pub(crate) fn quoted(value: &str) -> Cow<'_, str> {
    match value.char_indices().nth(RECEIVED_CHARACTERS) {
        None => Cow::Borrowed(value),
        Some((end, _)) => Cow::Owned(format!("{}…", &value[..end])),
    }
}

/// The name of a value's type.
pub(crate) const fn type_name(value: Option<&Value>) -> &'static str {
    match value {
        None => "undefined",
        Some(Value::Null) => "null",
        Some(Value::Bool(_)) => "boolean",
        Some(Value::Number(_)) => "number",
        Some(Value::String(_)) => "string",
        Some(Value::Array(_)) => "array",
        Some(Value::Object(_)) => "object",
    }
}

/// A version as quoted in a diagnostic: the given string, or the name of its type.
pub(crate) fn version_received(value: Option<&Value>) -> Cow<'_, str> {
    match value {
        Some(Value::String(text)) => quoted(text),
        other => Cow::Borrowed(type_name(other)),
    }
}

/// Details about a field of the wrong type.
pub(crate) fn wrong_type<'i>(
    field: impl Into<Cow<'i, str>>,
    expected: &'static str,
    value: Option<&Value>,
) -> Details<'i> {
    let reason = match value {
        None => StructureReason::MissingRequiredField,
        Some(_) => StructureReason::InvalidFieldType,
    };
    structure(reason, field, Expected::Token(expected), type_name(value))
}

/// Structural details.
pub(crate) fn structure<'i>(
    reason: StructureReason,
    field: impl Into<Cow<'i, str>>,
    expected: Expected,
    received: impl Into<Cow<'i, str>>,
) -> Details<'i> {
    Details::Structure { expected, field: field.into(), reason, received: received.into() }
}

/// A member of an object, or its absence.
#[derive(Clone, Copy)]
pub(crate) struct Field<'i> {
    pub(crate) name: &'static str,
    pub(crate) value: Option<&'i Value>,
}

impl<'i> Field<'i> {
    /// A member that is not found yet.
    pub(crate) const fn named(name: &'static str) -> Self {
        Self { name, value: None }
    }

    /// The member `name` of `map`.
    pub(crate) fn of(map: &'i Map<String, Value>, name: &'static str) -> Self {
        Self { name, value: map.get(name) }
    }
}

/// The fields of one object, read for one subject.
pub(crate) struct Fields<'f, 'i> {
    /// The field path of the object, such as `contributions.routes[]`.
    pub(crate) path: &'f str,
    /// The rest of that path, such as `.renderHandle`; joined only for a report.
    pub(crate) nested: &'static str,
    pub(crate) subject: Subject<'i>,
    pub(crate) findings: &'f mut Findings<'i>,
    /// Set if diagnostics must not contain values, only their types.
    pub(crate) confidential: bool,
}

impl<'i> Fields<'_, 'i> {
    /// A required string with any content.
    pub(crate) fn string(&mut self, field: Field<'i>, expected: &'static str) -> Option<&'i str> {
        match field.value {
            Some(Value::String(text)) => Some(text),
            other => self.fault(wrong_type(self.path_of(field.name), expected, other)),
        }
    }

    /// An optional string. `Err` if it has another type.
    pub(crate) fn optional_string(
        &mut self,
        field: Field<'i>,
        expected: &'static str,
    ) -> Result<Option<&'i str>, ()> {
        match field.value {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            other => {
                self.findings.report(wrong_type(self.path_of(field.name), expected, other), self.subject);
                Err(())
            }
        }
    }

    /// A required, non-empty string within limits.
    pub(crate) fn bounded_string(&mut self, field: Field<'i>, bounds: Bounds) -> Option<&'i str> {
        let text = self.string(field, token::STRING)?;
        match bounds.broken_by(text) {
            None => Some(text),
            Some(constraint) => {
                let received = self.quote(text);
                self.value_fault(field.name, Expected::Token(constraint), received)
            }
        }
    }

    /// A required member of a closed set, given with its sorted wire names.
    pub(crate) fn one_of<T>(
        &mut self,
        field: Field<'i>,
        names: &'static [&'static str],
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let text = self.string(field, token::STRING)?;
        parse(text).or_else(|| {
            let received = self.quote(text);
            self.value_fault(field.name, Expected::OneOf(names), received)
        })
    }

    /// An optional JSON object. `Err` if it has another type.
    pub(crate) fn optional_object(&mut self, field: Field<'i>) -> Result<Option<&'i Value>, ()> {
        match field.value {
            None => Ok(None),
            Some(object @ Value::Object(_)) => Ok(Some(object)),
            other => {
                let details = wrong_type(self.path_of(field.name), token::JSON_OBJECT, other);
                self.findings.report(details, self.subject);
                Err(())
            }
        }
    }

    /// A required array.
    pub(crate) fn array(&mut self, field: Field<'i>) -> Option<&'i [Value]> {
        match field.value {
            Some(Value::Array(items)) => Some(items),
            other => self.fault(wrong_type(self.path_of(field.name), token::ARRAY, other)),
        }
    }

    /// A required array of strings.
    pub(crate) fn strings(&mut self, field: Field<'i>) -> Option<Vec<&'i str>> {
        let items = self.array(field)?;
        let mut strings = Vec::with_capacity(items.len());
        for item in items {
            match item {
                Value::String(text) => strings.push(text.as_str()),
                other => {
                    let path = format!("{}[]", self.path_of(field.name));
                    self.findings.report(wrong_type(path, token::STRING, Some(other)), self.subject);
                }
            }
        }
        (strings.len() == items.len()).then_some(strings)
    }

    /// Reports a field that is not allowed.
    pub(crate) fn absent(&mut self, field: Field<'i>) -> Option<()> {
        match field.value {
            None => Some(()),
            other => {
                let expected = Expected::Token(token::ABSENT);
                self.fault(structure(
                    StructureReason::UnsupportedField,
                    self.path_of(field.name),
                    expected,
                    type_name(other),
                ))
            }
        }
    }

    pub(crate) fn path_of(&self, name: &str) -> String {
        format!("{}{}.{name}", self.path, self.nested)
    }

    /// Reports a string whose value violates a rule.
    pub(crate) fn value_fault<T>(
        &mut self,
        name: &str,
        expected: Expected,
        received: Cow<'i, str>,
    ) -> Option<T> {
        self.fault(structure(StructureReason::InvalidFieldValue, self.path_of(name), expected, received))
    }

    fn quote(&self, text: &'i str) -> Cow<'i, str> {
        if self.confidential { Cow::Borrowed(token::STRING) } else { quoted(text) }
    }

    fn fault<T>(&mut self, details: Details<'i>) -> Option<T> {
        self.findings.report(details, self.subject);
        None
    }
}

/// The limits of a required, non-empty string.
#[derive(Clone, Copy)]
pub(crate) enum Bounds {
    NonEmpty,
    /// At most 128 bytes.
    Short,
    /// At most 214 bytes: a package name.
    Package,
    /// At most 128 bytes, and no control characters.
    OperationId,
}

impl Bounds {
    fn broken_by(self, text: &str) -> Option<&'static str> {
        if text.is_empty() {
            return Some(token::NON_EMPTY);
        }
        match self {
            Self::Short | Self::OperationId if text.len() > 128 => Some("at-most-128-bytes"),
            Self::Package if text.len() > 214 => Some("at-most-214-bytes"),
            Self::OperationId if text.bytes().any(|byte| byte < 0x20) => Some("no-control-characters"),
            Self::NonEmpty | Self::Short | Self::Package | Self::OperationId => None,
        }
    }
}
