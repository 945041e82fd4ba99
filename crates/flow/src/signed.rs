//! Small signed documents: `base64url(payload).base64url(hmac_sha256(secret, domain payload))`, without padding.
//!
//! The payload is canonical JSON. The signature covers the domain, which is not part of the text. A document of one kind is therefore
//! never accepted as another kind, even if both were signed with the same secret.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use canon::canonical;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::Sha256;

/// The maximum length of a signed document, in bytes. Longer ones are rejected unread.
pub const MAX_BYTES: usize = 2048;

/// A kind of signed document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Domain(&'static str);

impl Domain {
    /// References to an interrupt. Its domain is empty because such documents existed before other kinds did.
    pub const INTERRUPT: Self = Self("");
    /// Keys of one guided session. No payload contains a line end, so a document of this kind is never valid as another kind.
    pub const SESSION_KEY: Self = Self("interlock session key v1\n");
    /// The session ids of MCP clients.
    pub const MCP_CLIENT: Self = Self("interlock mcp client v1\n");
}

/// Signs a document and returns its text.
pub fn seal(domain: Domain, document: &impl Serialize, secret: &[u8; 32]) -> String {
    let payload =
        serde_json::to_value(document).map_or_else(|_| String::new(), |value| canonical::string_of(&value));
    let payload = URL_SAFE_NO_PAD.encode(payload.as_bytes());
    let signature = URL_SAFE_NO_PAD.encode(mac(domain, secret, &payload).finalize().into_bytes());
    format!("{payload}.{signature}")
}

/// Reads a document that was signed with one of the secrets. Returns `None` for every other text, without a reason.
pub fn open<T: DeserializeOwned>(domain: Domain, text: &str, secrets: &[[u8; 32]]) -> Option<T> {
    if text.len() > MAX_BYTES {
        return None;
    }
    let (payload, signature) = text.split_once('.')?;
    let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
    // `verify_slice` compares in constant time. Every secret is tried, so the time does not depend on which one matches.
    let fits = secrets
        .iter()
        .fold(false, |fits, secret| fits | mac(domain, secret, payload).verify_slice(&signature).is_ok());
    if !fits {
        return None;
    }
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()
}

/// The form of version 2 of the protocol: `ow2.hs256.{kid}.{payload}.{signature}`. The signature covers everything before it, so the
/// algorithm and the name of the secret cannot be exchanged. A payload of the other form contains no dot, so neither form is accepted
/// as the other.
pub fn seal_named(domain: Domain, document: &impl Serialize, secret: &[u8; 32]) -> String {
    let payload =
        serde_json::to_value(document).map_or_else(|_| String::new(), |value| canonical::string_of(&value));
    let head = format!("{NAMED}.{}.{}", key_id(secret), URL_SAFE_NO_PAD.encode(payload.as_bytes()));
    let signature = URL_SAFE_NO_PAD.encode(mac(domain, secret, &head).finalize().into_bytes());
    format!("{head}.{signature}")
}

/// Reads a document of that form. Returns `None` for every other text, without a reason.
pub fn open_named<T: DeserializeOwned>(domain: Domain, text: &str, secrets: &[[u8; 32]]) -> Option<T> {
    if text.len() > MAX_BYTES {
        return None;
    }
    let (head, signature) = text.rsplit_once('.')?;
    let (kid, payload) = head.strip_prefix(NAMED)?.strip_prefix('.')?.split_once('.')?;
    let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
    let fits = secrets.iter().filter(|secret| key_id(secret) == kid);
    if !fits.fold(false, |fits, secret| fits | mac(domain, secret, head).verify_slice(&signature).is_ok()) {
        return None;
    }
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()
}

/// The prefix of the named form: its version and its algorithm.
const NAMED: &str = "ow2.hs256";

/// A stable name for a secret that does not reveal it.
fn key_id(secret: &[u8; 32]) -> String {
    let name = mac(Domain("interlock key id v1\n"), secret, "").finalize().into_bytes();
    URL_SAFE_NO_PAD.encode(&name[..6])
}

fn mac(domain: Domain, secret: &[u8; 32], payload: &str) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes keys of any length");
    mac.update(domain.0.as_bytes());
    mac.update(payload.as_bytes());
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_valid_only_in_the_domain_that_it_was_signed_for() {
        let secret = [7; 32];
        let all = [Domain::INTERRUPT, Domain::SESSION_KEY, Domain::MCP_CLIENT];
        for signed in all {
            let text = seal(signed, &"a document", &secret);
            for read in all {
                let expected = (read == signed).then(|| "a document".to_owned());
                assert_eq!(open::<String>(read, &text, &[secret]), expected, "{signed:?} {read:?}");
            }
        }
    }
}
