//! The order of resume candidates.

use std::cmp::Reverse;

use super::candidate::{Candidate, MatchReason};
use super::input::RankingInput;
use super::query::{ResumeQuery, WHOLE, Words};

/// The minimum share that counts as a match.
const PARTIAL: u64 = WHOLE * 4 / 10;

/// All eligible runs, the best match first.
#[derive(Debug)]
pub struct Ranking<'i> {
    /// The runs in order. It contains all of them, so that the caller can use the next one if a session turns
    /// out to be damaged.
    pub ranked: Vec<Ranked<'i>>,
    words: Words,
}

/// One ranked run.
#[derive(Clone, Debug)]
pub struct Ranked<'i> {
    pub input: &'i RankingInput,
    /// The strongest reason, which is its tier.
    pub reason: MatchReason,
    reasons: u16,
    score: u64,
    share: u64,
}

/// Ranks `inputs` by how well they match `query`. O(total text + n log n).
pub fn rank<'i>(inputs: impl IntoIterator<Item = &'i RankingInput>, query: &ResumeQuery) -> Ranking<'i> {
    let words = Words::new(query);
    let mut ranked: Vec<Ranked<'i>> =
        inputs.into_iter().filter_map(|input| consider(input, query, &words)).collect();
    ranked.sort_unstable_by(|left, right| left.key().cmp(&right.key()));
    Ranking { ranked, words }
}

impl Ranking<'_> {
    /// The number of eligible runs.
    pub const fn total_eligible(&self) -> usize {
        self.ranked.len()
    }

    /// The candidate of a ranked run, with a preview from the index.
    pub fn candidate(&self, ranked: &Ranked<'_>) -> Candidate {
        Candidate::new(ranked.input, ranked.reasons(), &self.words)
    }
}

impl Ranked<'_> {
    /// All reasons that hold, the strongest first.
    pub fn reasons(&self) -> Vec<MatchReason> {
        MatchReason::ALL.iter().copied().filter(|reason| self.reasons & reason.bit() != 0).collect()
    }

    fn key(&self) -> impl Ord + '_ {
        (
            self.reason,
            self.reasons & MatchReason::RepoRoot.bit() == 0,
            self.input.is_complete,
            Reverse(self.score),
            Reverse(self.share),
            Reverse(self.input.last_activity_index),
            &self.input.session_id,
            &self.input.run_id,
        )
    }
}

fn consider<'i>(input: &'i RankingInput, query: &ResumeQuery, words: &Words) -> Option<Ranked<'i>> {
    let same_repository =
        matches!((&query.repo_root_hash, &input.repo_root_hash), (Some(left), Some(right)) if left == right);
    if query.same_workspace_only && !same_repository {
        return None;
    }
    let text = words.compare(&input.text_tokens);
    let workflow = words.compare(&input.workflow_tokens);
    let branch = words.compare(&input.branch_tokens);
    let equal_commit = matches!(
        (&query.git_head_sha, &input.git_head_sha),
        (Some(left), Some(right)) if left.eq_ignore_ascii_case(right)
    );
    let alike_branch = matches!(
        (&query.git_branch, &input.git_branch),
        (Some(left), Some(right))
            if !left.is_empty() && !right.is_empty() && (left.starts_with(right.as_str()) || right.starts_with(left.as_str()))
    );
    let holds = [
        (
            MatchReason::ExactId,
            query.run_id.as_ref() == Some(&input.run_id)
                || query.session_id.as_ref() == Some(&input.session_id),
        ),
        (MatchReason::Notes, text.whole),
        (MatchReason::NotesPartial, !text.whole && text.share >= PARTIAL),
        (MatchReason::WorkflowId, workflow.whole || workflow.share >= PARTIAL),
        (MatchReason::HeadSha, equal_commit),
        (MatchReason::Branch, alike_branch),
    ];
    let reason = holds.iter().find(|(_, holds)| *holds).map_or(MatchReason::Recency, |(reason, _)| *reason);
    let mut reasons = reason.bit();
    for (reason, _) in holds.iter().filter(|(_, holds)| *holds) {
        reasons |= reason.bit();
    }
    if same_repository {
        reasons |= MatchReason::RepoRoot.bit();
    }
    let best = text.share.max(workflow.share * 3 / 4).max(branch.share / 2);
    let score = best + if same_repository { WHOLE / 5 } else { 0 };
    Some(Ranked { input, reason, reasons, score, share: text.share })
}
