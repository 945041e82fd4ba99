//! `interlock doctor`.

use serde_json::Value;

use crate::home::TestHome;
use crate::program::root;

fn check<'d>(document: &'d Value, name: &str) -> &'d Value {
    let checks = document["checks"].as_array().unwrap();
    checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("{name}: {document}"))
}

#[test]
fn a_healthy_directory_has_no_problems() {
    let test_home = TestHome::new();
    test_home.complete_session("be well");
    let document = test_home.json(&["doctor"], 0);
    assert_eq!(document["well"], true);
    for (name, expected) in [
        ("readable", ""),
        ("writable", ""),
        ("format", "version 1"),
        ("keyring", "key_"),
        ("index", "bytes"),
        ("sessions", "1, all healthy"),
        ("workflows", "sources"),
    ] {
        let check = check(&document, name);
        assert_eq!(check["state"], "ok", "{name}");
        assert!(check["found"].as_str().unwrap().contains(expected), "{name}: {check}");
    }
    let words = test_home.expect(&["doctor"], 0);
    assert!(words.contains("environment INTERLOCK_HOME"), "{words}");
}

#[test]
fn problems_are_reported_with_a_fix() {
    let test_home = TestHome::new();
    test_home.complete_session("be hurt");
    std::fs::write(test_home.data_dir().join("format.json"), "{\"version\":2}").unwrap();
    let document = test_home.json(&["doctor"], 1);
    let format = check(&document, "format");
    assert_eq!(format["state"], "fail");
    assert!(format["found"].as_str().unwrap().contains("STORE_NEWER_VERSION"), "{format}");
    std::fs::write(test_home.data_dir().join("format.json"), "{\"version\":1}").unwrap();
    std::fs::write(test_home.workspace().join("workflows/broken.json"), "{").unwrap();
    assert_eq!(check(&test_home.json(&["doctor"], 0), "workflows")["state"], "warn");
}

/// A data directory with one finished run.
fn with_a_run() -> TestHome {
    let test_home = TestHome::new();
    let workflow = root().join("examples/runs/nightly.yaml");
    let ran = test_home.json(&["run", "--follow", workflow.to_str().unwrap()], 0);
    assert_eq!(ran["status"], "completed");
    test_home
}

/// Finding M5: doctor reads the run database, and reports damage with a fix.
#[test]
fn a_damaged_run_database_is_reported() {
    let test_home = with_a_run();
    let path = test_home.data_dir().join("runs.sqlite3");
    let before: Vec<_> = names(&test_home);
    let whole = test_home.json(&["doctor"], 0);
    let found = check(&whole, "run database");
    assert_eq!(found["state"], "ok");
    assert!(found["found"].as_str().unwrap().starts_with("1 runs, all readable"), "{found}");
    assert_eq!(check(&whole, "audit log")["state"], "ok");
    assert_eq!(names(&test_home), before, "the check leaves no files");

    let content = std::fs::read(&path).unwrap();
    let damaged = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut content = content.clone();
        change(&mut content);
        std::fs::write(&path, content).unwrap();
        let document = test_home.json(&["doctor"], 1);
        let found = check(&document, "run database").clone();
        assert_eq!(found["state"], "fail", "{found}");
        assert!(found["help"].as_str().unwrap().contains("interlock backup"), "{found}");
        found["found"].as_str().unwrap().to_owned()
    };
    damaged(&|content| content.truncate(content.len() * 7 / 10));
    damaged(&|content| content[..16].copy_from_slice(b"no database here"));
    let event = damaged(&|content| {
        let sign = b"\"type\":\"run.started\"";
        let at = content.windows(sign.len()).position(|part| part == sign).unwrap();
        content[at] = b'!';
    });
    assert!(event.starts_with("1 of 1 runs cannot be read (run_"), "{event}");

    std::fs::write(&path, &content[..content.len() * 7 / 10]).unwrap();
    let refused = test_home.refused(&["serve", "--listen", "127.0.0.1:0"], 2);
    assert!(refused.contains("STORE_IO") && refused.contains("interlock backup"), "{refused}");
}

/// The files at the top of the data directory.
fn names(test_home: &TestHome) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(test_home.data_dir())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Finding M5: a missing database is not silently replaced.
#[test]
fn a_missing_run_database_is_reported() {
    let test_home = with_a_run();
    let path = test_home.data_dir().join("runs.sqlite3");
    for emptied in [false, true] {
        std::fs::remove_file(&path).unwrap();
        if emptied {
            std::fs::write(&path, "").unwrap();
        }
        let document = test_home.json(&["doctor"], 1);
        assert_eq!(check(&document, "run database")["state"], "fail", "{document}");
        for command in [&["serve", "--listen", "127.0.0.1:0"][..], &["key", "new-api-key"]] {
            let refused = test_home.refused(command, 2);
            assert!(refused.contains("RUNS_DATABASE_MISSING"), "{refused}");
            assert!(refused.contains("interlock backup") && refused.contains("--new-database"), "{refused}");
        }
        if !emptied {
            std::fs::write(&path, "").unwrap();
        }
    }
    // Guided sessions alone need no database, and the first one is created without a flag.
    let guided = TestHome::new();
    guided.complete_session("be guided");
    assert_eq!(check(&guided.json(&["doctor"], 0), "run database")["state"], "ok");
    guided.json(&["key", "new-api-key"], 0);
}

/// Finding M6: a key without scopes does not get `host:admin`, and keys with it are listed.
#[test]
fn host_admin_keys_are_listed() {
    let test_home = TestHome::new();
    let key = test_home.json(&["key", "new-api-key", "--tenant", "acme"], 0);
    let scopes = key["scopes"].as_array().unwrap();
    assert!(!scopes.contains(&"host:admin".into()) && scopes.contains(&"runs:read".into()), "{key}");
    assert_eq!(check(&test_home.json(&["doctor"], 0), "host:admin keys")["state"], "ok");
    let key = test_home.json(&["key", "new-api-key", "--tenant", "acme", "--scope", "host:admin"], 0);
    let document = test_home.json(&["doctor"], 0);
    let found = check(&document, "host:admin keys");
    assert_eq!(found["state"], "warn");
    assert!(found["found"].as_str().unwrap().contains(key["id"].as_str().unwrap()), "{found}");
}
