//! The files for other programs start this program as it can be started, and agree with each other.
//!
//! That they have the form which those programs publish is checked by `tests/integrations/run`, which needs the network.

use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::program::run_command;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn document(path: &str) -> Value {
    let bytes = std::fs::read(repository().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Runs a command line of one of the files with this program in place of the one in the `PATH`.
fn run(words: &[&str], input: &str) -> std::process::Output {
    assert_eq!(words[0], "interlock");
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_interlock"));
    command.args(&words[1..]).env("INTERLOCK_HOME", dir.path()).current_dir(dir.path());
    run_command(&mut command, input.as_bytes())
}

fn entry() -> Value {
    json!({"command": "interlock", "args": ["mcp"]})
}

#[test]
fn every_file_starts_the_server_in_the_same_way_and_the_program_answers() {
    for path in ["integrations/claude-code/.mcp.json", "integrations/project/.mcp.json"] {
        assert_eq!(document(path), json!({"mcpServers": {"interlock": entry()}}), "{path}");
    }
    let initialize = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    });
    let output = run(&["interlock", "mcp"], &format!("{initialize}\n"));
    assert!(output.status.success(), "{output:?}");
    let answer: Value =
        serde_json::from_slice(output.stdout.split(|byte| *byte == b'\n').next().unwrap()).unwrap();
    assert_eq!(answer["result"]["serverInfo"]["name"], "interlock", "{answer}");
}

#[test]
fn the_hooks_of_the_plugin_are_those_that_the_program_answers() {
    let hooks = document("integrations/claude-code/hooks/hooks.json");
    let events = hooks["hooks"].as_object().unwrap();
    assert_eq!(events.keys().collect::<Vec<_>>(), ["PreToolUse", "SessionStart", "Stop"]);
    for (event, matchers) in events {
        for hook in
            matchers.as_array().unwrap().iter().flat_map(|matcher| matcher["hooks"].as_array().unwrap())
        {
            let command = hook["command"].as_str().unwrap();
            let input = json!({"hook_event_name": event, "cwd": "/", "session_id": "s"}).to_string();
            let output = run(&command.split(' ').collect::<Vec<_>>(), &input);
            assert!(output.status.success(), "{event}: {output:?}");
        }
    }
    let page = std::fs::read_to_string(repository().join("docs/how-to/hooks.md")).unwrap();
    let matcher = hooks["hooks"]["PreToolUse"][0]["matcher"].as_str().unwrap();
    assert!(
        page.contains(&format!("\"matcher\": \"{matcher}\"")),
        "the page and the plugin match the same tools"
    );
}

#[test]
fn the_plugin_is_in_the_marketplace_and_all_have_the_version_of_the_program() {
    let market = document(".claude-plugin/marketplace.json");
    let listed = &market["plugins"][0];
    let source = listed["source"].as_str().unwrap();
    let plugin = document(&format!("{source}/.claude-plugin/plugin.json"));
    let server = document("server.json");
    for name in ["name", "description", "license", "version"] {
        assert_eq!(listed[name], plugin[name], "{name}");
    }
    for version in [&plugin["version"], &server["version"]] {
        assert_eq!(*version, env!("CARGO_PKG_VERSION"));
    }
    let description = server["description"].as_str().unwrap();
    assert!(description.len() <= 100, "registries take at most 100 characters: {}", description.len());
    assert_eq!(server["remotes"][0]["url"], "https://{host}/mcp");
}

#[test]
fn install_links_hold_what_they_install() {
    let page = std::fs::read_to_string(repository().join("docs/how-to/connect-an-agent.md")).unwrap();
    let links: Vec<_> = page
        .split(|c: char| c.is_whitespace() || matches!(c, '(' | ')'))
        .filter(|word| word.contains("mcp/install?") || word.contains("install-mcp?"))
        .collect();
    assert_eq!(links.len(), 4, "{links:?}");
    for link in links {
        let (_, query) = link.split_once('?').unwrap();
        let parameters: Vec<(String, String)> =
            url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let installed = match parameters.as_slice() {
            // The whole query is the configuration.
            [(config, _)] => {
                let mut config: Value = serde_json::from_str(config).unwrap();
                assert_eq!(config.as_object_mut().unwrap().remove("name").unwrap(), "interlock", "{link}");
                config
            }
            [(name, server), (config, value)] => {
                assert_eq!(
                    (name.as_str(), server.as_str(), config.as_str()),
                    ("name", "interlock", "config")
                );
                let bytes = STANDARD.decode(value).unwrap_or_else(|_| value.as_bytes().to_vec());
                serde_json::from_slice(&bytes).unwrap()
            }
            other => panic!("{link}: {other:?}"),
        };
        assert_eq!(installed, entry(), "{link}");
    }
}
