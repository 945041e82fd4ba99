//! List cursors as clients see them.
//!
//! A cursor of the store may reveal how many runs all tenants have. It is therefore encrypted under a secret of the process and
//! bound to its tenant. After a restart, or with the key of another tenant, it is refused and the client starts the list again.

use canon::digest::Digest;
use canon::encoding::hex;
use flow::id::Tenant;
use ports::runs::ListCursor;
use runs::Refusal;
use system::Entropy;

/// The bytes of the check at the start of a cursor. They are also the nonce of the encryption.
const CHECK_BYTES: usize = 8;

/// The longest cursor that is decoded, in hex digits. Those of the store are much shorter.
const MAX_DIGITS: usize = 512;

/// Encodes and decodes cursors.
#[derive(Clone, Copy)]
pub(super) struct Cursors {
    secret: [u8; 32],
}

impl Cursors {
    pub(super) fn new(entropy: &dyn Entropy) -> Self {
        let mut secret = [0; 32];
        // Without entropy a cursor could be decrypted, but it would give access to nothing.
        let _ = entropy.fill(&mut secret);
        Self { secret }
    }

    /// The cursor for a client.
    pub(super) fn encode(self, tenant: &Tenant, cursor: &ListCursor) -> String {
        let text = cursor.as_str().as_bytes();
        let check = self.check(tenant, text);
        let mut sealed = Vec::with_capacity(CHECK_BYTES + text.len());
        sealed.extend_from_slice(&check);
        sealed.extend_from_slice(text);
        self.mask(tenant, check, &mut sealed[CHECK_BYTES..]);
        hex(&sealed)
    }

    /// The cursor of the store.
    pub(super) fn decode(self, tenant: &Tenant, cursor: &str) -> Result<ListCursor, Refusal> {
        self.open(tenant, cursor).ok_or_else(Refusal::invalid_cursor)
    }

    fn open(self, tenant: &Tenant, cursor: &str) -> Option<ListCursor> {
        if cursor.len() > MAX_DIGITS {
            return None;
        }
        let sealed = unhex(cursor)?;
        let (check, masked) = sealed.split_first_chunk::<CHECK_BYTES>()?;
        let mut text = masked.to_vec();
        self.mask(tenant, *check, &mut text);
        (self.check(tenant, &text) == *check).then_some(())?;
        String::from_utf8(text).ok().map(ListCursor::new)
    }

    fn check(self, tenant: &Tenant, text: &[u8]) -> [u8; CHECK_BYTES] {
        let digest = self.digest(tenant, b"check", text);
        let mut check = [0; CHECK_BYTES];
        check.copy_from_slice(&digest.as_bytes()[..CHECK_BYTES]);
        check
    }

    /// Encrypts or decrypts a string.
    fn mask(self, tenant: &Tenant, nonce: [u8; CHECK_BYTES], text: &mut [u8]) {
        for (number, block) in text.chunks_mut(32).enumerate() {
            let mut input = nonce.to_vec();
            input.extend_from_slice(&number.to_be_bytes());
            let stream = self.digest(tenant, b"place", &input);
            for (byte, mask) in block.iter_mut().zip(stream.as_bytes()) {
                *byte ^= mask;
            }
        }
    }

    fn digest(self, tenant: &Tenant, purpose: &[u8; 5], input: &[u8]) -> Digest {
        let mut bytes = Vec::with_capacity(64 + input.len() + tenant.as_str().len());
        bytes.extend_from_slice(&self.secret);
        bytes.extend_from_slice(purpose);
        bytes.extend_from_slice(&input.len().to_be_bytes());
        bytes.extend_from_slice(input);
        bytes.extend_from_slice(tenant.as_str().as_bytes());
        Digest::of_bytes(&bytes)
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_valid_for_its_tenant_only_and_hides_the_position() {
        let cursors = Cursors::new(&system::SeededEntropy::new(7));
        let tenant = Tenant::new("a");
        for text in ["0", "1", "2", "18446744073709551615", "", "é", &"a long cursor ".repeat(9)] {
            let cursor = cursors.encode(&tenant, &ListCursor::new(text));
            assert_eq!(cursors.decode(&tenant, &cursor), Ok(ListCursor::new(text)));
            assert!(cursors.decode(&Tenant::new("b"), &cursor).is_err());
            assert!(text.is_empty() || !cursor.contains(&hex(text.as_bytes())), "{cursor}");
            let mut changed = cursor.clone();
            let last = if changed.pop() == Some('0') { '1' } else { '0' };
            changed.push(last);
            assert!(cursors.decode(&tenant, &changed).is_err(), "{text}");
        }
        let long = "0".repeat(MAX_DIGITS + 2);
        for cursor in ["", "1", "é", "0", &"0".repeat(32), &"z".repeat(32), &"é".repeat(16), &long] {
            assert!(cursors.decode(&tenant, cursor).is_err(), "{cursor}");
        }
    }
}
