//! What a fork copies in addition to the log.
//!
//! A node that waits for an interrupt during its effect has stored the data with which it continues, under the id of that effect. A fork
//! copies the log, and must also copy this data: otherwise it would start an effect again that its own log says was started.

use super::ids;
use crate::definition::Definition;
use crate::id::{EffectId, RunId};
use crate::run::Genesis;
use crate::state::RunState;

/// A record that a fork copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inherited {
    /// The id of the effect in the source run.
    pub source: EffectId,
    /// The id of the effect in the fork.
    pub own: EffectId,
}

/// The records that a fork copies from its source: for every active node that waited, the record of its last effect.
pub fn inherited(definition: &Definition, state: &RunState, source_run_id: &RunId) -> Vec<Inherited> {
    let source = Genesis { run_id: source_run_id.clone(), ..(*state.genesis).clone() };
    let waited = state.active_nodes(definition).into_iter().filter(|node| {
        // A node that never waited has stored nothing.
        definition.nodes[*node].kind.is_called() && state.nodes[*node].interrupts > 0
    });
    let record = |node: usize| {
        let (subject, ordinal) = (&definition.nodes[node], state.nodes[node].ordinal().saturating_sub(1));
        let id_in =
            |genesis: &Genesis| ids::logical_invocation_id(genesis, &subject.id, ordinal, subject.type_id());
        Inherited { source: id_in(&source), own: id_in(&state.genesis) }
    };
    waited.map(record).collect()
}
