//! `interlock workflow`.

use serde_json::{Value, json};

use crate::home::{TINY, TestHome};
use crate::program::{root, run, text};

#[test]
fn the_list_shows_workflows_and_shadowed_files() {
    let test_home = TestHome::new();
    let user = test_home.path("home/.config/interlock/workflows");
    std::fs::create_dir_all(&user).unwrap();
    std::fs::write(user.join("mine.json"), TINY.replace("\"Tiny\"", "\"Mine\"")).unwrap();
    std::fs::write(user.join("legacy.json"), TINY.replace("project.tiny", "legacy-one")).unwrap();
    std::fs::write(test_home.workspace().join("workflows/broken.yaml"), "id: project.broken\nsteps: 7\n")
        .unwrap();
    let words = test_home.expect(&["workflow", "list"], 0);
    for expected in [
        "project.tiny",
        "wr.change_review",
        "Duplicate ids",
        "mine.json",
        "Skipped",
        "broken.yaml",
        "legacy-one",
        "user.legacy_one",
    ] {
        assert!(words.contains(expected), "{expected}: {words}");
    }
    let document = test_home.json(&["workflow", "list"], 0);
    let entries = document["entries"].as_array().unwrap();
    let tiny = entries.iter().find(|entry| entry["workflowId"] == "project.tiny").unwrap();
    assert_eq!((&tiny["sourceKind"], &tiny["name"]), (&json!("project"), &json!("Tiny")));
    assert!(
        entries
            .iter()
            .all(|entry| entry["workflowHash"].as_str().is_some_and(|hash| hash.starts_with("sha256:")))
    );
    assert_eq!(document["problems"].as_array().unwrap().len(), 1);
    let tagged = test_home.json(&["workflow", "list", "--tag", "review_audit"], 0);
    let tags: Vec<&Value> =
        tagged["entries"].as_array().unwrap().iter().map(|entry| &entry["tags"]).collect();
    assert!(
        !tags.is_empty() && tags.iter().all(|tags| tags.to_string().contains("review_audit")),
        "{tags:?}"
    );
}

#[test]
fn show_prints_the_compiled_workflow() {
    let test_home = TestHome::new();
    let words = test_home.expect(&["workflow", "show", "project.tiny"], 0);
    for expected in [
        "project.tiny 1.0.0",
        "look  Look around",
        "judge  Judge it",
        "submits wr.contracts.gate_verdict",
        "sha256:",
    ] {
        assert!(words.contains(expected), "{expected}: {words}");
    }
    let bundled = test_home.expect(&["workflow", "show", "change-review"], 0);
    for expected in [
        "wr.change_review",
        "review branch feature/export against main",
        "sets rigor (one of \"small\", \"standard\", \"thorough\")",
        "if rigor is not small",
        "read-only",
    ] {
        assert!(bundled.contains(expected), "{expected}: {bundled}");
    }
    let document = test_home.json(&["workflow", "show", "project.tiny"], 0);
    let compiled = test_home.json(&["workflow", "compile", "workflows/tiny.json"], 0);
    assert_eq!(document["workflowHash"], compiled["workflowHash"]);
    assert_eq!(document["workflow"], compiled["workflow"]);
    let refused = test_home.json(&["workflow", "show", "project.tinny"], 1);
    assert_eq!(
        (&refused["code"], &refused["details"]["nearest"]),
        (&json!("NOT_FOUND"), &json!(["project.tiny"]))
    );
    std::fs::write(
        test_home.workspace().join("workflows/tiny.json"),
        TINY.replace("\"prompt\"", "\"promt\""),
    )
    .unwrap();
    assert_eq!(test_home.json(&["workflow", "show", "project.tiny"], 1)["code"], "PRECONDITION_FAILED");
}

