//! Hostile plans, links and archives. Nothing outside the root is ever changed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::SystemTime;

use serde_json::{Value, json};

use super::site::{Site, tree_of};

/// A folder outside the workspace, and its original state.
struct Canary {
    folder: std::path::PathBuf,
    before: (Vec<(String, String)>, SystemTime),
}

impl Canary {
    fn new(site: &Site) -> Self {
        let folder = site.path("outside");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("passwd"), "untouched").unwrap();
        fs::create_dir(folder.join("inputs")).unwrap();
        Self { before: Self::look(&folder), folder }
    }

    fn look(folder: &Path) -> (Vec<(String, String)>, SystemTime) {
        (tree_of(folder, ""), fs::metadata(folder).unwrap().modified().unwrap())
    }

    fn is_untouched(&self, name: &str) {
        assert_eq!(Self::look(&self.folder), self.before, "{name}");
    }
}

#[test]
fn a_plan_with_an_unsafe_path_is_rejected_before_any_change() {
    let site = Site::new();
    let canary = Canary::new(&site);
    let plan = site.plan();
    let long = "x".repeat(5_000);
    let cases = [
        ("climbs out", "../outside/passwd"),
        ("climbs out further in", "a/../../outside/passwd"),
        ("absolute", "/etc/passwd"),
        ("backslash", "..\\outside"),
        ("NUL", "a\u{0}b"),
        ("control", "a\u{1b}b"),
        ("empty segment", "a//b"),
        ("a dot", "./a"),
        ("a long name", long.as_str()),
    ];
    for (name, path) in cases {
        let mut plan = plan.clone();
        plan["entries"][4]["relPath"] = json!(path);
        refused(&site, &plan, "PLAN_UNSAFE_PATH", name);
        assert!(!site.root().exists(), "{name}: the root was not created");
        canary.is_untouched(name);
    }
}

#[test]
fn invalid_plans_are_rejected_with_their_code() {
    let site = Site::new();
    let plan = site.plan();
    let with = |pointer: &str, value: Value| {
        let mut plan = plan.clone();
        *plan.pointer_mut(pointer).unwrap() = value;
        plan
    };
    let mut twice = plan.clone();
    let entries = twice["entries"].as_array_mut().unwrap();
    let mut copy = entries[4].clone();
    copy["relPath"] = json!("other.md");
    entries.push(copy);
    let mut below = plan.clone();
    let entries = below["entries"].as_array_mut().unwrap();
    let mut nested = entries[4].clone();
    nested["relPath"] = json!("engineer.md/inside");
    nested["mountKey"] = json!("nested");
    entries.push(nested);
    let cases = [
        ("not an object", json!([]), "VALIDATION_ERROR"),
        ("the state folder", with("/entries/4/slot", json!("/workspace/.interlock")), "PLAN_UNKNOWN_SLOT"),
        ("writable skills", with("/entries/4/mode", json!("read-write")), "PLAN_MODE_NOT_ALLOWED"),
        ("a new kind", with("/entries/4/source/kind", json!("exec")), "PLAN_INVALID_SOURCE"),
        ("one key twice", twice, "PLAN_DUPLICATE_MOUNT_KEY"),
        ("a file in a file", below, "PLAN_PATH_CONFLICT"),
        ("an id that is a path", with("/applyId", json!("../../outside")), "VALIDATION_ERROR"),
    ];
    for (name, plan, code) in cases {
        refused(&site, &plan, code, name);
        assert!(!site.root().exists(), "{name}");
    }
}

fn refused(site: &Site, plan: &Value, code: &str, name: &str) {
    let file = site.path("hostile.json");
    fs::write(&file, plan.to_string()).unwrap();
    let arguments = site.apply_arguments(&file, Path::new(&site.library()));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let envelope = site.json(&arguments, 1);
    assert_eq!(envelope["code"], code, "{name}: {envelope}");
}

/// case 40
#[test]
fn links_in_the_root_are_never_written_through() {
    for place in
        ["references", "deliverables", "tmp", ".opencode", ".opencode/skills", "AGENTS.md", ".interlock"]
    {
        let site = Site::new();
        let canary = Canary::new(&site);
        site.plan();
        let link = site.root().join(place);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(&canary.folder, &link).unwrap();
        let before = tree_of(&site.root(), ".interlock");
        let envelope = site.apply_json(&[], 1);
        assert_eq!(envelope["code"], "APPLY_UNSAFE_SYMLINK", "{place}: {envelope}");
        canary.is_untouched(place);
        assert_eq!(tree_of(&site.root(), ".interlock"), before, "{place}: the workspace is unchanged");

        fs::remove_file(&link).unwrap();
        assert_eq!(site.apply_json(&[], 0)["status"], "applied", "{place}: without the link it succeeds");
        canary.is_untouched(place);
    }
}

/// A link planted by an agent after the apply, in place of a slot and inside one.
#[test]
fn a_link_planted_by_an_agent_is_critical_and_not_followed() {
    let site = Site::new();
    let canary = Canary::new(&site);
    site.plan();
    site.apply_json(&[], 0);
    symlink(&canary.folder, site.root().join("deliverables/out")).unwrap();
    let report = site.drift(1);
    assert_eq!(report["verdict"], "critical");
    assert_eq!(report["drifts"][1]["kind"], "unsafe-symlink", "{report}");
    assert_eq!(report["scanned"]["files"].as_u64().unwrap(), 24, "the link is not followed");

    let snapshot = site.path("s.snapshot");
    let packed = site.json(
        &["workspace", "snapshot", "--root", site.root().to_str().unwrap(), "-o", snapshot.to_str().unwrap()],
        0,
    );
    assert_eq!(packed["excluded"], json!([{"path": "deliverables/out", "why": "unsafe-link"}]));
    site.apply_json(&["--rw", "reset"], 0);
    assert!(!site.root().join("deliverables/out").exists());
    canary.is_untouched("at the end");
}

/// case 49
#[test]
fn a_modified_snapshot_is_rejected_without_changes() {
    let site = Site::new();
    site.plan();
    site.apply_json(&[], 0);
    fs::write(site.root().join("deliverables/mine.md"), "mine").unwrap();
    let snapshot = site.path("s.snapshot");
    let file = snapshot.to_str().unwrap();
    site.json(&["workspace", "snapshot", "--root", site.root().to_str().unwrap(), "-o", file], 0);
    let sound = fs::read(&snapshot).unwrap();
    let before = tree_of(&site.root(), ".interlock");
    for at in [0, sound.len() / 2, sound.len() - 1] {
        let mut bytes = sound.clone();
        bytes[at] ^= 1;
        fs::write(&snapshot, bytes).unwrap();
        assert_eq!(site.apply_json(&["--snapshot", file], 1)["code"], "SNAPSHOT_CORRUPT", "byte {at}");
    }
    fs::remove_file(site.path("s.snapshot.sha256")).unwrap();
    fs::write(&snapshot, &sound).unwrap();
    assert_eq!(site.apply_json(&["--snapshot", file], 1)["code"], "SNAPSHOT_CORRUPT", "without its hash");
    assert_eq!(tree_of(&site.root(), ".interlock"), before);
}
