//! Names for the sessions of MCP clients, which carry what the client said of itself.
//!
//! A client says once whether it can ask its user, and is to be believed in every later request. Nothing is kept for that: the name of
//! its session says so, signed for the key that it began with. Whoever uses the name with another key has a name and nothing else.

use canon::digest::Digest;
use flow::signed::{self, Domain};
use serde::{Deserialize, Serialize};

use super::super::{Caller, Runs};

/// The longest name that is looked at, in bytes. Ours have less than half of it.
pub const MAX_NAME_BYTES: usize = 512;

/// What the name of a session says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Client {
    /// What tells it from others.
    name: String,
    /// The digest of whose it is. The key itself is named to nobody on the way.
    of: String,
    /// Whether the client can ask its user.
    elicits: bool,
}

impl Runs {
    /// A name for the session of a client, out of bytes that nobody can guess.
    pub fn name_client(&self, caller: &Caller, random: [u8; 16], elicits: bool) -> String {
        let name = canon::encoding::hex(&random);
        let Some(secret) = self.inner.options.token_secrets.first().filter(|_| elicits) else { return name };
        signed::seal(Domain::MCP_CLIENT, &Client { name, of: of(caller), elicits }, secret)
    }

    /// Whether the client of a session can ask its user, as far as this host gave the name of the session to this caller.
    pub fn client_elicits(&self, caller: &Caller, session: &str) -> bool {
        if session.len() > MAX_NAME_BYTES {
            return false;
        }
        let client: Option<Client> =
            signed::open(Domain::MCP_CLIENT, session, &self.inner.options.token_secrets);
        client.is_some_and(|client| client.elicits && client.of == of(caller))
    }
}

/// Neither the name of a tenant nor that of a key has a line end.
fn of(caller: &Caller) -> String {
    Digest::of_bytes(format!("{}\n{}", caller.tenant, caller.principal).as_bytes()).to_hex()
}
