//! `interlock session`.

mod event_line;
mod export;
mod gc;
mod graph;
mod import;
mod keep;
mod list;
mod lookup;
mod show;
mod signature;
mod tail;
mod verify;

use crate::arguments::{Globals, SessionCommand};
use crate::failure::{ExitStatus, Failure};
use crate::settings::Settings;

pub(crate) fn run(command: &SessionCommand, globals: &Globals) -> Result<ExitStatus, Failure> {
    let settings = Settings::load(globals)?;
    match command {
        SessionCommand::List(arguments) => list::run(arguments, &settings),
        SessionCommand::Show(arguments) => show::run(arguments, &settings),
        SessionCommand::Tail(arguments) => tail::run(arguments, &settings),
        SessionCommand::Verify(arguments) => verify::run(arguments, &settings),
        SessionCommand::Export(arguments) => export::run(arguments, &settings),
        SessionCommand::Import(arguments) => import::run(arguments, &settings),
        SessionCommand::Gc(arguments) => gc::run(arguments, &settings),
        SessionCommand::Keep(arguments) => keep::run(arguments, &settings),
        SessionCommand::Graph(arguments) => graph::run(arguments, &settings),
    }
}

/// The health of a folder without a session.
const NO_LOG: &str = "no_log";
