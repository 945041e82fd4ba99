//! The context keys that a step or a loop declares.

use super::{
    names,
    reader::{Object, Reader, ValueAt},
};
use crate::workflow::{
    context_keys::{ContextKeys, ContextType, PlainType},
    problem::{ProblemCode as Code, quoted},
};

/// The maximum number of keys that one step may require, and that it may produce.
const MAX_KEYS: usize = 32;
/// The maximum number of values of an enum.
const MAX_VALUES: usize = 32;
/// The allowed length of an enum value, in characters.
const VALUE: std::ops::RangeInclusive<usize> = 1..=64;
/// Keys that an author cannot declare: every run has a goal, and the others are rejected in any context.
const TAKEN: [&str; 4] = ["__proto__", "constructor", "goal", "prototype"];

pub(super) fn read(reader: &mut Reader, o: &mut Object<'_>, member: &'static str) -> ContextKeys {
    let entries = o.entries(reader, member);
    if entries.len() > MAX_KEYS {
        let message = format!("{} keys are declared; the limit is {MAX_KEYS}", entries.len());
        let fix =
            "Declare only keys that decide which steps run. Put everything else into notes and artifacts.";
        reader.report(&o.path_of(member), Code::LengthOutOfRange, message, fix);
    }
    let mut keys = ContextKeys::new();
    for (key, found) in entries.into_iter().take(MAX_KEYS) {
        let path = found.1.clone();
        if !names::is_variable(key) || key.len() > *names::VARIABLE.length.end() {
            let message =
                format!("{:?} is not a valid context key; allowed: {}", quoted(key), names::VARIABLE.pattern);
            reader.report(&path, Code::InvalidName, message, "Use a name such as `fixDecision`.");
        } else if TAKEN.contains(&key) {
            let message = format!("the context key `{key}` is reserved");
            reader.report(&path, Code::InvalidName, message, "Use a different name.");
        } else if let Some(declared) = context_type(reader, found) {
            keys.insert(key.to_owned(), declared);
        }
    }
    keys
}

/// `{type: string}` or `{enum: [fix, report]}`.
fn context_type(reader: &mut Reader, found: ValueAt<'_>) -> Option<ContextType> {
    let mut o = reader.object(found);
    let (plain, values) = (o.get("type"), o.get("enum"));
    let declared = match (plain, values) {
        (Some(plain), None) => reader.choice(plain, PlainType::ALL).map(ContextType::Plain),
        (None, Some(values)) => {
            let items = reader.items(values, 1..=MAX_VALUES);
            let values = items.into_iter().map(|item| reader.text(item, VALUE)).collect();
            Some(ContextType::OneOf(values))
        }
        _ => {
            let message = "the declaration needs exactly one of `type` and `enum`";
            let fix = "Write {\"type\": \"string\"} (or `number`, `boolean`), or {\"enum\": [\"fix\", \"report\"]}.";
            reader.report(o.path(), Code::MissingMember, message, fix);
            None
        }
    };
    reader.finish(&o);
    declared
}
