//! Replies as text, for a model.
//!
//! The first line of every reply about a run identifies the run, so that two runs in one conversation are not
//! confused. Then comes the text of the workflow's author, and after a rule the text of the program: above
//! all the exact next call.

mod catalogue;
mod step;

use guide::render::one_line;

use crate::call::ToolOutcome;

/// The result of a call as text.
pub fn render(outcome: &ToolOutcome) -> String {
    let mut text = match outcome {
        ToolOutcome::Listing(shown) => catalogue::listing(shown),
        ToolOutcome::Inspection { found, mode } => catalogue::inspection(found, *mode),
        ToolOutcome::Started(reply) | ToolOutcome::Continued(reply) => step::reply(reply),
        ToolOutcome::Checkpoint(reply) => step::checkpoint(reply),
        ToolOutcome::Resume(reply) => step::resume(reply),
        ToolOutcome::Source { action, path } => catalogue::source(*action, path),
    };
    let length = text.trim_end().len();
    text.truncate(length);
    text.push('\n');
    text
}
