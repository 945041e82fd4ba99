//! `interlock runs fork`.

use canon::error::Envelope;

use super::tail::Tail;
use crate::api::{Api, Event, ForkMode, Run, block_on};
use crate::arguments::{ForkModeArgument, Globals, RunsFork, TailUntil};
use crate::failure::{CommandErrorCode, ExitStatus, Failure};
use crate::output::{self, GOOD, Layout};

pub(super) fn run(arguments: &RunsFork, globals: &Globals) -> Result<ExitStatus, Failure> {
    let api = Api::connect(&arguments.target, globals)?;
    block_on(async {
        let run = api.find(&arguments.id).await?;
        let from = match arguments.from.as_deref() {
            Some(from) => Some(position(&api, &run, from).await?),
            None if arguments.mode == ForkModeArgument::Branch => return Err(no_position(&run)),
            None => None,
        };
        let mode = match arguments.mode {
            ForkModeArgument::Branch => ForkMode::Branch,
            ForkModeArgument::Replay => ForkMode::Replay,
        };
        let forked = api.fork(run.id(), mode, from).await?;
        let id = forked["runId"].as_str().unwrap_or_default().to_owned();
        if arguments.target.answering.json && !arguments.follow {
            output::json(&forked, Layout::Compact)?;
        } else if !arguments.target.answering.json {
            output::text(&format!("{GOOD}Forked{GOOD:#} {} as {id}", run.short_id()))?;
        }
        if !arguments.follow {
            return Ok(ExitStatus::Success);
        }
        let tail = Tail { json: arguments.target.answering.json, errors: false, until: TailUntil::Waiting };
        tail.follow(&api, &id, None).await
    })
}

/// The number of an event, or the first event of a node.
async fn position(api: &Api, run: &Run, from: &str) -> Result<u64, Failure> {
    if let Ok(number) = from.trim_start_matches('#').parse() {
        return Ok(number);
    }
    let events = api.all_events(run.id()).await?;
    let first = events.iter().find(|event| event.node() == Some(from)).and_then(Event::sequence);
    first.ok_or_else(|| {
        let nodes: Vec<_> = run.nodes().map(|node| node.id).collect();
        Envelope::new(CommandErrorCode::NodeUnknown, format!("The run has no event of a node `{from}`."))
            .suggest(format!("Give the number of an event, or one of its nodes: {}.", nodes.join(", ")))
            .into()
    })
}

fn no_position(run: &Run) -> Failure {
    let nodes: Vec<_> = run.nodes().map(|node| node.id).collect();
    Envelope::new(CommandErrorCode::InputUnreadable, "A branch requires `--from`, the first event to repeat.")
        .suggest(format!(
            "Give the number of an event (`interlock runs show --events`), or a node: {}.",
            nodes.join(", ")
        ))
        .into()
}
