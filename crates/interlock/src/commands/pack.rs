//! `interlock pack`.

mod access;
mod check;
mod install;
mod locked;
mod publish;
mod registries;
mod registry;
mod sign;
mod source;
mod starter;
mod trusted;

use canon::error::Envelope;
use packs::PackError;

use crate::arguments::{Globals, PackCommand};
use crate::failure::{Answer, CommandErrorCode, Failure};
use crate::settings::Settings;

/// Packs: written, looked at, signed, installed, published.
pub(crate) fn run(command: &PackCommand, globals: &Globals) -> Result<Answer, Failure> {
    match command {
        PackCommand::New(new) => starter::run(new),
        PackCommand::Check(check) => check::run(check),
        PackCommand::Sign(sign) => sign::sign(sign),
        PackCommand::Verify(verify) => sign::verify(verify),
        PackCommand::Install(install) => install::install(install, &Settings::load(globals)?),
        PackCommand::Remove(remove) => install::remove(remove, &Settings::load(globals)?),
        PackCommand::List(list) => install::list(list, &Settings::load(globals)?),
        PackCommand::Publish(publish) => publish::run(publish, globals),
    }
}

impl From<PackError> for Failure {
    fn from(error: PackError) -> Self {
        error.envelope().into()
    }
}

/// The system's clock.
fn now() -> canon::time::Timestamp {
    use host::system::{Clock as _, SystemClock};
    canon::time::Timestamp(SystemClock.now_ms())
}

/// The call itself is wrong.
fn usage(message: &str) -> Failure {
    Envelope::new(CommandErrorCode::InputUnreadable, message)
        .suggest("See `interlock help pack install` and `interlock help pack publish` for examples.")
        .into()
}
