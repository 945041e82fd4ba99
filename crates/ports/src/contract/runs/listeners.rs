//! Triggers.

use flow::id::{RunId, Tenant, WorkflowId};

use super::{Law, commit, create};
use crate::runs::{Change, CommitError, RunStore};

pub(super) const LAWS: &[Law] = &[
    ("a message is claimed once with its run", a_message_is_claimed_once_with_its_run),
    ("a trigger moves only from where it is", a_trigger_moves_only_from_where_it_is),
    ("workflows that listen are listed page by page", workflows_that_listen_are_listed_page_by_page),
];

fn a_message_is_claimed_once_with_its_run(store: &dyn RunStore) {
    let claim = |tenant: &str, run: &str| Change::ClaimMessage {
        tenant: Tenant::new(tenant),
        message_id: "m".into(),
        run_id: RunId::new(run),
    };
    commit(store, [create("by-m", "acme", None), claim("acme", "by-m")]).unwrap();
    let again = commit(store, [create("by-m-again", "acme", None), claim("acme", "by-m-again")]);
    assert_eq!(again, Err(CommitError::MessageClaimed));
    assert_eq!(
        store.run(None, &RunId::new("by-m-again")).wait().unwrap(),
        None,
        "no change of a refused commit remains"
    );
    commit(store, [claim("other", "r")]).unwrap();
    let forget = || Change::ForgetMessage { tenant: Tenant::new("acme"), message_id: "m".into() };
    commit(store, [forget()]).unwrap();
    commit(store, [forget()]).unwrap();
    commit(store, [claim("acme", "r")]).unwrap();
}

fn a_trigger_moves_only_from_where_it_is(store: &dyn RunStore) {
    let moved = |from: Option<&str>, to: &str| Change::MoveListener {
        tenant: Tenant::new("acme"),
        workflow_id: WorkflowId::new("w"),
        consumer: "c".into(),
        from: from.map(Into::into),
        to: to.into(),
    };
    let place = || store.listener_position(&Tenant::new("acme"), &WorkflowId::new("w"), "c").wait().unwrap();
    assert_eq!(commit(store, [moved(Some("1"), "2")]), Err(CommitError::ListenerMoved));
    assert_eq!(place(), None);
    commit(store, [moved(None, "1")]).unwrap();
    assert_eq!(commit(store, [moved(None, "1")]), Err(CommitError::ListenerMoved));
    assert_eq!(commit(store, [moved(Some("0"), "2")]), Err(CommitError::ListenerMoved));
    commit(store, [moved(Some("1"), "2")]).unwrap();
    assert_eq!(place().as_deref(), Some("2"));
    assert_eq!(
        store.listener_position(&Tenant::new("other"), &WorkflowId::new("w"), "c").wait().unwrap(),
        None
    );
}

fn workflows_that_listen_are_listed_page_by_page(store: &dyn RunStore) {
    let set = |tenant: &str, workflow: &str, is_listening| Change::SetListening {
        tenant: Tenant::new(tenant),
        workflow_id: WorkflowId::new(workflow),
        is_listening,
    };
    let all = [("a", "x"), ("a", "y"), ("b", "w")];
    for (tenant, workflow) in all {
        commit(store, [set(tenant, workflow, true), set(tenant, workflow, true)]).unwrap();
    }
    let owned = |found: &[(&str, &str)]| -> Vec<(Tenant, WorkflowId)> {
        found.iter().map(|(tenant, workflow)| (Tenant::new(*tenant), WorkflowId::new(*workflow))).collect()
    };
    assert_eq!(store.listening(None, 2).wait().unwrap(), owned(&all[..2]));
    assert_eq!(
        store.listening(Some((&Tenant::new("a"), &WorkflowId::new("y"))), 2).wait().unwrap(),
        owned(&all[2..])
    );
    commit(store, [set("a", "x", false), set("a", "z", false)]).unwrap();
    assert_eq!(store.listening(None, 9).wait().unwrap(), owned(&all[1..]));
}
