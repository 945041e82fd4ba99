//! Begins runs: the first decision and its commit.

use std::sync::Arc;

use flow::definition::Definition;
use flow::engine::{Input, StartChild};
use flow::run::{Genesis, Parent, RunStatus};
use flow::state::RunState;
use ports::runs::{Change, CommitError};
use serde_json::{Map, Value};

use super::advance::refused;
use super::{Engine, Uses};
use crate::{Refusal, Respond};

impl Engine {
    /// Begins a run from its genesis, in one commit with further changes and the response.
    pub(crate) async fn begin<T, R: Respond<T>>(
        &self,
        definition: &Arc<Definition>,
        genesis: Genesis,
        exclusive: bool,
        further: Vec<Change>,
        respond: &R,
        result: impl FnOnce(RunStatus) -> T,
    ) -> Result<R::Response, BeginError> {
        let mut changes = vec![created(&genesis, exclusive)];
        let state = RunState::new(definition, Arc::new(genesis));
        let (state, decision, place) = self.decide_new(definition, state, Input::Create).await?;
        let (response, recorded) = respond.respond(&self.uses.records, result(state.status));
        changes.extend(further);
        changes.extend(recorded);
        let (state, changes, outcome) =
            self.conclude_new(definition, state, decision, changes, place.as_ref()).await?;
        self.make_new(definition, state, changes, outcome).await?;
        Ok(response)
    }
}

/// Why a run did not begin.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BeginError {
    /// The engine refused the run. A retry would be refused again.
    #[error("the run was refused")]
    Refused(#[source] flow::engine::Refusal),
    /// The host could not decide, or could not read what it needs.
    #[error(transparent)]
    Host(#[from] Refusal),
    /// The decision could not be committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

impl From<BeginError> for Refusal {
    fn from(error: BeginError) -> Self {
        match error {
            BeginError::Refused(refusal) => refused(refusal),
            BeginError::Host(refusal) => refusal,
            BeginError::Commit(error) => error.into(),
        }
    }
}

/// The change that records the genesis of a run.
pub(crate) fn created(genesis: &Genesis, exclusive: bool) -> Change {
    let record = serde_json::to_vec(genesis).expect("names are strings, so this cannot fail");
    Change::CreateRun {
        run_id: genesis.run_id.clone(),
        tenant: genesis.tenant.clone(),
        workflow_id: genesis.workflow_id.clone(),
        genesis: record.into(),
        scope_id: genesis.scope_id.clone(),
        exclusive,
        // A fork of a child is not a child: its parent does not wait for it.
        parent_run_id: genesis
            .parent
            .as_ref()
            .filter(|_| genesis.fork.is_none())
            .map(|parent| parent.run_id.clone()),
        tags: genesis.tags.clone(),
        created_at: genesis.created_at,
    }
}

/// The genesis of a child.
pub(super) fn genesis_of_child(
    uses: &Uses,
    parent: &Genesis,
    child: &StartChild,
    definition: &Definition,
) -> Genesis {
    let trace = uses.traces.are_enabled().then(|| {
        let Parent { node_id, iteration, attempt, .. } = &child.parent;
        flow::trace::of_child(parent, node_id, *iteration, *attempt)
    });
    Genesis {
        run_id: child.run_id.clone(),
        tenant: parent.tenant.clone(),
        principal: parent.principal.clone(),
        workflow_id: definition.id.clone(),
        definition: definition.digest,
        scope_id: None,
        inputs: child.inputs.clone(),
        configurable: Map::new(),
        tags: Vec::new(),
        metadata: inherited(&parent.metadata),
        callback_url: None,
        parent: Some(child.parent.clone()),
        fork: None,
        created_at: uses.records.now(),
        forced_engine_version: parent.forced_engine_version,
        test: parent.test,
        trace,
        trigger: None,
    }
}

/// The part of the parent's metadata that a child inherits: its trust boundary. Untrusted input of a run reaches its children too.
fn inherited(parent: &Map<String, Value>) -> Map<String, Value> {
    const TRUST: &str = "trustBoundary";
    parent.get(TRUST).map(|trust| (TRUST.to_owned(), trust.clone())).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use flow::engine::Refusal as Core;
    use ports::Cause;
    use serde_json::json;

    use super::*;
    use crate::ApiCode;

    /// Regression: a refused decision was reported as a failure of the store, which background work retries forever.
    #[test]
    fn a_refused_decision_is_permanent_and_a_failed_store_is_not() {
        let refused = [
            Core::NoInterrupt,
            Core::AlreadyResolved,
            Core::InterruptGone,
            Core::Conflict { status: RunStatus::Completed },
            Core::Forbidden { message: "no".into() },
            Core::Guided { session_id: "sess_1".into() },
            Core::BadAnswer { message: "no".into(), details: json!({}), semantic: true },
        ];
        for refusal in refused {
            let expected = super::super::advance::refused(refusal.clone());
            let refusal_of = Refusal::from(BeginError::Refused(refusal));
            assert_eq!(refusal_of, expected);
            assert!(!refusal_of.is_host_failure() && refusal_of.retry_after.is_none(), "{refusal_of}");
        }
        let failed = Refusal::from(BeginError::from(CommitError::Store(Cause::new("disk I/O error"))));
        assert_eq!(failed.code, ApiCode::InternalError);
        assert!(system::causes(&failed).ends_with("the store failed: disk I/O error"), "{failed}");
    }
}
