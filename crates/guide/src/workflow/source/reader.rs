//! Reads fields one by one, and collects problems instead of stopping at the first.
//!
//! The reader of an object requests its fields by name; any other field is unknown. A missing or invalid
//! field is reported once and replaced by a harmless value, so that the rest of the file is still checked.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use crate::workflow::{
    compiled::{Condition, Criteria},
    condition, criteria,
    problem::{MAX_COLLECTED, Problem, ProblemCode as Code, item, member, quoted},
};

/// Collects problems.
#[derive(Default)]
pub(super) struct Reader {
    /// The author's order of ordered fields.
    pub(super) order: super::Order,
    pub(super) problems: Vec<Problem>,
}

/// An object that is being read.
pub(super) struct Object<'v> {
    members: Option<&'v Map<String, Value>>,
    path: String,
    asked: Vec<&'static str>,
}

/// A value with its path.
pub(super) type ValueAt<'v> = (&'v Value, String);

/// A closed set: strings and their values.
pub(super) type Choices<T> = [(&'static str, T)];

impl Reader {
    pub(super) fn report(
        &mut self,
        path: &str,
        code: Code,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) {
        if self.problems.len() < MAX_COLLECTED {
            self.problems.push(Problem::new(path, code, message, fix));
        }
    }

    fn wrong_type(&mut self, path: &str, wanted: &str, found: &Value) {
        let found = match found {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "a list",
            Value::Object(_) => "an object",
        };
        let fix = format!("Write {wanted}{}.", if found == "null" { ", or omit it" } else { "" });
        self.report(path, Code::WrongType, format!("expected {wanted}, found {found}"), fix);
    }

    pub(super) fn object<'v>(&mut self, (value, path): ValueAt<'v>) -> Object<'v> {
        if !value.is_object() {
            self.wrong_type(&path, "an object", value);
        }
        Object { members: value.as_object(), path, asked: Vec::new() }
    }

    /// Reports unknown fields.
    pub(super) fn finish(&mut self, object: &Object<'_>) {
        for name in object.members.into_iter().flat_map(Map::keys) {
            if object.asked.contains(&name.as_str()) {
                continue;
            }
            if self.problems.len() >= MAX_COLLECTED {
                return;
            }
            let fix = match canon::nearest::nearest(name, object.asked.iter(), 1).first() {
                Some(near) => {
                    // A typo is one problem: do not report the intended field as missing too.
                    let meant = member(&object.path, near);
                    self.problems
                        .retain(|problem| problem.code != Code::MissingMember || problem.path != meant);
                    format!("Did you mean `{near}`?")
                }
                None => format!("Remove it. Known fields: {}.", object.asked.join(", ")),
            };
            let message = format!("unknown field `{}`", quoted(name));
            self.report(&member(&object.path, name), Code::UnknownMember, message, fix);
        }
    }

    pub(super) fn items<'v>(
        &mut self,
        (value, path): ValueAt<'v>,
        count: RangeInclusive<usize>,
    ) -> Vec<ValueAt<'v>> {
        let Value::Array(values) = value else {
            self.wrong_type(&path, "a list", value);
            return Vec::new();
        };
        if !count.contains(&values.len()) {
            let message = format!("the list has {} items; allowed: {}", values.len(), range(&count));
            self.report(&path, Code::LengthOutOfRange, message, "Add or remove items.");
        }
        // Items beyond the limit were reported and are not read.
        values
            .iter()
            .take(*count.end())
            .enumerate()
            .map(|(index, value)| (value, item(&path, index)))
            .collect()
    }

    pub(super) fn text(&mut self, (value, path): ValueAt<'_>, characters: RangeInclusive<usize>) -> String {
        let Value::String(text) = value else {
            self.wrong_type(&path, "a string", value);
            return String::new();
        };
        let measured = text.chars().count();
        if !characters.contains(&measured) {
            let message = format!("the string has {measured} characters; allowed: {}", range(&characters));
            let fix = if measured < *characters.start() {
                "Use a longer text."
            } else {
                "Shorten it, or split it."
            };
            self.report(&path, Code::LengthOutOfRange, message, fix);
        }
        text.clone()
    }

    pub(super) fn flag(&mut self, (value, path): ValueAt<'_>) -> bool {
        value.as_bool().unwrap_or_else(|| {
            self.wrong_type(&path, "true or false", value);
            false
        })
    }

    pub(super) fn number(&mut self, (value, path): ValueAt<'_>, range: RangeInclusive<u32>) -> u32 {
        if !value.is_number() {
            self.wrong_type(&path, "a number", value);
            return *range.start();
        }
        match value
            .as_u64()
            .and_then(|number| u32::try_from(number).ok())
            .filter(|number| range.contains(number))
        {
            Some(number) => number,
            None => {
                let (least, most) = (range.start(), range.end());
                let message = format!("{value} is not a whole number from {least} to {most}");
                self.report(&path, Code::NumberOutOfRange, message, format!("Write {least} to {most}."));
                *range.start()
            }
        }
    }

    pub(super) fn choice<T: Copy>(&mut self, (value, path): ValueAt<'_>, choices: &Choices<T>) -> Option<T> {
        let Value::String(text) = value else {
            self.wrong_type(&path, "a string", value);
            return None;
        };
        if let Some((_, choice)) = choices.iter().find(|(name, _)| name == text) {
            return Some(*choice);
        }
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let fix = match canon::nearest::nearest(text, &names, 1).first() {
            Some(near) => format!("Did you mean `{near}`?"),
            None => format!("Write one of: {}.", names.join(", ")),
        };
        self.report(&path, Code::UnknownValue, format!("unknown value {:?}", quoted(text)), fix);
        None
    }

    /// A string with restrictions on its characters.
    pub(super) fn name(&mut self, found: ValueAt<'_>, rule: &NameRule) -> String {
        let path = found.1.clone();
        let before = self.problems.len();
        let text = self.text(found, rule.length.clone());
        if self.problems.len() == before && !(rule.accepts)(&text) {
            let message =
                format!("{:?} is not a valid {}; allowed: {}", quoted(&text), rule.what, rule.pattern);
            self.report(&path, Code::InvalidName, message, (rule.fix)(&text));
        }
        text
    }

    pub(super) fn condition(&mut self, (value, path): ValueAt<'_>) -> Condition {
        for fault in condition::check(value).err().into_iter().flatten() {
            self.report(&join(&path, &fault.path), Code::InvalidCondition, fault.message, fault.fix);
        }
        Condition(value.clone())
    }

    pub(super) fn criteria(&mut self, (value, path): ValueAt<'_>) -> Criteria {
        for fault in criteria::check(value).err().into_iter().flatten() {
            let code = if fault.in_condition { Code::InvalidCondition } else { Code::InvalidCriteria };
            self.report(&join(&path, &fault.path), code, fault.message, fault.fix);
        }
        Criteria(value.clone())
    }

    pub(super) fn texts(&mut self, found: ValueAt<'_>, characters: &RangeInclusive<usize>) -> Vec<String> {
        let items = self.items(found, 0..=MAX_ITEMS);
        items.into_iter().map(|item| self.text(item, characters.clone())).collect()
    }
}

