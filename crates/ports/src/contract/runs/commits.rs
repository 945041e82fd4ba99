//! Commits.

use canon::time::Timestamp;
use flow::id::{RunId, Tenant};
use flow::run::RunStatus;

use super::{Law, append, commit, create};
use crate::PortFuture;
use crate::runs::{Change, Commit, CommitError, RunFilter, RunStore};

pub(super) const LAWS: &[Law] = &[
    (
        "sequences are dense and a refused commit leaves no trace",
        sequences_are_dense_and_a_refused_commit_leaves_no_trace,
    ),
    ("one run of a scope at a time", one_run_of_a_scope_at_a_time),
    (
        "a commit begins when it is called and cannot be cancelled",
        a_commit_begins_when_it_is_called_and_cannot_be_cancelled,
    ),
    ("a refused commit does not affect those beside it", a_refused_commit_does_not_affect_those_beside_it),
];

fn sequences_are_dense_and_a_refused_commit_leaves_no_trace(store: &dyn RunStore) {
    let moved = Err(CommitError::Moved { run_id: RunId::new("dense") });
    commit(store, [create("dense", "acme", None), append("dense", 0, 1, RunStatus::Running)]).unwrap();
    for first in [0, 1, 3] {
        let timer = Change::SetTimer { run_id: RunId::new("dense"), key: "k".into(), at: Timestamp(5) };
        assert_eq!(
            commit(store, [timer, append("dense", first, first, RunStatus::Failed)]),
            moved,
            "{first}"
        );
    }
    assert_eq!(store.run(None, &RunId::new("dense")).wait().unwrap().unwrap().status, RunStatus::Running);
    assert_eq!(store.next_timer().wait().unwrap(), None, "no change of a refused commit remains");
    assert_eq!(
        commit(store, [append("unknown", 0, 0, RunStatus::Running)]),
        Err(CommitError::Moved { run_id: RunId::new("unknown") })
    );
    let exists = Err(CommitError::RunExists { run_id: RunId::new("dense") });
    assert_eq!(commit(store, [create("dense", "acme", None)]), exists);
}

fn one_run_of_a_scope_at_a_time(store: &dyn RunStore) {
    commit(store, [create("first", "acme", Some("s")), append("first", 0, 0, RunStatus::Running)]).unwrap();
    let active = Err(CommitError::ScopeActive { active_run_id: RunId::new("first") });
    assert_eq!(commit(store, [create("second", "acme", Some("s"))]), active);
    commit(store, [create("elsewhere", "other", Some("s"))]).unwrap();
    commit(store, [append("first", 1, 1, RunStatus::Cancelled)]).unwrap();
    commit(store, [create("second", "acme", Some("s"))]).unwrap();
}

fn a_commit_begins_when_it_is_called_and_cannot_be_cancelled(store: &dyn RunStore) {
    drop(store.commit(Commit { changes: vec![create("dropped", "acme", None)] }));
    // A commit of the same run takes effect after the one that was started first.
    commit(store, [append("dropped", 0, 0, RunStatus::Completed)]).unwrap();
    let run = store.run(None, &RunId::new("dropped")).wait().unwrap().unwrap();
    assert_eq!(run.status, RunStatus::Completed);
}

fn a_refused_commit_does_not_affect_those_beside_it(store: &dyn RunStore) {
    let started: Vec<_> = (0..100)
        .map(|number| {
            let run_id = format!("r-{}", number % 80);
            store.commit(Commit {
                changes: vec![create(&run_id, "acme", None), append(&run_id, 0, 0, RunStatus::Completed)],
            })
        })
        .collect();
    let accepted = started.into_iter().map(PortFuture::wait).filter(Result::is_ok).count();
    assert_eq!(accepted, 80);
    assert_eq!(store.runs(&Tenant::new("acme"), &RunFilter::default(), 1000).wait().unwrap().runs.len(), 80);
}
