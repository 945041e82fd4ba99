//! Tokens for interrupts: the holder of a token may inspect one interrupt, or reply to it.

use std::sync::Arc;

use canon::digest::Digest;
use canon::time::Timestamp;
use flow::id::Principal;
use flow::interrupt::answerable_by_token;
use flow::state::Interrupt;
use flow::token::{Intent, InterruptToken, LIFETIME_MS, TokenError};

use super::records::Records;
use super::states::Loaded;
use super::{ApiCode, Caller, Refusal, Scope, TokenSecrets};

/// For how long the same interrupt gets the same token. Every token is valid for at least [`LIFETIME_MS`] minus this period.
pub(crate) const TOKEN_PERIOD_MS: u64 = LIFETIME_MS / 2;

/// The principal that a token is issued to.
pub(crate) struct Recipient<'a> {
    pub(crate) principal: &'a Principal,
    /// Whether the principal has `approvals:respond`.
    pub(crate) may_respond: bool,
}

impl<'a> Recipient<'a> {
    pub(crate) fn caller(caller: &'a Caller) -> Self {
        Self { principal: &caller.principal, may_respond: caller.may(Scope::ApprovalsRespond) }
    }

    /// A short tag that identifies what this recipient can see. It is not secret.
    pub(crate) fn tag(&self) -> String {
        let digest = Digest::of_bytes(format!("{}\0{}", self.may_respond, self.principal).as_bytes());
        digest.to_hex()[..12].to_owned()
    }
}

/// Signs and verifies tokens for interrupts.
pub struct InterruptTokens {
    records: Arc<Records>,
    secrets: TokenSecrets,
}

impl InterruptTokens {
    pub(crate) fn new(records: Arc<Records>, secrets: TokenSecrets) -> Self {
        Self { records, secrets }
    }

    /// Checks that this host signed a token. Callers do this before they read a body, so that an unknown token is 404 whatever the body.
    ///
    /// # Errors
    /// If no secret of this host signed the token. An expired token passes, because its request may have a recorded response.
    pub fn check_signature(&self, token: &str) -> Result<(), Refusal> {
        match InterruptToken::verify(token, &self.secrets, self.records.now()) {
            Ok(_) | Err(TokenError::Expired) => Ok(()),
            Err(TokenError::Unknown) => Err(unknown_token()),
        }
    }

    /// A token in the form of version 2 of the protocol. `None` if this host did not sign it, or it has expired.
    pub fn named(&self, token: &str) -> Option<String> {
        let secrets = &self.secrets;
        let token = InterruptToken::verify(token, secrets, self.records.now()).ok()?;
        Some(token.sign_named(secrets.first()?))
    }

    /// Verifies a token of this host.
    pub(crate) fn verify(&self, text: &str) -> Result<InterruptToken, Refusal> {
        InterruptToken::verify(text, &self.secrets, self.records.now()).map_err(|error| match error {
            TokenError::Unknown => unknown_token(),
            TokenError::Expired => {
                Refusal::new(ApiCode::InterruptExpired, "the token has expired; read the run for a new one")
            }
        })
    }

    /// Signs a token for an interrupt. A principal that may not respond gets a token that can only inspect.
    pub(crate) fn sign(&self, loaded: &Loaded, interrupt: &Interrupt, to: &Recipient<'_>) -> Option<String> {
        let secret = self.secrets.first()?;
        // Counted from the start of the period, so that repeated reads return the same token for a while.
        let now = self.records.now().0;
        let latest = Timestamp(now - now % TOKEN_PERIOD_MS).plus(LIFETIME_MS);
        let expires_at = interrupt.deadline.map_or(latest, |deadline| deadline.min(latest)).0;
        let node = &loaded.definition.nodes[loaded.state.node_index(&interrupt.node_id)?];
        let answers = to.may_respond && answerable_by_token(node, interrupt, to.principal.as_str());
        let token = InterruptToken {
            run_id: loaded.state.genesis.run_id.clone(),
            node_id: interrupt.node_id.clone(),
            interrupt_id: interrupt.id.clone(),
            expires_at,
            intent: if answers { Intent::Resolve } else { Intent::Inspect },
            holder: Some(to.principal.to_owned()),
        };
        Some(token.sign(secret))
    }
}

fn unknown_token() -> Refusal {
    Refusal::new(ApiCode::InterruptNotFound, "the token was not issued by this host")
}
