//! SQLite as a run store: the contract of the port, and the rules that are specific to SQLite.

use std::sync::Arc;

use canon::digest::Digest;
use canon::time::Timestamp;
use flow::id::{RunId, Tenant, WorkflowId};
use flow::run::RunStatus;
use ports::PortFuture;
use ports::runs::prelude::*;
use ports::runs::{Change, Commit, CommitError, RecordedReply, ReplyKey, RunFilter, RunStore};
use ports::wrapper::Wrapper;
use storage::sqlite::{OpenError, SqliteRuns};
use tempfile::TempDir;

fn commit(store: &SqliteRuns, changes: impl IntoIterator<Item = Change>) -> Result<(), CommitError> {
    store.commit(Commit { changes: changes.into_iter().collect() }).wait()
}

fn bytes(text: &str) -> Arc<[u8]> {
    text.as_bytes().into()
}

fn create(run_id: &str, tenant: &str, scope: Option<&str>) -> Change {
    Change::CreateRun {
        run_id: RunId::new(run_id),
        tenant: Tenant::new(tenant),
        workflow_id: WorkflowId::new("w"),
        genesis: bytes("{}"),
        scope_id: scope.map(Into::into),
        exclusive: scope.is_some(),
        parent_run_id: run_id.split_once('/').map(|(parent, _)| RunId::new(parent)),
        tags: vec!["t".into(), "t".into()],
        created_at: Timestamp(1),
    }
}

fn append(run_id: &str, first: u64, last: u64, status: RunStatus) -> Change {
    let lines: Vec<_> = (first..=last).map(|sequence| format!("{{\"sequence\":{sequence}}}")).collect();
    Change::Append {
        run_id: RunId::new(run_id),
        first,
        last,
        events: bytes(&lines.join("\n")),
        status,
        snapshot: bytes(&format!("{{\"runId\":\"{run_id}\",\"last\":{last}}}")),
        at: Timestamp(2),
    }
}

fn database() -> (TempDir, SqliteRuns) {
    let folder = TempDir::new().unwrap();
    let store = SqliteRuns::open(&folder.path().join("runs.sqlite3")).unwrap();
    (folder, store)
}

/// A store in its own directory, which is deleted with it.
#[derive(Debug)]
struct Temporary {
    store: SqliteRuns,
    _folder: TempDir,
}

impl Wrapper for Temporary {
    fn wrapped(&self) -> &dyn RunStore {
        &self.store
    }
}

#[test]
fn sqlite_keeps_the_contract_of_runs() {
    ports::contract::runs::check(|| {
        let (_folder, store) = database();
        Temporary { store, _folder }
    });
}

#[test]
fn what_was_committed_is_there_when_it_is_opened_again() {
    let (folder, store) = database();
    commit(&store, [create("run", "acme", None), append("run", 0, 0, RunStatus::Completed)]).unwrap();
    commit(&store, [Change::Audit { tenant: Tenant::new("acme"), entry: bytes("{}") }]).unwrap();
    drop(store);
    let store = SqliteRuns::open(&folder.path().join("runs.sqlite3")).unwrap();
    assert_eq!(store.run(None, &RunId::new("run")).wait().unwrap().unwrap().status, RunStatus::Completed);
    commit(&store, [Change::Audit { tenant: Tenant::new("acme"), entry: bytes("{}") }]).unwrap();
    let entries = store.audit(&Tenant::new("acme"), 0, 9, 9).wait().unwrap();
    assert_eq!(entries[1].previous, entries[0].link(), "the chain continues");
}

#[test]
fn many_commits_share_a_transaction_and_one_that_is_refused_harms_no_other() {
    let (_folder, store) = database();
    let started: Vec<_> = (0..500)
        .map(|number| {
            let run_id = format!("r-{}", number % 400);
            store.commit(Commit {
                changes: vec![create(&run_id, "acme", None), append(&run_id, 0, 0, RunStatus::Completed)],
            })
        })
        .collect();
    let accepted = started.into_iter().map(PortFuture::wait).filter(Result::is_ok).count();
    assert_eq!(accepted, 400);
    assert_eq!(store.runs(&Tenant::new("acme"), &RunFilter::default(), 1000).wait().unwrap().runs.len(), 400);
}

#[test]
fn closing_writes_what_was_handed_over() {
    let (folder, store) = database();
    for number in 0..50 {
        drop(store.commit(Commit { changes: vec![create(&format!("r-{number}"), "acme", None)] }));
    }
    drop(store);
    let store = SqliteRuns::open(&folder.path().join("runs.sqlite3")).unwrap();
    assert_eq!(store.open_runs(None, 100).wait().unwrap().len(), 50);
}

#[test]
fn a_key_that_another_process_used_is_taken_and_its_answer_is_found() {
    let (folder, store) = database();
    let elsewhere = SqliteRuns::open(&folder.path().join("runs.sqlite3")).unwrap();
    let key = ReplyKey { tenant: Tenant::new("acme"), endpoint: "e".into(), key: Digest::of_bytes(b"k") };
    let put = |body: &str| {
        let reply = RecordedReply {
            request: Digest::of_bytes(b"r"),
            status: 201,
            body: bytes(body),
            at: Timestamp(1),
        };
        Change::RecordReply { key: key.clone(), reply }
    };
    commit(&elsewhere, [put("first")]).unwrap();
    assert_eq!(commit(&store, [put("second")]), Err(CommitError::KeyTaken));
    assert_eq!(store.reply(&key).wait().unwrap().unwrap().body, bytes("first"));
    drop((store, elsewhere));
    let store = SqliteRuns::open(&folder.path().join("runs.sqlite3")).unwrap();
    assert_eq!(store.reply(&key).wait().unwrap().unwrap().body, bytes("first"), "and after a restart");
}

#[test]
fn closing_leaves_one_file() {
    let (folder, store) = database();
    commit(&store, [create("r", "acme", None)]).unwrap();
    assert!(store.run(None, &RunId::new("r")).wait().unwrap().is_some(), "a reader is open");
    drop(store);
    let names: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["runs.sqlite3"], "nothing is left in a log beside it");
}

#[test]
fn a_newer_database_is_rejected_and_not_changed() {
    let (folder, store) = database();
    drop(store);
    let path = folder.path().join("runs.sqlite3");
    rusqlite::Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let refused = SqliteRuns::open(&path).unwrap_err();
    assert!(matches!(refused, OpenError::Newer { found: 99, .. }), "{refused:?}");
}

#[test]
fn a_backup_is_a_database_of_its_own() {
    let (folder, store) = database();
    commit(&store, [create("run", "acme", None), append("run", 0, 0, RunStatus::Completed)]).unwrap();
    let copy = folder.path().join("copy.sqlite3");
    store.back_up(&copy, &|_, _| ()).unwrap();
    commit(&store, [create("later", "acme", None)]).unwrap();
    let copy = SqliteRuns::open(&copy).unwrap();
    assert!(copy.run(None, &RunId::new("run")).wait().unwrap().is_some());
    assert!(copy.run(None, &RunId::new("later")).wait().unwrap().is_none());
}
