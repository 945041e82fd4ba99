//! A value inside a document, with its JSON pointer.
//!
//! Requests and dispatches are untrusted. A member of the wrong type is refused with its JSON
//! pointer, which is computed only then.

use serde_json::{Map, Number, Value};

use crate::{Code, Error};

/// An optional member.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member<'v, 'p> {
    value: Option<&'v Value>,
    step: Step<'p>,
    parent: Option<&'p Member<'v, 'p>>,
}

#[derive(Clone, Copy, Debug)]
enum Step<'p> {
    Root,
    Key(&'p str),
    Index(usize),
}

impl<'v, 'p> Member<'v, 'p> {
    /// The document itself.
    pub(crate) fn root(value: &'v Value) -> Self {
        Self { value: Some(value), step: Step::Root, parent: None }
    }

    /// A member of an object; absent if this is not an object.
    pub(crate) fn get(&'p self, key: &'p str) -> Self {
        let value = self.value.and_then(|value| value.get(key));
        Self { value, step: Step::Key(key), parent: Some(self) }
    }

    /// The items of a list; empty if this is absent, null or not a list.
    pub(crate) fn items(&'p self) -> impl Iterator<Item = Self> {
        let items = self.value.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let item = |(index, value)| Self { value: Some(value), step: Step::Index(index), parent: Some(self) };
        items.iter().enumerate().map(item)
    }

    /// Whether it is present, null or not.
    pub(crate) fn is_given(&self) -> bool {
        self.value.is_some()
    }

    /// The value, null or not.
    pub(crate) fn raw(&self) -> Option<&'v Value> {
        self.value
    }

    /// The value, unless it is null.
    pub(crate) fn non_null(&self) -> Option<&'v Value> {
        self.value.filter(|value| !value.is_null())
    }

    /// A required object.
    pub(crate) fn object(&self) -> Result<&'v Map<String, Value>, Error> {
        self.value.and_then(Value::as_object).ok_or_else(|| self.refusal("an object"))
    }

    /// A required string.
    pub(crate) fn text(&self) -> Result<&'v str, Error> {
        self.value.and_then(Value::as_str).ok_or_else(|| self.refusal("a string"))
    }

    /// An optional string; absent or null gives `None`.
    pub(crate) fn text_if_any(&self) -> Result<Option<&'v str>, Error> {
        self.non_null().map(|_| self.text()).transpose()
    }

    /// A non-empty string; absent, null or empty gives `None`.
    pub(crate) fn text_that_says_something(&self) -> Result<Option<&'v str>, Error> {
        Ok(self.text_if_any()?.filter(|text| !text.is_empty()))
    }

    /// A string or null.
    pub(crate) fn text_or_null(&self) -> Result<Option<Value>, Error> {
        match self.value {
            None => Ok(None),
            Some(value @ (Value::String(_) | Value::Null)) => Ok(Some(value.clone())),
            Some(_) => Err(self.refusal("a string or null")),
        }
    }

    /// A required number.
    pub(crate) fn number(&self) -> Result<&'v Number, Error> {
        self.value.and_then(Value::as_number).ok_or_else(|| self.refusal("a number"))
    }

    /// Itself, if it is a list, null or absent.
    pub(crate) fn list(&self) -> Result<&Self, Error> {
        match self.non_null() {
            None | Some(Value::Array(_)) => Ok(self),
            Some(_) => Err(self.refusal("a list")),
        }
    }

    /// The length of a list; 0 if there is none.
    pub(crate) fn len(&self) -> usize {
        self.value.and_then(Value::as_array).map_or(0, Vec::len)
    }

    /// The strings of a list; empty if it is absent or null.
    pub(crate) fn texts(&self) -> Result<Vec<&'v str>, Error> {
        match self.non_null() {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) => {
                let text = |(index, item): (usize, &'v Value)| {
                    let step = Step::Index(index);
                    item.as_str().ok_or_else(|| {
                        Member { value: Some(item), step, parent: Some(self) }.refusal("a string")
                    })
                };
                items.iter().enumerate().map(text).collect()
            }
            Some(_) => Err(self.refusal("a list of strings")),
        }
    }

    /// The JSON pointer (RFC 6901) of this member.
    pub(crate) fn pointer(&self) -> String {
        let mut steps = Vec::new();
        let mut at = Some(self);
        while let Some(member) = at {
            match member.step {
                Step::Root => {}
                Step::Key(key) => steps.push(key.replace('~', "~0").replace('/', "~1")),
                Step::Index(index) => steps.push(index.to_string()),
            }
            at = member.parent;
        }
        steps.iter().rev().fold(String::new(), |pointer, step| pointer + "/" + step)
    }

    /// The type error. The value is not repeated: it may be long or confidential.
    pub(crate) fn refusal(&self, expected: &str) -> Error {
        let pointer = self.pointer();
        let shown = if pointer.is_empty() {
            "the document".to_owned()
        } else {
            format!("`{}`", pointer.escape_debug())
        };
        let message = match self.value {
            None => format!("{shown} is missing; expected {expected}"),
            Some(value) => format!("{shown} must be {expected}, but is {}", type_of(value)),
        };
        Error::new(Code::ValidationError, message).detail("pointer", pointer)
    }
}

/// The type of a value as text.
pub(crate) const fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn type_errors_have_the_pointer_but_not_the_value() {
        let document = json!({"a/b": [{"~": "secret"}]});
        let root = Member::root(&document);
        let list = root.get("a/b");
        let item = list.items().next().unwrap();
        let refused = item.get("~").number().unwrap_err();
        assert_eq!(refused.message(), "`/a~1b/0/~0` must be a number, but is a string");
        assert_eq!(refused.details()["pointer"], "/a~1b/0/~0");
        let missing = item.get("x").text().unwrap_err();
        assert_eq!(missing.message(), "`/a~1b/0/x` is missing; expected a string");
        assert_eq!(root.list().unwrap_err().message(), "the document must be a list, but is an object");
    }
}