#[test]
fn validate_reports_every_problem_with_a_fix() {
    let test_home = TestHome::new();
    let bad = TINY
        .replace("\"title\": \"Look around\"", "\"titel\": \"Look around\"")
        .replace("gate_verdict", "gate_verdikt");
    std::fs::write(test_home.workspace().join("bad.json"), bad).unwrap();
    std::fs::write(test_home.workspace().join("odd.txt"), TINY).unwrap();
    std::fs::write(test_home.workspace().join("reserved.json"), TINY.replace("project.", "wr.")).unwrap();
    let document = test_home.json(&["workflow", "validate", "workflows/tiny.json", "bad.json"], 1);
    assert_eq!(document["valid"], false);
    assert_eq!(document["files"][0]["valid"], true);
    let problems = document["files"][1]["problems"].as_array().unwrap();
    let codes: Vec<&str> = problems.iter().map(|problem| problem["code"].as_str().unwrap()).collect();
    assert!(codes.contains(&"UNKNOWN_MEMBER") && codes.contains(&"UNKNOWN_CONTRACT"), "{codes:?}");
    for problem in problems {
        assert_eq!(problem["file"], "bad.json");
        assert!(
            ["path", "message", "fix"]
                .iter()
                .all(|key| problem[key].as_str().is_some_and(|text| !text.is_empty())),
            "{problem}"
        );
    }
    let words = test_home.expect(&["workflow", "validate", "bad.json"], 1);
    assert!(words.contains("steps[0].titel") && words.contains("Did you mean `title`?"), "{words}");
    for (arguments, code) in [
        (&["workflow", "validate", "workflows/tiny.json"][..], 0),
        (&["workflow", "validate", "odd.txt"], 1),
        (&["workflow", "validate", "reserved.json"], 1),
        (&["workflow", "compile", "bad.json"], 1),
    ] {
        test_home.expect(arguments, code);
    }
    for command in ["validate", "compile"] {
        assert_eq!(test_home.json(&["workflow", command, "missing.json"], 2)["code"], "INPUT_UNREADABLE");
    }
    assert_eq!(
        test_home.run(&["workflow", "validate"]).status.code(),
        Some(2),
        "a missing file is a usage error"
    );
}

#[test]
fn compile_shows_the_pass_of_each_line() {
    let test_home = TestHome::new();
    let one: Value =
        serde_json::from_str(&test_home.expect(&["workflow", "compile", "workflows/tiny.json"], 0)).unwrap();
    assert_eq!(one["workflow"]["workflowId"], "project.tiny");
    let document = test_home.json(&["workflow", "compile", "workflows/tiny.json", "--explain"], 0);
    assert!(document["explanation"].is_array());
    test_home.expect(&["workflow", "new", "project.starter"], 0);
    let words = test_home.expect(&["workflow", "compile", "starter.yaml", "--explain"], 0);
    for expected in ["blocks        | ## Goal", "authored      | Compare the result", "workflowHash sha256:"]
    {
        assert!(words.contains(expected), "{expected}: {words}");
    }
}

#[test]
fn a_new_workflow_is_valid_and_overwrites_nothing() {
    let test_home = TestHome::new();
    let made = test_home.json(&["workflow", "new", "team.release"], 0);
    assert_eq!(made["file"], "release.yaml");
    test_home.expect(&["workflow", "validate", "release.yaml"], 0);
    let before = std::fs::read(test_home.workspace().join("release.yaml")).unwrap();
    assert_eq!(test_home.json(&["workflow", "new", "team.release"], 1)["code"], "OUTPUT_EXISTS");
    assert_eq!(std::fs::read(test_home.workspace().join("release.yaml")).unwrap(), before);
    test_home.expect(&["workflow", "new", "team.release", "-o", "workflows/release.json"], 0);
    test_home.expect(&["workflow", "show", "team.release"], 0);
    test_home.expect(&["workflow", "new", "team.first", "-o", "new/folder/first.yaml"], 0);
    let printed = test_home.expect(&["workflow", "new", "team.release", "-o", "-", "--format", "json"], 0);
    assert_eq!(serde_json::from_str::<Value>(&printed).unwrap()["id"], "team.release");
    for (id, expected) in [
        ("release", "project.release"),
        ("wr.release", "project.release"),
        ("Team.Release", "project.release"),
        ("x", "3 to 64"),
    ] {
        let refused = test_home.json(&["workflow", "new", id, "-o", "never.yaml"], 1);
        assert_eq!(refused["code"], "WORKFLOW_ID_INVALID", "{id}");
        assert!(refused.to_string().contains(expected), "{refused}");
        assert!(!test_home.workspace().join("never.yaml").exists());
    }
    assert_eq!(
        test_home.json(&["workflow", "new", "team.other", "-o", "other.txt"], 2)["code"],
        "OUTPUT_UNWRITABLE"
    );
}

