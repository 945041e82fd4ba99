//! Settings. Precedence: flag, environment, file, default.

use std::path::Path;

use serde_json::{Value, json};

use crate::home::TestHome;
use crate::program::{run_command, text};

fn setting(document: &Value, name: &str) -> (Value, String) {
    let settings = document["settings"].as_array().unwrap();
    let setting = settings.iter().find(|setting| setting["name"] == name).unwrap();
    (setting["value"].clone(), setting["origin"].as_str().unwrap().to_owned())
}

#[test]
fn each_setting_shows_its_origin() {
    let test_home = TestHome::new();
    let file = test_home.path("settings.toml");
    std::fs::write(&file, "data_dir = \"from-file\"\n\n[guide]\nworkflow_dirs = [\"flows\"]\n").unwrap();
    let config = file.to_str().unwrap();
    let doctor = |arguments: &[&str], variable: Option<&Path>| -> Value {
        let mut command = test_home.command(&[&["doctor", "--json"], arguments].concat());
        match variable {
            Some(path) => command.env("INTERLOCK_HOME", path),
            None => command.env_remove("INTERLOCK_HOME"),
        };
        serde_json::from_slice(&run_command(&mut command, b"").stdout).unwrap()
    };
    let variable = test_home.path("from-variable");
    let shown = |path: &Path| json!([path.display().to_string()]);
    let flag = test_home.path("from-flag");
    let all = doctor(&["--data-dir", flag.to_str().unwrap(), "--config", config], Some(&variable));
    assert_eq!(setting(&all, "data_dir"), (shown(&flag), "flag --data-dir".to_owned()));
    assert_eq!(setting(&all, "config"), (shown(&file), "flag --config".to_owned()));
    assert_eq!(
        setting(&all, "guide.workflow_dirs"),
        (shown(&test_home.path("flows")), format!("{config} line 4"))
    );
    let environment = doctor(&["--config", config], Some(&variable));
    assert_eq!(
        setting(&environment, "data_dir"),
        (shown(&variable), "environment INTERLOCK_HOME".to_owned())
    );
    let from_file = doctor(&["--config", config], None);
    assert_eq!(
        setting(&from_file, "data_dir"),
        (shown(&test_home.path("from-file")), format!("{config} line 1"))
    );
    let default = doctor(&[], None);
    let (value, origin) = setting(&default, "data_dir");
    assert_eq!(origin, "default");
    assert!(value[0].as_str().unwrap().starts_with(test_home.path("home").to_str().unwrap()), "{value}");
}

#[test]
fn invalid_settings_stop_every_command() {
    let test_home = TestHome::new();
    std::fs::create_dir(test_home.data_dir()).unwrap();
    let config = test_home.data_dir().join("config.toml");
    let cases = [
        ("[guide]\nworkspace_root = []\n", "CONFIG_UNKNOWN_KEY", "guide.workspace_roots"),
        ("[guide\n", "CONFIG_INVALID", "line 1"),
        ("data_dir = \"/elsewhere\"\n", "CONFIG_INVALID", "inside the data directory"),
    ];
    for (content, code, expected) in cases {
        std::fs::write(&config, content).unwrap();
        for command in [&["doctor"][..], &["session", "list"], &["workflow", "list"], &["key", "list"]] {
            let refused = test_home.json(command, 2);
            assert_eq!(refused["code"], code, "{command:?}");
            assert!(refused.to_string().contains(expected), "{refused}");
            assert!(test_home.refused(command, 2).contains(code), "{command:?}");
        }
    }
    let missing = test_home.json(&["doctor", "--config", "/no/such/config.toml"], 2);
    assert_eq!(missing["code"], "CONFIG_UNREADABLE");
}

#[test]
fn without_a_home_the_error_has_a_suggestion() {
    let test_home = TestHome::new();
    let mut command = test_home.command(&["session", "list"]);
    let output = run_command(command.env_remove("HOME").env_remove("INTERLOCK_HOME"), b"");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("DATA_DIR_UNKNOWN"), "{}", text(&output.stderr));
}

#[test]
fn workflows_are_found_in_configured_folders() {
    let test_home = TestHome::new();
    let folder = test_home.path("flows");
    std::fs::create_dir(&folder).unwrap();
    let other = crate::home::TINY.replace("project.tiny", "team.other");
    std::fs::write(folder.join("other.json"), other).unwrap();
    let config = test_home.path("settings.toml");
    std::fs::write(&config, "guide.workflow_dirs = [\"flows\"]").unwrap();
    test_home.expect(&["workflow", "show", "team.other"], 1);
    test_home.expect(&["workflow", "show", "team.other", "--config", config.to_str().unwrap()], 0);
    test_home.expect(&["workflow", "show", "team.other", "--workflows", folder.to_str().unwrap()], 0);
}
