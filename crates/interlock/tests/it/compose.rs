//! `interlock compose`.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::program::{interlock, root, run, run_command, text};

fn fixture(id: &str) -> (String, Value) {
    let path = root().join("crates/composition/tests/fixtures").join(format!("{id}.json"));
    let fixture = std::fs::read(&path).unwrap();
    (path.to_str().unwrap().to_owned(), serde_json::from_slice(&fixture).unwrap())
}

fn parsed(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

#[test]
fn the_specification_example_gives_the_specified_result() {
    let (path, fixture) = fixture("fixture-happy-single-module");
    let wrapped = run(&["compose", &path], b"");
    let piped = run(&["compose", "-"], fixture["input"].to_string().as_bytes());
    let unnamed = run(&["compose", "--pretty"], fixture["input"].to_string().as_bytes());
    for output in [wrapped, piped, unnamed] {
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(parsed(&output.stdout), fixture["expect"]);
        assert_eq!(text(&output.stderr), "");
    }
}

#[test]
fn hostile_inputs_get_diagnostics_or_exit_code_2() {
    let deep = "[".repeat(100_000);
    let cases: [(&str, &str, i32, &str); 12] = [
        ("not an object", "[]", 1, "invalid-input-shape"),
        ("null", "null", 1, "invalid-input-shape"),
        ("null for collections", r#"{"builtins":null,"modules":null}"#, 1, "invalid-collection"),
        ("no collections", "{}", 1, "invalid-collection"),
        ("a number for an id", r#"{"builtins":[],"modules":[{"instanceId":7}]}"#, 1, "invalid-field-type"),
        (
            "a policy without a version",
            r#"{"builtins":[],"modules":[],"policy":{"operations":[]}}"#,
            1,
            "WCP_VERSION_UNSUPPORTED_POLICY_SCHEMA",
        ),
        ("100,000 nested arrays", &deep, 2, "JSON_TOO_DEEP"),
        ("not JSON", "builtins: []", 2, "JSON_SYNTAX"),
        ("nothing", "", 2, "JSON_SYNTAX"),
        ("a key twice", r#"{"builtins":[],"builtins":[]}"#, 2, "JSON_DUPLICATE_KEY"),
        ("a lone surrogate", r#""\ud800""#, 2, "JSON_INVALID_TEXT"),
        ("trailing data", "{} {}", 2, "JSON_SYNTAX"),
    ];
    for (name, input, code, expected) in cases {
        let output = run(&["compose"], input.as_bytes());
        assert_eq!(output.status.code(), Some(code), "{name}");
        assert!(text(&output.stdout).contains(expected), "{name}: {}", text(&output.stdout));
        assert!(parsed(&output.stdout).is_object(), "{name}: one JSON document");
    }
}

#[test]
fn json_errors_have_a_position() {
    let output = run(&["compose", "--json"], b"{\n  \"builtins\": [,]\n}");
    assert_eq!(output.status.code(), Some(2));
    let envelope = parsed(&output.stdout);
    assert_eq!(envelope["code"], "JSON_SYNTAX");
    assert_eq!(envelope["details"]["line"], 2);
    assert_eq!(envelope["details"]["column"], 16);
    assert_eq!(envelope["details"]["source"], "standard input");
    assert_eq!(envelope["retry"], json!({"kind": "not_retryable"}));
    assert_eq!(text(&output.stderr), "", "with --json there is only one document");
}

#[test]
fn an_unreadable_file_is_named() {
    let output = run(&["compose", "/there/is/no/such/file.json"], b"");
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(parsed(&output.stdout)["code"], "INPUT_UNREADABLE");
    let words = text(&output.stderr);
    assert!(words.starts_with("error[INPUT_UNREADABLE]: cannot read /there/is/no/such/file.json"), "{words}");
    assert!(words.contains("help: "), "{words}");
}

#[test]
fn explain_prints_text_or_json() {
    let (path, _) = fixture("fixture-kernel-builtins-and-modules-same-pipeline");
    let cases = [
        ("builtin-a:routes/home", 0, "is shown: number 1 of 2 in routes"),
        ("data-lab-prod:configuration-surfaces/s", 1, "operation \"hide-1\" hides it"),
        ("data-lab-prod:tool-renderers/q", 1, "assigns its claim to builtin-a:tool-renderers/q"),
        ("data-lab-prod:routes/lbb", 1, "did you mean data-lab-prod:routes/lab"),
        ("/lab", 1, "is not a canonical key"),
    ];
    for (key, code, expected) in cases {
        let output = run(&["compose", &path, "--explain", key], b"");
        assert_eq!(output.status.code(), Some(code), "{key}");
        assert!(text(&output.stdout).contains(expected), "{key}: {}", text(&output.stdout));
        let output = run(&["compose", &path, "--explain", key, "--json"], b"");
        assert_eq!(output.status.code(), Some(code), "{key}");
        assert_eq!(parsed(&output.stdout)["shown"], code == 0, "{key}");
    }
}

#[test]
fn a_conflict_names_both_contributions() {
    let (path, _) = fixture("fixture-duplicate-route-path");
    let output = run(&["compose", &path, "--explain", "lab-a:routes/home"], b"");
    assert_eq!(output.status.code(), Some(1));
    let words = text(&output.stdout);
    for expected in ["does not compose", "WCP_ROUTE_DUPLICATE_PATH", "at lab-b:routes/home", "help: "] {
        assert!(words.contains(expected), "{expected}: {words}");
    }
}

#[test]
fn a_closed_pipe_is_tolerated() {
    let modules: Vec<Value> = (0..5000).map(|index| json!({"instanceId": index})).collect();
    let input = json!({"builtins": [], "modules": modules}).to_string();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("input.json");
    std::fs::write(&file, input).unwrap();
    let mut child = interlock(&["compose", file.to_str().unwrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "the result is still negative");
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn colours_are_used_only_on_terminals() {
    let escape = "\u{1b}[";
    let coloured = run_command(interlock(&["compose", "/none"]).env("CLICOLOR_FORCE", "1"), b"");
    assert!(text(&coloured.stderr).contains(escape));
    let refused =
        run_command(interlock(&["compose", "/none"]).env("CLICOLOR_FORCE", "0").env("NO_COLOR", "1"), b"");
    assert!(!text(&refused.stderr).contains(escape));
    let piped = run(&["compose", "/none"], b"");
    assert!(!text(&piped.stderr).contains(escape));
}

/// Whether this process ignores interrupts, as a shell starts background jobs. Children inherit
/// that.
fn ignores_interrupts() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 0b10 != 0)
}

#[test]
fn an_interrupt_exits_silently() {
    for signal in ["-INT", "-TERM"] {
        if signal == "-INT" && ignores_interrupts() {
            continue;
        }
        let mut child = interlock(&["compose"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let killed =
            std::process::Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        let output = child.wait_with_output().unwrap();
        drop(stdin);
        assert!(!output.status.success(), "{signal}");
        assert_eq!((text(&output.stdout), text(&output.stderr)), (String::new(), String::new()));
    }
}

#[test]
fn help_has_examples_and_suggestions() {
    let help = run(&["help", "compose"], b"");
    assert_eq!(help.status.code(), Some(0));
    for expected in ["Examples:", "--explain <KEY>", "Exit codes:"] {
        assert!(text(&help.stdout).contains(expected), "{expected}");
    }
    let misspelt = run(&["compsoe"], b"");
    assert_eq!(misspelt.status.code(), Some(2));
    assert!(text(&misspelt.stderr).contains("compose"), "the nearest name is suggested");
    assert_eq!(run(&[], b"").status.code(), Some(2), "no command is a usage error");
}
