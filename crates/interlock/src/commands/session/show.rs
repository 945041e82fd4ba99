//! `interlock session show`.

use std::fmt::Write as _;

use guide::project::RunStatus;
use guide::record::{NodeId, NodeKind};
use guided::view::{Artifact, Replay, RunReplay, Turn, replay, salvage};
use system::{Clock as _, SystemClock};

use super::event_line::wire;
use super::lookup;
use crate::arguments::SessionShow;
use crate::failure::{ExitStatus, Failure};
use crate::output::{self, BAD, DIM, GOOD, HEADING, Layout, WARNING, time};
use crate::service;
use crate::settings::Settings;

/// The number of note lines shown, and the length of each.
const NOTE_LINES: usize = 12;
const NOTE_CHARACTERS: usize = 160;

pub(super) async fn run(arguments: &SessionShow, settings: &Settings) -> Result<ExitStatus, Failure> {
    let store = service::open_sessions(settings)?;
    let id = lookup::session(&*store, &arguments.id).await?;
    let salvaged = salvage(&*store, &id).await?;
    let kept = store.is_kept(id.clone()).await?;
    let mut replay = replay(&*store, &salvaged, kept, arguments.limit).await;
    replay.salvaged = store.salvaged(id.clone()).await?;
    if arguments.answering.json {
        output::json(&replay, Layout::Compact)?;
    } else {
        let agent = service::agent_of(settings, id.as_str());
        output::text(&words(&replay, agent.as_deref(), arguments.full, SystemClock.now_ms()))?;
    }
    Ok(ExitStatus::Success)
}

fn words(replay: &Replay, agent: Option<&str>, full: bool, now_ms: u64) -> String {
    let mut words = String::new();
    let active = replay.last_modified_ms.map(|ms| format!(", last active {} ago", time::age(now_ms, ms)));
    let kept = if replay.kept { ", kept" } else { "" };
    let _ = writeln!(
        words,
        "{HEADING}{}{HEADING:#}  {} events{}{kept}",
        replay.session_id,
        replay.events,
        active.unwrap_or_default()
    );
    if let Some(parent) = &replay.parent_session_id {
        let _ = writeln!(words, "delegated from {parent}");
    }
    if let Some(agent) = agent {
        let _ = writeln!(words, "{DIM}agent{DIM:#}   {}", output::clean(agent));
    }
    if let Some(part) = &replay.salvaged {
        let _ = writeln!(
            words,
            "{WARNING}partial data{WARNING:#}: this is the valid part of {}; the rest was damaged: {}",
            part.session_id,
            output::clean(&part.problem)
        );
    }
    if let Some(damage) = &replay.damage {
        let _ = writeln!(words, "{BAD}{}{BAD:#}: {}", replay.health, output::clean(damage));
        let _ = writeln!(words, "Only the valid part is shown. The session cannot be continued.");
    }
    for run in &replay.runs {
        run_words(run, full, &mut words);
    }
    words
}

fn run_words(run: &RunReplay, full: bool, words: &mut String) {
    let name = run.workflow_name.as_deref().unwrap_or(&run.workflow_id);
    let style = match run.status {
        RunStatus::Complete => GOOD,
        RunStatus::Blocked | RunStatus::CompleteWithGaps => WARNING,
        RunStatus::InProgress => HEADING,
    };
    let _ = writeln!(
        words,
        "\n{HEADING}{}{HEADING:#}  ({} {})",
        output::clean(name),
        run.workflow_id,
        run.run_id
    );
    if let Some(title) = &run.title {
        let _ = writeln!(words, "{DIM}goal{DIM:#}    {}", output::clean(title));
    }
    let _ = writeln!(words, "{DIM}status{DIM:#}  {style}{}{style:#}", run.status.as_str());
    if run.open_gaps > 0 {
        let _ = writeln!(
            words,
            "{DIM}gaps{DIM:#}    {} open, {} critical",
            run.open_gaps, run.open_critical_gaps
        );
    }
    if let Some(metrics) = run.metrics_line() {
        let _ = writeln!(words, "{DIM}metrics{DIM:#} {}", output::clean(&metrics));
    }
    if let Some(preferences) = &run.preferences {
        let _ = writeln!(
            words,
            "{DIM}mode{DIM:#}    {}, {}",
            wire(&preferences.autonomy),
            wire(&preferences.risk_policy)
        );
    }
    if run.omitted_turns > 0 {
        let _ = writeln!(
            words,
            "\n{DIM}{} earlier turns are not shown; use --limit to show more.{DIM:#}",
            run.omitted_turns
        );
    }
    for turn in &run.turns {
        turn_words(turn, full, words);
    }
}

