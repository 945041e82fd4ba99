//! `interlock session`.

mod export;
mod gc;
mod graph;
mod import;
mod keep;
mod list;
mod lookup;
mod replay;
mod show;
mod steps;
mod tail;
mod verify;
mod words;

use guide::record::SessionId;
use guide::state::SessionState;
use storage::files::{SessionFiles, ValidatedPrefix};

use crate::arguments::{Globals, SessionCommand};
use crate::failure::{Answer, Failure};
use crate::settings::Settings;

/// Carries out one of the commands about sessions.
pub(crate) fn run(command: &SessionCommand, globals: &Globals) -> Result<Answer, Failure> {
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

/// The health of a folder in which there is no session.
const NO_LOG: &str = "no_log";

/// What can be trusted of a session, for looking at.
struct Salvaged {
    prefix: ValidatedPrefix,
    /// The state after the last event that fits.
    state: SessionState,
    /// Why folding stopped before the last event, if it did.
    misfit: Option<guide::state::FoldError>,
}

/// Reads what can be trusted of a session, however it is.
fn salvage(files: &SessionFiles, id: &SessionId) -> Result<Salvaged, Failure> {
    let prefix = files.load_validated_prefix(id)?;
    let mut state = SessionState::new(id.clone());
    let misfit = prefix.loaded.events.iter().find_map(|event| state.apply(event).err());
    Ok(Salvaged { prefix, state, misfit })
}

impl Salvaged {
    /// `healthy`, or why it is not.
    fn health(&self) -> String {
        match (&self.misfit, self.prefix.health.is_healthy()) {
            (Some(misfit), true) => format!("contradicts itself: {misfit}"),
            _ => self.prefix.health.to_string(),
        }
    }

    /// The closed name of its health.
    const fn health_name(&self) -> &'static str {
        if self.misfit.is_some() && self.prefix.health.is_healthy() {
            "contradictory"
        } else {
            self.prefix.health.as_str()
        }
    }

    const fn is_healthy(&self) -> bool {
        self.misfit.is_none() && self.prefix.health.is_healthy()
    }
}
