//! The process is killed at each point of a guided node, one after the other; the next process completes the run.
//!
//! A point is a step of the node, a commit that does not happen, or one that happens but is not acknowledged. The points are
//! enumerated: the first number at which the process is not killed is the end.

use std::path::Path;
use std::sync::Arc;

use flow::id::{ArtifactId, RunId, Tenant};
use flow::run::RunStatus;
use guide::record::SessionId;
use ports::runs::RunFilter;
use ports::runs::prelude::*;
use runs::create::Creation;
use runs::{AuditKey, Direct, Options, Runs};
use serde_json::{Value, json};
use storage::sqlite::SqliteRuns;
use system::{Clock, ManualClock, SystemClock, SystemEntropy};
use tempfile::TempDir;

use super::fuse::{DyingStore, Fuse};
use super::{completed, furnish, guided_nodes, keep, refused, session_of, tenants, work, workflows};
use crate::runs::requests::new_run;
use crate::runs::{SECRET, caller, events, kinds, until};
use crate::wait::{Wait as _, wait};

const START: u64 = 1_800_000_000_000;
/// Later than every timer of the previous process.
const LATER: u64 = START + 3_600_000;

/// One process: a host with its own runtime, which is gone when this returns.
fn in_a_process<T>(folder: &Path, fuse: &Arc<Fuse>, now: u64, work: impl AsyncFnOnce(&Runs) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let done = runtime.block_on(async {
        let inner = Arc::new(SqliteRuns::open(&folder.join("runs.sqlite3")).unwrap());
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(now));
        let gate = {
            let fuse = Arc::clone(fuse);
            Arc::new(move |_| fuse.pass()) as guided_node::Gate
        };
        let runs = Runs::new(Options {
            store: Arc::new(DyingStore { inner, fuse: Arc::clone(fuse) }),
            clock: Arc::clone(&clock),
            entropy: Arc::new(SystemEntropy),
            limits: flow::engine::Limits::default(),
            capabilities: flow::definition::Capabilities::OURS,
            token_secrets: vec![SECRET],
            public_url: "http://127.0.0.1:7717".into(),
            audit_key: AuditKey::from_seed([9; 32]),
            secrets: Arc::new(system::secrets::NoSecrets),
            outbound: outbound::Client::new(outbound::Reach::Public),
            executors: None,
            guided_nodes: Some(guided_nodes(folder, clock, Some(gate))),
            anchors: None,
            ended_runs: None,
        });
        runs.engine().recover().await.unwrap();
        keep(&runs);
        work(&runs).await
    });
    runtime.shutdown_background();
    done
}

/// A folder with registered workflows.
fn furnished() -> TempDir {
    let folder = TempDir::new().unwrap();
    furnish(folder.path());
    std::fs::create_dir(folder.path().join("data")).unwrap();
    in_a_process(folder.path(), &Fuse::at(usize::MAX), START, async |runs| {
        for workflow in workflows() {
            runs.definitions().register(&caller("acme"), &workflow).await.unwrap();
        }
    });
    folder
}

/// The only run, if there is one.
fn only_run(folder: &Path) -> Option<(RunId, RunStatus)> {
    let store = SqliteRuns::open(&folder.join("runs.sqlite3")).unwrap();
    let listed = store.runs(&Tenant::new("acme"), &RunFilter::default(), 10).wait().unwrap();
    assert!(listed.runs.len() <= 1);
    let snapshot: Value = serde_json::from_slice(listed.runs.first()?).unwrap();
    let run_id = RunId::new(snapshot["runId"].as_str().unwrap());
    let row = store.run(None, &run_id).wait().unwrap().unwrap();
    Some((run_id, row.status))
}

/// Creates a run and waits until it waits for its session; `None` if the process dies first.
async fn begun(runs: &Runs, fuse: &Fuse) -> Option<(RunId, SessionId)> {
    let begin = async {
        let request = json!({"workflowId": "equipped"});
        let created =
            runs.commands().create(&caller("acme"), new_run(&request), Creation::default(), Direct).await;
        let run_id = created.unwrap().run_id;
        let session = waiting(runs, &run_id).await?;
        Some((run_id, session))
    };
    tokio::select! {
        begun = begin => begun,
        () = fuse.blown() => None,
    }
}

async fn waiting(runs: &Runs, run_id: &RunId) -> Option<SessionId> {
    let asked = until(runs, run_id, |event| event.kind.as_str() == "interrupt.requested").await;
    asked.map(|event| session_of(&event))
}

/// Waits until a run ends, or the process does.
async fn ended(runs: &Runs, run_id: &RunId, fuse: &Fuse) {
    tokio::select! {
        _ = until(runs, run_id, |event| event.kind.is_terminal()) => {}
        () = fuse.blown() => {}
    }
}

