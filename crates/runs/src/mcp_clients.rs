//! Session ids of MCP clients that contain the capabilities of the client.
//!
//! A client declares once whether it supports elicitation, and that applies to all later requests. The host stores nothing for
//! this: the session id contains it, signed for the API key that began the session. With another key, the session id grants nothing.

use canon::digest::Digest;
use flow::signed::{self, Domain};
use serde::{Deserialize, Serialize};

use super::{Caller, TokenSecrets};

/// The maximum length of a session id that is parsed, in bytes. Our ids have less than half of it.
pub const MAX_NAME_BYTES: usize = 512;

/// The content of a session id.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Client {
    /// The random part.
    name: String,
    /// The digest of the owner. The id does not contain the key itself.
    of: String,
    /// Whether the client supports elicitation.
    elicits: bool,
}

/// Creates and verifies the session ids of MCP clients.
pub struct McpClients {
    secrets: TokenSecrets,
}

impl McpClients {
    pub(crate) fn new(secrets: TokenSecrets) -> Self {
        Self { secrets }
    }

    /// Creates a session id for a client from random bytes.
    pub fn name(&self, caller: &Caller, random: [u8; 16], elicits: bool) -> String {
        let name = canon::encoding::hex(&random);
        let Some(secret) = self.secrets.first().filter(|_| elicits) else { return name };
        signed::seal(Domain::MCP_CLIENT, &Client { name, of: of(caller), elicits }, secret)
    }

    /// Whether the client of a session supports elicitation. False unless this host issued the session id to this caller.
    pub fn elicits(&self, caller: &Caller, session: &str) -> bool {
        if session.len() > MAX_NAME_BYTES {
            return false;
        }
        let client: Option<Client> = signed::open(Domain::MCP_CLIENT, session, &self.secrets);
        client.is_some_and(|client| client.elicits && client.of == of(caller))
    }
}

/// The digest of a caller. A newline separates the parts, because neither of them contains one.
fn of(caller: &Caller) -> String {
    Digest::of_bytes(format!("{}\n{}", caller.tenant, caller.principal).as_bytes()).to_hex()
}
