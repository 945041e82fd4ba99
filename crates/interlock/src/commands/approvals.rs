//! `interlock approvals`.

use canon::time::Timestamp;
use serde_json::{Value, json};
use system::{Clock as _, SystemClock};

use crate::api::{Api, Interrupt, ListRuns, Run, block_on, span};
use crate::arguments::{ApprovalsCommand, ApprovalsDecide, ApprovalsList, ApprovalsShow, Globals};
use crate::commands::confirm;
use crate::commands::runs::decide;
use crate::contexts::Confirm;
use crate::failure::{ExitStatus, Failure};
use crate::output::{self, Column, DIM, Field, GOOD, HEADING, Layout, Listing, WARNING};

/// The states in which a run waits for a person, and those in which it waits for something else.
const FOR_PEOPLE: [&str; 2] = ["waiting-approval", "waiting-input"];
const FOR_ANYTHING: [&str; 3] = ["waiting-approval", "waiting-input", "waiting-external"];
/// The most open questions that are listed.
const MOST: usize = 1000;

pub(crate) fn run(command: &ApprovalsCommand, globals: &Globals) -> Result<ExitStatus, Failure> {
    match command {
        ApprovalsCommand::List(arguments) => list(arguments, globals),
        ApprovalsCommand::Show(arguments) => show(arguments, globals),
        ApprovalsCommand::Approve(arguments) => answer(arguments, true, globals),
        ApprovalsCommand::Reject(arguments) => answer(arguments, false, globals),
    }
}

/// Runs that wait, the one with the nearest deadline first.
async fn waiting(api: &Api, all: bool) -> Result<Vec<Run>, Failure> {
    let mut runs = Vec::new();
    let states: &[&str] = if all { &FOR_ANYTHING } else { &FOR_PEOPLE };
    for state in states {
        let list = ListRuns { status: Some((*state).to_owned()), ..ListRuns::default() };
        let mut cursor = None;
        loop {
            let page = api.runs(&list, MOST, cursor.as_deref()).await?;
            runs.extend(page.items);
            match page.next {
                Some(next) if runs.len() < MOST => cursor = Some(next),
                _ => break,
            }
        }
    }
    runs.retain(|run| run.interrupt().is_some_and(|interrupt| all || !interrupt.is_for_agent()));
    let urgency = |run: &Run| {
        let deadline = run.interrupt().and_then(Interrupt::deadline);
        (deadline.is_none(), deadline, run.started_at())
    };
    runs.sort_by_key(urgency);
    runs.truncate(MOST);
    Ok(runs)
}

fn list(arguments: &ApprovalsList, globals: &Globals) -> Result<ExitStatus, Failure> {
    let api = Api::connect(&arguments.target, globals)?;
    let runs = block_on(waiting(&api, arguments.all))?;
    if arguments.target.answering.json {
        let document = |run: &Run| json!({"runId": run.id(), "workflowId": run.workflow(), "interrupt": run.document()["interrupt"]});
        let documents: Vec<_> = runs.iter().map(document).collect();
        output::json(&json!({"approvals": documents}), Layout::Compact)?;
        return Ok(ExitStatus::Success);
    }
    let now = Timestamp(SystemClock.now_ms());
    let mut listing = Listing::new([
        Column::fixed("DUE", 2),
        Column::text("QUESTION", 0, 16),
        Column::text("ABOUT", 3, 12),
        Column::text("WORKFLOW", 1, 8),
        Column::fixed("RUN", 0),
    ]);
    for run in &runs {
        let Some(interrupt) = run.interrupt() else { continue };
        listing.row([
            due(interrupt, now),
            interrupt.question().into(),
            interrupt.about().into(),
            run.workflow().into(),
            Field::new(run.short_id(), run.id(), DIM),
        ]);
    }
    let hint = if runs.is_empty() { "Nothing waits." } else { "Read one: interlock approvals show RUN" };
    listing.print(&format!("{DIM}{hint}{DIM:#}"))?;
    Ok(ExitStatus::Success)
}

fn due(interrupt: Interrupt<'_>, now: Timestamp) -> Field {
    match interrupt.deadline() {
        None => "no limit".into(),
        Some(at) if at <= now => Field::new("overdue", at.to_rfc3339(), WARNING),
        Some(at) => Field::new(span(at.since(now)), at.to_rfc3339(), anstyle::Style::new()),
    }
}

