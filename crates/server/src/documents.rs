//! The documents that are made from the definitions.
//!
//! They are kept in the repository, where people read them, and a test compares them with what
//! this module makes.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::tool::parameter::{self, Kind, Parameter};
use crate::tool::{Definition, ERROR, Member, Tool, definition};

/// Every document: its path below `docs`, and its text.
pub fn all() -> Vec<(String, String)> {
    let mut documents = vec![("tools.md".to_owned(), tools())];
    for tool in Tool::ALL {
        let text = format!("{:#}\n", schema(definition(tool)));
        documents.push((format!("schemas/tools/{}.json", tool.name()), text));
    }
    documents
}

/// One tool as `tools/list` gives it.
fn schema(definition: &Definition) -> Value {
    json!({
        "name": definition.tool.name(),
        "title": definition.title,
        "description": definition.description(),
        "inputSchema": definition.input_schema(),
        "outputSchema": definition.output_schema(),
        "annotations": {
            "title": definition.title,
            "readOnlyHint": definition.read_only,
            "idempotentHint": definition.idempotent,
            "destructiveHint": false,
            "openWorldHint": false,
        },
    })
}

fn tools() -> String {
    let mut text = format!(
        "# Tools\n\n<!-- Generated from the definitions in crates/server/src/tool. Edit those, then run the \
         server's tests with \
         UPDATE_DOCS=1. -->\n\nWhat `interlock mcp` offers to an agent. A reply has prose for the model in `content` and the \
         same facts in\n`structuredContent`. A failed call has `isError: true` and the body `{{code, message, retry, \
         details}}` in both;\n[each code has a page](errors/README.md). Arguments may have at most {} bytes of \
         canonical JSON, and a parameter\nthat is optional may also be `null`.\n",
        crate::call::MAX_ARGUMENT_BYTES
    );
    for tool in Tool::ALL {
        section(definition(tool), &mut text);
    }
    text.push_str("\n## A failed call\n\n");
    members(ERROR, &mut text);
    text
}

fn section(definition: &Definition, text: &mut String) {
    let name = definition.tool.name();
    let _ = write!(text, "\n## {name}\n\n{}\n\n", definition.purpose);
    let effect = match (definition.read_only, definition.idempotent) {
        (true, _) => "Changes nothing.",
        (false, true) => "Idempotent: repeating the call has no further effect.",
        (false, false) => "Not idempotent: each call has its own effect.",
    };
    let _ = writeln!(text, "{effect} Schemas: [{name}.json](schemas/tools/{name}.json).\n\nWhen to use:\n");
    for line in definition.when {
        let _ = writeln!(text, "- {line}");
    }
    text.push_str("\n| Parameter | Required | Type | Meaning |\n|---|---|---|---|\n");
    rows(definition.parameters, "", text);
    if !definition.aliases.is_empty() {
        let aliases: Vec<String> = definition
            .aliases
            .iter()
            .map(|alias| format!("`{}` for `{}`", alias.name, alias.path.join(".")))
            .collect();
        let _ = writeln!(text, "\nAliases: {}. A call with both names is rejected.", aliases.join(", "));
    }
    if !definition.rules.is_empty() {
        text.push_str("\nRules:\n\n");
        for line in definition.rules {
            let _ = writeln!(text, "- {line}");
        }
    }
    let _ = writeln!(
        text,
        "\nExample:\n\n```json\n{}\n```\n\nReturns: {}\n",
        json!({"name": name, "arguments": definition.example_arguments()}),
        definition.returns
    );
    members(definition.output, text);
}

fn members(members: &[Member], text: &mut String) {
    text.push_str("| Field | Always | Type | Meaning |\n|---|---|---|---|\n");
    for Member { name, always, shape, about } in members {
        let always = if *always { "yes" } else { "no" };
        let _ = writeln!(text, "| `{name}` | {always} | {} | {about} |", shape.words());
    }
}

fn rows(parameters: &[Parameter], prefix: &str, text: &mut String) {
    for parameter in parameters {
        let need = if parameter.required { "yes" } else { "no" };
        let kind = match parameter.kind {
            Kind::Text { max_bytes } => format!("string, ≤ {max_bytes} bytes"),
            Kind::Path => format!("absolute path, ≤ {} bytes", parameter::PATH_BYTES),
            Kind::Choice(choices) => {
                choices.iter().map(|one| format!("`{one}`")).collect::<Vec<_>>().join(", ")
            }
            Kind::Flag => "boolean".to_owned(),
            Kind::Names(names) => format!("list of {}", names().join(", ")),
            Kind::Object | Kind::Group(_) => "object".to_owned(),
            Kind::Objects { max_items } => format!("list of objects, ≤ {max_items}"),
        };
        let _ = writeln!(text, "| `{prefix}{}` | {need} | {kind} | {} |", parameter.name, parameter.about);
        if let Kind::Group(members) = parameter.kind {
            rows(members, &format!("{prefix}{}.", parameter.name), text);
        }
    }
}
