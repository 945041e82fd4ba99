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