fn show(arguments: &ApprovalsShow, globals: &Globals) -> Result<ExitStatus, Failure> {
    let api = Api::connect(&arguments.target, globals)?;
    let run = block_on(api.find(&arguments.id))?;
    let interrupt = run.interrupt();
    if arguments.target.answering.json {
        let interrupt = interrupt.map_or(Value::Null, |interrupt| interrupt.document().clone());
        output::json(
            &json!({"runId": run.id(), "workflowId": run.workflow(), "interrupt": interrupt}),
            Layout::Compact,
        )?;
        return Ok(ExitStatus::success_if(run.interrupt().is_some()));
    }
    let Some(interrupt) = interrupt else {
        output::text(&format!("Run {} does not wait for an answer.", run.short_id()))?;
        return Ok(ExitStatus::Negative);
    };
    let now = Timestamp(SystemClock.now_ms());
    let due = match interrupt.deadline() {
        None => "no limit".to_owned(),
        Some(at) if at <= now => "overdue".to_owned(),
        Some(at) => format!("{} ({})", span(at.since(now)), at.to_rfc3339_seconds()),
    };
    let data = serde_json::to_string_pretty(&interrupt.document()["data"]).unwrap_or_default();
    let id = run.short_id();
    let id = id.trim_start_matches('…');
    let next = match interrupt.is_approval() {
        true => {
            format!("interlock approvals approve {id}\n      interlock approvals reject {id} --reason TEXT")
        }
        false => format!("interlock runs answer {id} --value JSON"),
    };
    output::text(&format!(
        "{HEADING}{}{HEADING:#}\n  {DIM}run{DIM:#}       {}  {}\n  {DIM}node{DIM:#}      {}\n  {DIM}kind{DIM:#}      {}\n  {DIM}due{DIM:#}       {due}\n{}\nnext: {next}",
        interrupt.question(),
        output::clean(run.workflow()),
        run.id(),
        output::clean(interrupt.node()),
        output::clean(interrupt.kind()),
        data,
    ))?;
    Ok(ExitStatus::Success)
}

fn answer(arguments: &ApprovalsDecide, approve: bool, globals: &Globals) -> Result<ExitStatus, Failure> {
    let api = Api::connect(&arguments.target, globals)?;
    let (verb, done) = if approve { ("Approve", "Approved") } else { ("Reject", "Rejected") };
    block_on(async {
        let mut runs: Vec<Run> = Vec::new();
        for id in &arguments.ids {
            let run = api.find(id).await?;
            if runs.iter().all(|known| known.id() != run.id()) {
                runs.push(run);
            }
        }
        if runs.len() > 1 || api.confirm() == Confirm::Always {
            let subjects: String = runs
                .iter()
                .filter_map(|run| Some((run, run.interrupt()?)))
                .map(|(run, asked)| format!("\n  {} {}  {}", run.short_id(), asked.question(), asked.about()))
                .collect();
            let question = format!("{verb} {} question(s) in context {}?{subjects}", runs.len(), api.name());
            confirm::ask(arguments.yes, &question, None)?;
        }
        let (mut replies, mut failed) = (Vec::new(), None);
        for run in &runs {
            // Each answer is recorded on its own; the first refusal is reported after the rest was tried.
            match decide(&api, run, approve, arguments.reason.as_deref()).await {
                Ok(reply) => {
                    if !arguments.target.answering.json {
                        let question = run.interrupt().map(Interrupt::question).unwrap_or_default();
                        let id = run.short_id();
                        output::text(&format!(
                            "{GOOD}{done}{GOOD:#} \"{question}\" in context {}. Follow it: interlock runs tail {}",
                            api.name(),
                            id.trim_start_matches('…')
                        ))?;
                    }
                    replies.push(reply);
                }
                Err(failure) => failed = failed.or(Some(failure)),
            }
        }
        if let Some(failure) = failed {
            return Err(failure);
        }
        if arguments.target.answering.json {
            output::json(&json!({"answered": replies}), Layout::Compact)?;
        }
        Ok(ExitStatus::Success)
    })
}
