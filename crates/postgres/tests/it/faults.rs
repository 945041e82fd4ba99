//! Lost connections.

use std::collections::BTreeMap;
use std::sync::Arc;

use canon::time::Timestamp;
use flow::id::{RunId, Tenant, WorkflowId};
use flow::run::RunStatus;
use ports::runs::prelude::*;
use ports::runs::{Change, Commit, CommitError};
use postgres::{Options, PostgresRuns};

use crate::proxy::{Cut, Proxy};
use crate::{admin, database, open, options};

/// A commit that creates a run with one event and records that in the audit log.
fn create(run_id: &str) -> Commit {
    let run_id = RunId::new(run_id);
    let created = Change::CreateRun {
        run_id: run_id.clone(),
        tenant: Tenant::new("acme"),
        workflow_id: WorkflowId::new("w"),
        genesis: b"{}"[..].into(),
        scope_id: None,
        exclusive: false,
        parent_run_id: None,
        tags: vec!["t".into()],
        created_at: Timestamp(1),
    };
    let entry =
        Change::Audit { tenant: Tenant::new("acme"), entry: format!("\"{run_id}\"").into_bytes().into() };
    Commit { changes: vec![created, append(&run_id, 0), entry] }
}

fn append(run_id: &RunId, sequence: u64) -> Change {
    Change::Append {
        run_id: run_id.clone(),
        first: sequence,
        last: sequence,
        events: format!("{{\"sequence\":{sequence}}}").into_bytes().into(),
        status: RunStatus::Running,
        snapshot: b"{}"[..].into(),
        at: Timestamp(2),
    }
}

/// How often each run is in the audit log, which must be a chain without gaps.
async fn audited(store: &PostgresRuns) -> BTreeMap<String, usize> {
    let entries = store.audit(&Tenant::new("acme"), 0, u64::MAX, usize::MAX).await.unwrap();
    let mut found = BTreeMap::new();
    for (sequence, entry) in (0..).zip(&entries) {
        assert_eq!(entry.sequence, sequence);
        if let Some(before) =
            sequence.checked_sub(1).and_then(|before| entries.get(usize::try_from(before).unwrap()))
        {
            assert_eq!(entry.previous, before.link(), "{sequence}");
        }
        let run_id: String = serde_json::from_slice(&entry.entry).unwrap();
        *found.entry(run_id).or_default() += 1;
    }
    found
}

async fn assert_made_once(store: &PostgresRuns, run_id: &str, case: &str) {
    let run = store.run(None, &RunId::new(run_id)).await.unwrap();
    assert_eq!(run.map(|run| run.next_sequence), Some(1), "{case}");
    assert_eq!(store.appends(&RunId::new(run_id), 0, 9, 999).await.unwrap().len(), 1, "{case}");
    assert_eq!(audited(store).await.get(run_id), Some(&1), "{case}");
}

/// The commit of the batch may have been executed, be under way, or not have reached the server. It takes effect once, and the
/// caller gets `Ok`.
#[tokio::test]
async fn a_batch_whose_connection_is_lost_takes_effect_once() {
    let Some(url) = database().await else { return };
    let proxy = Proxy::start(&url).await;
    let store = open(&proxy.url).await;
    store.commit(create("warm")).await.unwrap();
    for cut in Cut::ALL {
        let run_id = format!("cut-{cut:?}");
        // The id is among the values of the batch.
        proxy.arm(run_id.as_bytes(), 0, cut);
        store.commit(create(&run_id)).await.unwrap();
        assert!(proxy.disarm(), "{cut:?}: the connection was cut");
        assert_made_once(&store, &run_id, &run_id).await;
    }
    store.close().await;
}

