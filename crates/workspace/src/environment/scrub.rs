//! Removes secrets from log text.

use std::borrow::Cow;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use zeroize::Zeroizing;

use super::secret::Secret;

/// The shortest secret that is searched for. Shorter ones would match ordinary text.
pub const MIN_SCRUBBED: usize = 8;

/// Removes secrets from text, also in encoded form: base64 at any offset, percent-encoding, and
/// JSON escapes.
pub struct Scrubber {
    /// The patterns, longest first, and their replacements.
    needles: Vec<(Zeroizing<String>, String)>,
}

impl Scrubber {
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a Secret>) -> Self {
        let mut needles = Vec::new();
        for secret in secrets.into_iter().filter(|secret| secret.expose().len() >= MIN_SCRUBBED) {
            for spelling in spellings(secret.expose()) {
                needles.push((spelling, secret.to_string()));
            }
        }
        // Longest first: a secret may be a prefix of another.
        needles.sort_by(|(one, _), (other, _)| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        needles.dedup_by(|(one, _), (other, _)| one == other);
        Self { needles }
    }

    /// The text with each secret replaced by `[redacted:NAME]`. Pass complete lines: a secret that
    /// is split is not found.
    pub fn scrub<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut text = Cow::Borrowed(text);
        for (needle, redacted) in &self.needles {
            if text.contains(needle.as_str()) {
                text = Cow::Owned(text.replace(needle.as_str(), redacted));
            }
        }
        text
    }
}

impl std::fmt::Debug for Scrubber {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Scrubber").field("needles", &self.needles.len()).finish()
    }
}

/// A secret in each encoding.
fn spellings(secret: &str) -> Vec<Zeroizing<String>> {
    let mut spellings = vec![Zeroizing::new(secret.to_owned())];
    let bytes = secret.as_bytes();
    for engine in [&STANDARD, &URL_SAFE, &STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
        spellings.push(Zeroizing::new(engine.encode(bytes)));
    }
    for offset in 0..3 {
        for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
            spellings.push(inside(engine, bytes, offset));
        }
    }
    let unreserved = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
    // `encodeURIComponent` escapes fewer characters; forms encode a space as `+`.
    let component = |byte: u8| unreserved(byte) || matches!(byte, b'!' | b'\'' | b'(' | b')' | b'*');
    for upper in [true, false] {
        spellings.push(percent(bytes, upper, unreserved));
        spellings.push(percent(bytes, upper, component));
        let form = percent(bytes, upper, unreserved);
        spellings.push(Zeroizing::new(form.replace("%20", "+")));
    }
    if let Ok(json) = serde_json::to_string(secret) {
        let json = Zeroizing::new(json);
        spellings.push(Zeroizing::new(json[1..json.len() - 1].to_owned()));
    }
    spellings
}

/// The base64 characters that depend only on the secret, with `offset` bytes before it and any
/// after it.
fn inside(engine: &impl base64::Engine, bytes: &[u8], offset: usize) -> Zeroizing<String> {
    let mut padded = Zeroizing::new(vec![0; offset]);
    padded.extend_from_slice(bytes);
    let encoded = Zeroizing::new(engine.encode(padded.as_slice()));
    let first = (offset * 8).div_ceil(6);
    let last = (padded.len() * 8) / 6;
    Zeroizing::new(encoded[first..last].to_owned())
}

fn percent(bytes: &[u8], upper: bool, plain: impl Fn(u8) -> bool) -> Zeroizing<String> {
    let mut encoded = Zeroizing::new(String::with_capacity(3 * bytes.len()));
    for &byte in bytes {
        let written = if plain(byte) {
            encoded.push(char::from(byte));
            Ok(())
        } else if upper {
            write!(encoded, "%{byte:02X}")
        } else {
            write!(encoded, "%{byte:02x}")
        };
        debug_assert!(written.is_ok(), "a string takes whatever is written");
    }
    encoded
}
