//! `interlock session list`.

use guide::project::RunStatus;
use guide::project::summary::SessionSummary;
use guide::record::SessionId;
use guided::view::{Steps, salvage};
use ports::sessions::{SessionStore, StoreErrorCode};
use serde::Serialize;
use system::{Clock as _, SystemClock};

use super::NO_LOG;
use crate::arguments::SessionList;
use crate::failure::{ExitStatus, Failure};
use crate::output::{self, BAD, Cell, DIM, GOOD, Layout, Table, WARNING, time};
use crate::progress::Progress;
use crate::service;
use crate::settings::Settings;

const LISTED: usize = 50;
const TITLE_CHARACTERS: usize = 40;
const BRANCH_CHARACTERS: usize = 24;

/// The JSON output.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct List {
    sessions: Vec<Entry>,
    total: usize,
    /// The number of sessions that are not listed.
    omitted: usize,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    session_id: SessionId,
    health: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    damage: Option<String>,
    kept: bool,
    /// When its manifest was last written, in milliseconds since 1970.
    modified_ms: u64,
    runs: Vec<SessionSummary>,
}

pub(super) async fn run(arguments: &SessionList, settings: &Settings) -> Result<ExitStatus, Failure> {
    let store = service::open_sessions(settings)?;
    let list = list(&*store, arguments.all).await?;
    if arguments.answering.json {
        output::json(&list, Layout::Compact)?;
    } else {
        output::text(&words(&list, SystemClock.now_ms()))?;
    }
    Ok(ExitStatus::Success)
}

async fn list(store: &dyn SessionStore, all: bool) -> Result<List, Failure> {
    let ids = store.sessions().await?;
    let revisions = store.revisions(ids.clone()).await?;
    let modified_ms = revisions.iter().map(|revision| revision.map_or(0, |revision| revision.modified_ms));
    let mut ids: Vec<(u64, SessionId)> = modified_ms.zip(ids).collect();
    // The file times select the sessions to read; ids break ties.
    ids.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let total = ids.len();
    if !all {
        ids.truncate(LISTED);
    }
    let mut progress = Progress::over(ids.len(), "reading sessions");
    let mut sessions = Vec::with_capacity(ids.len());
    let mut steps = Steps::new(store);
    for (modified_ms, id) in ids {
        progress.step();
        let salvaged = match salvage(store, &id).await {
            Ok(salvaged) => salvaged,
            Err(error) if error.code() == StoreErrorCode::SessionUnknown => {
                sessions.push(Entry {
                    health: NO_LOG,
                    damage: Some("damaged: the manifest is missing or empty".to_owned()),
                    kept: false,
                    modified_ms,
                    runs: Vec::new(),
                    session_id: id,
                });
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        sessions.push(Entry {
            kept: store.is_kept(id.clone()).await?,
            health: salvaged.health_name(),
            damage: (!salvaged.is_healthy()).then(|| salvaged.health()),
            modified_ms,
            runs: steps.summaries(&salvaged.state).await,
            session_id: id,
        });
    }
    let omitted = total.saturating_sub(sessions.len());
    Ok(List { sessions, total, omitted: if all { 0 } else { omitted } })
}

fn words(list: &List, now_ms: u64) -> String {
    if list.sessions.is_empty() {
        return "No sessions in this data directory. An agent starts one with the tool `start_workflow`."
            .to_owned();
    }
    let mut table = Table::new(&["id", "workflow", "title", "status", "step", "gaps", "branch", "age", ""]);
    for session in &list.sessions {
        let age = |ms: Option<u64>| time::age(now_ms, ms.unwrap_or(session.modified_ms));
        let mut mark = match (session.health, session.kept) {
            ("healthy", false) => Cell::from(""),
            ("healthy", true) => Cell::styled("kept", DIM),
            (health, _) => Cell::styled(health, BAD),
        };
        if session.runs.is_empty() {
            let nothing = || Cell::styled("-", DIM);
            table.row([
                session.session_id.as_str().into(),
                nothing(),
                nothing(),
                nothing(),
                nothing(),
                nothing(),
                nothing(),
                age(None).into(),
                mark.clone(),
            ]);
        }
        for run in &session.runs {
            table.row([
                session.session_id.as_str().into(),
                run.workflow_id.as_str().into(),
                output::shortened(run.title.as_deref().unwrap_or("-"), TITLE_CHARACTERS).into(),
                status(run.status),
                run.place.as_deref().map_or_else(|| Cell::styled("-", DIM), Cell::from),
                gaps(run),
                output::shortened(run.git_branch.as_deref().unwrap_or("-"), BRANCH_CHARACTERS).into(),
                age(run.last_modified_ms).into(),
                std::mem::replace(&mut mark, Cell::from("")),
            ]);
        }
    }
    let mut words = table.to_string();
    for session in &list.sessions {
        if let Some(damage) = &session.damage {
            words.push_str(&format!("\n{BAD}{}{BAD:#}: {}\n", session.session_id, output::clean(damage)));
        }
    }
    if list.omitted > 0 {
        words.push_str(&format!("\n{} more; list them with --all.\n", list.omitted));
    }
    words
}

fn status(status: RunStatus) -> Cell {
    let style = match status {
        RunStatus::Complete => GOOD,
        RunStatus::Blocked | RunStatus::CompleteWithGaps => WARNING,
        RunStatus::InProgress => anstyle::Style::new(),
    };
    Cell::styled(status.as_str(), style)
}

fn gaps(run: &SessionSummary) -> Cell {
    match (run.open_gaps, run.open_critical_gaps) {
        (0, _) => Cell::styled("0", DIM),
        (open, 0) => open.to_string().into(),
        (open, critical) => Cell::styled(format!("{open} ({critical} critical)"), WARNING),
    }
}