/// The same for a transaction of several statements, at each of its messages.
#[tokio::test]
async fn a_transaction_that_is_cut_at_any_message_takes_effect_once() {
    let Some(url) = database().await else { return };
    let proxy = Proxy::start(&url).await;
    let store = PostgresRuns::open(&Options { batching: false, ..options(&proxy.url) }).await.unwrap();
    store.commit(create("warm")).await.unwrap();
    for cut in Cut::ALL {
        for skip in 0.. {
            let run_id = format!("{cut:?}-{skip:02}");
            proxy.arm(b"begin\0", skip, cut);
            store.commit(create(&run_id)).await.unwrap();
            let was_cut = proxy.disarm();
            assert_made_once(&store, &run_id, &run_id).await;
            if !was_cut {
                assert!(skip > 10, "{cut:?}: the transaction has {skip} messages");
                break;
            }
        }
    }
    store.close().await;
}

#[tokio::test]
async fn the_outcome_is_unknown_only_if_it_cannot_be_looked_up() {
    let Some(url) = database().await else { return };
    let proxy = Proxy::start(&url).await;
    let store = open(&proxy.url).await;
    store.commit(create("warm")).await.unwrap();
    proxy.arm_and_refuse(b"lost-1");
    let outcome = store.commit(create("lost-1")).await;
    assert!(matches!(outcome, Err(CommitError::OutcomeUnknown(_))), "{outcome:?}");
    let refused = store.commit(create("lost-2")).await;
    assert!(matches!(refused, Err(CommitError::Store(_))), "no connection, so nothing happened: {refused:?}");
    let read = store.run(None, &RunId::new("warm")).await;
    assert!(read.is_err(), "the connections for reads were never made: {read:?}");
    proxy.disarm();
    store.commit(create("later")).await.unwrap();
    assert_made_once(&store, "lost-1", "it was committed, and the audit log continues after it").await;
    assert_eq!(store.run(None, &RunId::new("lost-2")).await.unwrap(), None);
    store.close().await;
}

/// Every commit that was acknowledged is there, every one that failed is not, and nothing is there twice.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_that_are_terminated_under_load_lose_and_repeat_nothing() {
    let Some(url) = database().await else { return };
    let store = Arc::new(open(&url).await);
    let mut clients = tokio::task::JoinSet::new();
    for client in 0..16 {
        let store = Arc::clone(&store);
        clients.spawn(async move {
            let mut outcomes = Vec::new();
            for number in 0..20 {
                let run_id = format!("load-{client}-{number}");
                let mut outcome = store.commit(create(&run_id)).await;
                if outcome.is_ok() {
                    let changes = vec![append(&RunId::new(&*run_id), 1)];
                    let second = store.commit(Commit { changes }).await;
                    // Only the first commit is compared with the audit log.
                    assert!(!matches!(second, Err(CommitError::Moved { .. })), "it was executed twice");
                    outcome = second.or(outcome);
                }
                outcomes.push((run_id, outcome));
            }
            outcomes
        });
    }
    let admin = admin(&url).await;
    let mut terminated = 0;
    let mut outcomes = BTreeMap::new();
    loop {
        let kill = "select pg_terminate_backend(pid) from pg_stat_activity
                    where application_name like 'interlock %' and datname = current_database()";
        terminated += admin.query(kill, &[]).await.unwrap().len();
        match tokio::time::timeout(std::time::Duration::from_millis(100), clients.join_next()).await {
            Ok(Some(done)) => outcomes.extend(done.unwrap()),
            Ok(None) => break,
            Err(_) => {}
        }
    }
    assert!(terminated > 10, "{terminated}");
    let audited = audited(&store).await;
    for (run_id, outcome) in &outcomes {
        let found = audited.get(run_id).copied().unwrap_or(0);
        match outcome {
            Ok(()) => assert_eq!(found, 1, "{run_id}"),
            Err(CommitError::OutcomeUnknown(_)) => assert!(found <= 1, "{run_id}"),
            Err(error) => assert_eq!(found, 0, "{run_id}: {error:?}"),
        }
    }
    let made = outcomes.values().filter(|outcome| outcome.is_ok()).count();
    assert!(made > 300, "{made} of {}: commits are repeated after a lost connection", outcomes.len());
    store.close().await;
}
