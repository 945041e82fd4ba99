//! `interlock workflow`.

use serde_json::{Value, json};

use crate::house::{House, TINY};
use crate::program::{root, run, text};

#[test]
fn the_list_says_what_there_is_and_which_file_won() {
    let house = House::new();
    let user = house.path("home/.config/interlock/workflows");
    std::fs::create_dir_all(&user).unwrap();
    std::fs::write(user.join("mine.json"), TINY.replace("\"Tiny\"", "\"Mine\"")).unwrap();
    std::fs::write(user.join("legacy.json"), TINY.replace("project.tiny", "legacy-one")).unwrap();
    std::fs::write(house.workspace().join("workflows/broken.yaml"), "id: project.broken\nsteps: 7\n")
        .unwrap();
    let words = house.expect(&["workflow", "list"], 0);
    for expected in [
        "project.tiny",
        "wr.change_review",
        "Which file won",
        "mine.json",
        "Left out",
        "broken.yaml",
        "legacy-one",
        "user.legacy_one",
    ] {
        assert!(words.contains(expected), "{expected}: {words}");
    }
    let document = house.json(&["workflow", "list"], 0);
    let entries = document["entries"].as_array().unwrap();
    let tiny = entries.iter().find(|entry| entry["workflowId"] == "project.tiny").unwrap();
    assert_eq!((&tiny["sourceKind"], &tiny["name"]), (&json!("project"), &json!("Tiny")));
    assert!(
        entries
            .iter()
            .all(|entry| entry["workflowHash"].as_str().is_some_and(|hash| hash.starts_with("sha256:")))
    );
    assert_eq!(document["problems"].as_array().unwrap().len(), 1);
    let tagged = house.json(&["workflow", "list", "--tag", "review_audit"], 0);
    let tags: Vec<&Value> =
        tagged["entries"].as_array().unwrap().iter().map(|entry| &entry["tags"]).collect();
    assert!(
        !tags.is_empty() && tags.iter().all(|tags| tags.to_string().contains("review_audit")),
        "{tags:?}"
    );
}

#[test]
fn a_workflow_is_shown_as_a_run_would_be_pinned_to_it() {
    let house = House::new();
    let words = house.expect(&["workflow", "show", "project.tiny"], 0);
    for expected in [
        "project.tiny 1.0.0",
        "look  Look around",
        "judge  Judge it",
        "hands in wr.contracts.gate_verdict",
        "sha256:",
    ] {
        assert!(words.contains(expected), "{expected}: {words}");
    }
    let document = house.json(&["workflow", "show", "project.tiny"], 0);
    let compiled = house.json(&["workflow", "compile", "workflows/tiny.json"], 0);
    assert_eq!(document["workflowHash"], compiled["workflowHash"]);
    assert_eq!(document["workflow"], compiled["workflow"]);
    let refused = house.json(&["workflow", "show", "project.tinny"], 1);
    assert_eq!(
        (&refused["code"], &refused["details"]["nearest"]),
        (&json!("NOT_FOUND"), &json!(["project.tiny"]))
    );
    std::fs::write(house.workspace().join("workflows/tiny.json"), TINY.replace("\"prompt\"", "\"promt\""))
        .unwrap();
    assert_eq!(house.json(&["workflow", "show", "project.tiny"], 1)["code"], "PRECONDITION_FAILED");
}

#[test]
fn validating_gives_every_problem_with_its_fix() {
    let house = House::new();
    let bad = TINY
        .replace("\"title\": \"Look around\"", "\"titel\": \"Look around\"")
        .replace("gate_verdict", "gate_verdikt");
    std::fs::write(house.workspace().join("bad.json"), bad).unwrap();
    std::fs::write(house.workspace().join("odd.txt"), TINY).unwrap();
    std::fs::write(house.workspace().join("reserved.json"), TINY.replace("project.", "wr.")).unwrap();
    let document = house.json(&["workflow", "validate", "workflows/tiny.json", "bad.json"], 1);
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
    let words = house.expect(&["workflow", "validate", "bad.json"], 1);
    assert!(words.contains("steps[0].titel") && words.contains("Did you mean `title`?"), "{words}");
    for (arguments, code) in [
        (&["workflow", "validate", "workflows/tiny.json"][..], 0),
        (&["workflow", "validate", "odd.txt"], 1),
        (&["workflow", "validate", "reserved.json"], 1),
        (&["workflow", "compile", "bad.json"], 1),
    ] {
        house.expect(arguments, code);
    }
    for command in ["validate", "compile"] {
        assert_eq!(house.json(&["workflow", command, "missing.json"], 2)["code"], "INPUT_UNREADABLE");
    }
    assert_eq!(house.run(&["workflow", "validate"]).status.code(), Some(2), "nothing asked is a usage error");
}

#[test]
fn compiling_names_the_pass_behind_each_line() {
    let house = House::new();
    let one: Value =
        serde_json::from_str(&house.expect(&["workflow", "compile", "workflows/tiny.json"], 0)).unwrap();
    assert_eq!(one["workflow"]["workflowId"], "project.tiny");
    let document = house.json(&["workflow", "compile", "workflows/tiny.json", "--explain"], 0);
    assert!(document["explanation"].is_array());
    house.expect(&["workflow", "new", "project.starter"], 0);
    let words = house.expect(&["workflow", "compile", "starter.yaml", "--explain"], 0);
    for expected in ["blocks        | ## Goal", "authored      | Compare the result", "workflowHash sha256:"]
    {
        assert!(words.contains(expected), "{expected}: {words}");
    }
}

#[test]
fn a_new_workflow_is_valid_and_overwrites_nothing() {
    let house = House::new();
    let made = house.json(&["workflow", "new", "team.release"], 0);
    assert_eq!(made["file"], "release.yaml");
    house.expect(&["workflow", "validate", "release.yaml"], 0);
    let before = std::fs::read(house.workspace().join("release.yaml")).unwrap();
    assert_eq!(house.json(&["workflow", "new", "team.release"], 1)["code"], "OUTPUT_EXISTS");
    assert_eq!(std::fs::read(house.workspace().join("release.yaml")).unwrap(), before);
    house.expect(&["workflow", "new", "team.release", "-o", "workflows/release.json"], 0);
    house.expect(&["workflow", "show", "team.release"], 0);
    house.expect(&["workflow", "new", "team.first", "-o", "new/folder/first.yaml"], 0);
    let printed = house.expect(&["workflow", "new", "team.release", "-o", "-", "--format", "json"], 0);
    assert_eq!(serde_json::from_str::<Value>(&printed).unwrap()["id"], "team.release");
    for (id, expected) in [
        ("release", "project.release"),
        ("wr.release", "project.release"),
        ("Team.Release", "project.release"),
        ("x", "3 to 64"),
    ] {
        let refused = house.json(&["workflow", "new", id, "-o", "never.yaml"], 1);
        assert_eq!(refused["code"], "WORKFLOW_ID_INVALID", "{id}");
        assert!(refused.to_string().contains(expected), "{refused}");
        assert!(!house.workspace().join("never.yaml").exists());
    }
    assert_eq!(
        house.json(&["workflow", "new", "team.other", "-o", "other.txt"], 2)["code"],
        "OUTPUT_UNWRITABLE"
    );
}

#[test]
fn a_workflow_that_is_run_is_validated_by_its_own_rules() {
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
        "hands/orders.json",
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
