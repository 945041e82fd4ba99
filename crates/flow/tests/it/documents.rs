//! The documentation pages about runs match the code.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use flow::definition::{NodeType, config};
use flow::event::{EventKind, wire};
use serde_json::Value;

fn page(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats").join(name)
}

#[test]
fn the_table_of_node_types_is_up_to_date() {
    let path = page("run-workflow.md");
    let found = fs::read_to_string(&path).unwrap();
    let mut fresh = found.clone();
    for (name, table) in [("node types", node_types()), ("interrupts", interrupts())] {
        let (begin, end) = (format!("<!-- {name}: generated -->\n"), format!("<!-- {name}: end -->\n"));
        let (before, rest) = fresh.split_once(&begin).unwrap();
        let (_, after) = rest.split_once(&end).unwrap();
        fresh = format!("{before}{begin}\n{table}\n{end}{after}");
    }
    if std::env::var_os("UPDATE_DOCS").is_some_and(|value| value == "1") {
        fs::write(&path, &fresh).unwrap();
        return;
    }
    assert!(found == fresh, "{} is stale; run the tests with UPDATE_DOCS=1", path.display());
}

fn node_types() -> String {
    let mut table = String::from("| Type | What it does | Configuration | Inputs |\n|---|---|---|---|\n");
    for kind in NodeType::all() {
        let config = config::schema(kind).map_or_else(|| "anything".to_owned(), |schema| members(&schema));
        let inputs =
            kind.input_names().map_or_else(|| "any".to_owned(), |names| format!("`{}`", names.join("`, `")));
        writeln!(table, "| `{kind}` | {} | {config} | {inputs} |", kind.summary()).unwrap();
    }
    table
}

fn interrupts() -> String {
    let schema = config::schema(NodeType::Interrupt).unwrap();
    let mut table = String::from("| `kind` | `data` |\n|---|---|\n");
    for case in schema["allOf"].as_array().unwrap() {
        let kind = case["if"]["properties"]["kind"]["const"].as_str().unwrap();
        let data = members(&case["then"]["properties"]["data"]);
        writeln!(table, "| `{kind}` | {data} |").unwrap();
    }
    table
}

/// The members of an object; required ones have a star.
fn members(schema: &Value) -> String {
    let empty = Vec::new();
    let required: Vec<&str> =
        schema["required"].as_array().unwrap_or(&empty).iter().filter_map(Value::as_str).collect();
    let Some(properties) = schema["properties"].as_object() else { return "an object".into() };
    let mut texts: Vec<String> = properties
        .iter()
        .map(|(name, schema)| {
            let star = if required.contains(&name.as_str()) { "\\*" } else { "" };
            format!("`{name}`{star}: {}", shape(schema))
        })
        .collect();
    let choices =
        schema["anyOf"].as_array().unwrap_or(&empty).iter().filter_map(|case| case["required"][0].as_str());
    let choices: Vec<String> = choices.map(|name| format!("`{name}`")).collect();
    if !choices.is_empty() {
        texts.push(format!("{} is required", choices.join(" or ")));
    }
    if schema["additionalProperties"] == Value::Bool(false) {
        texts.push("nothing else".into());
    }
    texts.join("; ")
}

fn shape(schema: &Value) -> String {
    if let Some(only) = schema.get("const") {
        return format!("`{only}`");
    }
    if let Some(values) = schema["enum"].as_array() {
        return values
            .iter()
            .map(|value| format!("`{}`", value.as_str().unwrap()))
            .collect::<Vec<_>>()
            .join(", ");
    }
    if let Some(cases) = schema["oneOf"].as_array() {
        return if cases.len() == 3 { "a decision".into() } else { "one of several".into() };
    }
    if let Some(cases) = schema["anyOf"].as_array() {
        return cases.iter().map(shape).collect::<Vec<_>>().join(" or ");
    }
    match schema["type"].as_str() {
        Some("string") if schema.get("pattern").is_some() => {
            let pattern = schema["pattern"].as_str().unwrap().replace('|', "\\|");
            format!("string that matches `{pattern}`")
        }
        Some("string") => match range(schema, "minLength", "maxLength").as_str() {
            "" => "string".into(),
            "at least 1" => "non-empty string".into(),
            range => format!("string of {range} characters"),
        },
        Some("array") => match range(schema, "minItems", "maxItems").as_str() {
            "" => format!("list, each {}", shape(&schema["items"])),
            range => format!("list of {range}, each {}", shape(&schema["items"])),
        },
        Some("object") if schema["additionalProperties"]["type"] == "string" => {
            "map of names to names".into()
        }
        Some("object") if schema["additionalProperties"].is_object() => "a mapping per worker".into(),
        Some("object") if schema["properties"].is_object() => format!("{{{}}}", members(schema)),
        Some("object") => "object".into(),
        Some(other) if schema.get("exclusiveMinimum").is_some() => {
            format!("{other} above {}, at most {}", schema["exclusiveMinimum"], schema["maximum"])
        }
        Some(other) => match range(schema, "minimum", "maximum").as_str() {
            "" => other.into(),
            range => format!("{other}, {range}"),
        },
        None => "anything".into(),
    }
}

fn range(schema: &Value, least: &str, most: &str) -> String {
    match (schema.get(least), schema.get(most)) {
        (None, None) => String::new(),
        (Some(least), None) => format!("at least {least}"),
        (None, Some(most)) => format!("at most {most}"),
        (Some(least), Some(most)) => format!("{least} to {most}"),
    }
}

#[test]
fn every_event_kind_and_recorded_member_is_documented() {
    let text = fs::read_to_string(page("run-events.md")).unwrap();
    let rows: BTreeMap<&str, &str> = text
        .lines()
        .filter_map(|line| Some((line.strip_prefix("| `")?.split_once("` |")?.0, line)))
        .collect();
    for kind in EventKind::WRITTEN {
        assert!(rows.contains_key(kind.as_str()), "{kind} has no row");
    }
    let known: BTreeSet<&str> = EventKind::WRITTEN.iter().map(EventKind::as_str).collect();
    for kind in rows.keys().filter(|name| name.contains('.')) {
        assert!(known.contains(kind), "{kind} is not written");
    }
    let logs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/logs");
    for folder in fs::read_dir(logs).unwrap() {
        let lines = fs::read_to_string(folder.unwrap().path().join("events.jsonl")).unwrap();
        for event in lines.lines().map(|line| wire::decode(line.as_bytes()).unwrap()) {
            let row = rows[event.data.name()];
            for member in event.payload().keys().filter(|member| *member != "nodeId") {
                assert!(
                    row.contains(&format!("`{member}`")),
                    "{}: `{member}` is not explained",
                    event.kind()
                );
            }
        }
    }
}
