//! How an agent connects to the session that a node waits for.
//!
//! Created on demand for an authorized reader and never stored: not in events, snapshots, streams, bundles or logs.

use canon::time::Timestamp;
use flow::id::Tenant;
use guide::record::SessionId;
use serde_json::{Value, json};

use super::{GuidedNodes, Trouble, session_id};

/// The lifetime of an agent's key, in milliseconds, from the beginning of the period in which it was read. Reading later
/// returns a key that expires later.
pub const KEY_LIFETIME_MS: u64 = 24 * 60 * 60 * 1000;

/// The connection details for an authorized reader.
#[derive(Clone, Debug, PartialEq)]
pub struct Connection {
    /// How to connect. `None` once the session is complete.
    pub connect: Option<Value>,
    /// The status of the session.
    pub session: Value,
}

impl GuidedNodes {
    /// How an agent connects to a session. The lifetime of the key counts from `period`, so that repeated reads within a
    /// period return the same key.
    ///
    /// # Errors
    /// The session does not exist or cannot be read.
    pub async fn connection(
        &self,
        public_url: &str,
        tenant: &Tenant,
        session: &str,
        period: Timestamp,
    ) -> Result<Connection, Trouble> {
        let id: SessionId = session_id(session)?;
        let guided = self.guided(tenant).await?;
        let lost = |refusal| super::failure::of_session(session, &refusal);
        let standing = guided.standing(&id).await.map_err(lost)?;
        let reply = guided.rejoin(&id).await.map_err(lost)?;
        let described = json!({
            "sessionId": session,
            "status": standing.status.as_str(),
            "step": reply.run.step,
            "steps": reply.run.steps,
            "description": reply.run.description,
        });
        if standing.is_complete {
            return Ok(Connection { connect: None, session: described });
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
        Ok(Connection { connect: Some(connect), session: described })
    }

    /// The number of events of a session. A reader that has seen this many has seen all of it.
    pub async fn progress(&self, tenant: &Tenant, session: &str) -> Option<u64> {
        let id = session_id(session).ok()?;
        Some(self.guided(tenant).await.ok()?.standing(&id).await.ok()?.events)
    }
}
