//! `interlock mcp install`: the written entry starts a working server.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::program::{interlock, run_command, text};

const CLIENTS: [(&str, &str, &[&str]); 7] = [
    ("claude", ".claude.json", &["mcpServers"]),
    ("claude-desktop", ".config/Claude/claude_desktop_config.json", &["mcpServers"]),
    ("cursor", ".cursor/mcp.json", &["mcpServers"]),
    ("vscode", ".config/Code/User/mcp.json", &["servers"]),
    ("codex", ".codex/config.toml", &["mcp_servers"]),
    ("gemini", ".gemini/settings.json", &["mcpServers"]),
    ("windsurf", ".codeium/windsurf/mcp_config.json", &["mcpServers"]),
];

/// The program with `home` as the user's home, in the project `home/project`.
fn command(home: &Path, arguments: &[&str]) -> Command {
    let project = home.join("project");
    std::fs::create_dir_all(&project).unwrap();
    let mut command = interlock(arguments);
    command.current_dir(project).env("HOME", home);
    for variable in ["XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "INTERLOCK_HOME"] {
        command.env_remove(variable);
    }
    command
}

fn entry(file: &Path, servers: &[&str]) -> Option<Value> {
    let content = std::fs::read_to_string(file).unwrap();
    let document: Value = if file.extension().is_some_and(|extension| extension == "toml") {
        let document: toml_edit::DocumentMut = content.parse().unwrap();
        let table = document.get(servers[0])?.get("interlock")?.as_table().unwrap().clone();
        let args = table["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap());
        return Some(json!({"command": table["command"].as_str(), "args": args.collect::<Vec<_>>()}));
    } else {
        serde_json::from_str(&content).unwrap()
    };
    document.get(servers[0])?.get("interlock").cloned()
}

#[test]
fn every_client_entry_starts_a_server() {
    let home = tempfile::tempdir().unwrap();
    for (client, file, servers) in CLIENTS {
        let file = home.path().join(file);
        let install = ["mcp", "install", "--client", client, "--data-dir", "../data"];
        let output = run_command(&mut command(home.path(), &install), b"");
        assert_eq!(output.status.code(), Some(0), "{client}: {}", text(&output.stderr));
        assert!(
            text(&output.stdout).contains(&format!("interlock mcp uninstall --client {client}")),
            "{client}"
        );

        let written = entry(&file, servers).unwrap();
        let program = written["command"].as_str().unwrap();
        assert!(Path::new(program).is_absolute(), "{program}");
        let arguments: Vec<&str> =
            written["args"].as_array().unwrap().iter().map(|argument| argument.as_str().unwrap()).collect();
        assert_eq!(arguments[0], "mcp");
        assert!(
            Path::new(arguments[2]).is_absolute(),
            "the path does not depend on the client's working directory"
        );

        let again = run_command(&mut command(home.path(), &install), b"");
        assert!(text(&again.stdout).contains("already"), "{client}");

        let initialize = json!({
            "jsonrpc": "2.0", "id": 1, "method": "initialize",
            "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
        });
        let mut started = Command::new(program);
        started.args(&arguments).current_dir("/").env("HOME", home.path());
        let answered = run_command(&mut started, format!("{initialize}\n").as_bytes());
        let answer: Value = serde_json::from_str(text(&answered.stdout).lines().next().unwrap()).unwrap();
        assert_eq!(answer["result"]["serverInfo"]["name"], "interlock", "{client}: {answer}");

        let uninstall = ["mcp", "uninstall", "--client", client, "--json"];
        let removed = run_command(&mut command(home.path(), &uninstall), b"");
        let removed: Value = serde_json::from_str(&text(&removed.stdout)).unwrap();
        assert_eq!(removed["change"], "removed", "{client}");
        assert_eq!(entry(&file, servers), None, "{client}");
        let nothing = run_command(&mut command(home.path(), &uninstall), b"");
        assert!(text(&nothing.stdout).contains("unchanged"), "{client}");
    }
}

/// Clients start a server with an environment of their own: Codex passes only a few variables.
#[test]
fn the_data_directory_of_the_environment_is_written_down() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    for (name, variables, flags, expected) in [
        ("nothing is set", None, vec![], None),
        ("the variable", Some(&data), vec![], Some(data.as_path())),
        ("the flag wins", Some(&data), vec!["--data-dir", "/other"], Some(Path::new("/other"))),
    ] {
        let mut arguments = vec!["mcp", "install", "--client", "codex", "--replace"];
        arguments.extend(flags);
        let mut command = command(home.path(), &arguments);
        command.envs(variables.map(|path| ("INTERLOCK_HOME", path)));
        let output = run_command(&mut command, b"");
        assert_eq!(output.status.code(), Some(0), "{name}: {}", text(&output.stderr));
        let written = entry(&home.path().join(".codex/config.toml"), &["mcp_servers"]).unwrap();
        let expected = expected.map_or_else(|| json!(["mcp"]), |path| json!(["mcp", "--data-dir", path]));
        assert_eq!(written["args"], expected, "{name}");
    }
}

#[test]
fn a_dry_run_shows_the_change_and_writes_nothing() {
    let home = tempfile::tempdir().unwrap();
    let arguments = ["mcp", "install", "--client", "cursor", "--scope", "project", "--dry-run"];
    let output = run_command(&mut command(home.path(), &arguments), b"");
    assert_eq!(output.status.code(), Some(0));
    let shown = text(&output.stdout);
    assert!(shown.contains(".cursor/mcp.json") && shown.contains("+     \"interlock\": {"), "{shown}");
    assert!(!home.path().join("project/.cursor").exists());
}

#[test]
fn a_different_entry_and_a_broken_file_are_not_changed() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("project/.mcp.json");
    let install = ["mcp", "install", "--client", "claude", "--scope", "project", "--json"];
    for (content, code, exit) in [
        (
            r#"{"mcpServers": {"interlock": {"command": "other", "env": {"KEY": "hush"}}}}"#,
            "CLIENT_ENTRY_DIFFERS",
            1,
        ),
        (r#"{"mcpServers": "#, "CLIENT_CONFIG_INVALID", 2),
        (r#"{"mcpServers": []}"#, "CLIENT_CONFIG_INVALID", 2),
    ] {
        let mut command = command(home.path(), &install);
        std::fs::write(&file, content).unwrap();
        let output = run_command(&mut command, b"");
        assert_eq!(output.status.code(), Some(exit), "{content}");
        let envelope: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
        assert_eq!(envelope["code"], code);
        assert!(!text(&output.stdout).contains("hush"), "an entry may contain keys");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), content);
    }
    std::fs::write(&file, r#"{"mcpServers": {"interlock": {"command": "other"}}}"#).unwrap();
    let replace = [&install[..], &["--replace"]].concat();
    let output = run_command(&mut command(home.path(), &replace), b"");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    assert_ne!(entry(&file, &["mcpServers"]).unwrap()["command"], "other");
}

#[test]
fn a_client_without_project_settings_is_an_error() {
    let home = tempfile::tempdir().unwrap();
    let arguments = ["mcp", "install", "--client", "windsurf", "--scope", "project"];
    let output = run_command(&mut command(home.path(), &arguments), b"");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--scope user"));
}
