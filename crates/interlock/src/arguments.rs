//! Command-line arguments and help texts.

mod approvals;
mod backup;
mod context;
mod database;
mod demo;
mod doctor;
mod hook;
mod key;
mod mcp;
mod pack;
mod run;
mod runs;
mod serve;
mod session;
mod shell;
mod target;
mod webhooks;
mod workflow;
mod workspace;

use std::path::PathBuf;

use clap::builder::Styles;
use clap::builder::styling::{AnsiColor, Style};
use clap::{Args, Parser, Subcommand};

use crate::failure::Reporting;

pub(crate) use approvals::{Approvals, ApprovalsCommand, ApprovalsDecide, ApprovalsList, ApprovalsShow};
pub(crate) use backup::Backup;
pub(crate) use context::{Context, ContextAdd, ContextCommand};
pub(crate) use database::{Database, DatabaseCommand};
pub(crate) use demo::Demo;
pub(crate) use doctor::Doctor;
pub(crate) use hook::{Hook, HookClient};
pub(crate) use key::{Key, KeyCommand, NewApiKey, RevokeApiKey};
pub(crate) use mcp::{Client, ClientTarget, ConfigScope, Mcp, McpCommand, McpInstall, McpUninstall};
pub(crate) use pack::{
    Kind as PackKindArgument, Pack, PackCheck, PackCommand, PackInstall, PackList, PackNew, PackPublish,
    PackRemove, PackSign, PackVerify, Trust as PackTrust,
};
pub(crate) use run::Run;
pub(crate) use runs::{
    ForkModeArgument, Runs, RunsAnswer, RunsCommand, RunsControl, RunsDiff, RunsExport, RunsExportFormat,
    RunsFilter, RunsFork, RunsList, RunsShow, RunsTail, TailUntil,
};
pub(crate) use serve::Serve;
pub(crate) use session::{
    GraphFormat, Session, SessionCommand, SessionExport, SessionGc, SessionGraph, SessionImport, SessionKeep,
    SessionList, SessionShow, SessionTail, SessionVerify,
};
pub(crate) use shell::{Completions, Man};
pub(crate) use target::Target;
pub(crate) use webhooks::{Webhooks, WebhooksCommand, WebhooksNew};
pub(crate) use workflow::{
    PreviewFormat, SourceFormat, Workflow, WorkflowCommand, WorkflowCompile, WorkflowExpand, WorkflowKind,
    WorkflowList, WorkflowNew, WorkflowPreview, WorkflowRegister, WorkflowShow, WorkflowSources,
    WorkflowTest, WorkflowValidate,
};
pub(crate) use workspace::{
    AgentUser, DriftLevel, ManifestInput, RwPolicy, VerifyLevel, Workspace, WorkspaceApply, WorkspaceCommand,
    WorkspaceDrift, WorkspaceEnv, WorkspacePlan, WorkspaceRelease, WorkspaceRestore, WorkspaceSnapshot,
    WorkspaceTarget,
};

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(Style::new().italic());

/// Durable workflows and guided sessions for AI agents, with human approval.
#[derive(Debug, Parser)]
#[command(name = "interlock", version, styles = STYLES, propagate_version = true, max_term_width = 100)]
#[command(after_help = "\
Exit codes:
  0  success
  1  negative result: rejected, invalid, blocked, damaged, not shown
  2  usage error, unreadable or unparsable input, or an I/O error

Settings come from flags, then the environment (INTERLOCK_HOME), then config.toml, then
defaults; `interlock doctor` prints each value and its origin.
Colors are used only on a terminal, and never if NO_COLOR is set.
Run `interlock help COMMAND` for examples of a command.")]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) globals: Globals,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Globals {
    /// The data directory. Default: INTERLOCK_HOME, then `data_dir` of the settings file, then the
    /// platform's directory for user data.
    #[arg(long, value_name = "DIR", global = true)]
    pub(crate) data_dir: Option<PathBuf>,

    /// The settings file. Default: config.toml in the data directory, if it exists.
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(Serve),
    Mcp(Mcp),
    Hook(Hook),
    Demo(Demo),
    Run(Run),
    Runs(Runs),
    #[command(alias = "approval")]
    Approvals(Approvals),
    #[command(alias = "webhook")]
    Webhooks(Webhooks),
    Context(Context),
    Compose(Compose),
    #[command(alias = "workflows")]
    Workflow(Workflow),
    Session(Session),
    Workspace(Workspace),
    Pack(Pack),
    Key(Key),
    Backup(Backup),
    Database(Database),
    Doctor(Doctor),
    Completions(Completions),
    Man(Man),
}

/// The output format of commands that print for people and for programs.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct OutputFormat {
    /// Print exactly one JSON document on standard output, also for errors.
    #[arg(long)]
    pub(crate) json: bool,
}

impl OutputFormat {
    /// Where errors are printed.
    pub(crate) const fn reporting(self) -> Reporting {
        if self.json { Reporting::Json } else { Reporting::Words }
    }
}

