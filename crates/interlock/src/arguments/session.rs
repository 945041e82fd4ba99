//! Arguments of `session`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand, ValueEnum};

use super::OutputFormat;

/// Inspect, verify, move and delete guided sessions.
///
/// A session can be named by any unique prefix of its id, with or without `sess_`.
#[derive(Debug, Args)]
pub(crate) struct Session {
    #[command(subcommand)]
    pub(crate) command: SessionCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    List(SessionList),
    Show(SessionShow),
    Tail(SessionTail),
    Verify(SessionVerify),
    Export(SessionExport),
    Import(SessionImport),
    Gc(SessionGc),
    Keep(SessionKeep),
    Graph(SessionGraph),
}

impl SessionCommand {
    pub(crate) const fn answering(&self) -> OutputFormat {
        match self {
            Self::List(arguments) => arguments.answering,
            Self::Show(arguments) => arguments.answering,
            Self::Tail(arguments) => arguments.answering,
            Self::Verify(arguments) => arguments.answering,
            Self::Export(arguments) => arguments.answering,
            Self::Import(arguments) => arguments.answering,
            Self::Gc(arguments) => arguments.answering,
            Self::Keep(arguments) => arguments.answering,
            Self::Graph(arguments) => arguments.answering,
        }
    }
}

/// List the sessions, most recently active first.
///
/// Damaged sessions are listed with their health and their valid part.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  The 50 most recent:
    interlock session list

  All sessions as JSON:
    interlock session list --all --json")]
pub(crate) struct SessionList {
    /// List all sessions instead of the 50 most recent.
    #[arg(long)]
    pub(crate) all: bool,

    #[command(flatten)]
    pub(crate) answering: OutputFormat,
}

/// Show a session turn by turn: steps, notes, artifacts, blockers, gaps, checkpoints, forks.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Show a session:
    interlock session show sess_h4x

  Show everything, with complete notes:
    interlock session show sess_h4x --limit 100000 --full

  As JSON:
    interlock session show sess_h4x --json")]
pub(crate) struct SessionShow {
    /// The session id, or a unique prefix.
    #[arg(value_name = "ID")]
    pub(crate) id: String,

    /// How many of the latest turns of each run to show.
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub(crate) limit: usize,

    /// Show complete notes instead of their first lines. JSON always contains them completely.
    #[arg(long)]
    pub(crate) full: bool,

    #[command(flatten)]
    pub(crate) answering: OutputFormat,
}

/// Follow a session: print each new event on one line when it is recorded.
///
/// Press Ctrl-C to stop. With --json, each line is a JSON document.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Watch an agent work:
    interlock session tail sess_h4x

  Wait until the run is complete:
    interlock session tail sess_h4x --until-complete && ./next.sh

  All events from the first, as JSON lines:
    interlock session tail sess_h4x --lines 100000000 --json")]
pub(crate) struct SessionTail {
    /// The session id, or a unique prefix.
    #[arg(value_name = "ID")]
    pub(crate) id: String,

    /// How many existing events to print first.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    pub(crate) lines: usize,

    /// Exit when every run of the session is complete.
    #[arg(long)]
    pub(crate) until_complete: bool,

    #[command(flatten)]
    pub(crate) answering: OutputFormat,
}

/// Verify that sessions and their data are not damaged and were not edited.
///
/// The chain of a session authenticates its log with the integrity key of the data directory. A
/// session last written by a version without chains has no chain; this is reported but is not an
/// error, and its next step starts one.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Verify all sessions:
    interlock session verify

  Verify one session and print JSON:
    interlock session verify sess_h4x --json

  Check that the step of this token is still in the log:
    interlock session verify --token ct_AbC...

Exit codes:
  0  all sessions are valid
  1  at least one is damaged or edited, or a token names a step that is missing; the file and the reason are printed
  2  the data directory could not be read")]
pub(crate) struct SessionVerify {
    /// Session ids or unique prefixes. Default: all sessions.
    #[arg(value_name = "ID")]
    pub(crate) ids: Vec<String>,

    /// All sessions (the default).
    #[arg(long, conflicts_with = "ids")]
    pub(crate) all: bool,

    /// Fail also for sessions whose chain is missing or starts after their first event.
    #[arg(long)]
    pub(crate) require_chain: bool,

    /// A token from an earlier reply, whose step must still be in the log; may be repeated. Without
    /// session ids, only the sessions of the tokens are verified.
    #[arg(long, value_name = "TOKEN", conflicts_with = "all")]
    pub(crate) token: Vec<String>,

    #[command(flatten)]
    pub(crate) answering: OutputFormat,
}

/// Export a session to a file that can be imported and continued on another machine.
///
/// The bundle contains the events and all referenced data with their digests, but no tokens and no
/// keys. It is written atomically and only its owner can read it.
///
/// A damaged session cannot be exported without --salvage.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Export a session:
    interlock session export sess_h4x -o session.json

  Copy it directly to another data directory:
    interlock session export sess_h4x -o - | interlock session import - --data-dir /srv/interlock

  Export the valid part of a damaged session:
    interlock session export sess_h4x -o part.json --salvage

  Sign it with a key from `interlock pack sign --new-key team.pem`:
    interlock session export sess_h4x -o session.json --sign team.pem")]
