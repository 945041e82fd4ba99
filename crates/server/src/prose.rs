//! Replies in words, for a model.
//!
//! The first line of every reply about a run says which run it is, so that two runs in one
//! conversation cannot be taken for each other. Then comes what the author of the workflow wrote,
//! and after a rule what the program itself has to say: above all the exact next call.

mod catalogue;
mod step;

use guide::render::one_line;

use crate::call::Outcome;

/// The outcome of a call in words.
pub fn of(outcome: &Outcome) -> String {
    let mut text = match outcome {
        Outcome::Listing(shown) => catalogue::listing(shown),
        Outcome::Inspection { found, mode } => catalogue::inspection(found, *mode),
        Outcome::Started(reply) | Outcome::Continued(reply) => step::reply(reply),
        Outcome::Checkpoint(reply) => step::checkpoint(reply),
        Outcome::Resume(reply) => step::resume(reply),
        Outcome::Source { action, path } => catalogue::source(*action, path),
    };
    let length = text.trim_end().len();
    text.truncate(length);
    text.push('\n');
    text
}
