//! A value inside a document, with the way to it.
//!
//! What a request or a dispatch holds was written by others. A member of the wrong type is refused with its JSON
//! pointer; the pointer is only put together then.

use serde_json::{Map, Number, Value};

use crate::{Code, Error};

/// A member that may be there.
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

    /// A member of an object; not there when this is no object.
    pub(crate) fn get(&'p self, key: &'p str) -> Self {
        let value = self.value.and_then(|value| value.get(key));
        Self { value, step: Step::Key(key), parent: Some(self) }
    }

    /// The items of a list; none when this is not there, is null, or is no list.
    pub(crate) fn items(&'p self) -> impl Iterator<Item = Self> {
        let items = self.value.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let item = |(index, value)| Self { value: Some(value), step: Step::Index(index), parent: Some(self) };
        items.iter().enumerate().map(item)
    }

    /// Whether it is there, null or not.
    pub(crate) fn is_given(&self) -> bool {
        self.value.is_some()
    }

    /// What is there, null or not.
    pub(crate) fn raw(&self) -> Option<&'v Value> {
        self.value
    }

    /// What is there, unless it is null.
    pub(crate) fn non_null(&self) -> Option<&'v Value> {
        self.value.filter(|value| !value.is_null())
    }

    /// An object that has to be there.
    pub(crate) fn object(&self) -> Result<&'v Map<String, Value>, Error> {
        self.value.and_then(Value::as_object).ok_or_else(|| self.refusal("an object"))
    }

    /// A text that has to be there.
    pub(crate) fn text(&self) -> Result<&'v str, Error> {
        self.value.and_then(Value::as_str).ok_or_else(|| self.refusal("a text"))
    }

    /// A text, or nothing where there is none or null.
    pub(crate) fn text_if_any(&self) -> Result<Option<&'v str>, Error> {
        self.non_null().map(|_| self.text()).transpose()
    }

    /// A text that says something, or nothing where it is absent, null or empty.
    pub(crate) fn text_that_says_something(&self) -> Result<Option<&'v str>, Error> {
        Ok(self.text_if_any()?.filter(|text| !text.is_empty()))
    }

    /// A text or null, as it is.
    pub(crate) fn text_or_null(&self) -> Result<Option<Value>, Error> {
        match self.value {
            None => Ok(None),
            Some(value @ (Value::String(_) | Value::Null)) => Ok(Some(value.clone())),
            Some(_) => Err(self.refusal("a text or null")),
        }
    }

    /// A number that has to be there.
    pub(crate) fn number(&self) -> Result<&'v Number, Error> {
        self.value.and_then(Value::as_number).ok_or_else(|| self.refusal("a number"))
    }

    /// Itself, when it is a list or stands for an empty one: null, or not there.
    pub(crate) fn list(&self) -> Result<&Self, Error> {
        match self.non_null() {
            None | Some(Value::Array(_)) => Ok(self),
            Some(_) => Err(self.refusal("a list")),
        }
    }

    /// How many items a list has; 0 where there is none.
    pub(crate) fn len(&self) -> usize {
        self.value.and_then(Value::as_array).map_or(0, Vec::len)
    }

    /// The texts of a list; none where there is no list, or null.
    pub(crate) fn texts(&self) -> Result<Vec<&'v str>, Error> {
        match self.non_null() {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) => {
                let text = |(index, item): (usize, &'v Value)| {
                    let step = Step::Index(index);
                    item.as_str().ok_or_else(|| {
                        Member { value: Some(item), step, parent: Some(self) }.refusal("a text")
                    })
                };
                items.iter().enumerate().map(text).collect()
            }
            Some(_) => Err(self.refusal("a list of texts")),
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

    /// That it is not what it has to be. The value is not repeated: it may be long, or nobody's business.
    pub(crate) fn refusal(&self, expected: &str) -> Error {
        let pointer = self.pointer();
        let shown = if pointer.is_empty() {
            "the document".to_owned()
        } else {
            format!("`{}`", pointer.escape_debug())
        };
        let message = match self.value {
            None => format!("{shown} is missing: it has to be {expected}"),
            Some(value) => format!("{shown} has to be {expected}, and is {}", type_of(value)),
        };
        Error::new(Code::ValidationError, message).detail("pointer", pointer)
    }
}

/// What a value is, in words.
pub(crate) const fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refusal_names_the_way_and_not_the_value() {
        let document = json!({"a/b": [{"~": "secret"}]});
        let root = Member::root(&document);
        let list = root.get("a/b");
        let item = list.items().next().unwrap();
        let refused = item.get("~").number().unwrap_err();
        assert_eq!(refused.message(), "`/a~1b/0/~0` has to be a number, and is a text");
        assert_eq!(refused.details()["pointer"], "/a~1b/0/~0");
        let missing = item.get("x").text().unwrap_err();
        assert_eq!(missing.message(), "`/a~1b/0/x` is missing: it has to be a text");
        assert_eq!(root.list().unwrap_err().message(), "the document has to be a list, and is an object");
    }
}