#[test]
fn run_workflows_are_validated() {
    let folder = tempfile::tempdir().unwrap();
    let good = root().join("examples/runs/hello.json");
    let bad = folder.path().join("bad.json");
    let text_of = std::fs::read_to_string(&good).unwrap();
    std::fs::write(&bad, text_of.replace("core.approvalGate", "core.aprovalGate")).unwrap();
    let validate = |file: &std::path::Path| run(&["workflow", "validate", file.to_str().unwrap()], b"");
    let (accepted, refused) = (validate(&good), validate(&bad));
    assert_eq!(accepted.status.code(), Some(0), "{}", text(&accepted.stderr));
    assert!(text(&accepted.stdout).contains("hello, 2 nodes"), "{}", text(&accepted.stdout));
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stdout).contains("/nodes/0/typeId"), "{}", text(&refused.stdout));
    assert!(text(&refused.stdout).contains("did you mean `core.approvalGate`?"), "{}", text(&refused.stdout));
}

#[test]
fn every_example_is_valid() {
    let examples = [
        "surfaces/orders.json",
        "packs/order.json",
        "release-review/release-review.yaml",
        "release-review/review-steps.yaml",
        "runs/guided.json",
        "runs/hello.json",
        "runs/nightly.yaml",
        "triggers/order-arrived.json",
        "triggers/place-order.json",
    ];
    for example in examples {
        let file = root().join("examples").join(example);
        let checked = run(&["workflow", "validate", file.to_str().unwrap()], b"");
        assert_eq!(checked.status.code(), Some(0), "{example}: {}", text(&checked.stdout));
    }
}

const SCRIPT: &str = r#"
goal: fix the gate
calls:
  - step: look
    notes: It is red, and one hinge is loose.
  - step: judge
    notes: No verdict yet.
    blocked: [MISSING_REQUIRED_OUTPUT]
  - step: judge
    notes: A verdict.
    artifacts:
      - VERDICT
expect: {gaps: 0}
"#;

fn script() -> String {
    SCRIPT.replace("VERDICT", &crate::home::verdict().to_string())
}

