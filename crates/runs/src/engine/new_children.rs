//! Creates children in the same commit as the parent's event that names them.
//!
//! A run can be read and cancelled as soon as the event that names it can be read: its record and its `run.started` are in the
//! commit of that event. The child advances later, as an effect of its parent. Otherwise a workflow that starts itself would be
//! expanded in one commit.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use flow::definition::Definition;
use flow::engine::{Decision, Effect, Input, StartChild, decide};
use flow::event::{EventData, event_id};
use flow::id::RunId;
use flow::run::Genesis;
use flow::state::RunState;
use ports::runs::Change;

use super::begin::{created, genesis_of_child};
use super::context::EngineContext;
use super::recorder::{Prepared, Recorder};
use crate::webhooks::Subscriptions;

/// The maximum number of children that one commit creates. Further children are created one by one, as effects.
const MAX_AT_ONCE: usize = 1000;
/// The maximum total size of the records of these children, in bytes. It bounds the memory that a commit needs.
const MAX_BYTES: usize = 16 << 20;

/// The children that are durable and have not begun, each with the parent that begins it. A fork shares the children of its source,
/// and only waits for them.
#[derive(Default)]
pub(super) struct NewChildren(Mutex<BTreeSet<(RunId, RunId)>>);

impl NewChildren {
    /// Remembers children that are durable now and have not begun.
    pub(super) fn add(&self, parent_id: &RunId, newborn: Vec<RunId>) {
        if !newborn.is_empty() {
            let newborn = newborn.into_iter().map(|run_id| (run_id, parent_id.to_owned()));
            self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(newborn);
        }
    }

    /// Whether a child was created with its parent's event and has not begun. If the host stops before it begins, its own recovery
    /// begins it.
    pub(super) fn contains(&self, run_id: &RunId, parent_id: &RunId) -> bool {
        let newborn = (run_id.to_owned(), parent_id.to_owned());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&newborn)
    }

    /// Forgets a child that has begun.
    pub(super) fn remove(&self, run_id: &RunId, parent_id: &RunId) {
        let newborn = (run_id.to_owned(), parent_id.to_owned());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&newborn);
    }
}

/// The children that are created with a commit, and their definitions.
#[derive(Default)]
pub(super) struct NamedChildren(HashMap<RunId, Arc<Definition>>);

impl Recorder<'_> {
    /// Finds the new children of a decision that can be created in its commit, with their definitions.
    pub(super) async fn find_new_children(&self, parent: &RunState, decision: &Decision) -> NamedChildren {
        let starts = decision.effects.iter().filter_map(|effect| match effect {
            Effect::StartChild(child) => Some(child),
            _ => None,
        });
        let starts: Vec<_> = starts.take(MAX_AT_ONCE).collect();
        if starts.is_empty() {
            return NamedChildren::default();
        }
        let dispatched =
            decision.events.iter().filter(|event| matches!(event.data, EventData::NodeDispatched(_)));
        let named: BTreeSet<String> =
            dispatched.map(|event| event_id(&parent.genesis.run_id, event.sequence)).collect();
        // A child that is requested again already exists. All reads are started before the first is awaited.
        let reads: Vec<_> = starts
            .into_iter()
            .filter(|child| named.contains(&child.parent.causation_id))
            .map(|child| (child, self.uses.records.store().run(None, &child.run_id)))
            .collect();
        let mut found = NamedChildren::default();
        for (child, read) in reads {
            // A child that is skipped here is created later, by its effect.
            let is_new = matches!(read.await, Ok(None));
            let definition =
                self.uses.definitions.newest_of(&parent.genesis.tenant, &child.workflow_id).await;
            if is_new && let Ok(Some(definition)) = definition {
                found.0.insert(child.run_id.clone(), definition);
            }
        }
        found
    }

    /// Adds the records of new children to a commit, and returns their ids.
    pub(super) fn create_children(
        &self,
        parent: &RunState,
        decision: &Decision,
        prepared: &Prepared,
        changes: &mut Vec<Change>,
    ) -> Vec<RunId> {
        let (mut newborn, mut bytes) = (Vec::new(), 0);
        if prepared.children.0.is_empty() {
            return newborn;
        }
        for effect in &decision.effects {
            if bytes < MAX_BYTES
                && let Effect::StartChild(child) = effect
                && let Some(definition) = prepared.children.0.get(&child.run_id)
                && let Some(created) =
                    self.record_of(&parent.genesis, child, definition, &prepared.subscribers)
            {
                bytes += created.iter().map(size).sum::<usize>();
                changes.extend(created);
                newborn.push(child.run_id.clone());
            }
        }
        newborn
    }

    /// The changes that create a child and record its start. `None` if the engine refuses it; its effect then reports the refusal.
    fn record_of(
        &self,
        parent: &Genesis,
        child: &StartChild,
        definition: &Definition,
        subscribers: &Subscriptions,
    ) -> Option<Vec<Change>> {
        let genesis = genesis_of_child(self.uses, parent, child, definition);
        let mut changes = vec![created(&genesis, false)];
        let mut state = RunState::new(definition, Arc::new(genesis));
        let context = EngineContext::plain(self.uses, &parent.tenant);
        let began = decide(
            definition,
            &mut state,
            Input::Begin,
            self.uses.records.now(),
            self.uses.features.limits(),
            &context,
        )
        .ok()?;
        self.append(definition, &state, &began.events, subscribers, &mut changes)?;
        Some(changes)
    }
}

/// The approximate size of a change, in bytes.
fn size(change: &Change) -> usize {
    match change {
        Change::CreateRun { genesis, .. } => genesis.len(),
        Change::Append { events, snapshot, .. } => events.len() + snapshot.len(),
        _ => 0,
    }
}
