//! What happens when a command cannot answer, or answers no.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use canon::error::{Envelope, Retry};
use canon::json::ReadError;
use host::guided::Refusal;
use storage::StoreError;

use crate::input;
use crate::output::{self, Layout};

canon::error_codes! {
    /// What the command line itself can run into.
    pub(crate) enum CommandErrorCode {
        /// A file or standard input could not be read.
        InputUnreadable => "INPUT_UNREADABLE",
        /// Standard output or a file could not be written.
        OutputUnwritable => "OUTPUT_UNWRITABLE",
        /// The file to write is there already.
        OutputExists => "OUTPUT_EXISTS",
        /// The settings file is no TOML, or a value is of another type.
        ConfigInvalid => "CONFIG_INVALID",
        /// The settings file has a key that nothing reads.
        ConfigUnknownKey => "CONFIG_UNKNOWN_KEY",
        /// The settings file cannot be read.
        ConfigUnreadable => "CONFIG_UNREADABLE",
        /// Nothing says where the data directory is.
        DataDirUnknown => "DATA_DIR_UNKNOWN",
        /// More than one session or run begins like that.
        IdAmbiguous => "ID_AMBIGUOUS",
        /// The session has no such run.
        RunUnknown => "RUN_UNKNOWN",
        /// No workflow may have that id.
        WorkflowIdInvalid => "WORKFLOW_ID_INVALID",
        /// The workflow does not take the chain at that place.
        ChainMisplaced => "CHAIN_MISPLACED",
        /// Another process serves the data directory.
        ServeRunning => "SERVE_RUNNING",
        /// The address cannot be listened on.
        ListenFailed => "LISTEN_FAILED",
        /// A key is needed, and there is none.
        KeyRequired => "KEY_REQUIRED",
        /// The data directory had a database of runs, and it is gone.
        RunsDatabaseMissing => "RUNS_DATABASE_MISSING",
        /// The host of runs refused.
        HostRefused => "HOST_REFUSED",
        /// The configuration file of a client cannot be edited.
        ClientConfigInvalid => "CLIENT_CONFIG_INVALID",
        /// The configuration file of a client has a different entry of that name.
        ClientEntryDiffers => "CLIENT_ENTRY_DIFFERS",
        /// The server does not answer.
        ServerUnreachable => "SERVER_UNREACHABLE",
    }
}

/// The answer of a command that could be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Exit code 0.
    Yes,
    /// Exit code 1: invalid, blocked, damaged, not shown.
    No,
}

impl From<Answer> for ExitCode {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Yes => Self::SUCCESS,
            Answer::No => Self::from(1),
        }
    }
}

impl Answer {
    pub(crate) const fn yes_if(condition: bool) -> Self {
        if condition { Self::Yes } else { Self::No }
    }
}

/// Where an error is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reporting {
    /// As the one JSON document on standard output.
    Json,
    /// In words on standard error.
    Words,
    /// Both.
    Both,
}

/// Why a command could not be carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("cannot read {name}")]
    Unreadable {
        name: String,
        #[source]
        cause: std::io::Error,
    },
    #[error("{name} is not usable JSON")]
    NotJson {
        name: String,
        #[source]
        cause: Box<ReadError>,
    },
    #[error("cannot write {name}")]
    Unwritable {
        name: String,
        #[source]
        cause: std::io::Error,
    },
    /// Somebody below, or the command itself, says no with a closed code.
    #[error("{0}")]
    Refused(Box<Envelope>),
}

impl From<Envelope> for Failure {
    fn from(envelope: Envelope) -> Self {
        Self::Refused(Box::new(envelope))
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal.into_envelope())
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        error.envelope().into()
    }
}

impl From<workspace::Error> for Failure {
    fn from(error: workspace::Error) -> Self {
        error.envelope().into()
    }
}

impl Failure {
    pub(crate) fn unreadable(source: Option<&Path>, cause: std::io::Error) -> Self {
        Self::Unreadable { name: input::name(source), cause }
    }

    pub(crate) fn not_json(source: Option<&Path>, cause: ReadError) -> Self {
        Self::NotJson { name: input::name(source), cause: Box::new(cause) }
    }

    /// Standard output, or a file, could not be written.
    pub(crate) fn unwritable(target: Option<&Path>, cause: std::io::Error) -> Self {
        let name = target.map_or_else(|| "the result".to_owned(), |path| path.display().to_string());
        Self::Unwritable { name, cause }
    }

    /// Shows the failure and gives the exit code.
    pub(crate) fn report(&self, reporting: Reporting) -> ExitCode {
        let envelope = self.envelope();
        if matches!(reporting, Reporting::Json | Reporting::Both) {
            // When this cannot be written either, the exit code still tells.
            let _ = output::json(&envelope, Layout::Compact);
        }
        if matches!(reporting, Reporting::Words | Reporting::Both) {
            let _ = write_words(&envelope);
        }
        ExitCode::from(exit_code(envelope.code()))
    }

