//! Reads runs for callers: snapshots, lists, events, differences, bundles, and who waits for a reply.

pub mod attempts;
pub mod bundle;
pub mod read;
mod waiting;

use std::sync::Arc;

pub use self::waiting::{MAX_FAMILY, Waiting};
use super::connections::Connections;
use super::interrupt_tokens::InterruptTokens;
use super::records::Records;
use super::states::States;

/// Reads runs for callers.
pub struct Queries {
    records: Arc<Records>,
    states: Arc<States>,
    tokens: Arc<InterruptTokens>,
    connections: Arc<Connections>,
    public_url: Arc<str>,
}

impl Queries {
    pub(crate) fn new(
        records: Arc<Records>,
        states: Arc<States>,
        tokens: Arc<InterruptTokens>,
        connections: Arc<Connections>,
        public_url: Arc<str>,
    ) -> Self {
        Self { records, states, tokens, connections, public_url }
    }
}
