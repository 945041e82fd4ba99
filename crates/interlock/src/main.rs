//! The `interlock` command line: translates between users or scripts and the workspace crates,
//! without business logic.
//!
//! * `arguments`: arguments and help.
//! * `settings`: settings from flags, environment, file and defaults.
//! * `service`: the services, built from the settings.
//! * `client`: a client for a running server.
//! * `commands`: one module per subcommand.
//! * `failure`: errors as envelopes and exit codes.
//! * `input`: bounded reading of files and standard input.
//! * `log`: the server's log.
//! * `output`: results; tolerates closed pipes.
//! * `progress`: progress of long operations.

#[cfg(windows)]
compile_error!("Interlock runs on Linux, and builds on macOS; Windows is not supported: use WSL.");

mod arguments;
mod client;
mod commands;
mod failure;
mod input;
mod log;
mod output;
mod progress;
mod service;
mod settings;

use std::process::ExitCode;

use clap::Parser;

use crate::arguments::{Arguments, Command};

/// Runs move between threads, so one thread frees what another allocated. With the system allocator
/// this takes a fifth of the work of `serve`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let Arguments { globals, command } = Arguments::parse();
    let result = match &command {
        Command::Serve(serve) => commands::serve::run(serve, &globals),
        Command::Demo(demo) => commands::demo::run(demo, &globals),
        Command::Run(run) => commands::run::run(run, &globals),
        Command::Backup(backup) => commands::backup::run(backup, &globals),
        Command::Mcp(mcp) => commands::mcp::run(mcp, &globals),
        Command::Hook(hook) => commands::hook::run(hook, &globals),
        Command::Compose(compose) => commands::compose::run(compose),
        Command::Workflow(workflow) => commands::workflow::run(&workflow.command, &globals),
        Command::Session(session) => commands::session::run(&session.command, &globals),
        Command::Workspace(workspace) => commands::workspace::run(&workspace.command),
        Command::Pack(pack) => commands::pack::run(&pack.command, &globals),
        Command::Key(key) => commands::key::run(&key.command, &globals),
        Command::Database(database) => commands::database::run(&database.command, &globals),
        Command::Doctor(doctor) => commands::doctor::run(doctor, &globals),
    };
    match result {
        Ok(answer) => answer.into(),
        Err(failure) => failure.report(command.reporting()),
    }
}
