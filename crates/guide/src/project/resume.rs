//! Ranks the sessions that a caller may want to resume from a new chat.
//!
//! Ranking reads small [`RankingInput`]s, never logs: an index keeps one per run, so ten thousand sessions
//! take milliseconds. It uses strict tiers instead of one score, and integers only. Every tie is broken, so
//! the same store and the same query produce the same order.
//!
//! | Tier | Reason | Rule |
//! |---|---|---|
//! | 0 | `matched_exact_id` | the run or session id is equal |
//! | 1 | `matched_notes` | every query token is among those of title and notes |
//! | 2 | `matched_notes_partial` | a weighted share of at least 0.4 is |
//! | 3 | `matched_workflow_id` | either of these, over the workflow's id and name |
//! | 4 | `matched_head_sha` | the commit is equal |
//! | 5 | `matched_branch` | the branch is equal, or one is a prefix of the other |
//! | 6 | `recency_fallback` | no other reason |
//!
//! Order within a tier: same repository, unfinished, query score, share of the notes, last activity, session
//! id, run id.

mod candidate;
mod input;
mod query;
mod rank;
mod snippet;
mod tokens;

pub use candidate::{Candidate, MatchConfidence, MatchReason};
pub use input::{RankingInput, ranking_input};
pub use query::{QUERY_CHARACTERS, ResumeQuery};
pub use rank::{Ranked, Ranking, rank};
pub use snippet::snippet;
pub use tokens::{TOKEN_BYTES, TokenText, TokenTextError};

#[cfg(test)]
mod tests;