fn turn_words(turn: &Turn, full: bool, words: &mut String) {
    let step = match (&turn.step_title, &turn.step_id) {
        _ if turn.is_complete => "complete".to_owned(),
        (Some(title), Some(id)) => format!("{} {DIM}({id}){DIM:#}", output::clean(title)),
        _ if !turn.is_readable => "unreadable state".to_owned(),
        _ => "no step pending".to_owned(),
    };
    let (style, kind) = match turn.kind {
        NodeKind::Step => (HEADING, ""),
        NodeKind::Checkpoint => (DIM, "checkpoint at "),
        NodeKind::BlockedAttempt => (WARNING, "blocked at "),
    };
    let number = turn.step.map_or_else(String::new, |step| format!("{step}. "));
    let place = turn.place.as_ref().map_or_else(String::new, |place| format!(" {DIM}{place}{DIM:#}"));
    let loops = if turn.loops.is_empty() { String::new() } else { format!(" [{}]", turn.loops.join(", ")) };
    let fork = if turn.is_fork {
        format!("  {WARNING}fork of {}{WARNING:#}", short(turn.parent_node_id.as_ref().map(NodeId::as_str)))
    } else {
        String::new()
    };
    let tip = if turn.is_tip { format!("  {GOOD}<- current{GOOD:#}") } else { String::new() };
    let _ = writeln!(
        words,
        "\n{DIM}{}{DIM:#} {style}{number}{kind}{style:#}{step}{place}{loops}  {DIM}{}{DIM:#}{fork}{tip}",
        time::clock(turn.created_ms),
        short(Some(turn.node_id.as_str())),
    );
    for skipped in &turn.skipped {
        let _ = writeln!(
            words,
            "    {WARNING}skipped{WARNING:#} {} {DIM}({} {}){DIM:#}: {}",
            output::clean(&skipped.title),
            skipped.kind,
            skipped.id,
            output::clean(&skipped.reason())
        );
    }
    let (personal, claimed): (Vec<&Artifact>, Vec<&Artifact>) =
        turn.artifacts.iter().partition(|artifact| artifact.is_from_person);
    if turn.notes.is_some() || !claimed.is_empty() {
        let step = turn.answered_step_title.as_deref().unwrap_or("the previous step");
        let _ =
            writeln!(words, "    {DIM}submitted for {}, as the agent claims:{DIM:#}", output::clean(step));
    }
    if let Some(notes) = &turn.notes {
        let shown = if full { usize::MAX } else { NOTE_LINES };
        for line in notes.lines().take(shown) {
            let line = if full {
                output::clean(line).into_owned()
            } else {
                output::shortened(line, NOTE_CHARACTERS)
            };
            let _ = writeln!(words, "    {line}");
        }
        let left = notes.lines().count().saturating_sub(shown);
        if left > 0 {
            let _ = writeln!(words, "    {DIM}({left} more lines; use --full to show them){DIM:#}");
        }
    }
    for artifact in claimed {
        let kind = artifact.kind.as_deref().unwrap_or("without a kind");
        let answer = artifact.answer.as_deref().map(|answer| format!(" {}", output::clean(answer)));
        let _ = writeln!(
            words,
            "    {DIM}artifact{DIM:#} {}{} {DIM}({} bytes){DIM:#}",
            output::clean(kind),
            answer.unwrap_or_default(),
            artifact.bytes
        );
    }
    for answer in personal.into_iter().filter_map(|artifact| artifact.answer.as_deref()) {
        let _ = writeln!(words, "    {GOOD}answered{GOOD:#} {}", output::clean(answer));
    }
    for check in &turn.verified {
        let (style, word) = if check.passed { (GOOD, "verified") } else { (WARNING, "refuted") };
        let _ = writeln!(words, "    {style}{word}{style:#} {}", output::clean(&check.words));
    }
    for assessment in &turn.assessments {
        let _ = writeln!(words, "    {DIM}assessed{DIM:#} {}", output::clean(assessment));
    }
    for blocker in &turn.blockers {
        let _ = writeln!(
            words,
            "    {WARNING}{}{WARNING:#} {}",
            wire(&blocker.code),
            output::clean(&blocker.message)
        );
        if let Some(fix) = &blocker.suggested_fix {
            let _ = writeln!(words, "      {DIM}fix:{DIM:#} {}", output::shortened(fix, NOTE_CHARACTERS));
        }
    }
    for gap in &turn.gaps {
        let state = if gap.is_open { "gap" } else { "gap, closed" };
        let _ = writeln!(
            words,
            "    {WARNING}{state}{WARNING:#} ({}) {}",
            wire(&gap.severity),
            output::clean(&gap.summary)
        );
    }
    for divergence in &turn.divergences {
        let _ = writeln!(
            words,
            "    {DIM}diverged ({}):{DIM:#} {}",
            wire(&divergence.reason),
            output::clean(&divergence.summary)
        );
    }
}

/// The end of an id, which distinguishes the nodes of one session.
fn short(id: Option<&str>) -> &str {
    let id = id.unwrap_or_default();
    // Ids are ASCII, so every byte offset is a character boundary.
    id.get(id.len().saturating_sub(6)..).unwrap_or(id)
}
