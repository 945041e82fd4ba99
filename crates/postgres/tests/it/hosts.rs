//! Hosts: one at a time, and fenced if another takes over.

use canon::time::Timestamp;
use flow::id::RunId;
use ports::runs::prelude::*;
use ports::runs::{Change, Commit, CommitError};
use postgres::{OpenError, Options, PostgresRuns, Role};

use crate::{admin, database, open, options};

fn timer(run_id: &str) -> Commit {
    Commit {
        changes: vec![Change::SetTimer { run_id: RunId::new(run_id), key: "k".into(), at: Timestamp(1) }],
    }
}

#[tokio::test]
async fn a_second_host_is_refused_while_the_first_is_alive() {
    let Some(url) = database().await else { return };
    let first = open(&url).await;
    let refused = PostgresRuns::open(&options(&url)).await.unwrap_err();
    assert!(matches!(&refused, OpenError::HostAlive { name, .. } if name == "test"), "{refused:?}");
    first.close().await;
    let closed = first.commit(timer("r")).await;
    assert_eq!(closed, Err(CommitError::Closed));
    open(&url).await.close().await;
}

/// A command that creates a key, while the host is running.
#[tokio::test]
async fn a_command_writes_beside_the_host() {
    let Some(url) = database().await else { return };
    let host = open(&url).await;
    host.commit(timer("by-host")).await.unwrap();
    let inspected = postgres::schema::inspect(&url).await.unwrap();
    assert_eq!(inspected.host.map(|(name, _)| name).as_deref(), Some("test"));
    let command = PostgresRuns::open(&Options { role: Role::Command, ..options(&url) }).await.unwrap();
    command.commit(timer("by-command")).await.unwrap();
    command.close().await;
    assert_eq!(host.due_timers(Timestamp(9), 9).await.unwrap().len(), 2);
    host.commit(timer("by-host-again")).await.unwrap();
    host.close().await;
    assert_eq!(postgres::schema::inspect(&url).await.unwrap().host, None);
}

#[tokio::test]
async fn a_host_that_is_taken_for_dead_is_fenced() {
    let Some(url) = database().await else { return };
    let first = open(&url).await;
    first.commit(timer("before")).await.unwrap();
    let admin = admin(&url).await;
    // In one transaction with the check, so that no sign of life comes between.
    let aged = "update hosts set beat_at = beat_at - interval '1 minute'";
    let second = loop {
        admin.batch_execute(aged).await.unwrap();
        match PostgresRuns::open(&options(&url)).await {
            Ok(second) => break second,
            Err(error) => assert!(matches!(error, OpenError::HostAlive { .. }), "{error:?}"),
        }
    };
    for batching in ["in a batch", "alone"] {
        let mut commit = timer("zombie");
        if batching == "alone" {
            commit.changes.push(Change::DeleteRun { run_id: RunId::new("none") });
        }
        let refused = first.commit(commit).await;
        assert!(
            matches!(&refused, Err(CommitError::Store(cause)) if cause.to_string().contains("taken over")),
            "{batching}: {refused:?}"
        );
    }
    second.commit(timer("after")).await.unwrap();
    let due = second.due_timers(Timestamp(9), 9).await.unwrap();
    assert_eq!(due.iter().map(|timer| timer.run_id.as_str()).collect::<Vec<_>>(), ["after", "before"]);
    second.close().await;
}

/// What PostgreSQL cannot store fails alone and is found nowhere.
#[tokio::test]
async fn a_text_with_a_nul_character_fails_alone() {
    let Some(url) = database().await else { return };
    let store = open(&url).await;
    let started: Vec<_> = ["a", "b\0", "c"].map(|run_id| store.commit(timer(run_id))).into_iter().collect();
    let mut results = Vec::new();
    for commit in started {
        results.push(commit.await.is_ok());
    }
    assert_eq!(results, [true, false, true]);
    assert_eq!(store.run(None, &RunId::new("b\0")).await.unwrap(), None);
    assert_eq!(store.due_timers(Timestamp(9), 9).await.unwrap().len(), 2);
    store.close().await;
}
