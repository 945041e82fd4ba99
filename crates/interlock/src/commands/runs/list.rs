//! `interlock runs list`.

use canon::time::Timestamp;
use serde_json::json;
use system::{Clock as _, SystemClock};

use super::filter::{Filter, MatchingRuns};
use crate::api::{Api, Run, block_on, span};
use crate::arguments::{Globals, RunsList};
use crate::failure::{ExitStatus, Failure};
use crate::output::{self, Column, DIM, Field, Layout, Listing};
use crate::progress::Waiting;

pub(super) fn run(arguments: &RunsList, globals: &Globals) -> Result<ExitStatus, Failure> {
    let now = Timestamp(SystemClock.now_ms());
    let filter = Filter::parse(arguments.filter.iter().map(String::as_str), &arguments.select, now)?;
    let api = Api::connect(&arguments.target, globals)?;
    let waiting = Waiting::on("reading runs");
    let MatchingRuns { runs, more } = block_on(filter.scan(&api, arguments.limit.max(1)))?;
    drop(waiting);
    if arguments.target.answering.json {
        let documents: Vec<_> = runs.iter().map(Run::document).collect();
        output::json(&json!({"runs": documents, "more": more}), Layout::Compact)?;
        return Ok(ExitStatus::Success);
    }
    let count = format!(
        "{}{} run{}",
        runs.len(),
        if more { "+" } else { "" },
        if runs.len() == 1 { "" } else { "s" }
    );
    let hint = if more { " More: --limit N, or a filter." } else { "" };
    listing(&runs, now)
        .print(&format!("{DIM}{count} in context {}, times in UTC.{hint}{DIM:#}", api.name()))?;
    Ok(ExitStatus::Success)
}

/// The runs as a table.
pub(super) fn listing(runs: &[Run], now: Timestamp) -> Listing<6> {
    let mut listing = Listing::new([
        Column::fixed("STATUS", 0),
        Column::text("WORKFLOW", 0, 8),
        Column::fixed("RUN", 0),
        Column::fixed("STARTED", 2),
        Column::number("TOOK", 3),
        Column::text("WHY", 1, 12),
    ]);
    for run in runs {
        let outcome = run.outcome();
        let word = outcome.word();
        listing.row([
            Field::new(format!("{} {word}", outcome.icon()), word.to_lowercase(), outcome.style()),
            run.workflow().into(),
            Field::new(run.short_id(), run.id(), DIM),
            started(run, now),
            run.duration_ms(now).map(span).unwrap_or_default().into(),
            run.why().into(),
        ]);
    }
    listing
}

/// The time of day for runs of today, otherwise the date.
fn started(run: &Run, now: Timestamp) -> Field {
    let Some(at) = run.started_at() else { return "".into() };
    let (whole, today) = (at.to_rfc3339(), now.to_rfc3339());
    let is_today = whole.get(..10) == today.get(..10);
    let shown = if is_today { whole.get(11..19) } else { whole.get(5..16) };
    Field::new(shown.unwrap_or_default().replace('T', " "), &whole, anstyle::Style::new())
}
