//! What the host checked itself, as opposed to what an agent says.
//!
//! A step names commands and asks for citations to be checked ([`EvidenceDemand`]). The host does both before the
//! attempt is judged and hands the result to the engine, which stays pure: it judges what was observed and records it
//! as an artifact of kind [`KIND`] in the same append. A recorded attempt is answered from the log, so nothing runs
//! twice because a call is repeated.

mod citations;

use std::fmt;

use canon::digest::Digest;
use serde::{Deserialize, Serialize};

pub use citations::{Citation, MAX_CITATIONS, cited};

use crate::record::SessionId;
use crate::workflow::compiled::EvidenceDemand;

/// The `kind` of the recorded artifact. Callers cannot send one.
pub const KIND: &str = "wr.verification";
/// What unfinished child runs are called in a blocker.
pub const DELEGATION_REF: &str = "wr.delegation";
/// The longest end of a command's output that is recorded, in bytes.
pub const OUTPUT_TAIL_BYTES: usize = 2048;

/// What the host has to check for an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerificationRequest {
    /// Names of commands, in the author's order.
    pub commands: Vec<String>,
    /// What the attempt cites, each once; at most [`MAX_CITATIONS`].
    pub citations: Vec<Citation>,
    /// How many citations there are beyond that.
    pub excess_citations: usize,
    /// The child runs that the step hands out, each by its place and its workflow.
    pub delegations: Vec<(usize, String)>,
}

impl VerificationRequest {
    /// What a step demands of an attempt with this text.
    pub fn of<'t>(demand: Option<&EvidenceDemand>, texts: impl IntoIterator<Item = &'t str>) -> Self {
        let mut citations =
            if demand.is_some_and(|demand| demand.citations) { cited(texts) } else { Vec::new() };
        let excess_citations = citations.len().saturating_sub(MAX_CITATIONS);
        citations.truncate(MAX_CITATIONS);
        let commands = demand.map(|demand| demand.commands.clone()).unwrap_or_default();
        Self { commands, citations, excess_citations, delegations: Vec::new() }
    }
}

/// What the host found. Recorded as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verification {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<CommandResult>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub citations: Vec<CitationResult>,
    /// How many citations were not checked because there are too many.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub excess_citations: usize,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delegations: Vec<DelegationResult>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Verification {
    /// The artifact that is recorded.
    pub fn artifact(&self) -> serde_json::Value {
        let mut artifact = serde_json::json!(self);
        artifact["kind"] = KIND.into();
        artifact
    }

    /// Reads a recorded artifact; nothing if it is of another kind.
    pub fn from_artifact(artifact: &serde_json::Value) -> Option<Self> {
        (artifact.get("kind")?.as_str()? == KIND).then(|| Self::deserialize(artifact).ok())?
    }

    /// Each check in one line, with whether it passed.
    pub fn lines(&self) -> Vec<(bool, String)> {
        let commands = self.commands.iter().map(|result| (result.outcome.passed(), result.to_string()));
        let citations = self.citations.iter().map(|result| (result.finding.holds(), result.to_string()));
        let excess = (self.excess_citations > 0).then(|| {
            let cited = MAX_CITATIONS + self.excess_citations;
            (false, format!("{cited} places are cited; the limit is {MAX_CITATIONS}"))
        });
        let delegations =
            self.delegations.iter().map(|result| (result.status.is_finished(), result.to_string()));
        commands.chain(citations).chain(excess).chain(delegations).collect()
    }
}

/// What came of one command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandResult {
    /// The name in the workflow and in the settings.
    pub name: String,
    #[serde(flatten)]
    pub outcome: CommandOutcome,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum CommandOutcome {
    /// The host ran it.
    Ran {
        argv: Vec<String>,
        ended: CommandEnd,
        duration_ms: u64,
        /// Of standard output and standard error together, as they were written.
        output_sha256: Digest,
        output_bytes: u64,
        /// The last bytes of the output, without control characters.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        output_tail: String,
    },
    /// The operator's settings have no command of this name.
    NotAllowed,
    /// The run has no workspace that this host may open.
    NoWorkspace,
    /// It could not be started.
    NotStarted { reason: String },
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum CommandEnd {
    Exited {
        code: i32,
    },
    Signalled {
        signal: i32,
    },
    /// It was killed: it took too long.
    TimedOut {
        limit_ms: u64,
    },
    /// It was killed: it wrote too much.
    OutputLimit {
        limit_bytes: u64,
    },
}

impl CommandOutcome {
    pub const fn passed(&self) -> bool {
        matches!(self, Self::Ran { ended: CommandEnd::Exited { code: 0 }, .. })
    }
}

impl fmt::Display for CommandEnd {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited { code } => write!(formatter, "exit code {code}"),
            Self::Signalled { signal } => write!(formatter, "ended by signal {signal}"),
            Self::TimedOut { limit_ms } => {
                write!(formatter, "still running after {}, so it was killed", seconds(*limit_ms))
            }
            Self::OutputLimit { limit_bytes } => {
                write!(formatter, "wrote more than {limit_bytes} bytes, so it was killed")
            }
        }
    }
}

