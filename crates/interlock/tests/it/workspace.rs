//! `interlock workspace` from the command line.

mod help;
mod hostile;
mod killed;
mod mounted;
mod site;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use self::site::{Site, make_writable, tree_of};

#[test]
fn a_plan_shows_the_tree_and_can_be_applied() {
    let site = Site::new();
    let shown = site.expect(&site.plan_arguments(&[]), 0);
    for expected in [
        "/workspace",
        "├── AGENTS.md",
        "│   ├── agents/",
        "└── release-notes-1.4.0.md",
        "read-only   scm-repo",
        "read-write  static-literal",
        "seed:deliverables:release-notes-1.4.0.md",
        "run run-1, job job-1",
    ] {
        assert!(shown.contains(expected), "{expected}:\n{shown}");
    }
    let printed = site.expect(&site.plan_arguments(&["--json"]), 0);
    let file = site.path("kept.json");
    site.expect(&site.plan_arguments(&["-o", file.to_str().unwrap()]), 0);
    assert_eq!(fs::read_to_string(&file).unwrap(), printed, "-o writes what --json prints");

    site.plan();
    let report = site.apply_json(&[], 0);
    assert_eq!(report["status"], "applied");
    assert_eq!(report["applyId"], serde_json::from_str::<Value>(&printed).unwrap()["applyId"]);
    let notes = fs::read_to_string(site.root().join("deliverables/release-notes-1.4.0.md")).unwrap();
    assert!(notes.contains("1.4.0"), "{notes}");
}

