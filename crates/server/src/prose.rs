//! Replies as text, for a model.
//!
//! The first line of every reply about a run identifies the run, so that two runs in one conversation are not
//! confused. Then comes the text of the workflow's author, and after a rule the text of the program: above
//! all the exact next call.

mod catalogue;
mod step;

use guide::render::one_line;

use crate::call::Outcome;

/// The result of a call as text.
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
