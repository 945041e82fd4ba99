//! `interlock runs tail`.

use crate::api::{Api, Event, Run, RunOutcome, block_on};
use crate::arguments::{Globals, RunsTail, TailUntil};
use crate::failure::{ExitStatus, Failure};
use crate::output::{self, DIM, Layout};

/// What is printed, and when to stop.
pub(super) struct Tail {
    pub(super) json: bool,
    pub(super) errors: bool,
    pub(super) until: TailUntil,
}

pub(super) fn run(arguments: &RunsTail, globals: &Globals) -> Result<ExitStatus, Failure> {
    let api = Api::connect(&arguments.target, globals)?;
    let tail =
        Tail { json: arguments.target.answering.json, errors: arguments.errors, until: arguments.until };
    block_on(async {
        let id = api.find(&arguments.id).await?.id().to_owned();
        tail.follow(&api, &id, arguments.since).await
    })
}

impl Tail {
    /// Prints events until the run ends, or waits for a person.
    pub(super) async fn follow(
        &self,
        api: &Api,
        id: &str,
        since: Option<u64>,
    ) -> Result<ExitStatus, Failure> {
        let mut last = since;
        loop {
            let (events, is_complete) = api.events(id, last, true).await?;
            let mut asked = false;
            for event in &events {
                // Servers of other versions may repeat an event after a reconnect.
                if event.sequence().is_some_and(|sequence| last.is_some_and(|last| sequence <= last)) {
                    continue;
                }
                last = event.sequence().or(last);
                asked = (asked || event.needs_person()) && event.kind() != "interrupt.resolved";
                self.print(event)?;
            }
            if is_complete {
                return self.end(&api.run(id).await?);
            }
            if asked && self.until == TailUntil::Waiting {
                // The question may have been answered before this command started.
                let run = api.run(id).await?;
                if run.outcome() == RunOutcome::Waiting {
                    return self.end(&run);
                }
            }
        }
    }

    fn print(&self, event: &Event) -> Result<(), Failure> {
        if self.errors && !event.is_error() && !event.ends_run() {
            return Ok(());
        }
        match self.json {
            true => output::json(event.document(), Layout::Compact),
            false => output::text(&event.line()),
        }
    }

    /// The last line, and the exit code.
    fn end(&self, run: &Run) -> Result<ExitStatus, Failure> {
        let outcome = run.outcome();
        if !self.json {
            let style = outcome.style();
            let why = output::clean(&run.why()).into_owned();
            let line = format!(
                "{style}{} {}{style:#}  {DIM}{}{DIM:#}  {why}",
                outcome.icon(),
                outcome.word(),
                run.id()
            );
            output::text(&line.trim_end())?;
        }
        Ok(ExitStatus::success_if(matches!(outcome, RunOutcome::Completed | RunOutcome::Waiting)))
    }
}