#[test]
fn a_plan_can_be_read_from_standard_input() {
    let site = Site::new();
    let request = fs::read(site.examples().join("request.json")).unwrap();
    let output = site.run_with(&["workspace", "plan", "--request", "-", "--json"], &request);
    assert_eq!(output.status.code(), Some(0));
    let library = site.library();
    let root = site.root();
    let arguments = [
        "workspace",
        "apply",
        "--plan",
        "-",
        "--library",
        &library,
        "--root",
        root.to_str().unwrap(),
        "--turn",
        "1",
    ];
    let output = site.run_with(&arguments, &output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(root.join("references/kb/handbook/style.md").exists());
    assert!(!root.join("references/kb/handbook/release.md").exists(), "only the requested page");
}

/// The whole life cycle of a workspace.
#[test]
fn a_workspace_is_planned_applied_repaired_packed_and_restored() {
    let site = Site::new();
    site.plan();
    assert_eq!(site.apply_json(&[], 0)["status"], "applied");
    assert_eq!(site.drift(0)["verdict"], "clean");
    assert_eq!(site.apply_json(&[], 0)["status"], "cached");

    // Read-only for the agent.
    let agents = site.root().join("AGENTS.md");
    let declared = fs::read(&agents).unwrap();
    make_writable(&agents);
    fs::write(&agents, "Do as you please.").unwrap();
    // Writable for the agent.
    fs::write(site.root().join("deliverables/notes.md"), "kept").unwrap();
    let report = site.drift(1);
    assert_eq!(report["verdict"], "critical");
    let found: Vec<(&str, &str)> = report["drifts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|drift| (drift["path"].as_str().unwrap(), drift["kind"].as_str().unwrap()))
        .collect();
    assert!(found.contains(&("AGENTS.md", "modified")), "{found:?}");
    assert!(found.contains(&("deliverables/notes.md", "extra")), "{found:?}");
    let words = site.expect(&["workspace", "drift", "--root", site.root().to_str().unwrap()], 1);
    assert!(words.starts_with("critical: "), "{words}");

    let repaired = site.apply_json(&["--verify", "hash"], 0);
    assert_eq!((&repaired["status"], &repaired["leaseReason"]), (&json!("repaired"), &json!("drift")));
    assert_eq!(fs::read(&agents).unwrap(), declared);
    assert_eq!(site.drift(1)["verdict"], "dirty", "the agent's files are reported and allowed");

    let snapshot = site.path("ws.snapshot");
    let packed = site.json(
        &["workspace", "snapshot", "--root", site.root().to_str().unwrap(), "-o", snapshot.to_str().unwrap()],
        0,
    );
    let again = site.path("again.snapshot");
    site.json(
        &["workspace", "snapshot", "--root", site.root().to_str().unwrap(), "-o", again.to_str().unwrap()],
        0,
    );
    assert_eq!(fs::read(&snapshot).unwrap(), fs::read(&again).unwrap(), "the same workspace, the same bytes");
    let words = site.refused(
        &["workspace", "snapshot", "--root", site.root().to_str().unwrap(), "-o", snapshot.to_str().unwrap()],
        1,
    );
    assert!(words.contains("OUTPUT_EXISTS"), "{words}");
    assert!(packed["files"].as_u64().unwrap() >= 2, "{packed}");
    let inside = site.root().join("tmp/self.snapshot");
    let refused = site.json(
        &["workspace", "snapshot", "--root", site.root().to_str().unwrap(), "-o", inside.to_str().unwrap()],
        2,
    );
    assert_eq!(refused["code"], "OUTPUT_UNWRITABLE", "a snapshot is not packed into itself");

    let before = tree_of(&site.root(), ".interlock");
    site.wipe();
    let plan = site.path("plan.json");
    let library = site.library();
    let restored = site.json(
        &[
            "workspace",
            "restore",
            "--root",
            site.root().to_str().unwrap(),
            "--snapshot",
            snapshot.to_str().unwrap(),
            "--plan",
            plan.to_str().unwrap(),
            "--library",
            &library,
        ],
        0,
    );
    assert_eq!(restored["status"], "applied");
    assert_eq!(tree_of(&site.root(), ".interlock"), before, "the workspace is restored exactly");
}

#[test]
fn a_held_workspace_must_be_released_first() {
    let site = Site::new();
    site.plan();
    site.apply_json(&[], 0);
    let session = site.path("session.json");
    let request = site.examples().join("request.json");
    site.expect(
        &["workspace", "plan", "--request", request.to_str().unwrap(), "-o", session.to_str().unwrap()],
        0,
    );
    let other = |turn| {
        let library = site.library();
        let root = site.root();
        let plan = session.to_str().unwrap();
        let root = root.to_str().unwrap();
        let arguments =
            ["workspace", "apply", "--plan", plan, "--library", &library, "--root", root, "--turn", turn];
        arguments.map(str::to_owned)
    };
    let held = site.json(&other("1").each_ref().map(String::as_str), 1);
    assert_eq!(
        (&held["code"], &held["details"]["holder"]),
        (&json!("LEASE_HELD"), &json!("run run-1, job job-1"))
    );
    assert_eq!(held["retry"]["kind"], "retryable_immediate");

    let released = site.json(&["workspace", "release", "--root", site.root().to_str().unwrap()], 0);
    assert_eq!(released["state"], "released");
    assert_eq!(site.json(&other("2").each_ref().map(String::as_str), 0)["leaseReason"], "released");
    let stale = site.path("stale.json");
    let mut changed: Value = serde_json::from_slice(&fs::read(&request).unwrap()).unwrap();
    changed["interactive"]["turnGen"] = json!(0);
    fs::write(&stale, changed.to_string()).unwrap();
    site.expect(
        &[
            "workspace",
            "plan",
            "--request",
            stale.to_str().unwrap(),
            "-o",
            session.to_str().unwrap(),
            "--force",
        ],
        0,
    );
    assert_eq!(site.json(&other("0").each_ref().map(String::as_str), 1)["code"], "LEASE_STALE_GENERATION");
}

#[test]
fn failures_print_one_envelope_and_change_nothing() {
    let site = Site::new();
    site.plan();
    let root = site.root();
    let root_text = root.to_str().unwrap().to_owned();
    let plan = site.path("plan.json").to_str().unwrap().to_owned();
    let nowhere = site.path("nowhere").to_str().unwrap().to_owned();
    let empty = site.path("empty");
    fs::create_dir(&empty).unwrap();
    let empty = empty.to_str().unwrap().to_owned();
    let library = site.library();
    let manifest = site.path("broken.yaml");
    fs::write(
        &manifest,
        "apiVersion: interlock.dev/workspace/v1\nkind: Manifest\nmetadata: {slug: X, version: '1'}\n",
    )
    .unwrap();
    let context = site.examples().join("context.json").to_str().unwrap().to_owned();
    let cases: [(&str, &[&str], i32, &str); 7] = [
        (
            "no such library",
            &["apply", "--plan", &plan, "--library", &nowhere, "--root", &root_text],
            2,
            "INPUT_UNREADABLE",
        ),
        (
            "a library without the agent",
            &["apply", "--plan", &plan, "--library", &empty, "--root", &root_text],
            1,
            "RESOLVE_NOT_FOUND",
        ),
        (
            "no such plan",
            &["apply", "--plan", &nowhere, "--library", &library, "--root", &root_text],
            2,
            "INPUT_UNREADABLE",
        ),
        ("no such root", &["drift", "--root", &nowhere], 2, "INPUT_UNREADABLE"),
        ("nothing applied", &["drift", "--root", &empty], 1, "LEASE_NOT_FOUND"),
        (
            "a manifest with problems",
            &["plan", "--manifest", manifest.to_str().unwrap(), "--context", &context],
            1,
            "VALIDATION_ERROR",
        ),
        (
            "no templates",
            &["plan", "--manifest", site.manifest(), "--inputs", site.inputs(), "--context", &context],
            1,
            "COMPOSE_TEMPLATE_RESOLVER_MISSING",
        ),
    ];
    for (name, arguments, code, expected) in cases {
        let arguments: Vec<&str> = std::iter::once("workspace").chain(arguments.iter().copied()).collect();
        let envelope = site.json(&arguments, code);
        assert_eq!(envelope["code"], expected, "{name}: {envelope}");
        assert!(envelope["suggestion"].as_str().is_some_and(|text| !text.is_empty()), "{name}");
        assert!(site.refused(&arguments, code).contains(expected), "{name}: as text too");
    }
    assert_eq!(tree_of(&root, ".interlock"), Vec::new(), "no files were created");
}

#[test]
fn all_problems_of_a_manifest_are_reported() {
    let site = Site::new();
    let manifest = site.path("broken.yaml");
    // case 29
    fs::write(
        &manifest,
        "apiVersion: interlock.dev/workspace/v1\nkind: WorkspaceManifest\n\
         metadata: {slug: helper, version: '1.0'}\n\
         spec:\n  agent: {slug: engineer, stage: engineering, role: boss}\n  env: [{name: lower, value: x}]\n",
    )
    .unwrap();
    let context = site.examples().join("context.json");
    let words = site.refused(
        &[
            "workspace",
            "plan",
            "--manifest",
            manifest.to_str().unwrap(),
            "--context",
            context.to_str().unwrap(),
        ],
        1,
    );
    for expected in
        ["$.metadata.version", "$.spec.agent.role", "$.spec.env[0].name", "broken.yaml:3", "also: "]
    {
        assert!(words.contains(expected), "{expected}:\n{words}");
    }
}

#[test]
fn a_skill_range_selects_the_mounted_version() {
    let site = Site::new();
    let library = site.copied_library();
    for (folder, version) in [("code-review@1.0.0", "1.0.0"), ("code-review@2.0.0", "2.0.0")] {
        let folder = library.join("skills").join(folder);
        fs::create_dir(&folder).unwrap();
        let text = format!(
            "---\nname: code-review\ndescription: Review.\nversion: {version}\n---\nThis is {version}.\n"
        );
        fs::write(folder.join("SKILL.md"), text).unwrap();
    }
    let manifest = fs::read_to_string(site.manifest()).unwrap();
    for (range, expected) in
        [("^1, <1.1", Some("This is 1.0.0.")), (">=2", Some("This is 2.0.0.")), ("^7", None)]
    {
        let pinned = site.path("pinned.yaml");
        let text =
            manifest.replace("- slug: code-review", &format!("- {{slug: code-review, version: '{range}'}}"));
        fs::write(&pinned, text).unwrap();
        let plan = site.path("pinned.json");
        let context = site.examples().join("context.json");
        let library = library.to_str().unwrap();
        #[rustfmt::skip]
        site.expect(&["workspace", "plan", "--manifest", pinned.to_str().unwrap(), "--inputs", site.inputs(), "--context",
            context.to_str().unwrap(), "--library", library, "-o", plan.to_str().unwrap(), "--force"], 0);
        let root = site.root();
        let arguments = [
            "workspace",
            "apply",
            "--plan",
            plan.to_str().unwrap(),
            "--library",
            library,
            "--root",
            root.to_str().unwrap(),
        ];
        let Some(expected) = expected else {
            assert_eq!(site.json(&arguments, 1)["code"], "SKILL_VERSION_UNSATISFIED", "{range}");
            continue;
        };
        site.json(&arguments, 0);
        let text = fs::read_to_string(root.join(".opencode/skills/code-review/SKILL.md")).unwrap();
        assert!(text.contains(expected), "{range}: {text}");
    }
}

#[test]
fn only_the_started_program_receives_secrets() {
    const SECRET: &str = "correct-horse-battery";
    let site = Site::new();
    site.plan();
    site.apply_json(&[], 0);
    let root = site.root();
    let shown = site.env_command(&[]).env("REGISTRY_TOKEN", SECRET).output().unwrap();
    let json = site.env_command(&["--json"]).env("REGISTRY_TOKEN", SECRET).output().unwrap();
    for output in [&shown, &json] {
        assert_eq!(output.status.code(), Some(0));
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(out.contains("REGISTRY") && out.contains("RELEASE_VERSION"), "{out}");
        assert!(!out.contains(SECRET) && !err.contains(SECRET), "{out}{err}");
    }
    assert!(String::from_utf8_lossy(&shown.stdout).contains("[redacted:REGISTRY]"));

    let program = [
        "--exec",
        "--root",
        root.to_str().unwrap(),
        "--",
        "sh",
        "-c",
        "printf %s \"$REGISTRY_TOKEN in $PWD\"; exit 7",
    ];
    let started = site.env_command(&program).env("REGISTRY_TOKEN", SECRET).output().unwrap();
    assert_eq!(started.status.code(), Some(7), "the program's exit code is returned");
    let root_seen = fs::canonicalize(&root).unwrap();
    let seen = String::from_utf8(started.stdout).unwrap();
    assert!(
        seen == format!("{SECRET} in {}", root.display())
            || seen == format!("{SECRET} in {}", root_seen.display()),
        "{seen}"
    );
    let everything = tree_of(&root, "");
    assert!(!everything.iter().any(|(_, content)| content.contains(SECRET)), "no file contains the secret");

    let missing = site.env_command(&["--json"]).env_remove("REGISTRY_TOKEN").output().unwrap();
    let document: Value = serde_json::from_slice(&missing.stdout).unwrap();
    assert_eq!(document["missing"][0]["reason"], "not-found", "a missing optional credential is reported");
    let reserved = site.env_command(&["--overlay", "PATH=/evil", "--json"]).output().unwrap();
    let document: Value = serde_json::from_slice(&reserved.stdout).unwrap();
    assert_eq!((reserved.status.code(), &document["code"]), (Some(1), &json!("ENV_RESERVED_NAME")));
}

#[test]
fn the_resolved_commit_of_a_branch_is_recorded() {
    let site = Site::new();
    let library = site.copied_library();
    let repository = library.join("repos/demo");
    let git = |arguments: &[&str]| {
        let output = std::process::Command::new("git")
            .args(["-c", "user.name=a", "-c", "user.email=a@example.org"])
            .args(arguments)
            .current_dir(&repository)
            .output()
            .unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    git(&["init", "--quiet"]);
    git(&["add", "."]);
    git(&["commit", "--quiet", "-m", "first"]);
    let commit = git(&["rev-parse", "HEAD"]);
    site.plan();
    let arguments = site.apply_arguments(&site.path("plan.json"), &library);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    for status in ["applied", "cached"] {
        let report = site.json(&arguments, 0);
        assert_eq!(report["status"], status);
        assert_eq!(report["pinned"], json!([{"mountKey": "repo:demo", "revision": commit}]));
    }
    assert!(!site.root().join("repos/demo/.git").exists(), "the mounted repository is read-only");
    let scratch = site.root().join(".interlock/scratch");
    assert_eq!(fs::read_dir(scratch).unwrap().count(), 0, "the clone is deleted");
}

#[test]
fn existing_files_in_a_root_are_kept_and_not_drift() {
    let site = Site::new();
    site.plan();
    let root = site.root();
    for (folder, mode) in [("deliverables", 0o775), ("references", 0o755), ("tmp", 0o777)] {
        fs::create_dir_all(root.join(folder)).unwrap();
        fs::set_permissions(root.join(folder), fs::Permissions::from_mode(mode)).unwrap();
    }
    fs::write(root.join("references/mine.txt"), "mine").unwrap();
    fs::write(root.join("AGENTS.md"), "Written by hand.").unwrap();
    let report = site.apply_json(&[], 0);
    assert_eq!(site.drift(0)["verdict"], "clean");
    let mode = |name: &str| fs::metadata(root.join(name)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("deliverables"), mode("tmp"), mode("references")), (0o775, 0o777, 0o555));

    let kept: Vec<&str> =
        report["preserved"].as_array().unwrap().iter().map(|kept| kept["path"].as_str().unwrap()).collect();
    assert_eq!(kept, ["references", "AGENTS.md"]);
    let everything = tree_of(&root.join(".interlock/displaced"), "");
    for content in ["mine", "Written by hand."] {
        assert!(everything.iter().any(|(_, text)| text.ends_with(content)), "{content}: {everything:?}");
    }
}
