//! Roots with mounts inside. They need a mount namespace, which not every machine provides.

use std::fs;
use std::process::{Command, Output};

use super::site::Site;
use crate::program::text;

/// Runs a script as root of a new namespace; `None` if that is not possible.
fn in_name_space(site: &Site, script: &str) -> Option<Output> {
    let unshare = |script: &str| {
        Command::new("unshare")
            .args(["--map-root-user", "--mount", "sh", "-ec", script])
            .env("ROOT", site.root())
            .env("PLAN", site.path("plan.json"))
            .env("LIBRARY", site.library())
            .env("INTERLOCK", env!("CARGO_BIN_EXE_interlock"))
            .output()
            .ok()
    };
    unshare("mount -t tmpfs tmpfs \"$(dirname \"$PLAN\")\"").filter(|tried| tried.status.success())?;
    unshare(script)
}

const APPLY: &str =
    "\"$INTERLOCK\" workspace apply --plan \"$PLAN\" --library \"$LIBRARY\" --root \"$ROOT\" --json";

#[test]
fn a_state_folder_on_another_file_system_is_refused() {
    let site = Site::new();
    site.plan();
    fs::create_dir_all(site.root().join(".interlock")).unwrap();
    let script = format!("mount -t tmpfs tmpfs \"$ROOT/.interlock\"; {APPLY}");
    let Some(output) = in_name_space(&site, &script) else { return };
    let document = text(&output.stdout);
    assert_eq!(output.status.code(), Some(2), "{document}{}", text(&output.stderr));
    assert!(document.contains("APPLY_STATE_DIR_OTHER_FS"), "{document}");
    assert_eq!(fs::read_dir(site.root()).unwrap().count(), 1, "no other files were created");
}

#[test]
fn a_slot_that_is_a_mount_point_is_filled_entry_by_entry() {
    let site = Site::new();
    site.plan();
    for slot in ["references", "deliverables"] {
        fs::create_dir_all(site.root().join(slot)).unwrap();
    }
    let script = format!(
        "mount -t tmpfs tmpfs \"$ROOT/references\"; mount -t tmpfs tmpfs \"$ROOT/deliverables\"
         {APPLY}
         echo kept > \"$ROOT/deliverables/mine.md\"
         {APPLY} --rw preserve --verify hash
         test -f \"$ROOT/references/kb/handbook/release.md\"
         test -f \"$ROOT/deliverables/release-notes-1.4.0.md\"
         test -f \"$ROOT/deliverables/mine.md\"
         test ! -e \"$ROOT/references/.interlock-staging\"
         rm -f \"$ROOT/references/kb/handbook/release.md\"
         {APPLY}
         test -f \"$ROOT/references/kb/handbook/release.md\"
         rm \"$ROOT/deliverables/mine.md\"
         \"$INTERLOCK\" workspace drift --root \"$ROOT\" --json"
    );
    let Some(output) = in_name_space(&site, &script) else { return };
    let documents = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{documents}{}", text(&output.stderr));
    let statuses: Vec<serde_json::Value> =
        documents.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(statuses[0]["status"], "applied");
    let references = statuses[0]["slots"].as_array().unwrap().iter();
    let references: Vec<_> = references.filter(|slot| slot["path"] == "/workspace/references").collect();
    assert_eq!(references[0]["promote"], "children");
    assert_eq!(statuses[1]["status"], "cached");
    assert_eq!(statuses[2]["status"], "repaired");
    assert_eq!(statuses[3]["verdict"], "clean");
}
