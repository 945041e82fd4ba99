//! Evidence that the host verified itself, as opposed to claims of an agent.
//!
//! A step can name commands to run and request that citations are checked ([`EvidenceDemand`]). The host does
//! both before the attempt is evaluated and passes the result to the engine, which stays pure: the engine
//! evaluates the result and records it as an artifact of kind [`KIND`] in the same append. A recorded attempt
//! is answered from the log, so a repeated call runs nothing again.

mod citations;

use std::fmt;

use canon::digest::Digest;
use serde::{Deserialize, Serialize};

pub use citations::{Citation, MAX_CITATIONS, cited};

use crate::record::SessionId;
use crate::workflow::compiled::EvidenceDemand;

/// The `kind` of the recorded artifact. Callers cannot send artifacts of this kind.
pub const KIND: &str = "wr.verification";
/// The contract reference of unfinished child sessions in a blocker.
pub const DELEGATION_REF: &str = "wr.delegation";
/// The maximum number of bytes recorded from the end of a command's output.
pub const OUTPUT_TAIL_BYTES: usize = 2048;

/// What the host must verify for an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerificationRequest {
    /// Names of commands, in the author's order.
    pub commands: Vec<String>,
    /// The citations in the attempt, without duplicates; at most [`MAX_CITATIONS`].
    pub citations: Vec<Citation>,
    /// The number of citations beyond the limit.
    pub excess_citations: usize,
    /// The child sessions that the step delegates to: index and workflow.
    pub delegations: Vec<(usize, String)>,
}

impl VerificationRequest {
    /// What a step demands for an attempt with these texts.
    pub fn of<'t>(demand: Option<&EvidenceDemand>, texts: impl IntoIterator<Item = &'t str>) -> Self {
        let mut citations =
            if demand.is_some_and(|demand| demand.citations) { cited(texts) } else { Vec::new() };
        let excess_citations = citations.len().saturating_sub(MAX_CITATIONS);
        citations.truncate(MAX_CITATIONS);
        let commands = demand.map(|demand| demand.commands.clone()).unwrap_or_default();
        Self { commands, citations, excess_citations, delegations: Vec::new() }
    }
}

/// The result of the verification, as it is recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verification {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<CommandResult>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub citations: Vec<CitationResult>,
    /// The number of citations that were not checked because of the limit.
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

    /// Reads a recorded artifact; `None` if it has a different kind.
    pub fn from_artifact(artifact: &serde_json::Value) -> Option<Self> {
        (artifact.get("kind")?.as_str()? == KIND).then(|| Self::deserialize(artifact).ok())?
    }

    /// One line per check, with whether it passed.
    pub fn lines(&self) -> Vec<(bool, String)> {
        let commands = self.commands.iter().map(|result| (result.outcome.passed(), result.to_string()));
        let citations = self.citations.iter().map(|result| (result.finding.holds(), result.to_string()));
        let excess = (self.excess_citations > 0).then(|| {
            let cited = MAX_CITATIONS + self.excess_citations;
            (false, format!("{cited} citations; the limit is {MAX_CITATIONS}"))
        });
        let delegations =
            self.delegations.iter().map(|result| (result.status.is_finished(), result.to_string()));
        commands.chain(citations).chain(excess).chain(delegations).collect()
    }
}

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
        /// The number of bytes of standard output and standard error together, before truncation.
        output_sha256: Digest,
        output_bytes: u64,
        /// The last bytes of the output, without control characters.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        output_tail: String,
    },
    /// The operator's settings do not contain a command of this name.
    NotAllowed,
    /// The session has no workspace that this host may open.
    NoWorkspace,
    /// The process could not be started.
    NotStarted { reason: String },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum CommandEnd {
    Exited {
        code: i32,
    },
    Signalled {
        signal: i32,
    },
    /// Killed after the time limit.
    TimedOut {
        limit_ms: u64,
    },
    /// Killed because its output exceeded the limit.
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
                write!(formatter, "killed: still running after {}", seconds(*limit_ms))
            }
            Self::OutputLimit { limit_bytes } => {
                write!(formatter, "killed: wrote more than {limit_bytes} bytes")
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
                formatter.write_str("not run, because the session has no workspace on this host")
            }
            CommandOutcome::NotStarted { reason } => write!(formatter, "not started: {reason}"),
        }
    }
}

fn seconds(milliseconds: u64) -> String {
    format!("{}.{} s", milliseconds / 1000, milliseconds % 1000 / 100)
}

/// The status of one child session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DelegationResult {
    /// The zero-based index of the delegation in its step.
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
    /// Whether the child is complete. A child with gaps discloses them itself.
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

/// The result of checking one citation.
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
    /// The file, commit or branch does not exist.
    Missing,
    /// The file has fewer lines.
    NoSuchLine {
        lines: u64,
    },
    /// The path, or a link in it, leads out of the workspace.
    Outside,
    /// The file is not a regular file, or is too large.
    Unreadable,
    /// The session has no workspace that this host may open.
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
                formatter.write_str("cannot be checked: the session has no workspace on this host")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn recorded_verifications_are_read_back() {
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
        assert_eq!(lines[3].1, format!("{} citations; the limit is {MAX_CITATIONS}", MAX_CITATIONS + 2));
    }
}
