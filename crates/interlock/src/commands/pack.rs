//! `interlock pack`.

mod check;
mod install;
mod locked;
mod publish;
mod registries;
mod registry;
mod registry_keys;
mod sign;
mod source;
mod starter;
mod trust_policy;

use canon::error::Envelope;
use packs::PackError;

use crate::arguments::{Globals, PackCommand};
use crate::failure::{CommandErrorCode, ExitStatus, Failure};
use crate::settings::Settings;

pub(crate) fn run(command: &PackCommand, globals: &Globals) -> Result<ExitStatus, Failure> {
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

fn now() -> canon::time::Timestamp {
    use system::{Clock as _, SystemClock};
    canon::time::Timestamp(SystemClock.now_ms())
}

fn usage(message: &str) -> Failure {
    Envelope::new(CommandErrorCode::InputUnreadable, message)
        .suggest("See `interlock help pack install` and `interlock help pack publish` for examples.")
        .into()
}
