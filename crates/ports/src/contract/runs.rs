//! The contract of [`crate::runs`].

mod artifacts;
mod audit;
mod commits;
mod definitions;
mod effects;
mod keys;
mod listeners;
mod lists;
mod log;
mod replies;
mod retention;
mod timers;
mod webhooks;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use canon::time::Timestamp;
use flow::id::{RunId, Tenant, WorkflowId};
use flow::run::RunStatus;

use crate::runs::{Change, Commit, CommitError, RunStore};

/// A rule in words, and the function that panics if a store breaks it.
type Law = (&'static str, fn(&dyn RunStore));

/// Checks every rule, each with an empty store from `open`.
///
/// # Panics
/// If the store breaks a rule.
pub fn check<S: RunStore>(open: impl Fn() -> S) {
    let suites = [
        artifacts::LAWS,
        audit::LAWS,
        commits::LAWS,
        definitions::LAWS,
        effects::LAWS,
        keys::LAWS,
        listeners::LAWS,
        lists::LAWS,
        log::LAWS,
        replies::LAWS,
        retention::LAWS,
        timers::LAWS,
        webhooks::LAWS,
    ];
    for (law, check) in suites.into_iter().flatten() {
        let store = open();
        let kept = catch_unwind(AssertUnwindSafe(|| check(&store)));
        assert!(kept.is_ok(), "the store breaks the rule: {law}");
    }
}

fn commit(store: &dyn RunStore, changes: impl IntoIterator<Item = Change>) -> Result<(), CommitError> {
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
