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
    // Without a runtime, the store works on this thread.
    ports::wait(async {
        match command {
            SessionCommand::List(arguments) => list::run(arguments, &settings).await,
            SessionCommand::Show(arguments) => show::run(arguments, &settings).await,
            SessionCommand::Tail(arguments) => tail::run(arguments, &settings).await,
            SessionCommand::Verify(arguments) => verify::run(arguments, &settings).await,
            SessionCommand::Export(arguments) => export::run(arguments, &settings).await,
            SessionCommand::Import(arguments) => import::run(arguments, &settings).await,
            SessionCommand::Gc(arguments) => gc::run(arguments, &settings).await,
            SessionCommand::Keep(arguments) => keep::run(arguments, &settings).await,
            SessionCommand::Graph(arguments) => graph::run(arguments, &settings).await,
        }
    })
}

/// The health of a folder without a session.
const NO_LOG: &str = "no_log";
