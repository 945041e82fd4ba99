//! Edits one entry of a client's configuration file.
//!
//! Everything except the entry keeps its bytes: comments, order, indentation, and unknown members.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use serde_json::Value;
use toml_edit::{Array, DocumentMut, Item, Table};

use super::clients::Form;
use super::entry::Entry;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Edited {
    /// The entry is already there.
    Unchanged,
    Added(String),
    Replaced(String),
    Removed(String),
}

#[derive(Debug, thiserror::Error)]
pub(super) enum EditError {
    #[error("{0}")]
    Syntax(String),
    #[error("`{0}` is not an object")]
    NotAnObject(String),
    /// The contents are not printed, because an entry may contain keys.
    #[error("the file has a different entry of that name")]
    Differs,
}

/// Adds or updates an entry. A different entry of that name is replaced only if `replace` is set.
pub(super) fn put(
    text: &str,
    form: Form,
    name: &str,
    entry: &Entry,
    replace: bool,
) -> Result<Edited, EditError> {
    match form {
        Form::Json { servers, names_transport } => {
            put_json(text, servers, name, &entry.to_json(names_transport), replace)
        }
        Form::Toml { servers } => put_toml(text, servers, name, entry, replace),
    }
}

/// Removes an entry, and the list of servers if it was the last one.
pub(super) fn remove(text: &str, form: Form, name: &str) -> Result<Edited, EditError> {
    match form {
        Form::Json { servers, .. } => remove_json(text, servers, name),
        Form::Toml { servers } => remove_toml(text, servers, name),
    }
}

fn put_json(
    text: &str,
    servers: &str,
    name: &str,
    entry: &Value,
    replace: bool,
) -> Result<Edited, EditError> {
    let root = parse_json(text)?;
    let document =
        root.object_value_or_create().ok_or_else(|| EditError::NotAnObject("the file".to_owned()))?;
    let list =
        document.object_value_or_create(servers).ok_or_else(|| EditError::NotAnObject(servers.to_owned()))?;
    let Some(found) = list.get(name) else {
        list.append(name, input(entry));
        list.ensure_multiline();
        document.ensure_multiline();
        return Ok(Edited::Added(ended(root.to_string())));
    };
    let known = found.value().and_then(|value| value.to_serde_value()).unwrap_or_default();
    if known == *entry {
        return Ok(Edited::Unchanged);
    }
    if !replace {
        return Err(EditError::Differs);
    }
    found.set_value(input(entry));
    Ok(Edited::Replaced(ended(root.to_string())))
}

fn remove_json(text: &str, servers: &str, name: &str) -> Result<Edited, EditError> {
    let root = parse_json(text)?;
    let list: Option<CstObject> = root.object_value().and_then(|document| document.object_value(servers));
    let Some((list, found)) = list.and_then(|list| list.get(name).map(|found| (list, found))) else {
        return Ok(Edited::Unchanged);
    };
    found.remove();
    if list.properties().is_empty()
        && let Some(member) = root.object_value().and_then(|document| document.get(servers))
    {
        member.remove();
    }
    Ok(Edited::Removed(ended(root.to_string())))
}

/// JSON as these clients read it: with comments and trailing commas, but nothing looser.
fn parse_json(text: &str) -> Result<CstRootNode, EditError> {
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    CstRootNode::parse(text, &options).map_err(|error| EditError::Syntax(error.to_string()))
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(members) => {
            CstInputValue::Object(members.iter().map(|(name, value)| (name.clone(), input(value))).collect())
        }
    }
}

fn put_toml(
    text: &str,
    servers: &str,
    name: &str,
    entry: &Entry,
    replace: bool,
) -> Result<Edited, EditError> {
    let mut document = parse_toml(text)?;
    let mut implicit = Table::new();
    implicit.set_implicit(true);
    let list = document.entry(servers).or_insert(Item::Table(implicit));
    let list = list.as_table_like_mut().ok_or_else(|| EditError::NotAnObject(servers.to_owned()))?;
    match list.get(name).map(|known| says(known, entry)) {
        Some(true) => return Ok(Edited::Unchanged),
        Some(false) if !replace => return Err(EditError::Differs),
        Some(false) | None => {}
    }
    let mut table = Table::new();
    table.insert("command", entry.command.as_str().into());
    table.insert("args", Item::Value(entry.args.iter().map(String::as_str).collect::<Array>().into()));
    let replaced = list.insert(name, Item::Table(table)).is_some();
    let text = ended(document.to_string());
    Ok(if replaced { Edited::Replaced(text) } else { Edited::Added(text) })
}

fn remove_toml(text: &str, servers: &str, name: &str) -> Result<Edited, EditError> {
    let mut document = parse_toml(text)?;
    let Some(list) = document.get_mut(servers).and_then(Item::as_table_like_mut) else {
        return Ok(Edited::Unchanged);
    };
    if list.remove(name).is_none() {
        return Ok(Edited::Unchanged);
    }
    if list.is_empty() {
        document.remove(servers);
    }
    Ok(Edited::Removed(ended(document.to_string())))
}

fn parse_toml(text: &str) -> Result<DocumentMut, EditError> {
    text.parse().map_err(|error: toml_edit::TomlError| EditError::Syntax(error.to_string()))
}

