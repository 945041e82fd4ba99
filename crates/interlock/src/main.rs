//! The `interlock` command line: it translates between a person or a script and the rooms
//! of the workspace, and decides nothing itself.
//!
//! * `arguments`: what can be typed, and the help that teaches it.
//! * `settings`: where everything is, from flags, environment, file and defaults.
//! * `service`: the services, put together from the settings.
//! * `client`: asking a server that runs already.
//! * `commands`: one module per subcommand.
//! * `failure`: how anything that goes wrong becomes an envelope and an exit code.
//! * `input`: reading files and standard input, with a bound.
//! * `log`: what a server tells while it runs.
//! * `output`: writing results, tolerant of readers that stop listening.
//! * `progress`: what is shown while something takes long.

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

/// A run passes from the thread of its request to the writer's, and what the one allocates the other frees. With the system's
/// allocator that is a fifth of the work of `serve`.
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
        Command::Doctor(doctor) => commands::doctor::run(doctor, &globals),
    };
    match result {
        Ok(answer) => answer.into(),
        Err(failure) => failure.report(command.reporting()),
    }
}
