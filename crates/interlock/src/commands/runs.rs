//! `interlock runs`.

mod answer;
mod control;
mod diff;
mod export;
pub(crate) mod filter;
mod fork;
mod list;
mod show;
mod tail;

pub(crate) use self::answer::decide;

use crate::arguments::{Globals, RunsCommand};
use crate::failure::{ExitStatus, Failure};

pub(crate) fn run(command: &RunsCommand, globals: &Globals) -> Result<ExitStatus, Failure> {
    match command {
        RunsCommand::List(arguments) => list::run(arguments, globals),
        RunsCommand::Show(arguments) => show::run(arguments, globals),
        RunsCommand::Tail(arguments) => tail::run(arguments, globals),
        RunsCommand::Answer(arguments) => answer::run(arguments, globals),
        RunsCommand::Cancel(arguments) => control::run(control::Action::Cancel, arguments, globals),
        RunsCommand::Pause(arguments) => control::run(control::Action::Pause, arguments, globals),
        RunsCommand::Resume(arguments) => control::run(control::Action::Resume, arguments, globals),
        RunsCommand::Fork(arguments) => fork::run(arguments, globals),
        RunsCommand::Diff(arguments) => diff::run(arguments, globals),
        RunsCommand::Export(arguments) => export::run(arguments, globals),
    }
}
