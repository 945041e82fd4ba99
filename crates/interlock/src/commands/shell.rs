//! `interlock completions` and `interlock man`.

use clap::CommandFactory as _;
use clap_complete::env::Shells;

use crate::arguments::{Arguments, Completions, Man};
use crate::failure::{ExitStatus, Failure};
use crate::output;

/// The variable with which the script asks this program for completions.
const VARIABLE: &str = "COMPLETE";
const PROGRAM: &str = "interlock";

pub(crate) fn completions(arguments: &Completions) -> Result<ExitStatus, Failure> {
    let mut script = Vec::new();
    if let Some(shell) = Shells::builtins().completer(arguments.shell.as_str()) {
        shell
            .write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut script)
            .map_err(|cause| Failure::unwritable(None, cause))?;
    }
    output::bytes(&script)?;
    Ok(ExitStatus::Success)
}

pub(crate) fn man(arguments: &Man) -> Result<ExitStatus, Failure> {
    let unwritable = |cause| Failure::unwritable(Some(&arguments.dir), cause);
    std::fs::create_dir_all(&arguments.dir).map_err(unwritable)?;
    clap_mangen::generate_to(Arguments::command(), &arguments.dir).map_err(unwritable)?;
    output::text(&format!("Wrote the manual pages to {}.", arguments.dir.display()))?;
    Ok(ExitStatus::Success)
}