pub(crate) struct SessionExport {
    /// The session id, or a unique prefix.
    #[arg(value_name = "ID")]
    pub(crate) id: String,

    /// The file to write; `-` is standard output.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,

    /// Overwrite an existing file.
    #[arg(long)]
    pub(crate) force: bool,

    /// Sign the file with this Ed25519 key (PKCS #8, PEM). The signature is written to FILE.sig.
    #[arg(long, value_name = "KEY")]
    pub(crate) sign: Option<PathBuf>,

    /// Export the valid part of a damaged session. The bundle is marked as partial.
    #[arg(long)]
    pub(crate) salvage: bool,

    #[command(flatten)]
    pub(crate) answering: OutputFormat,
}

/// Import an exported session and print its id.
///
/// The session keeps its id, unless that id exists; then it gets a new one. Sessions are never
/// merged, and a damaged file is rejected as a whole. A salvaged session always gets a new id; it
/// can be continued and is marked as partial.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Import a session:
    interlock session import session.json

  Import it as a copy:
    interlock session import session.json --as-new

  Import it only if this key signed it:
    interlock session import session.json --trusted-key team.pem.pub")]
pub(crate) struct SessionImport {
    /// The file; `-` is standard input.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Always assign a new id.
    #[arg(long)]
    pub(crate) as_new: bool,

    /// Import the file only if it is signed with this public key (PEM); may be repeated, one match is
    /// enough.
    #[arg(long, value_name = "KEY")]
    pub(crate) trusted_key: Vec<PathBuf>,

    /// The signature file. Default: FILE.sig.
    #[arg(long, value_name = "SIGNATURE", requires = "trusted_key")]
    pub(crate) signature: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) answering: OutputFormat,
}

/// Delete inactive sessions and the data that only they reference.
///
/// If any session cannot be validated, nothing is deleted and the reason is printed (exit 1),
/// because the damaged session may reference data that looks unused. Sessions of unfinished runs
/// are never deleted.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Show what would be deleted:
    interlock session gc --dry-run

  Delete sessions inactive for 30 days, except one that is kept permanently:
    interlock session gc --older-than 30d --keep sess_h4x")]
pub(crate) struct SessionGc {
    /// Minimum inactivity: a number with s, m, h, d or w.
    #[arg(long, value_name = "AGE", default_value = "60d")]
    pub(crate) older_than: DurationArgument,

    /// Show what would be deleted, without deleting it.
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Mark this session first, as `session keep` does; may be repeated. With --dry-run nothing is
    /// marked, and the object counts ignore the mark.
    #[arg(long, value_name = "ID")]
    pub(crate) keep: Vec<String>,

    #[command(flatten)]
    pub(crate) answering: OutputFormat,
}

/// Mark a session so that `session gc` never deletes it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Mark a session:
    interlock session keep sess_h4x

  Remove the mark:
    interlock session keep sess_h4x --off")]
pub(crate) struct SessionKeep {
    /// The session id, or a unique prefix.
    #[arg(value_name = "ID")]
    pub(crate) id: String,

    /// Remove the mark.
    #[arg(long)]
    pub(crate) off: bool,

    #[command(flatten)]
    pub(crate) answering: OutputFormat,
}

/// Draw a run as a graph: steps, forks, blocked attempts, checkpoints, and the current node.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  As SVG:
    interlock session graph sess_h4x -o run.svg

  As Mermaid, for Markdown:
    interlock session graph sess_h4x --format mermaid")]
pub(crate) struct SessionGraph {
    /// The session id, or a unique prefix.
    #[arg(value_name = "ID")]
    pub(crate) id: String,

    /// The format. Default: from the file name, or svg.
    #[arg(long, value_enum)]
    pub(crate) format: Option<GraphFormat>,

    /// The run id, or a unique prefix. Default: the first run.
    #[arg(long, value_name = "RUN")]
    pub(crate) run: Option<String>,

    /// The file to write. Default: standard output.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Overwrite an existing file.
    #[arg(long)]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) answering: OutputFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GraphFormat {
    /// An image.
    Svg,
    /// Mermaid text, which Markdown renderers draw.
    Mermaid,
}

/// A duration as typed on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DurationArgument {
    pub(crate) ms: u64,
}

impl FromStr for DurationArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wanted = || "expected a number with s, m, h, d or w, such as 60d".to_owned();
        let unit = text.chars().last().ok_or_else(wanted)?;
        let seconds: u64 = match unit {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86_400,
            'w' => 604_800,
            _ => return Err(wanted()),
        };
        let number: u64 = text[..text.len() - 1].parse().map_err(|_| wanted())?;
        let ms = number.checked_mul(seconds * 1000).ok_or_else(|| "the duration is too long".to_owned())?;
        Ok(Self { ms })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit() {
        for (text, expected) in [
            ("0s", Some(0)),
            ("90m", Some(5_400_000)),
            ("60d", Some(5_184_000_000)),
            ("2w", Some(1_209_600_000)),
            ("", None),
            ("60", None),
            ("d", None),
            ("-1d", None),
            ("1.5d", None),
            ("3é", None),
            ("99999999999999999999d", None),
            ("18446744073709551615w", None),
        ] {
            assert_eq!(text.parse::<DurationArgument>().ok().map(|age| age.ms), expected, "{text:?}");
        }
    }
}
