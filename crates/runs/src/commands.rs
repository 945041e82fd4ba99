//! What callers and messages request of runs: create, fork, reply, cancel, pause, resume.
//!
//! A command checks the request, adds its audit entry, and gives the run an input through the [`Engine`].

pub mod bulk;
pub mod create;
mod credential;
pub mod fork;
mod inherit;
pub mod interrupts;
mod triggered;

use std::sync::Arc;

pub use self::triggered::Started;
use super::engine::{Engine, Uses};
use super::interrupt_tokens::InterruptTokens;
use super::keys::Keys;

/// What callers request of runs.
pub struct Commands {
    uses: Arc<Uses>,
    keys: Arc<Keys>,
    tokens: Arc<InterruptTokens>,
    /// Checks the callback addresses of runs.
    outbound: outbound::Client,
    engine: Engine,
}

impl Commands {
    pub(crate) fn new(
        uses: Arc<Uses>,
        keys: Arc<Keys>,
        tokens: Arc<InterruptTokens>,
        outbound: outbound::Client,
        engine: Engine,
    ) -> Self {
        Self { uses, keys, tokens, outbound, engine }
    }
}