/// The agent writes its deliverable, and performs all remaining steps.
fn agent(folder: &Path, run_id: &RunId, session: &SessionId) {
    let root = folder.join("data/workspaces").join(run_id.as_str()).join("guide");
    std::fs::write(root.join("deliverables/notes-2.0.0.md"), "Reviewed.\n").unwrap();
    work(&wait(tenants(folder, Arc::new(SystemClock)).guided("acme")).unwrap(), session);
}

#[test]
fn a_run_that_guides_ends_once_wherever_its_process_is_killed() {
    let mut points = 0;
    loop {
        let folder = furnished();
        let at = folder.path();
        let fuse = Fuse::at(points);
        in_a_process(at, &fuse, START, async |runs| {
            fuse.arm();
            let Some((run_id, session)) = begun(runs, &fuse).await else { return };
            agent(at, &run_id, &session);
            ended(runs, &run_id, &fuse).await;
            // What follows the end, such as releasing the workspace, dies too.
            if !fuse.is_blown() {
                tokio::time::timeout(std::time::Duration::from_millis(200), fuse.blown()).await.ok();
            }
        });
        let is_last = !fuse.is_blown();
        let calm = Fuse::at(usize::MAX);
        in_a_process(at, &calm, LATER, async |runs| {
            // A run that was never acknowledged may be missing; an existing one ends.
            let Some((run_id, status)) = only_run(at) else { return };
            if !status.is_terminal() {
                let session = waiting(runs, &run_id).await.unwrap();
                let guided = wait(tenants(at, Arc::new(SystemClock)).guided("acme")).unwrap();
                if !wait(guided.standing(&session)).unwrap().is_complete {
                    agent(at, &run_id, &session);
                }
                ended(runs, &run_id, &calm).await;
            }
            let events = events(runs, "acme", &run_id);
            let shape = kinds(&events);
            let count = |kind: &str| shape.iter().filter(|other| **other == kind).count();
            assert_eq!(shape.last(), Some(&"run.completed"), "killed at {points}: {shape:?}");
            assert_eq!(count("interrupt.requested"), 1, "killed at {points}: {shape:?}");
            assert_eq!(count("interrupt.resolved"), 1, "killed at {points}: {shape:?}");
            let outputs = completed(&events, "guide");
            assert_eq!(
                outputs["recap"]["notes"],
                json!(["Did step 1.", "Did step 2."]),
                "killed at {points}"
            );
            let artifact = outputs["deliverables"][0]["artifactId"].as_str().unwrap();
            let artifact =
                runs.artifacts().read(&caller("acme"), &run_id, &ArtifactId::new(artifact)).wait().unwrap();
            let artifact: Value = serde_json::from_slice(&artifact).unwrap();
            assert_eq!(artifact["data"]["text"], "Reviewed.\n", "killed at {points}");
            let guided = wait(tenants(at, Arc::new(SystemClock)).guided("acme")).unwrap();
            assert_eq!(wait(guided.store().sessions()).unwrap().len(), 1, "killed at {points}");
        });
        if is_last {
            break;
        }
        points += 1;
    }
    assert!(points >= 12, "the path has more points than {points}");
}

#[test]
fn an_agent_learns_that_its_run_was_cancelled_wherever_the_process_is_killed() {
    let mut points = 0;
    loop {
        let folder = furnished();
        let at = folder.path();
        let fuse = Fuse::at(points);
        let (run_id, session) = in_a_process(at, &fuse, START, async |runs| {
            let begun = begun(runs, &fuse).await.unwrap();
            fuse.arm();
            let by = caller("acme");
            let cancelled = runs.commands().cancel(&by, &begun.0, None, Direct);
            tokio::select! {
                cancelled = cancelled => { cancelled.unwrap(); }
                () = fuse.blown() => {}
            }
            if !fuse.is_blown() {
                tokio::time::timeout(std::time::Duration::from_millis(300), fuse.blown()).await.ok();
            }
            begun
        });
        let is_last = !fuse.is_blown();
        let calm = Fuse::at(usize::MAX);
        in_a_process(at, &calm, LATER, async |runs| {
            let (_, status) = only_run(at).unwrap();
            if !status.is_terminal() {
                // The request died with the process before it was recorded. It was not acknowledged, so it is repeated.
                runs.commands().cancel(&caller("acme"), &run_id, None, Direct).await.unwrap();
            }
            let guided = wait(tenants(at, Arc::new(SystemClock)).guided("acme")).unwrap();
            while wait(guided.store().ended(session.clone())).unwrap().is_none() {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
            let token = wait(guided.rejoin(&session)).unwrap().continue_token.unwrap();
            assert_eq!(refused(&guided, &token).envelope().code(), "SESSION_ENDED", "killed at {points}");
            let shape = events(runs, "acme", &run_id);
            assert_eq!(kinds(&shape).last(), Some(&"run.cancelled"), "killed at {points}");
        });
        if is_last {
            break;
        }
        points += 1;
    }
    assert!(points >= 4, "cancelling has more points than {points}");
}
