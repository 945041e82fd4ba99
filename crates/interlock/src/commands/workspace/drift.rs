//! `interlock workspace drift`.

use std::fmt::Write as _;

use system::{Clock as _, SystemClock};
use workspace::drift::{Drift, EntryFacts, Level, Options, Report, Severity, Verdict, scan};

use super::{lease, root};
use crate::arguments::{DriftLevel, WorkspaceDrift};
use crate::failure::{ExitStatus, Failure};
use crate::output::{self, BAD, Cell, DIM, GOOD, Layout, Table, WARNING};
use crate::progress::Waiting;

/// How many differences are shown; JSON has all.
const SHOWN: usize = 200;

pub(super) fn run(arguments: &WorkspaceDrift) -> Result<ExitStatus, Failure> {
    let root = root(&arguments.root)?;
    let lease = lease(&root)?;
    let level = match arguments.level {
        DriftLevel::Stat => Level::Stat,
        DriftLevel::Hash => Level::Hash,
    };
    let now_ns = i64::try_from(SystemClock.now_ms()).unwrap_or(i64::MAX).saturating_mul(1_000_000);
    let waiting = Waiting::on("comparing files");
    let report = scan(&root, &lease.baseline(), level, now_ns, Options::default())?;
    drop(waiting);
    if arguments.answering.json {
        output::json(&report, Layout::Compact)?;
    } else {
        output::text(&words(&report))?;
    }
    Ok(ExitStatus::success_if(report.verdict == Verdict::Clean))
}

fn words(report: &Report) -> String {
    let (verdict, style) = match report.verdict {
        Verdict::Clean => ("clean", GOOD),
        Verdict::Dirty => ("dirty", WARNING),
        Verdict::Critical => ("critical", BAD),
    };
    let scanned = &report.scanned;
    let mut out = format!(
        "{style}{verdict}{style:#}: {} files and {} folders as of generation {}, {} read ({} ms)\n",
        scanned.files, scanned.dirs, report.generation, scanned.hashed, report.duration_ms
    );
    if report.drifts.is_empty() {
        return out;
    }
    let mut table = Table::new(&["severity", "kind", "path", "expected", "actual"]);
    for drift in report.drifts.iter().take(SHOWN) {
        table.row(row(drift));
    }
    let _ = write!(out, "\n{table}");
    let counts = &report.counts;
    let total = counts.info + counts.warning + counts.critical;
    if total > SHOWN as u64 {
        let _ = writeln!(out, "{DIM}and {} more; --json lists up to 10,000{DIM:#}", total - SHOWN as u64);
    }
    let _ =
        writeln!(out, "\n{} critical, {} warnings, {} info", counts.critical, counts.warning, counts.info);
    if report.verdict == Verdict::Critical {
        let _ = writeln!(
            out,
            "{DIM}Run `workspace apply` with the same plan to restore the read-only slots.{DIM:#}"
        );
    }
    out
}

fn row(drift: &Drift) -> [Cell; 5] {
    let style = match drift.severity {
        Severity::Info => DIM,
        Severity::Warning => WARNING,
        Severity::Critical => BAD,
    };
    [
        Cell::styled(drift.severity.as_str(), style),
        drift.kind.as_str().into(),
        drift.path.as_str().into(),
        facts(drift.expected.as_ref()).into(),
        facts(drift.actual.as_ref()).into(),
    ]
}

/// A short description of one side of a difference.
fn facts(facts: Option<&EntryFacts>) -> String {
    let Some(facts) = facts else { return String::new() };
    let size = facts.size.map(|size| format!("{size} bytes"));
    let target = facts.target.as_ref().map(|target| format!("-> {target}"));
    let what = facts.what.map(str::to_owned);
    let hash = facts.blake3.as_ref().map(|hash| hash.chars().take(12).collect::<String>());
    let parts = [what, facts.mode.clone(), size, hash, target, facts.error.clone()];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
