//! Lists of runs.

use flow::id::{RunId, Tenant, WorkflowId};
use flow::run::RunStatus;

use super::{Law, append, bytes, commit, create};
use crate::runs::{Change, ListCursor, ReadError, RunFilter, RunStore};

pub(super) const LAWS: &[Law] = &[
    ("runs are listed newest first and filtered", runs_are_listed_newest_first_and_filtered),
    ("a run is listed as waiting while it waits", a_run_is_listed_as_waiting_while_it_waits),
    ("a cursor outlives its run and others are invalid", a_cursor_outlives_its_run_and_others_are_invalid),
];

fn runs_are_listed_newest_first_and_filtered(store: &dyn RunStore) {
    let statuses = [RunStatus::Completed, RunStatus::Failed, RunStatus::Running, RunStatus::Completed];
    for (number, status) in statuses.into_iter().enumerate() {
        let run_id = format!("listed-{number}");
        commit(store, [create(&run_id, "lister", None), append(&run_id, 0, 0, status)]).unwrap();
    }
    let list = |filter: RunFilter, limit| -> Vec<String> {
        let found = store.runs(&Tenant::new("lister"), &filter, limit).wait().unwrap();
        let id = |snapshot: &[u8]| {
            serde_json::from_slice::<serde_json::Value>(snapshot).unwrap()["runId"].to_string()
        };
        found.runs.iter().map(|run| id(run).replace(['"'], "").replace("listed-", "")).collect()
    };
    let all = RunFilter::default;
    assert_eq!(list(all(), 10), ["3", "2", "1", "0"]);
    assert_eq!(list(all(), 2), ["3", "2"]);
    let first = store.runs(&Tenant::new("lister"), &all(), 2).wait().unwrap();
    assert!(first.next.is_some(), "the page is full");
    assert_eq!(list(RunFilter { after: first.next, ..all() }, 10), ["1", "0"]);
    let last = store.runs(&Tenant::new("lister"), &all(), 5).wait().unwrap();
    assert_eq!(last.next, None, "the page is not full");
    assert_eq!(list(RunFilter { status: Some(RunStatus::Completed), ..all() }, 10), ["3", "0"]);
    assert_eq!(list(RunFilter { status: Some(RunStatus::Running), ..all() }, 10), ["2"]);
    assert_eq!(list(RunFilter { workflow_id: Some(WorkflowId::new("w")), ..all() }, 1), ["3"]);
    assert_eq!(list(RunFilter { workflow_id: Some(WorkflowId::new("v")), ..all() }, 1), [""; 0]);
    assert_eq!(list(RunFilter { tag: Some("t".into()), status: Some(RunStatus::Failed), ..all() }, 9), ["1"]);
    assert_eq!(list(RunFilter { tag: Some("u".into()), ..all() }, 9), [""; 0]);
}

fn a_run_is_listed_as_waiting_while_it_waits(store: &dyn RunStore) {
    use RunStatus::{Completed, Running, WaitingApproval, WaitingExternal, WaitingInput};
    let tenant = Tenant::new("waiter");
    let count = |filter: &RunFilter| store.runs(&tenant, filter, 10).wait().unwrap().runs.len();
    let waiting = RunFilter { waiting: true, ..RunFilter::default() };
    let steps = [Running, WaitingApproval, WaitingInput, Running, WaitingExternal, Completed];
    for (number, status) in (0..).zip(steps) {
        let begins = (number == 0).then(|| create("waits", "waiter", None));
        commit(store, begins.into_iter().chain([append("waits", number, number, status)])).unwrap();
        assert_eq!(count(&waiting), usize::from(status.is_waiting()), "{status}");
        assert_eq!(count(&RunFilter { status: Some(status), ..RunFilter::default() }), 1, "{status}");
    }
    commit(store, [create("begins", "waiter", None), append("begins", 0, 0, WaitingInput)]).unwrap();
    let other = RunFilter { workflow_id: Some(WorkflowId::new("v")), ..waiting.clone() };
    let tagged = RunFilter { tag: Some("t".into()), ..waiting.clone() };
    assert_eq!((count(&waiting), count(&other), count(&tagged)), (1, 0, 1));
    assert!(store.runs(&Tenant::new("another"), &waiting, 10).wait().unwrap().runs.is_empty());
}

fn a_cursor_outlives_its_run_and_others_are_invalid(store: &dyn RunStore) {
    let tenant = Tenant::new("acme");
    for run_id in ["c-1", "c-2", "c-3"] {
        commit(store, [create(run_id, "acme", None), append(run_id, 0, 0, RunStatus::Completed)]).unwrap();
    }
    let page = |after: Option<ListCursor>, limit| {
        store.runs(&tenant, &RunFilter { after, ..RunFilter::default() }, limit).wait()
    };
    let next = page(None, 2).unwrap().next;
    commit(store, [Change::DeleteRun { run_id: RunId::new("c-2") }]).unwrap();
    let rest = page(next, 2).unwrap();
    assert_eq!((rest.runs, rest.next), (vec![bytes(r#"{"runId":"c-1","last":0}"#)], None));
    for text in ["", " ", "not a cursor", "-1", "+1", "99999999999999999999999999", "é"] {
        let cursor = ListCursor::new(text);
        assert_eq!(page(Some(cursor.clone()), 2), Err(ReadError::InvalidCursor), "{text:?}");
        assert_eq!(store.aged_runs(Some(&cursor), 2).wait(), Err(ReadError::InvalidCursor), "{text:?}");
    }
}
