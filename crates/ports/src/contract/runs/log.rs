//! Runs and their events.

use flow::id::{RunId, Tenant, WorkflowId};
use flow::run::RunStatus;

use super::{Law, append, bytes, commit, create};
use crate::runs::{Change, CommitError, RunFilter, RunStore};

pub(super) const LAWS: &[Law] = &[
    ("a run is read as it was committed", a_run_is_read_as_it_was_committed),
    ("a tenant sees only its own data", a_tenant_sees_only_its_own_data),
    ("open runs are found page by page", open_runs_are_found_page_by_page),
    ("a commit creates and advances several runs", a_commit_creates_and_advances_several_runs),
    (
        "a run checkpoint is replaced and deleted with its run",
        a_run_checkpoint_is_replaced_and_deleted_with_its_run,
    ),
];

fn a_run_is_read_as_it_was_committed(store: &dyn RunStore) {
    commit(store, [create("run", "acme", None), append("run", 0, 2, RunStatus::Running)]).unwrap();
    commit(store, [append("run", 3, 3, RunStatus::Completed)]).unwrap();
    let run = store.run(Some(&Tenant::new("acme")), &RunId::new("run")).wait().unwrap().unwrap();
    assert_eq!(
        (run.status, run.next_sequence, &*run.snapshot),
        (RunStatus::Completed, 4, &*bytes(r#"{"runId":"run","last":3}"#))
    );
    let ranges = |from, events, size| -> Vec<_> {
        let found = store.appends(&RunId::new("run"), from, events, size).wait().unwrap();
        found.iter().map(|append| (append.first, append.last)).collect()
    };
    assert_eq!(ranges(0, 100, 1 << 20), [(0, 2), (3, 3)]);
    assert_eq!(ranges(2, 100, 1 << 20), [(0, 2), (3, 3)]);
    assert_eq!(ranges(3, 100, 1 << 20), [(3, 3)]);
    assert_eq!(ranges(4, 100, 1 << 20), []);
    assert_eq!(ranges(0, 1, 1 << 20), [(0, 2)], "at least one append, whatever the limits");
    assert_eq!(ranges(0, 100, 1), [(0, 2)]);
}

fn a_tenant_sees_only_its_own_data(store: &dyn RunStore) {
    commit(store, [create("mine", "acme", None), append("mine", 0, 0, RunStatus::Running)]).unwrap();
    assert!(store.run(Some(&Tenant::new("other")), &RunId::new("mine")).wait().unwrap().is_none());
    assert!(
        store.run(None, &RunId::new("mine")).wait().unwrap().is_some(),
        "without a tenant, every run is found"
    );
    assert!(store.runs(&Tenant::new("other"), &RunFilter::default(), 10).wait().unwrap().runs.is_empty());
    assert!(store.definition(&Tenant::new("other"), &WorkflowId::new("w")).wait().unwrap().is_none());
    assert!(store.webhooks(&Tenant::new("other")).wait().unwrap().is_empty());
    assert!(store.audit(&Tenant::new("other"), 0, u64::MAX, 10).wait().unwrap().is_empty());
}

fn open_runs_are_found_page_by_page(store: &dyn RunStore) {
    let before: Vec<_> = store.open_runs(None, 1000).wait().unwrap();
    for run_id in ["o-1", "o-2", "o-3"] {
        commit(store, [create(run_id, "acme", None)]).unwrap();
    }
    commit(store, [append("o-2", 0, 0, RunStatus::Completed)]).unwrap();
    let mut after: Vec<_> = store.open_runs(None, 1000).wait().unwrap();
    after.retain(|run| !before.contains(run));
    assert_eq!(after, ["o-1", "o-3"]);
    assert_eq!(store.open_runs(Some(&RunId::new("o-1")), 1).wait().unwrap(), ["o-3"]);
}

fn a_commit_creates_and_advances_several_runs(store: &dyn RunStore) {
    let changes = [
        create("m-1", "acme", None),
        create("m-2", "acme", None),
        create("m-3", "acme", None),
        append("m-2", 0, 4, RunStatus::Running),
        append("m-1", 0, 0, RunStatus::Running),
        append("m-2", 5, 6, RunStatus::Completed),
    ];
    commit(store, changes).unwrap();
    let known = |run_id| {
        store.run(None, &RunId::new(run_id)).wait().unwrap().map(|run| (run.status, run.next_sequence))
    };
    assert_eq!(known("m-1"), Some((RunStatus::Running, 1)));
    assert_eq!(known("m-2"), Some((RunStatus::Completed, 7)));
    assert_eq!(known("m-3"), Some((RunStatus::Pending, 0)));
    assert_eq!(store.open_runs(Some(&RunId::new("m-")), 9).wait().unwrap(), ["m-1", "m-3"]);
    assert_eq!(store.appends(&RunId::new("m-2"), 0, 99, 1 << 20).wait().unwrap().len(), 2);
    // The first events of a run are its first, in whichever commit they come.
    let moved = |run_id: &str| Err(CommitError::Moved { run_id: RunId::new(run_id) });
    let twice = [
        create("m-4", "acme", None),
        append("m-4", 0, 0, RunStatus::Running),
        append("m-4", 0, 0, RunStatus::Completed),
    ];
    assert_eq!(commit(store, twice), moved("m-4"));
    assert_eq!(
        commit(store, [create("m-5", "acme", None), append("m-5", 1, 1, RunStatus::Running)]),
        moved("m-5")
    );
    assert_eq!(
        commit(store, [append("m-6", 0, 0, RunStatus::Running), create("m-6", "acme", None)]),
        moved("m-6")
    );
    for run_id in ["m-4", "m-5", "m-6"] {
        assert_eq!(known(run_id), None, "{run_id}");
    }
}

fn a_run_checkpoint_is_replaced_and_deleted_with_its_run(store: &dyn RunStore) {
    let set = |run_id: &str, checkpoint: Option<&str>| Change::SetRunCheckpoint {
        run_id: RunId::new(run_id),
        checkpoint: checkpoint.map(bytes),
    };
    let found = |run_id: &str| store.run_checkpoint(&RunId::new(run_id)).wait().unwrap();
    for run_id in ["s-1", "s-2", "s-3"] {
        commit(store, [create(run_id, "acme", None), append(run_id, 0, 0, RunStatus::Completed)]).unwrap();
    }
    assert_eq!(found("s-1"), None);
    commit(store, [set("s-1", Some("first")), set("s-2", Some("two")), set("no-run", Some("x"))]).unwrap();
    commit(store, [set("s-1", Some("second")), set("s-3", None)]).unwrap();
    assert_eq!(found("s-1"), Some(bytes("second")));
    assert_eq!(found("no-run"), None);
    commit(store, [set("s-1", None), Change::DeleteRun { run_id: RunId::new("s-2") }]).unwrap();
    assert_eq!((found("s-1"), found("s-2")), (None, None));
    // What is refused leaves nothing.
    commit(store, [set("s-3", Some("x")), append("s-3", 7, 7, RunStatus::Running)]).unwrap_err();
    assert_eq!(found("s-3"), None);
}
