//! How an agent connects to the session that a node waits for.
//!
//! Made when somebody reads who may, and kept nowhere: not in events, snapshots, streams, bundles or logs.

use canon::time::Timestamp;
use flow::id::Tenant;
use guide::record::SessionId;
use serde_json::{Value, json};

use super::{GuidedNodes, Trouble, session_id};

/// How long the key of an agent is good from the beginning of the period in which it was read. Reading again gives a later one.
pub const KEY_LIFETIME_MS: u64 = 24 * 60 * 60 * 1000;

/// What an authorised reader learns.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Connection {
    /// How to connect; nothing once the session is complete.
    pub(crate) connect: Option<Value>,
    /// Where the session stands.
    pub(crate) session: Value,
}

impl GuidedNodes {
    /// How an agent connects to a session. `period` is the moment from which the lifetime of the key counts, so that whoever
    /// reads again soon gets the same.
    ///
    /// # Errors
    /// A session that is not there, or cannot be read now.
    pub(crate) fn connection(
        &self,
        public_url: &str,
        tenant: &Tenant,
        session: &str,
        period: Timestamp,
    ) -> Result<Connection, Trouble> {
        let id: SessionId = session_id(session)?;
        let guided = self.guided(tenant)?;
        let lost = |refusal| super::failure::of_session(session, &refusal);
        let standing = guided.standing(&id).map_err(lost)?;
        let reply = guided.rejoin(&id).map_err(lost)?;
        let told = json!({
            "sessionId": session,
            "status": standing.status.as_str(),
            "step": reply.run.step,
            "steps": reply.run.steps,
            "description": reply.run.description,
        });
        if standing.is_complete {
            return Ok(Connection { connect: None, session: told });
        }
        let expires_at = period.plus(KEY_LIFETIME_MS);
        let root = self.root_of(standing.link.as_ref());
        let connect = json!({
            "endpoint": format!("{public_url}/mcp"),
            "key": self.inner.options.keys.mint(tenant, session, expires_at),
            "continueToken": reply.continue_token,
            "stateToken": reply.state_token,
            "ackToken": reply.ack_token,
            "workspaceRoot": root.map(|root| root.display().to_string()),
            "expiresAt": expires_at.to_rfc3339(),
        });
        Ok(Connection { connect: Some(connect), session: told })
    }

    /// How many events a session has: a reader who saw that many has seen all of it.
    pub(crate) fn progress(&self, tenant: &Tenant, session: &str) -> Option<u64> {
        let id = session_id(session).ok()?;
        Some(self.guided(tenant).ok()?.standing(&id).ok()?.events)
    }
}