/// Compose a workspace from a JSON input and print the result or its diagnostics as JSON.
///
/// The input declares built-ins, module instances with their runtime status, and a policy. The
/// result is a pure function of the input: the same content gives the same bytes, in any order.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Compose a file and print readable JSON:
    interlock compose workspace.json --pretty

  Fail a build if the workspace does not compose (exit 1), and save the diagnostics:
    interlock compose workspace.json > composed.json

  Explain why a key is shown or hidden:
    interlock compose workspace.json --explain data-lab-prod:routes/home

  The smallest valid input:
    echo '{\"builtins\": [], \"modules\": []}' | interlock compose --pretty

A fixture, `{\"id\": …, \"input\": …, \"expect\": …}`, is also accepted; its `input` is composed.

Exit codes:
  0  the workspace composes (with --explain: the key is shown)
  1  the workspace does not compose; see the diagnostics (with --explain: the key is not shown)
  2  the input could not be read, or is not valid JSON")]
pub(crate) struct Compose {
    /// The input file; `-` or no file reads standard input.
    pub(crate) file: Option<PathBuf>,

    /// Indent the JSON.
    #[arg(long)]
    pub(crate) pretty: bool,

    /// Explain why KEY (owner:kind/id) is shown or hidden, instead of printing the result.
    #[arg(long, value_name = "KEY")]
    pub(crate) explain: Option<String>,

    /// Print exactly one JSON document on standard output, also for errors.
    #[arg(long)]
    pub(crate) json: bool,
}

impl Compose {
    /// The result of `compose` is always JSON, and so are its errors; on a terminal, the error is
    /// also printed as text.
    pub(crate) const fn reporting(&self) -> Reporting {
        match (self.json, self.explain.is_some()) {
            (true, _) => Reporting::Json,
            (false, true) => Reporting::Words,
            (false, false) => Reporting::Both,
        }
    }
}

impl Command {
    pub(crate) const fn reporting(&self) -> Reporting {
        match self {
            Self::Mcp(mcp) => match &mcp.command {
                // Standard output is reserved for the protocol.
                None => Reporting::Words,
                Some(command) => command.answering().reporting(),
            },
            Self::Hook(_) | Self::Serve(_) | Self::Demo(_) | Self::Completions(_) | Self::Man(_) => {
                Reporting::Words
            }
            Self::Runs(runs) => runs.command.answering().reporting(),
            Self::Approvals(approvals) => approvals.command.answering().reporting(),
            Self::Webhooks(webhooks) => webhooks.command.answering().reporting(),
            Self::Context(context) => context.command.answering().reporting(),
            Self::Run(run) => run.answering.reporting(),
            Self::Backup(backup) => backup.answering.reporting(),
            Self::Compose(compose) => compose.reporting(),
            Self::Workflow(workflow) => workflow.command.answering().reporting(),
            Self::Session(session) => session.command.answering().reporting(),
            Self::Workspace(workspace) => workspace.command.answering().reporting(),
            Self::Pack(pack) => pack.command.answering().reporting(),
            Self::Key(key) => key.command.answering().reporting(),
            Self::Database(database) => database.command.target().answering.reporting(),
            Self::Doctor(doctor) => doctor.answering.reporting(),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_command_has_examples() {
        let mut waiting = vec![Arguments::command()];
        while let Some(command) = waiting.pop() {
            let nested: Vec<_> = command.get_subcommands().cloned().collect();
            if nested.is_empty() {
                let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
                assert!(help.contains("Examples:\n"), "{}", command.get_name());
            }
            waiting.extend(nested);
        }
    }

    /// The rows and the section of the reference for a command, such as `pack new NAME …` for `pack
    /// new`.
    fn entries<'a>(reference: &'a str, command: &str) -> Vec<&'a str> {
        let called = [format!("`{command} "), format!("`{command}`")];
        let title = format!("`interlock {command}`");
        let rows = reference.split("\n| ").filter(|row| called.iter().any(|call| row.contains(call)));
        rows.chain(reference.split("\n## ").filter(|section| section.starts_with(&title))).collect()
    }

    #[test]
    fn every_command_and_option_is_in_the_reference() {
        let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/command-line.md");
        let reference = std::fs::read_to_string(page).unwrap();
        let mut missing = Vec::new();
        let mut waiting: Vec<_> = Arguments::command()
            .get_subcommands()
            .map(|command| (command.get_name().to_owned(), command.clone()))
            .collect();
        while let Some((name, command)) = waiting.pop() {
            let nested = command.get_subcommands();
            waiting.extend(nested.map(|nested| (format!("{name} {}", nested.get_name()), nested.clone())));
            if command.is_subcommand_required_set() {
                continue;
            }
            let about = entries(&reference, &name);
            if about.is_empty() {
                missing.push(format!("`{name}`"));
            }
            for option in command.get_arguments().filter(|option| !option.is_hide_set()) {
                let spellings = [
                    option.get_long().map(|long| format!("--{long}")),
                    option.get_short().map(|short| format!("-{short} ")),
                ];
                let is_common = matches!(
                    option.get_id().as_str(),
                    "data_dir" | "config" | "json" | "context" | "yes" | "help" | "version"
                );
                let mut spellings = spellings.into_iter().flatten().peekable();
                if is_common || spellings.peek().is_none() {
                    continue;
                }
                if !spellings.any(|spelling| about.iter().any(|line| line.contains(&spelling))) {
                    missing.push(format!("`{name}`: {}", option.get_id()));
                }
            }
        }
        assert!(missing.is_empty(), "docs/command-line.md lacks {missing:?}");
    }
}
