//! `interlock session gc`.

use std::fmt::Write as _;
use std::sync::Arc;

use guide::record::Event;
use guided::linked::link_of_session;
use ports::PortFuture;
use ports::runs::RunStore;
use ports::sessions::{GcOutcome, GcReport, IsAwaited, Retention};
use postgres::Role;
use serde_json::{Value, json};
use system::{Clock as _, SystemClock};

use super::lookup;
use crate::arguments::SessionGc;
use crate::commands::serve::store::Store;
use crate::commands::serve::{open_store, runtime};
use crate::failure::{ExitStatus, Failure};
use crate::output::{self, HEADING, Layout, WARNING};
use crate::progress::Waiting;
use crate::service;
use crate::settings::Settings;

pub(super) async fn run(arguments: &SessionGc, settings: &Settings) -> Result<ExitStatus, Failure> {
    let store = service::open_sessions(settings)?;
    let mut kept = Vec::with_capacity(arguments.keep.len());
    for id in &arguments.keep {
        kept.push(lookup::session(&*store, id).await?);
    }
    if !arguments.dry_run {
        for id in &kept {
            if !store.is_kept(id.clone()).await.unwrap_or_default() {
                store.set_kept(id.clone(), true).await?;
            }
        }
    }
    let retention = Retention {
        now_ms: SystemClock.now_ms(),
        ttl_ms: arguments.older_than.ms,
        dry_run: arguments.dry_run,
    };
    let waiting = Waiting::on("reading all sessions");
    // Runs in PostgreSQL are read by the threads of this runtime.
    let runtime = runtime()?;
    let opened = {
        let _threads = runtime.enter();
        open_runs(settings)?
    };
    let runs = opened.as_ref().map(Store::port);
    let is_awaited = IsAwaited::new(move |events| {
        let runs = runs.clone();
        PortFuture::boxed(async move { is_awaited(runs.as_deref(), &events).await })
    });
    let report = store.gc(retention, is_awaited).await;
    if let Some(opened) = &opened {
        runtime.block_on(opened.close());
    }
    let mut report = report?;
    drop(waiting);
    if arguments.dry_run {
        // A real run would have marked them first.
        report.spared_sessions.extend(report.deleted_sessions.extract_if(.., |id| kept.contains(id)));
    }
    if arguments.answering.json {
        output::json(&document(&report), Layout::Compact)?;
    } else {
        output::text(&words(&report))?;
    }
    Ok(ExitStatus::success_if(report.outcome != GcOutcome::SafeMode))
}

/// The runs in PostgreSQL, or those of the data directory if it has a run database.
fn open_runs(settings: &Settings) -> Result<Option<Store>, Failure> {
    if settings.database_url.value.is_some() {
        return Store::open(settings, Role::Command).map(Some);
    }
    // Garbage collection must not create a database.
    match settings.data_dir.value.join("runs.sqlite3").try_exists() {
        Ok(false) => Ok(None),
        Ok(true) | Err(_) => Ok(Some(Store::Embedded(Arc::new(open_store(settings)?)))),
    }
}

/// Whether an unfinished run refers to a session. A complete session is still needed until its run
/// has read the result, and an unreadable run counts as unfinished.
async fn is_awaited(runs: Option<&dyn RunStore>, events: &[Event]) -> bool {
    let (Some(runs), Some(link)) = (runs, link_of_session(events)) else { return false };
    match runs.run(None, &link.run_id).await {
        Ok(row) => row.is_some_and(|row| !row.status.is_terminal()),
        Err(_) => true,
    }
}

const fn outcome(report: &GcReport) -> &'static str {
    match report.outcome {
        GcOutcome::Collected => "collected",
        GcOutcome::DryRun => "dry_run",
        GcOutcome::SafeMode => "safe_mode",
    }
}

fn document(report: &GcReport) -> Value {
    json!({
        "outcome": outcome(report),
        "deletedSessions": report.deleted_sessions,
        "sparedSessions": report.spared_sessions,
        "awaitedSessions": report.awaited_sessions,
        "retainedSessions": report.retained_sessions,
        "deletedSnapshots": report.deleted_snapshots,
        "deletedWorkflows": report.deleted_workflows,
        "deletedArtifacts": report.deleted_artifacts,
        "deletedLeftovers": report.deleted_leftovers,
        "warnings": report.warnings,
    })
}

fn words(report: &GcReport) -> String {
    let mut words = String::new();
    if report.outcome == GcOutcome::SafeMode {
        let _ = writeln!(
            words,
            "{WARNING}Nothing was deleted{WARNING:#}: some data cannot be validated and may refer to data that looks unused."
        );
        for warning in &report.warnings {
            let _ = writeln!(words, "  {}", output::clean(warning));
        }
        let _ = writeln!(
            words,
            "Run `interlock session verify` for details. Restore or remove the damaged data, then run this again."
        );
        return words;
    }
    let verb = if report.outcome == GcOutcome::DryRun { "would be deleted" } else { "deleted" };
    let _ = writeln!(
        words,
        "{HEADING}{} sessions {verb}{HEADING:#}, {} kept; {} snapshots, {} workflows, {} artifacts, {} leftovers {verb}",
        report.deleted_sessions.len(),
        report.retained_sessions,
        report.deleted_snapshots,
        report.deleted_workflows,
        report.deleted_artifacts,
        report.deleted_leftovers,
    );
    for id in &report.deleted_sessions {
        let _ = writeln!(words, "  {id}");
    }
    for id in &report.spared_sessions {
        let _ = writeln!(words, "  {id} kept: it is marked");
    }
    for id in &report.awaited_sessions {
        let _ = writeln!(words, "  {id} kept: a run waits for it");
    }
    words
}
