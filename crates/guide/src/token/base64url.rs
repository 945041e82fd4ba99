//! Base64 with `-` and `_`, without padding, and with exactly one spelling for each byte string.
//!
//! It is implemented here because lenient decoders accept padding, white space and unused low bits in the
//! last character. Each of these would give a token a second spelling.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

pub(super) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let mut group = [0; 3];
        group[..chunk.len()].copy_from_slice(chunk);
        let bits = u32::from_be_bytes([0, group[0], group[1], group[2]]);
        // One byte needs two characters, two need three, three need four.
        for position in 0..=chunk.len() {
            text.push(char::from(ALPHABET[(bits >> (18 - 6 * position) & 63) as usize]));
        }
    }
    text
}

/// The bytes of `text`; `None` if it is not the spelling that [`encode`] produces.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for chunk in text.as_bytes().chunks(4) {
        let mut bits = 0_u32;
        for (position, character) in chunk.iter().enumerate() {
            bits |= value_of(*character)? << (18 - 6 * position);
        }
        let [_, group @ ..] = bits.to_be_bytes();
        // A single character contains no complete byte.
        let whole = chunk.len().checked_sub(1).filter(|whole| *whole > 0)?;
        if group[whole..].iter().any(|byte| *byte != 0) {
            return None;
        }
        bytes.extend_from_slice(&group[..whole]);
    }
    Some(bytes)
}

const fn value_of(character: u8) -> Option<u32> {
    let value = match character {
        b'A'..=b'Z' => character - b'A',
        b'a'..=b'z' => character - b'a' + 26,
        b'0'..=b'9' => character - b'0' + 52,
        b'-' => 62,
        b'_' => 63,
        _ => return None,
    };
    Some(value as u32)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_and_their_bytes() {
        for (text, bytes) in [
            ("", &b""[..]),
            ("Zg", b"f"),
            ("Zm8", b"fo"),
            ("Zm9v", b"foo"),
            ("Zm9vYg", b"foob"),
            ("-_-_", &[0xfb, 0xff, 0xbf]),
        ] {
            assert_eq!(encode(bytes), text);
            assert_eq!(decode(text).as_deref(), Some(bytes), "{text}");
        }
    }

    #[test]
    fn second_spellings_are_rejected() {
        for text in ["Zg==", "Zh", "Zm9=", "Zm9", "Z", "Zm9vY", "Zm 8", "Zm8\n", "+/+/", "é", "Zm8\0"] {
            assert_eq!(decode(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn every_byte_string_has_one_spelling(bytes in proptest::collection::vec(any::<u8>(), 0..70)) {
            prop_assert_eq!(decode(&encode(&bytes)), Some(bytes));
        }

        #[test]
        fn decoded_texts_encode_to_themselves(text in "[A-Za-z0-9_=-]{0,40}") {
            if let Some(bytes) = decode(&text) {
                prop_assert_eq!(encode(&bytes), text);
            }
        }
    }
}