#[test]
fn a_script_is_played_and_its_first_difference_is_shown() {
    let test_home = TestHome::new();
    let folder = test_home.workspace().join("workflows");
    let write = |text: &str| std::fs::write(folder.join("tiny.test.yaml"), text).unwrap();
    let missing = test_home.refused(&["workflow", "test", "workflows/tiny.json"], 2);
    assert!(missing.contains("tiny.test.yaml does not exist"), "{missing}");
    write(&script());
    let words = test_home.expect(&["workflow", "test", "workflows/tiny.json"], 0);
    assert!(words.contains("passed") && words.contains("3 calls as expected"), "{words}");
    let document = test_home.json(&["workflow", "test", "workflows/tiny.json"], 0);
    assert_eq!(
        document["scripts"][0]["calls"][1],
        json!({"step": "judge", "outcome": "blocked by MISSING_REQUIRED_OUTPUT"})
    );
    assert!(!test_home.data_dir().exists(), "nothing is recorded");
    // A script is not a workflow, and no list complains about it.
    assert_eq!(test_home.json(&["workflow", "list"], 0)["problems"], json!([]));

    for (name, before, after, expected, actual) in [
        ("another step", "step: look", "step: judge", "`judge` is pending", "`look` is pending"),
        (
            "a block that is not expected",
            "    blocked: [MISSING_REQUIRED_OUTPUT]\n",
            "",
            "`judge` is accepted",
            "it is blocked by MISSING_REQUIRED_OUTPUT",
        ),
        (
            "a block that does not come",
            "notes: It is red, and one hinge is loose.",
            "notes: It is red.\n    blocked: [MISSING_CONTEXT_KEY]",
            "`look` is blocked by MISSING_CONTEXT_KEY",
            "it is accepted",
        ),
        (
            "another end",
            "expect: {gaps: 0}",
            "expect: {pending: judge}",
            "`judge` is pending",
            "the run is complete",
        ),
        ("gaps", "expect: {gaps: 0}", "expect: {gaps: 2}", "2 gaps are open", "no gap is open"),
        (
            "skipped steps",
            "notes: It is red, and one hinge is loose.",
            "notes: It is red.\n    skips: [paint]",
            "`look` skips paint",
            "it skips nothing",
        ),
    ] {
        let changed = script().replacen(before, after, 1);
        assert_ne!(changed, script(), "{name}");
        write(&changed);
        let document = test_home.json(&["workflow", "test", "workflows/tiny.json"], 1);
        let difference = &document["scripts"][0]["difference"];
        assert_eq!(
            (&difference["expected"], &difference["actual"]),
            (&json!(expected), &json!(actual)),
            "{name}: {document}"
        );
        let words = test_home.expect(&["workflow", "test", "workflows/tiny.json"], 1);
        assert!(words.contains(&format!("- expected: {expected}")), "{name}: {words}");
        assert!(words.contains(&format!("+ actual:   {actual}")), "{name}: {words}");
    }
    write(&script().replacen("    blocked: [MISSING_REQUIRED_OUTPUT]\n", "", 1));
    let words = test_home.expect(&["workflow", "test", "workflows/tiny.json"], 1);
    assert!(words.contains("MISSING_REQUIRED_OUTPUT:") && words.contains("fix:"), "and why: {words}");
    write("calls: []\nstepz: []\n");
    assert!(test_home.refused(&["workflow", "test", "workflows/tiny.json"], 2).contains("unknown field"));
}

#[test]
fn a_workflow_is_drawn_in_three_formats() {
    let test_home = TestHome::new();
    let file = "workflows/tiny.json";
    let text = test_home.expect(&["workflow", "preview", file], 0);
    assert!(
        text.contains("● look  Look around\n") && text.contains("artifact: wr.contracts.gate_verdict"),
        "{text}"
    );
    let mermaid = test_home.expect(&["workflow", "preview", file, "--format", "mermaid"], 0);
    assert!(mermaid.starts_with("flowchart TD\n"), "{mermaid}");
    let picture = test_home.path("tiny.svg");
    let picture = picture.to_str().unwrap();
    test_home.expect(&["workflow", "preview", file, "-o", picture], 0);
    assert!(std::fs::read_to_string(picture).unwrap().starts_with("<svg "));
    let refused = test_home.json(&["workflow", "preview", file, "-o", picture], 1);
    assert_eq!(refused["code"], "OUTPUT_EXISTS");
    std::fs::write(test_home.workspace().join("broken.yaml"), "id: project.broken\nsteps: 7\n").unwrap();
    assert_eq!(test_home.json(&["workflow", "preview", "broken.yaml"], 1)["valid"], false);
}

/// Finding G5: a stamp of 1 and one of 99 were both accepted without a word.
#[test]
fn a_workflow_that_was_reviewed_against_older_rules_is_reported() {
    let test_home = TestHome::new();
    let file = test_home.workspace().join("stamped.json");
    for (stamp, level) in [(1, "likely"), (2, "possible"), (3, "none"), (99, "newer")] {
        let stamped = TINY.replacen('{', &format!("{{\"validatedAgainstSpecVersion\": {stamp}, "), 1);
        std::fs::write(&file, stamped).unwrap();
        let document = test_home.json(&["workflow", "validate", "stamped.json"], 0);
        assert_eq!(document["files"][0]["staleness"]["level"], level, "{document}");
        let words = test_home.expect(&["workflow", "validate", "stamped.json"], 0);
        assert_eq!(words.contains(&format!("stale_{level}")), level != "none", "{words}");
    }
    let document = test_home.json(&["workflow", "validate", "workflows/tiny.json"], 0);
    assert!(document["files"][0].get("staleness").is_none(), "without a stamp nothing is known");
}
