//! `interlock runs cancel`, `pause` and `resume`.

use std::fmt::Write as _;

use canon::time::Timestamp;
use serde_json::{Value, json};
use system::{Clock as _, SystemClock};

use super::filter::{Filter, MatchingRuns};
use crate::api::{Api, Run, RunOutcome, block_on};
use crate::arguments::{Globals, RunsControl, RunsFilter};
use crate::commands::confirm;
use crate::contexts::Confirm;
use crate::failure::{ExitStatus, Failure};
use crate::output::{self, BAD, GOOD, Layout};
use crate::progress::Progress;

/// The most runs that one command controls.
const MOST: usize = 10_000;
/// How many runs the question shows.
const EXAMPLES: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Cancel,
    Pause,
    Resume,
}

impl Action {
    const fn verb(self) -> &'static str {
        match self {
            Self::Cancel => "Cancel",
            Self::Pause => "Pause",
            Self::Resume => "Resume",
        }
    }

    const fn done(self) -> &'static str {
        match self {
            Self::Cancel => "Cancelled",
            Self::Pause => "Paused",
            Self::Resume => "Resumed",
        }
    }

    const fn doing(self) -> &'static str {
        match self {
            Self::Cancel => "Cancelling",
            Self::Pause => "Pausing",
            Self::Resume => "Resuming",
        }
    }

    const fn consequence(self) -> &'static str {
        match self {
            Self::Cancel => " Their children end too. This cannot be undone.",
            Self::Pause | Self::Resume => "",
        }
    }

    /// Whether it can apply to a run; of a filter, only such runs are taken.
    const fn applies(self, outcome: RunOutcome) -> bool {
        match self {
            Self::Cancel => !matches!(
                outcome,
                RunOutcome::Completed | RunOutcome::Failed | RunOutcome::Rejected | RunOutcome::Cancelled
            ),
            Self::Pause => matches!(outcome, RunOutcome::Pending | RunOutcome::Running | RunOutcome::Waiting),
            Self::Resume => matches!(outcome, RunOutcome::Paused),
        }
    }

    async fn apply(self, api: &Api, id: &str, reason: Option<&str>) -> Result<Value, Failure> {
        match self {
            Self::Cancel => api.cancel(id, reason).await,
            Self::Pause => api.pause(id, reason).await,
            Self::Resume => api.resume(id, reason).await,
        }
    }
}

pub(super) fn run(action: Action, arguments: &RunsControl, globals: &Globals) -> Result<ExitStatus, Failure> {
    let now = Timestamp(SystemClock.now_ms());
    let filter = arguments.filter.as_deref();
    let filter = filter.map(|filter| Filter::parse([filter], &RunsFilter::default(), now)).transpose()?;
    let api = Api::connect(&arguments.target, globals)?;
    block_on(async {
        let is_bulk = filter.is_some();
        let runs = match &filter {
            Some(filter) => {
                let MatchingRuns { runs, .. } = filter.scan(&api, MOST).await?;
                runs.into_iter().filter(|run| action.applies(run.outcome())).collect()
            }
            None => named(&api, &arguments.ids).await?,
        };
        if !runs.is_empty() && (is_bulk || runs.len() > 1 || api.confirm() == Confirm::Always) {
            let (question, count) = question(action, &runs, &api);
            confirm::ask(
                arguments.yes,
                &question,
                (is_bulk && runs.len() > confirm::TYPED).then_some(count),
            )?;
        }
        apply(action, &api, &runs, arguments).await
    })
}

async fn named(api: &Api, ids: &[String]) -> Result<Vec<Run>, Failure> {
    let mut runs: Vec<Run> = Vec::with_capacity(ids.len());
    for id in ids {
        let run = api.find(id).await?;
        if runs.iter().all(|known| known.id() != run.id()) {
            runs.push(run);
        }
    }
    Ok(runs)
}

fn question(action: Action, runs: &[Run], api: &Api) -> (String, usize) {
    let (count, plural) = (runs.len(), if runs.len() == 1 { "" } else { "s" });
    let mut question = format!(
        "{} {count} run{plural} in context {} ({})?{}",
        action.verb(),
        api.name(),
        api.url(),
        action.consequence()
    );
    for run in runs.iter().take(EXAMPLES) {
        let state = run.outcome().word().to_lowercase();
        let _ = write!(question, "\n  {} {} {state}", run.short_id(), output::clean(run.workflow()));
    }
    if count > EXAMPLES {
        let _ = write!(question, "\n  and {} more", count - EXAMPLES);
    }
    (question, count)
}

/// Applies to each run on its own; a run that refuses does not stop the others.
async fn apply(
    action: Action,
    api: &Api,
    runs: &[Run],
    arguments: &RunsControl,
) -> Result<ExitStatus, Failure> {
    let mut results = Vec::with_capacity(runs.len());
    let mut progress = Progress::over(runs.len(), action.doing());
    for run in runs {
        results.push((run, action.apply(api, run.id(), arguments.reason.as_deref()).await));
        progress.step();
    }
    drop(progress);
    if let ([(_, Err(_))], false) = (results.as_slice(), arguments.filter.is_some()) {
        // One run was named: its error is the result.
        return results.pop().and_then(|(_, result)| result.err()).map_or(Ok(ExitStatus::Success), Err);
    }
    let failed = results.iter().filter(|(_, result)| result.is_err()).count();
    if arguments.target.answering.json {
        let result = |(run, result): &(&Run, Result<Value, Failure>)| match result {
            Ok(reply) => json!({"runId": run.id(), "ok": true, "status": reply["status"]}),
            Err(failure) => json!({"runId": run.id(), "ok": false, "error": failure.to_envelope()}),
        };
        let documents: Vec<_> = results.iter().map(result).collect();
        output::json(&json!({"results": documents, "failed": failed}), Layout::Compact)?;
    } else {
        let mut words = String::new();
        for (run, result) in &results {
            let _ = match result {
                Ok(_) => writeln!(words, "{GOOD}{}{GOOD:#} {}", action.done(), run.id()),
                Err(failure) => {
                    writeln!(
                        words,
                        "{BAD}Not {}{BAD:#} {}: {}",
                        action.done().to_lowercase(),
                        run.id(),
                        failure.to_envelope().message()
                    )
                }
            };
        }
        if runs.is_empty() {
            words.push_str("No runs match.\n");
        } else if let Some(context) = api.remote() {
            let _ = writeln!(words, "Context: {context}");
        }
        output::text(&words)?;
    }
    Ok(ExitStatus::success_if(failed == 0))
}
