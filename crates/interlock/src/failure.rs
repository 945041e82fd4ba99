//! Failures and negative results of commands.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use canon::error::{Envelope, Retry};
use canon::json::ReadError;
use guided::Refusal;
use storage::StoreError;

use crate::input;
use crate::output::{self, Layout};

canon::error_codes! {
    /// Errors of the command line itself.
    pub(crate) enum CommandErrorCode {
        InputUnreadable => "INPUT_UNREADABLE",
        OutputUnwritable => "OUTPUT_UNWRITABLE",
        OutputExists => "OUTPUT_EXISTS",
        ConfigInvalid => "CONFIG_INVALID",
        ConfigUnknownKey => "CONFIG_UNKNOWN_KEY",
        ConfigUnreadable => "CONFIG_UNREADABLE",
        DataDirUnknown => "DATA_DIR_UNKNOWN",
        IdAmbiguous => "ID_AMBIGUOUS",
        RunUnknown => "RUN_UNKNOWN",
        WorkflowIdInvalid => "WORKFLOW_ID_INVALID",
        ChainMisplaced => "CHAIN_MISPLACED",
        ServeRunning => "SERVE_RUNNING",
        ListenFailed => "LISTEN_FAILED",
        KeyRequired => "KEY_REQUIRED",
        RunsDatabaseMissing => "RUNS_DATABASE_MISSING",
        DatabaseUnusable => "DATABASE_UNUSABLE",
        HostRefused => "HOST_REFUSED",
        ClientConfigInvalid => "CLIENT_CONFIG_INVALID",
        ClientEntryDiffers => "CLIENT_ENTRY_DIFFERS",
        BundleSignatureInvalid => "BUNDLE_SIGNATURE_INVALID",
        ServerUnreachable => "SERVER_UNREACHABLE",
        ServerRequired => "SERVER_REQUIRED",
        ContextUnknown => "CONTEXT_UNKNOWN",
        ConfirmationRequired => "CONFIRMATION_REQUIRED",
        FilterInvalid => "FILTER_INVALID",
        NodeUnknown => "NODE_UNKNOWN",
        KeyUnknown => "KEY_UNKNOWN",
        NothingToAnswer => "NOTHING_TO_ANSWER",
    }
}

/// The result of a command that ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitStatus {
    /// Exit code 0.
    Success,
    /// Exit code 1: invalid, blocked, damaged, not shown.
    Negative,
}

impl From<ExitStatus> for ExitCode {
    fn from(answer: ExitStatus) -> Self {
        match answer {
            ExitStatus::Success => Self::SUCCESS,
            ExitStatus::Negative => Self::from(1),
        }
    }
}

impl ExitStatus {
    pub(crate) const fn success_if(condition: bool) -> Self {
        if condition { Self::Success } else { Self::Negative }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reporting {
    /// As a JSON document on standard output.
    Json,
    /// As text on standard error.
    Words,
    Both,
}

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
    /// A refusal with an error code, from a service or the command itself.
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

    pub(crate) fn unwritable(target: Option<&Path>, cause: std::io::Error) -> Self {
        let name = target.map_or_else(|| "the result".to_owned(), |path| path.display().to_string());
        Self::Unwritable { name, cause }
    }

    /// Prints the failure and returns the exit code.
    pub(crate) fn report(&self, reporting: Reporting) -> ExitCode {
        let envelope = self.envelope();
        if matches!(reporting, Reporting::Json | Reporting::Both) {
            // If this cannot be printed either, the exit code still reports the failure.
            let _ = output::json(&envelope, Layout::Compact);
        }
        if matches!(reporting, Reporting::Words | Reporting::Both) {
            let _ = write_words(&envelope);
        }
        ExitCode::from(exit_code(envelope.code()))
    }

    /// The failure for programs.
    pub(crate) fn to_envelope(&self) -> Envelope {
        self.envelope()
    }

    fn envelope(&self) -> Envelope {
        match self {
            Self::Unreadable { name, cause } => {
                Envelope::new(CommandErrorCode::InputUnreadable, format!("{self}: {cause}"))
                    .suggest("Check the path and its permissions, or pass - for standard input.")
                    .retry(Retry::NotRetryable)
                    .detail("source", name.as_str())
            }
            Self::NotJson { name, cause } => cause.envelope().detail("source", name.as_str()),
            Self::Unwritable { cause, .. } => {
                Envelope::new(CommandErrorCode::OutputUnwritable, format!("{self}: {cause}"))
                    .suggest("Check that the disk is not full and that the path is writable.")
                    .retry(Retry::NotRetryable)
            }
            Self::Refused(envelope) => (**envelope).clone(),
        }
    }
}

/// 2 for problems with the call, its input or the machine; 1 for every other refusal, which is a
/// negative result.
fn exit_code(code: &str) -> u8 {
    const CALL_OR_MACHINE: [&str; 29] = [
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
        "DATABASE_UNUSABLE",
        "SERVER_UNREACHABLE",
        "SERVER_REQUIRED",
        "CONTEXT_UNKNOWN",
        "CONFIRMATION_REQUIRED",
        "FILTER_INVALID",
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
    // List all causes if there are several.
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
    fn every_error_code_has_a_page() {
        for code in CommandErrorCode::ALL {
            let page = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/errors/{code}.md"));
            let text =
                std::fs::read_to_string(&page).unwrap_or_else(|_| panic!("{} is missing", page.display()));
            assert!(text.starts_with(&format!("# {}\n", code.as_str())), "{code}");
        }
    }

    #[test]
    fn refusals_exit_with_1_and_failures_with_2() {
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
