//! The `interlock` command line: it translates between a person or a script and the rooms
//! of the workspace, and decides nothing itself.
//!
//! * `arguments`: what can be typed, and the help that teaches it.
//! * `commands`: one module per subcommand.
//! * `failure`: how anything that goes wrong becomes an envelope and an exit code.
//! * `output`: writing results, tolerant of readers that stop listening.

mod arguments;
mod commands;
mod failure;
mod output;

use std::process::ExitCode;

use clap::Parser;

use crate::arguments::{Arguments, Command};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let (result, reporting) = match arguments.command {
        Command::Compose(compose) => (commands::compose::run(&compose), compose.reporting()),
    };
    match result {
        Ok(answer) => answer.into(),
        Err(failure) => failure.report(reporting),
    }
}
