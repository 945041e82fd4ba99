//! Views of workspaces of runs.

use std::path::Path;
use std::sync::Arc;

use guided_node::workspaces::{DriftLook, Workspaces};
use serde_json::json;
use workspace::Error;
use workspace::apply::{Applier, ApplyRequest, LeaseScope, LeaseState};
use workspace::drift::Verdict;
use workspace::plan::ValidPlan;

const NOW: u64 = 1_800_000_000_000;

/// Applies a plan of two literals to a root.
fn apply(root: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(root).unwrap();
    let applier = Applier::new(root)?;
    let literal = |key: &str, slot: &str, path: &str, mode: &str| {
        json!({"mountKey": key, "slot": slot, "relPath": path, "mode": mode,
            "source": {"kind": "static-literal", "pathWithinWorkspace": path, "bytes": "aGVsbG8="}})
    };
    let plan = json!({"applyId": "ab".repeat(32), "entries": [
        literal("inputs:brief", "/workspace/inputs", "notes/brief.md", "read-only"),
        literal("tmp:seed", "/workspace/tmp", ".keep", "read-write"),
    ]});
    let plan = ValidPlan::check(&plan, None, applier.folds_case()?)?;
    let scope = LeaseScope::of(&plan, 0);
    let library = Arc::new(workspace::library::Library::open(root.parent().unwrap())?);
    let request = ApplyRequest::new(&plan, &scope, "a test");
    applier.apply(&request, &(library as _), NOW, &()).map(|_| ())
}

#[test]
fn a_workspace_is_shown_with_its_lease_plan_and_drift() {
    let data = tempfile::tempdir().unwrap();
    let root = data.path().join("run_1/review");
    apply(&root).unwrap_or_else(|error| panic!("{error}"));
    let workspaces = Workspaces::new(data.path().to_owned());

    let list = workspaces.list(&|_| true, (0, 10), NOW + 1).unwrap();
    let line = &list.workspaces[0];
    assert_eq!((line.run_id.as_str(), line.node_id.as_str(), list.has_more), ("run_1", "review", false));
    let look = workspaces.look("run_1", "review", false, NOW + 1).unwrap().unwrap();
    let (lease, state) = look.line.lease.unwrap().unwrap();
    assert_eq!((lease.holder.as_str(), state), ("a test", LeaseState::Active));
    let inputs = look.slots.iter().find(|slot| slot.path == "/workspace/inputs").unwrap();
    let names: Vec<_> = inputs.lines.iter().map(|line| (line.depth, line.name.as_str())).collect();
    assert_eq!(names, [(0, "notes"), (1, "brief.md")]);
    assert_eq!(inputs.lines[1].mount_key.as_deref(), Some("inputs:brief"));
    assert_eq!(look.unshown, 0);
    let verdict = |drift: DriftLook| match drift {
        DriftLook::Looked(report) => (report.verdict, report.drifts.first().map(|drift| drift.path.clone())),
        other => panic!("{other:?}"),
    };
    assert_eq!(verdict(look.drift), (Verdict::Clean, None));

    let brief = root.join("inputs/notes/brief.md");
    std::fs::set_permissions(&brief, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    std::fs::write(&brief, "tampered").unwrap();
    let look = workspaces.look("run_1", "review", false, NOW + 1).unwrap().unwrap();
    let (found, path) = verdict(look.drift);
    assert_eq!((found, path.as_deref()), (Verdict::Critical, Some("inputs/notes/brief.md")));
    let expired = workspaces.look("run_1", "review", false, NOW + 10_000_000).unwrap().unwrap();
    assert_eq!(expired.line.lease.unwrap().unwrap().1, LeaseState::Expired);
}

#[test]
fn other_folders_are_not_shown_as_workspaces() {
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().join("workspaces");
    let workspaces = Workspaces::new(folder.clone());
    assert!(
        workspaces.list(&|_| true, (0, 10), NOW).unwrap().workspaces.is_empty(),
        "no folder, no workspaces"
    );
    std::fs::create_dir_all(folder.join("run_1/empty")).unwrap();
    std::fs::create_dir(data.path().join("secret")).unwrap();
    std::os::unix::fs::symlink(data.path(), folder.join("link")).unwrap();
    let list = workspaces.list(&|run| run == "run_1", (0, 10), NOW).unwrap();
    assert_eq!(list.workspaces.len(), 1);
    assert!(matches!(list.workspaces[0].lease, Ok(None)), "nothing was applied");
    assert!(
        workspaces.list(&|_| false, (0, 10), NOW).unwrap().workspaces.is_empty(),
        "who may not see, sees nothing"
    );
    for (run, node) in [
        ("..", "secret"),
        ("link", "secret"),
        ("run_1", ".."),
        ("", "x"),
        ("run_1", "a/b"),
        ("run_1", "none"),
    ] {
        assert!(workspaces.look(run, node, false, NOW).unwrap().is_none(), "{run}/{node}");
    }
}