/// The default maximum number of items in a list.
pub(super) const MAX_ITEMS: usize = 256;

impl<'v> Object<'v> {
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn path_of(&self, name: &str) -> String {
        member(&self.path, name)
    }

    /// Whether the object has a field. Counts as requesting it.
    pub(super) fn has(&mut self, name: &'static str) -> bool {
        self.get(name).is_some()
    }

    pub(super) fn get(&mut self, name: &'static str) -> Option<ValueAt<'v>> {
        if !self.asked.contains(&name) {
            self.asked.push(name);
        }
        self.members?.get(name).map(|value| (value, member(&self.path, name)))
    }

    /// A required field. Reports nothing if the value is not an object, because that was already reported.
    pub(super) fn need(&mut self, reader: &mut Reader, name: &'static str) -> Option<ValueAt<'v>> {
        let found = self.get(name);
        if found.is_none() && self.members.is_some() {
            let message = format!("`{name}` is missing");
            reader.report(&member(&self.path, name), Code::MissingMember, message, format!("Add `{name}`."));
        }
        found
    }

    pub(super) fn need_text(
        &mut self,
        reader: &mut Reader,
        name: &'static str,
        characters: RangeInclusive<usize>,
    ) -> String {
        self.need(reader, name).map(|found| reader.text(found, characters)).unwrap_or_default()
    }

    pub(super) fn text(
        &mut self,
        reader: &mut Reader,
        name: &'static str,
        characters: RangeInclusive<usize>,
    ) -> Option<String> {
        self.get(name).map(|found| reader.text(found, characters))
    }

    pub(super) fn texts(
        &mut self,
        reader: &mut Reader,
        name: &'static str,
        characters: RangeInclusive<usize>,
    ) -> Vec<String> {
        self.get(name).map(|found| reader.texts(found, &characters)).unwrap_or_default()
    }

    pub(super) fn flag(&mut self, reader: &mut Reader, name: &'static str) -> Option<bool> {
        self.get(name).map(|found| reader.flag(found))
    }

    pub(super) fn choice<T: Copy>(
        &mut self,
        reader: &mut Reader,
        name: &'static str,
        choices: &Choices<T>,
    ) -> Option<T> {
        self.get(name).and_then(|found| reader.choice(found, choices))
    }

    pub(super) fn condition(&mut self, reader: &mut Reader, name: &'static str) -> Option<Condition> {
        self.get(name).map(|found| reader.condition(found))
    }

    /// Reads each item of a list.
    pub(super) fn list<T>(
        &mut self,
        reader: &mut Reader,
        name: &'static str,
        count: RangeInclusive<usize>,
        mut read: impl FnMut(&mut Reader, ValueAt<'v>) -> T,
    ) -> Vec<T> {
        let Some(found) = self.get(name) else { return Vec::new() };
        let items = reader.items(found, count);
        items.into_iter().map(|found| read(reader, found)).collect()
    }

    /// The entries of a field that is a map.
    pub(super) fn entries(&mut self, reader: &mut Reader, name: &'static str) -> Vec<(&'v str, ValueAt<'v>)> {
        let Some((value, path)) = self.get(name) else { return Vec::new() };
        let Value::Object(members) = value else {
            reader.wrong_type(&path, "an object", value);
            return Vec::new();
        };
        if members.len() > MAX_ITEMS {
            let message = format!("it has {} entries; the limit is {MAX_ITEMS}", members.len());
            reader.report(&path, Code::LengthOutOfRange, message, "Remove entries.");
        }
        let entries = members.iter().take(MAX_ITEMS);
        entries.map(|(key, value)| (key.as_str(), (value, member(&path, key)))).collect()
    }
}

/// The spelling of a kind of name.
pub(super) struct NameRule {
    pub(super) what: &'static str,
    pub(super) pattern: &'static str,
    pub(super) length: RangeInclusive<usize>,
    pub(super) accepts: fn(&str) -> bool,
    pub(super) fix: fn(&str) -> String,
}

fn join(path: &str, below: &str) -> String {
    let dot = if below.is_empty() || below.starts_with('[') { "" } else { "." };
    format!("{path}{dot}{below}")
}

fn range(range: &RangeInclusive<usize>) -> String {
    match (*range.start(), *range.end()) {
        (0, most) => format!("at most {most}"),
        (least, usize::MAX) => format!("at least {least}"),
        (least, most) => format!("{least} to {most}"),
    }
}