impl fmt::Display for CommandResult {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "command `{}`: ", self.name)?;
        match &self.outcome {
            CommandOutcome::Ran { ended, duration_ms, output_sha256, output_bytes, .. } => write!(
                formatter,
                "{ended} after {}, output {output_bytes} bytes, {output_sha256}",
                seconds(*duration_ms)
            ),
            CommandOutcome::NotAllowed => formatter.write_str("not allowed on this host"),
            CommandOutcome::NoWorkspace => {
                formatter.write_str("not run, because the run has no workspace here")
            }
            CommandOutcome::NotStarted { reason } => write!(formatter, "not started: {reason}"),
        }
    }
}

fn seconds(milliseconds: u64) -> String {
    format!("{}.{} s", milliseconds / 1000, milliseconds % 1000 / 100)
}

/// How one child run stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DelegationResult {
    /// The place of the delegation in its step, from 0.
    pub index: usize,
    pub workflow_id: String,
    pub session_id: SessionId,
    pub status: ChildStatus,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildStatus {
    NotStarted,
    InProgress,
    Blocked,
    Complete,
    CompleteWithGaps,
    /// Its log is damaged.
    Unreadable,
}

impl ChildStatus {
    /// Whether nothing is left to do. A child that ended with gaps discloses them itself.
    pub const fn is_finished(self) -> bool {
        matches!(self, Self::Complete | Self::CompleteWithGaps)
    }
}

impl fmt::Display for ChildStatus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::NotStarted => "not started",
            Self::InProgress => "in progress",
            Self::Blocked => "blocked",
            Self::Complete => "complete",
            Self::CompleteWithGaps => "complete with gaps",
            Self::Unreadable => "unreadable",
        })
    }
}

impl fmt::Display for DelegationResult {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { index, workflow_id, session_id, status } = self;
        write!(formatter, "delegated run {} (`{workflow_id}`, {session_id}): {status}", index + 1)
    }
}

/// What came of one citation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CitationResult {
    #[serde(flatten)]
    pub citation: Citation,
    #[serde(flatten)]
    pub finding: CitationFinding,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "finding", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum CitationFinding {
    Exists,
    /// There is no such file, commit or branch.
    Missing,
    /// The file is shorter.
    NoSuchLine {
        lines: u64,
    },
    /// The path, or a link on it, leads out of the workspace.
    Outside,
    /// The file is not a regular file, or too large to be read.
    Unreadable,
    /// The run has no workspace that this host may open.
    NoWorkspace,
}

impl CitationFinding {
    pub const fn holds(&self) -> bool {
        matches!(self, Self::Exists)
    }
}

impl fmt::Display for CitationResult {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ", self.citation)?;
        match &self.finding {
            CitationFinding::Exists => formatter.write_str("exists"),
            CitationFinding::Missing => formatter.write_str("does not exist"),
            CitationFinding::NoSuchLine { lines } => {
                write!(formatter, "does not exist: the file has {lines} lines")
            }
            CitationFinding::Outside => formatter.write_str("is outside the workspace"),
            CitationFinding::Unreadable => {
                formatter.write_str("cannot be checked: it is not a regular file of at most 16 MiB")
            }
            CitationFinding::NoWorkspace => {
                formatter.write_str("cannot be checked: the run has no workspace here")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_recorded_is_read_back() {
        let verification = Verification {
            commands: vec![
                CommandResult {
                    name: "tests".to_owned(),
                    outcome: CommandOutcome::Ran {
                        argv: vec!["cargo".to_owned(), "test".to_owned()],
                        ended: CommandEnd::Exited { code: 101 },
                        duration_ms: 1234,
                        output_sha256: Digest::of_bytes(b"no\n"),
                        output_bytes: 3,
                        output_tail: "no\n".to_owned(),
                    },
                },
                CommandResult { name: "lint".to_owned(), outcome: CommandOutcome::NotAllowed },
            ],
            citations: vec![CitationResult {
                citation: Citation::Commit { prefix: "abcdef1".to_owned() },
                finding: CitationFinding::Missing,
            }],
            excess_citations: 2,
            delegations: Vec::new(),
        };
        let artifact = verification.artifact();
        assert_eq!(artifact["kind"], KIND);
        assert_eq!(artifact["commands"][0]["ended"], json!({"kind": "exited", "code": 101}));
        assert_eq!(Verification::from_artifact(&artifact).as_ref(), Some(&verification));
        assert_eq!(Verification::from_artifact(&json!({"kind": "wr.notes"})), None);
        let lines = verification.lines();
        assert!(lines.iter().all(|(passed, _)| !passed));
        assert!(
            lines[0].1.starts_with("command `tests`: exit code 101 after 1.2 s, output 3 bytes, sha256:")
        );
        assert_eq!(lines[1].1, "command `lint`: not allowed on this host");
        assert_eq!(lines[2].1, "commit `abcdef1` does not exist");
        assert_eq!(
            lines[3].1,
            format!("{} places are cited; the limit is {MAX_CITATIONS}", MAX_CITATIONS + 2)
        );
    }
}
