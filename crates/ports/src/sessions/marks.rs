//! Marks of sessions, which are not part of their logs.

use std::fmt::Debug;

use flow::id::{NodeId, RunId};
use guide::bundle::Salvaged;
use guide::record::SessionId;
use serde::{Deserialize, Serialize};

use super::StoreFuture;
use crate::PortFuture;

/// The marks of sessions. The mark that a session has ended is set by a [writer](super::SessionWriter::end).
pub trait SessionMarks: Debug + Send + Sync {
    /// Whether garbage collection spares each session, in the order of `sessions`.
    fn are_kept(&self, sessions: Vec<SessionId>) -> StoreFuture<'_, Vec<bool>>;

    /// Whether garbage collection spares the session.
    fn is_kept(&self, session: SessionId) -> StoreFuture<'_, bool> {
        let kept = self.are_kept(vec![session]);
        PortFuture::boxed(async move { Ok(kept.await?.pop().unwrap_or_default()) })
    }

    /// Makes garbage collection spare the session, or no longer. Fails with `Unknown`.
    fn set_kept(&self, session: SessionId, kept: bool) -> StoreFuture<'_, ()>;

    /// The mark that no run waits for the session. A mark that cannot be parsed counts.
    fn ended(&self, session: SessionId) -> StoreFuture<'_, Option<Ended>>;

    /// Why the session is only a part, if it was made of what was left of a damaged one.
    fn salvaged(&self, session: SessionId) -> StoreFuture<'_, Option<Salvaged>>;
}

/// Why no run waits for a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ended {
    /// The run that waited.
    pub run_id: RunId,
    pub node_id: NodeId,
    /// The status of the run: `cancelled`, `failed`, or `running` if only the node ended.
    pub run_status: String,
}
