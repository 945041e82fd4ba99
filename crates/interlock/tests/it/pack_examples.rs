//! The packs in `examples/packs` and the walk-through in `docs/concepts/packs.md`, each followed to
//! a run.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::home::TestHome;
use crate::program::{root, text};

/// Set to regenerate the bytes after a change of the text.
const REWRITE: &str = "INTERLOCK_REWRITE_MODULES";

fn examples() -> PathBuf {
    root().join("examples/packs")
}

/// A copy of the folder, so that the source is not changed.
fn copied(test_home: &TestHome) -> PathBuf {
    let mut waiting = vec![(examples(), test_home.path("packs"))];
    while let Some((from, to)) = waiting.pop() {
        std::fs::create_dir(&to).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let (path, place) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
            if path.is_dir() {
                waiting.push((path, place));
            } else {
                std::fs::copy(path, place).unwrap();
            }
        }
    }
    test_home.path("packs")
}

/// The code blocks of a document in a language.
fn blocks(document: &str, language: &str) -> Vec<String> {
    let opening = format!("```{language}\n");
    document.split(&opening).skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

/// Runs lines as a user would type them and returns their output. Stops at the first failure.
fn typed(test_home: &TestHome, folder: &Path, lines: &str) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_interlock")).parent().unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new("sh")
        .args(["-e", "-c", lines])
        .current_dir(folder)
        .env("PATH", format!("{}:{path}", program.display()))
        .env("HOME", test_home.path("home"))
        .env("INTERLOCK_HOME", test_home.data_dir())
        .output()
        .unwrap();
    let words = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{lines}\n{words}");
    words
}

#[test]
fn the_example_module_matches_its_text() {
    let folder = examples().join("word-count");
    let bytes = wat::parse_file(folder.join("nodes.wat")).unwrap();
    if std::env::var_os(REWRITE).is_some() {
        std::fs::write(folder.join("nodes.wasm"), &bytes).unwrap();
    } else {
        let there = std::fs::read(folder.join("nodes.wasm")).unwrap();
        assert_eq!(bytes, there, "nodes.wasm is not nodes.wat; run with {REWRITE}=1");
    }
}

#[test]
fn the_pack_examples_work_as_documented() {
    let test_home = TestHome::new();
    let folder = copied(&test_home);
    let page = std::fs::read_to_string(folder.join("README.md")).unwrap();
    for lines in blocks(&page, "sh") {
        typed(&test_home, &folder, &lines);
    }
    let report = folder.join("report.json").to_str().unwrap().to_owned();
    let run = |text: &str, code: i32| {
        let inputs = json!({"text": text}).to_string();
        test_home.json(&["run", &report, "--inputs", &inputs, "--follow"], code)["run"].clone()
    };
    for (text, words) in
        [("", 0), ("one", 1), ("two words", 2), ("  a\tb\nc \"d\" ", 4), ("ö \u{1F600}x", 2), (" \n ", 0)]
    {
        assert_eq!(run(text, 0)["variables"]["words"], words, "{text:?}");
    }
    let careful = folder.join("careful.json").to_str().unwrap().to_owned();
    let waits = test_home.json(&["run", &careful, "--follow"], 1);
    assert_eq!(waits["status"], "waiting-approval", "{waits}");
    // A node error becomes the run's error.
    let broken = folder.join("broken.json");
    let document: Value = serde_json::from_slice(&std::fs::read(&report).unwrap()).unwrap();
    let mut document = document;
    document["nodes"][0]["inputs"]["text"] = json!({"type": "static", "value": 7});
    std::fs::write(&broken, document.to_string()).unwrap();
    let failed = test_home.json(&["run", broken.to_str().unwrap(), "--follow"], 1);
    assert_eq!(failed["status"], "failed", "{failed}");
    assert!(failed.to_string().contains("`text` is required"), "{failed}");
}

#[test]
fn the_pack_walk_through_works() {
    let test_home = TestHome::new();
    let page = std::fs::read_to_string(root().join("docs/concepts/packs.md")).unwrap();
    let (shell, json) = (blocks(&page, "sh"), blocks(&page, "json"));
    let folder = test_home.path("walk");
    std::fs::create_dir(&folder).unwrap();
    let words = typed(&test_home, &folder, &shell[0]);
    assert!(words.contains("vendor.acme.greeter"), "{words}");
    std::fs::write(folder.join("hello.json"), &json[0]).unwrap();
    let command = "interlock run ./hello.json --follow";
    assert!(page.contains(command));
    let words = typed(&test_home, &folder, &format!("{command} --json"));
    assert!(words.contains("Hello, Ada!"), "{words}");
    let words = typed(&test_home, &folder, &shell[1]);
    assert!(words.contains("vendor_acme_pauses_example_0001_wait"), "{words}");
}

/// Packs are a source of guided workflows (issue line 16).
#[test]
fn guided_workflows_of_installed_packs_are_found_and_changed_files_are_not() {
    let test_home = TestHome::new();
    let folder = copied(&test_home);
    let workflow = |version: &str| {
        format!(
            "id: acme.count\nname: Count words\ndescription: Counts words.\nversion: {version}\n\
             steps: [{{id: count, title: Count, prompt: Count the words.}}]\n"
        )
    };
    std::fs::create_dir(folder.join("second-look/workflows")).unwrap();
    std::fs::write(folder.join("second-look/workflows/count.yaml"), workflow("1.0.0")).unwrap();
    typed(&test_home, &folder, "interlock pack install ./second-look");

    let list = || -> Value {
        serde_json::from_str(&typed(&test_home, &folder, "interlock workflow list --json")).unwrap()
    };
    let listing = list();
    let entries = listing["entries"].as_array().unwrap();
    let entry = entries.iter().find(|entry| entry["workflowId"] == "acme.count").expect("it is found");
    assert_eq!((&entry["sourceKind"], &entry["version"]), (&json!("plugin"), &json!("1.0.0")), "{entry}");
    let source = entry["source"].as_str().unwrap();
    assert!(source.starts_with("pack:") && source.contains('@'), "{source}");
    typed(&test_home, &folder, "interlock workflow show acme.count");

    let mut waiting = vec![test_home.data_dir().join("packs")];
    let mut changed = 0;
    while let Some(place) = waiting.pop() {
        for entry in std::fs::read_dir(place).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                waiting.push(path);
            } else if path.ends_with("workflows/count.yaml") {
                std::fs::write(&path, workflow("6.6.6")).unwrap();
                changed += 1;
            }
        }
    }
    assert_eq!(changed, 1);
    let listing = list();
    let found =
        listing["entries"].as_array().unwrap().iter().any(|entry| entry["workflowId"] == "acme.count");
    assert!(!found, "a file that was not installed is not used");
    assert!(listing["unreadable"].to_string().contains("not the file that was installed"), "{listing}");
}
