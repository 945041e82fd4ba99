//! What happens when a command cannot answer.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use canon::error::{Envelope, Retry};
use canon::json::ReadError;

use crate::output::{self, Layout};

canon::error_codes! {
    /// What the command line itself can run into.
    pub(crate) enum CommandErrorCode {
        /// A file or standard input could not be read.
        InputUnreadable => "INPUT_UNREADABLE",
        /// Standard output could not be written.
        OutputUnwritable => "OUTPUT_UNWRITABLE",
    }
}

/// The answer of a command that could be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Exit code 0.
    Yes,
    /// Exit code 1: invalid, blocked, not shown.
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

/// Why a command could not be carried out. Always exit code 2.
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
    #[error("cannot write the result")]
    Unwritable {
        #[source]
        cause: std::io::Error,
    },
}

impl Failure {
    pub(crate) fn unreadable(source: Option<&Path>, cause: std::io::Error) -> Self {
        Self::Unreadable { name: name_of(source), cause }
    }

    pub(crate) fn not_json(source: Option<&Path>, cause: ReadError) -> Self {
        Self::NotJson { name: name_of(source), cause: Box::new(cause) }
    }

    /// Shows the failure and gives the exit code.
    pub(crate) fn report(&self, reporting: Reporting) -> ExitCode {
        const FAILED: u8 = 2;
        let envelope = self.envelope();
        if matches!(reporting, Reporting::Json | Reporting::Both) {
            // When this cannot be written either, the exit code still tells.
            let _ = output::json(&envelope, Layout::Compact);
        }
        if matches!(reporting, Reporting::Words | Reporting::Both) {
            let _ = write_words(&envelope);
        }
        ExitCode::from(FAILED)
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
            Self::Unwritable { cause } => {
                Envelope::new(CommandErrorCode::OutputUnwritable, format!("{self}: {cause}"))
                    .suggest("Check that there is room on the disk that standard output goes to.")
                    .retry(Retry::NotRetryable)
            }
        }
    }
}

fn name_of(source: Option<&Path>) -> String {
    source.map_or_else(|| "standard input".to_owned(), |path| path.display().to_string())
}

fn write_words(envelope: &Envelope) -> std::io::Result<()> {
    const CODE: Style = AnsiColor::Red.on_default().bold();
    const HELP: Style = AnsiColor::Cyan.on_default().bold();
    let mut stderr = anstream::stderr().lock();
    write!(stderr, "{CODE}error[{}]{CODE:#}: {}", envelope.code(), envelope.message())?;
    if let Some(source) = envelope.details().get("source").and_then(|source| source.as_str())
        && !envelope.message().contains(source)
    {
        write!(stderr, " (in {source})")?;
    }
    writeln!(stderr)?;
    if !envelope.suggestion().is_empty() {
        writeln!(stderr, "  {HELP}help{HELP:#}: {}", envelope.suggestion())?;
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
}
