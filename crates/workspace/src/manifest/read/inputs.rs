//! `spec.inputs`.

use regex::Regex;
use serde_json::Value;

use super::reader::{Fields, Reader};
use crate::manifest::bind::input::{self, MAX_PATTERN};
use crate::manifest::model::{Constraints, Input};
use crate::manifest::node::{Node, Tree};
use crate::manifest::problem::{At, quoted};
use crate::manifest::token;
use crate::manifest::vocabulary::InputType;

const MEMBERS: [&str; 12] = [
    "type",
    "required",
    "default",
    "enum",
    "description",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
];
const MAX_DESCRIPTION: usize = 4096;

/// The most inputs. Each may have a pattern, which takes a few hundred kilobytes at worst.
const MAX_INPUTS: usize = 256;

pub(super) fn read(reader: &mut Reader<'_>, node: &Node, at: &At<'_>) -> Vec<(String, Input)> {
    let Some(fields) = reader.open_fields(node, at) else { return Vec::new() };
    if fields.members().len() > MAX_INPUTS {
        reader.problem(node, at, format_args!("too many inputs; the limit is {MAX_INPUTS}"));
        return Vec::new();
    }
    let mut inputs = Vec::new();
    for member in fields.members() {
        let at = at.member(&member.key);
        if !token::is_name(&member.key) {
            let message = "not a valid input name: use letters, digits, `_` and `-`, starting with a letter or `_`, at most 64";
            reader.problems.add(&at, member.position, message);
        }
        if let Some(input) = input(reader, &member.value, &at) {
            inputs.push((member.key.clone(), input));
        }
    }
    inputs
}

fn input(reader: &mut Reader<'_>, node: &Node, at: &At<'_>) -> Option<Input> {
    let fields = reader.fields(node, at, &MEMBERS)?;
    reader.optional_text(&fields, at, "description", MAX_DESCRIPTION);
    let required = reader.flag(&fields, at, "required");
    let kind: InputType = reader.required_choice(&fields, at, "type")?;
    let constraints = constraints(reader, &fields, at, kind);
    let mut input = Input { kind, required, default: None, constraints };
    if let Some(node) = fields.get("enum") {
        input.constraints.one_of = one_of(reader, node, &at.member("enum"), &input);
    }
    if let Some(node) = fields.get("default") {
        let value = node.value();
        match input::check(&input, &value) {
            Ok(()) => input.default = Some(value),
            Err(reason) => reader.problem(node, &at.member("default"), format_args!("the default {reason}")),
        }
    }
    Some(input)
}

fn one_of(reader: &mut Reader<'_>, node: &Node, at: &At<'_>, input: &Input) -> Option<Vec<Value>> {
    let mut allowed = Vec::new();
    for (at, item) in reader.items(node, at) {
        let value = item.value();
        match input::check(input, &value) {
            Ok(()) => allowed.push(value),
            Err(reason) => reader.problem(item, &at, format_args!("the value {reason}")),
        }
    }
    if matches!(&node.tree, Tree::List(items) if items.is_empty()) {
        reader.problem(
            node,
            at,
            "the list is empty, so no value would be allowed; add a value, or remove this member",
        );
    }
    Some(allowed)
}

fn constraints(reader: &mut Reader<'_>, fields: &Fields<'_>, at: &At<'_>, kind: InputType) -> Constraints {
    let mut constraints = Constraints::default();
    for member in fields.members() {
        let (node, at) = (&member.value, at.member(&member.key));
        let wanted = match member.key.as_str() {
            "pattern" | "minLength" | "maxLength" => InputType::String,
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => InputType::Number,
            _ => continue,
        };
        if kind != wanted {
            reader.problem(
                node,
                &at,
                format_args!("only inputs of type `{wanted}` can have this, but the type is `{kind}`"),
            );
            continue;
        }
        let length = |reader: &mut Reader<'_>| reader.whole_number(node, &at, u64::from(u32::MAX));
        match member.key.as_str() {
            "pattern" => constraints.pattern = pattern(reader, node, &at),
            "minLength" => constraints.min_length = length(reader),
            "maxLength" => constraints.max_length = length(reader),
            "minimum" => constraints.minimum = reader.number(node, &at),
            "maximum" => constraints.maximum = reader.number(node, &at),
            "exclusiveMinimum" => constraints.exclusive_minimum = reader.number(node, &at),
            _ => constraints.exclusive_maximum = reader.number(node, &at),
        }
    }
    constraints
}

fn pattern(reader: &mut Reader<'_>, node: &Node, at: &At<'_>) -> Option<Regex> {
    let text = reader.bounded_text(node, at, MAX_PATTERN)?;
    match input::regex(text) {
        Ok(regex) => Some(regex),
        Err(reason) => {
            reader.problem(node, at, format_args!("{} is not a valid pattern: {reason}", quoted(text)));
            None
        }
    }
}
