//! What can be typed after `session`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand, ValueEnum};

use super::Answering;

/// Guided sessions: what happened in them, whether they are sound, and moving them.
///
/// A session may be named by any beginning of its id that no other session has, with or without `sess_`.
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
    pub(crate) const fn answering(&self) -> Answering {
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

/// List the sessions, the last active first.
///
/// A session that is damaged is listed too, with what could be validated of it and its health.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  The last 50:
    interlock session list

  All of them, for a script:
    interlock session list --all --json")]
pub(crate) struct SessionList {
    /// All sessions, and not only the 50 that were active last.
    #[arg(long)]
    pub(crate) all: bool,

    #[command(flatten)]
    pub(crate) answering: Answering,
}

/// Replay a session turn by turn: steps, notes, artifacts, blocks, gaps, checkpoints, forks.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  What happened?
    interlock session show sess_h4x

  All of it, with the notes uncut:
    interlock session show sess_h4x --limit 100000 --full

  For a program:
    interlock session show sess_h4x --json")]
pub(crate) struct SessionShow {
    /// The session, or the beginning of its id.
    #[arg(value_name = "ID")]
    pub(crate) id: String,

    /// How many turns of each run are shown; of longer runs the last ones.
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub(crate) limit: usize,

    /// Show notes whole, and not only their first lines. JSON has them whole in any case.
    #[arg(long)]
    pub(crate) full: bool,

    #[command(flatten)]
    pub(crate) answering: Answering,
}

/// Follow a session: each new event is printed as one line, as it is recorded.
///
/// Ctrl-C ends it. With --json each line is a JSON document.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Watch an agent work:
    interlock session tail sess_h4x

  Wait until the run is complete, then go on:
    interlock session tail sess_h4x --until-complete && ./next.sh

  Every event from the first one on, as JSON lines:
    interlock session tail sess_h4x --lines 100000000 --json")]
pub(crate) struct SessionTail {
    /// The session, or the beginning of its id.
    #[arg(value_name = "ID")]
    pub(crate) id: String,

    /// How many of the events that are there already are printed first.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    pub(crate) lines: usize,

    /// End when every run of the session is complete.
    #[arg(long)]
    pub(crate) until_complete: bool,

    #[command(flatten)]
    pub(crate) answering: Answering,
}

/// Check every byte of sessions, and of everything they refer to.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Everything:
    interlock session verify

  One session, with the reason for a program:
    interlock session verify sess_h4x --json

Exit codes:
  0  all of them are sound
  1  at least one is not; the reason and the file are named
  2  the data directory could not be read")]
pub(crate) struct SessionVerify {
    /// The sessions, or the beginnings of their ids; all without.
    #[arg(value_name = "ID")]
    pub(crate) ids: Vec<String>,

    /// All sessions, said aloud.
    #[arg(long, conflicts_with = "ids")]
    pub(crate) all: bool,

    #[command(flatten)]
    pub(crate) answering: Answering,
}

/// Write a session to a file that another machine can go on from.
///
/// The bundle holds the events and everything they refer to, attested by digests. It holds no
/// tokens and no keys. The file is written whole or not at all, readable by its owner only.
///
/// A session that is damaged is refused, unless its sound part is asked for.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Hand a session over:
    interlock session export sess_h4x -o session.json

  Straight to another data directory:
    interlock session export sess_h4x -o - | interlock session import - --data-dir /srv/interlock

  What is left of a damaged session:
    interlock session export sess_h4x -o part.json --salvage")]
pub(crate) struct SessionExport {
    /// The session, or the beginning of its id.
    #[arg(value_name = "ID")]
    pub(crate) id: String,

    /// The file to write; `-` is standard output.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,

    /// Replace the file if it exists.
    #[arg(long)]
    pub(crate) force: bool,

    /// Of a damaged session, export the beginning that is sound. The bundle says that it is a part.
    #[arg(long)]
    pub(crate) salvage: bool,

    #[command(flatten)]
    pub(crate) answering: Answering,
}

/// Bring in a session that was exported, and print its id.
///
/// It keeps its id, unless there is a session of that id already; then it becomes a new one. Nothing
/// is ever merged, and a file that is damaged is refused whole. The salvaged part of a session always
/// becomes a new one, which can be gone on with and says what it is.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Take over a session:
    interlock session import session.json

  Make a copy to try something on:
    interlock session import session.json --as-new")]
pub(crate) struct SessionImport {
    /// The file; `-` is standard input.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Make it a new session even if its id is free.
    #[arg(long)]
    pub(crate) as_new: bool,

    #[command(flatten)]
    pub(crate) answering: Answering,
}

/// Delete sessions that were not active for long, and what only they needed.
///
/// If anything at all cannot be validated, nothing is deleted and the reason is given (exit 1): a
/// session that cannot be read may need what looks unneeded. A session that a run under way asked for stays, however
/// old it is.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  What would go?
    interlock session gc --dry-run

  Keep a month, and this one for good:
    interlock session gc --older-than 30d --keep sess_h4x")]
pub(crate) struct SessionGc {
    /// How long after its last activity a session goes: a number and s, m, h, d or w.
    #[arg(long, value_name = "AGE", default_value = "60d")]
    pub(crate) older_than: Age,

    /// Only say what would be deleted.
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Mark this session first, as `session keep` does; may be given several times. With --dry-run
    /// nothing is marked, and the numbers of objects are those without the mark.
    #[arg(long, value_name = "ID")]
    pub(crate) keep: Vec<String>,

    #[command(flatten)]
    pub(crate) answering: Answering,
}

/// Mark a session, so that `session gc` never deletes it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Keep it:
    interlock session keep sess_h4x

  Let it go when its time comes:
    interlock session keep sess_h4x --off")]
pub(crate) struct SessionKeep {
    /// The session, or the beginning of its id.
    #[arg(value_name = "ID")]
    pub(crate) id: String,

    /// Take the mark away.
    #[arg(long)]
    pub(crate) off: bool,

    #[command(flatten)]
    pub(crate) answering: Answering,
}

/// Draw a run: steps, forks, blocks, checkpoints, and where it would go on.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  A picture:
    interlock session graph sess_h4x -o run.svg

  For a Markdown document:
    interlock session graph sess_h4x --format mermaid")]
pub(crate) struct SessionGraph {
    /// The session, or the beginning of its id.
    #[arg(value_name = "ID")]
    pub(crate) id: String,

    /// The format; without it the one of the file's name, or svg.
    #[arg(long, value_enum)]
    pub(crate) format: Option<GraphFormat>,

    /// The run, or the beginning of its id; the first one without.
    #[arg(long, value_name = "RUN")]
    pub(crate) run: Option<String>,

    /// The file to write; standard output without.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Replace the file if it exists.
    #[arg(long)]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) answering: Answering,
}

/// How a graph is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GraphFormat {
    /// A picture.
    Svg,
    /// A text that Markdown renderers draw.
    Mermaid,
}

/// A stretch of time, as it is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Age {
    /// In milliseconds.
    pub(crate) ms: u64,
}

impl FromStr for Age {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wanted = || "write a number and s, m, h, d or w, such as 60d".to_owned();
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
        let ms = number.checked_mul(seconds * 1000).ok_or_else(|| "that is longer than time".to_owned())?;
        Ok(Self { ms })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_numbers_with_a_unit() {
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
            assert_eq!(text.parse::<Age>().ok().map(|age| age.ms), expected, "{text:?}");
        }
    }
}