    fn envelope(&self) -> Envelope {
        match self {
            Self::Unreadable { name, cause } => Envelope::new(
                CommandErrorCode::InputUnreadable,
                format!("{self}: {cause}"),
            )
            .suggest("Check that the path is right and that you may read it, or pass - for standard input.")
            .retry(Retry::NotRetryable)
            .detail("source", name.as_str()),
            Self::NotJson { name, cause } => cause.envelope().detail("source", name.as_str()),
            Self::Unwritable { cause, .. } => {
                Envelope::new(CommandErrorCode::OutputUnwritable, format!("{self}: {cause}"))
                    .suggest("Check that there is room on the disk it goes to, and that you may write there.")
                    .retry(Retry::NotRetryable)
            }
            Self::Refused(envelope) => (**envelope).clone(),
        }
    }
}

/// 2 for what is wrong with the call, its input or the machine; 1 for every other refusal, which is an answer.
fn exit_code(code: &str) -> u8 {
    const CALL_OR_MACHINE: [&str; 24] = [
        "INPUT_UNREADABLE",
        "OUTPUT_UNWRITABLE",
        "CONFIG_INVALID",
        "CLIENT_CONFIG_INVALID",
        "CONFIG_UNKNOWN_KEY",
        "CONFIG_UNREADABLE",
        "DATA_DIR_UNKNOWN",
        "INTERNAL_ERROR",
        "STORE_IO",
        "STORE_FULL",
        "STORE_READ_ONLY",
        "STORE_DAMAGED",
        "KEYRING_INVALID",
        "STORE_TOO_LARGE",
        "SERVE_RUNNING",
        "LISTEN_FAILED",
        "KEY_REQUIRED",
        "RUNS_DATABASE_MISSING",
        "SERVER_UNREACHABLE",
        "APPLY_IO",
        "APPLY_NO_SPACE",
        "APPLY_STATE_DIR_OTHER_FS",
        "APPLY_ROLLBACK_FAILED",
        "SNAPSHOT_RESTORE_FAILED",
    ];
    if CALL_OR_MACHINE.contains(&code) || code.starts_with("JSON_") { 2 } else { 1 }
}

fn write_words(envelope: &Envelope) -> std::io::Result<()> {
    const CODE: Style = AnsiColor::Red.on_default().bold();
    const HELP: Style = AnsiColor::Cyan.on_default().bold();
    let mut stderr = anstream::stderr().lock();
    let message = output::clean(envelope.message());
    write!(stderr, "{CODE}error[{}]{CODE:#}: {message}", envelope.code())?;
    if let Some(source) = envelope.details().get("source").and_then(|source| source.as_str())
        && !envelope.message().contains(source)
    {
        write!(stderr, " (in {source})")?;
    }
    writeln!(stderr)?;
    // Where several things are wrong at once, all of them are told.
    for cause in envelope.details().get("causes").and_then(|causes| causes.as_array()).into_iter().flatten() {
        writeln!(stderr, "  also: {}", output::clean(cause.as_str().unwrap_or_default()))?;
    }
    if let Some(more) = envelope.details().get("moreCauses") {
        writeln!(stderr, "  and {more} more")?;
    }
    if !envelope.suggestion().is_empty() {
        writeln!(stderr, "  {HELP}help{HELP:#}: {}", output::clean(envelope.suggestion()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_page_that_is_titled_after_it() {
        for code in CommandErrorCode::ALL {
            let page = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/errors/{code}.md"));
            let text =
                std::fs::read_to_string(&page).unwrap_or_else(|_| panic!("{} is missing", page.display()));
            assert!(text.starts_with(&format!("# {}\n", code.as_str())), "{code}");
        }
    }

    #[test]
    fn refusals_are_answers_and_trouble_is_not() {
        for (code, expected) in [
            ("SESSION_UNKNOWN", 1),
            ("SESSION_NOT_HEALTHY", 1),
            ("BUNDLE_INTEGRITY_FAILED", 1),
            ("STORE_NEWER_VERSION", 1),
            ("STORE_BUSY", 1),
            ("OUTPUT_EXISTS", 1),
            ("NOT_FOUND", 1),
            ("STORE_READ_ONLY", 2),
            ("STORE_FULL", 2),
            ("KEYRING_UNSUPPORTED_VERSION", 1),
            ("KEYRING_INVALID", 2),
            ("CONFIG_UNKNOWN_KEY", 2),
            ("JSON_SYNTAX", 2),
            ("LEASE_HELD", 1),
            ("RESOLVE_NOT_FOUND", 1),
            ("SNAPSHOT_CORRUPT", 1),
            ("APPLY_UNSAFE_SYMLINK", 1),
            ("APPLY_NO_SPACE", 2),
            ("APPLY_ROLLBACK_FAILED", 2),
        ] {
            assert_eq!(exit_code(code), expected, "{code}");
        }
    }
}
