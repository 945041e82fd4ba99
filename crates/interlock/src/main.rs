//! The `interlock` command line: translates between users or scripts and the workspace crates,
//! without business logic.
//!
//! * `arguments`: arguments and help.
//! * `settings`: settings from flags, environment, file and defaults.
//! * `service`: the services, built from the settings.
//! * `client`: an HTTP client; `api`: the operations of the public API on top of it.
//! * `contexts`: named servers.
//! * `completion`: values for shell completion.
//! * `commands`: one module per subcommand.
//! * `failure`: errors as envelopes and exit codes.
//! * `input`: bounded reading of files and standard input.
//! * `log`: the server's log.
//! * `output`: results; tolerates closed pipes.
//! * `progress`: progress of long operations.

#[cfg(windows)]
compile_error!("Interlock runs on Linux, and builds on macOS; Windows is not supported: use WSL.");

mod api;
mod arguments;
mod client;
mod commands;
mod completion;
mod contexts;
mod failure;
mod input;
mod log;
mod output;
mod progress;
mod service;
mod settings;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use crate::arguments::{Arguments, Command};

/// Runs move between threads, so one thread frees what another allocated. With the system allocator
/// this takes a fifth of the work of `serve`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Answers a shell that completes a command line, and exits.
    clap_complete::CompleteEnv::with_factory(Arguments::command).complete();
    let Arguments { globals, command } = Arguments::parse();
    let result = match &command {
        Command::Serve(serve) => commands::serve::run(serve, &globals),
        Command::Demo(demo) => commands::demo::run(demo, &globals),
        Command::Run(run) => commands::run::run(run, &globals),
        Command::Runs(runs) => commands::runs::run(&runs.command, &globals),
        Command::Approvals(approvals) => commands::approvals::run(&approvals.command, &globals),
        Command::Webhooks(webhooks) => commands::webhooks::run(&webhooks.command, &globals),
        Command::Context(context) => commands::context::run(&context.command),
        Command::Completions(completions) => commands::shell::completions(completions),
        Command::Man(man) => commands::shell::man(man),
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
