//! What a fork takes over of work that is under way.
//!
//! A node that waits for somebody in the middle of its work has left what it goes on with beside the log, under the identity of that
//! work. The log is copied into a fork, and this has to be copied with it: otherwise the fork would begin work anew that its own log
//! says was begun.

use super::ids;
use crate::definition::Definition;
use crate::id::{EffectId, RunId};
use crate::run::Genesis;
use crate::state::RunState;

/// A record that a fork takes over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inherited {
    /// The identity of the work in the source.
    pub source: EffectId,
    /// Its identity in the fork.
    pub own: EffectId,
}

/// What a fork takes over from its source, as of the place where it begins: the record of the last work of every node that waited.
pub fn inherited(definition: &Definition, state: &RunState, source_run_id: &RunId) -> Vec<Inherited> {
    let source = Genesis { run_id: source_run_id.clone(), ..(*state.genesis).clone() };
    let waited = state.under_way(definition).into_iter().filter(|node| {
        // A fork at another place has other nodes under way; one that never waited has left nothing.
        definition.nodes[*node].kind.is_called() && state.nodes[*node].interrupts > 0
    });
    let record = |node: usize| {
        let (subject, ordinal) = (&definition.nodes[node], state.nodes[node].ordinal().saturating_sub(1));
        let identity =
            |genesis: &Genesis| ids::logical_invocation_id(genesis, &subject.id, ordinal, subject.type_id());
        Inherited { source: identity(&source), own: identity(&state.genesis) }
    };
    waited.map(record).collect()
}
