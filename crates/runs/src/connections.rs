//! How an agent connects to the guided session that a run waits for.

use std::sync::Arc;

use canon::time::Timestamp;
use flow::engine::guide::session_of;
use flow::id::{NodeId, RunId};
use flow::state::RunState;
use guided_node::GuidedNodes;
use serde_json::{Value, json};

use super::interrupt_tokens::TOKEN_PERIOD_MS;
use super::records::Records;
use super::states::States;
use super::{ApiCode, Caller, Refusal, Scope};

/// Shows authorized readers how an agent connects.
pub struct Connections {
    records: Arc<Records>,
    states: Arc<States>,
    guided_nodes: Option<GuidedNodes>,
    public_url: Arc<str>,
}

impl Connections {
    pub(crate) fn new(
        records: Arc<Records>,
        states: Arc<States>,
        guided_nodes: Option<GuidedNodes>,
        public_url: Arc<str>,
    ) -> Self {
        Self { records, states, guided_nodes, public_url }
    }

    /// Adds connection details for an agent to an interrupt, for a reader who may reply to interrupts. They are not stored.
    pub(crate) async fn show(
        &self,
        caller: &Caller,
        state: &RunState,
        node_id: &NodeId,
        interrupt: &mut Value,
    ) {
        if !caller.may(Scope::ApprovalsRespond) {
            return;
        }
        let Some(path) = self.guided_nodes.as_ref() else { return };
        let Some(session_id) = guided_session(state, node_id) else { return };
        let now = self.records.now().0;
        let period = Timestamp(now - now % TOKEN_PERIOD_MS);
        let tenant = &state.genesis.tenant;
        // If the session cannot be read now, the details are omitted. Reading the run reports the error.
        if let Ok(connection) = path.connection(&self.public_url, tenant, &session_id, period).await {
            interrupt["session"] = connection.session;
            if let Some(connect) = connection.connect {
                interrupt["connect"] = connect;
            }
        }
    }

    /// How an agent connects to the session that a node waits for. The result is the interrupt as the snapshot shows it. Use this
    /// when several nodes wait.
    ///
    /// # Errors
    /// If the caller is not allowed to, or nothing is pending at the node.
    pub async fn of(&self, caller: &Caller, run_id: &RunId, node_id: &NodeId) -> Result<Value, Refusal> {
        if !caller.may(Scope::ApprovalsRespond) {
            return Err(Refusal::scope(Scope::ApprovalsRespond));
        }
        self.states.visible(caller, run_id).await?;
        let loaded = self.states.load(run_id).await?;
        let Some(open) = loaded.state.interrupts.get(node_id) else {
            return Err(Refusal::new(
                ApiCode::InterruptNotFound,
                "no interrupt is pending at this \
                node",
            ));
        };
        let mut interrupt = json!({
            "kind": open.kind, "nodeId": open.node_id, "interruptId": open.id, "data": open.data,
        });
        self.show(caller, &loaded.state, node_id, &mut interrupt).await;
        Ok(interrupt)
    }

    /// The part of the entity tag that is about a session: its progress.
    pub(crate) async fn tag(&self, caller: &Caller, state: &RunState, node_id: &NodeId) -> Option<String> {
        if !caller.may(Scope::ApprovalsRespond) {
            return None;
        }
        let session_id = guided_session(state, node_id)?;
        let events = self.guided_nodes.as_ref()?.progress(&state.genesis.tenant, &session_id).await?;
        Some(format!("s{events}"))
    }
}

/// The session that a guided node waits for.
fn guided_session(state: &RunState, node_id: &NodeId) -> Option<String> {
    let open = state.interrupts.get(node_id)?;
    let is_guided =
        open.data.get("eventType").and_then(Value::as_str) == Some(flow::engine::guide::EVENT_TYPE);
    is_guided.then(|| session_of(&open.data).map(str::to_owned)).flatten()
}