/// Whether a table starts the same command, ignoring other keys.
fn says(item: &Item, entry: &Entry) -> bool {
    let Some(table) = item.as_table_like() else { return false };
    let command = table.get("command").and_then(Item::as_str);
    let args = table.get("args").and_then(Item::as_array);
    let args = args.map(|args| args.iter().map(toml_edit::Value::as_str).collect::<Vec<_>>());
    command == Some(entry.command.as_str())
        && args
            .is_some_and(|args| args == entry.args.iter().map(|arg| Some(arg.as_str())).collect::<Vec<_>>())
}

/// Ensures a trailing newline.
fn ended(mut text: String) -> String {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLAUDE: Form = Form::Json { servers: "mcpServers", names_transport: false };
    const VSCODE: Form = Form::Json { servers: "servers", names_transport: true };
    const CODEX: Form = Form::Toml { servers: "mcp_servers" };

    fn entry() -> Entry {
        Entry { command: "/opt/interlock".to_owned(), args: vec!["mcp".to_owned()] }
    }

    fn added(text: &str, form: Form) -> String {
        match put(text, form, "interlock", &entry(), false).unwrap() {
            Edited::Added(text) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_new_file_contains_only_the_entry() {
        for (form, expected) in [
            (
                CLAUDE,
                "{\n  \"mcpServers\": {\n    \"interlock\": {\n      \"args\": [\"mcp\"],\n      \"command\": \"/opt/interlock\"\n    }\n  }\n}\n",
            ),
            (
                VSCODE,
                "{\n  \"servers\": {\n    \"interlock\": {\n      \"args\": [\"mcp\"],\n      \"command\": \"/opt/interlock\",\n      \"type\": \"stdio\"\n    }\n  }\n}\n",
            ),
            (CODEX, "[mcp_servers.interlock]\ncommand = \"/opt/interlock\"\nargs = [\"mcp\"]\n"),
        ] {
            assert_eq!(added("", form), expected);
        }
    }

    #[test]
    fn install_and_uninstall_preserve_the_rest_of_the_file() {
        let cases = [
            (
                CLAUDE,
                "{\n    // mine\n    \"theme\": \"dark\",\n    \"mcpServers\": {\n        \"other\": {\"command\": \"x\"}, // keep\n    },\n    \"z\": [1, 2.50]\n}\n",
            ),
            (CLAUDE, "{\"b\":1,\"mcpServers\":{\"other\":{}},\"a\":2}\n"),
            (VSCODE, "{\n\t\"inputs\": [],\n\t\"servers\": {\n\t\t\"other\": {}\n\t}\n}\n"),
            (
                CODEX,
                "# mine\nmodel = \"o\"\n\n[mcp_servers.other]\ncommand = \"x\" # keep\n\n[tui]\ntheme = 1\n",
            ),
        ];
        for (form, text) in cases {
            let with = added(text, form);
            assert!(with.contains("/opt/interlock"), "{with}");
            for kept in
                text.lines().map(str::trim).filter(|line| line.starts_with("//") || line.starts_with('#'))
            {
                assert!(with.contains(kept), "{kept} is missing in {with}");
            }
            assert_eq!(put(&with, form, "interlock", &entry(), false).unwrap(), Edited::Unchanged);
            let Edited::Removed(without) = remove(&with, form, "interlock").unwrap() else {
                panic!("{with}")
            };
            let same = |text: &str| text.split_whitespace().collect::<String>().replace(",}", "}");
            assert_eq!(same(&without), same(text));
        }
    }

    #[test]
    fn an_empty_server_list_is_removed() {
        for (form, empty) in [(CLAUDE, "{}"), (CODEX, "")] {
            let Edited::Removed(text) = remove(&added("", form), form, "interlock").unwrap() else {
                panic!()
            };
            assert_eq!(text.split_whitespace().collect::<String>(), empty);
        }
    }

    #[test]
    fn a_different_entry_is_replaced_only_with_the_flag() {
        for (form, text) in [
            (CLAUDE, "{\"mcpServers\": {\"interlock\": {\"command\": \"old\"}}}"),
            (CODEX, "[mcp_servers.interlock]\ncommand = \"old\"\n"),
        ] {
            let error = put(text, form, "interlock", &entry(), false).unwrap_err();
            assert!(matches!(error, EditError::Differs), "{error}");
            let Edited::Replaced(text) = put(text, form, "interlock", &entry(), true).unwrap() else {
                panic!()
            };
            assert!(text.contains("/opt/interlock") && !text.contains("old"), "{text}");
        }
    }

    #[test]
    fn invalid_files_are_not_changed() {
        let deep = "[".repeat(30_000);
        for (form, text) in [
            (CLAUDE, "{\"mcpServers\": "),
            (CLAUDE, "[]"),
            (CLAUDE, "{\"mcpServers\": []}"),
            (CLAUDE, "{'mcpServers': {}}"),
            (CLAUDE, deep.as_str()),
            (CODEX, "mcp_servers = 1"),
            (CODEX, "= 1"),
        ] {
            assert!(put(text, form, "interlock", &entry(), true).is_err(), "{}", &text[..text.len().min(40)]);
        }
        assert!(remove(&deep, CLAUDE, "interlock").is_err());
    }
}
