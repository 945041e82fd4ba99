//! Which runs one connection has seen and not finished.
//!
//! An agent with two runs in one conversation mixes their tokens up. The engine refuses a call
//! whose tokens belong to two runs; this memory only lets a reply say, before it happens, that
//! another run is open. Nothing depends on it, and it is lost with the connection.

use std::collections::VecDeque;

use guided::api::{Reply, RunWords};

/// How many runs are remembered. An agent with more of them needs another kind of help.
const REMEMBERED: usize = 16;
/// How many of them a warning names.
const NAMED: usize = 3;

/// The runs that are open, the one that was seen last at the end.
#[derive(Debug, Default)]
pub(crate) struct OpenRuns(VecDeque<RunWords>);

impl OpenRuns {
    /// Takes note of a reply: its run is open from now on, or over.
    pub(crate) fn note(&mut self, reply: &Reply) {
        self.0.retain(|run| run.run_id != reply.run.run_id);
        if reply.is_complete {
            return;
        }
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(reply.run.clone());
    }

    /// The warning about other open runs for a caller that has just started `started`.
    pub(crate) fn warning(&self, started: &RunWords) -> Option<String> {
        let others: Vec<&RunWords> = self.0.iter().rev().filter(|run| run.run_id != started.run_id).collect();
        if others.is_empty() {
            return None;
        }
        let named: Vec<String> = others.iter().take(NAMED).map(|run| run.description.clone()).collect();
        let more = match others.len().saturating_sub(NAMED) {
            0 => String::new(),
            count => format!(", and {count} more"),
        };
        let (subject, verb) = if others.len() == 1 { ("Another run", "is") } else { ("Other runs", "are") };
        Some(format!(
            "{subject} {verb} open in this connection: {}{more}. Each reply names its run in its first \
             line: use a token only for the run of the reply that you took it from.",
            named.join("; ")
        ))
    }
}
