//! Bytes as text: hexadecimal digits and base32, in lower case and without padding.
//!
//! Ids, file names and signatures are made of these, so there is one spelling of each.

use data_encoding::{BASE32_NOPAD, HEXLOWER, HEXLOWER_PERMISSIVE};

/// Two hexadecimal digits for each byte.
///
/// ```
/// assert_eq!(canon::encoding::hex(&[0x0f, 0xa0]), "0fa0");
/// ```
pub fn hex(bytes: &[u8]) -> String {
    HEXLOWER.encode(bytes)
}

/// Adds [`hex`] to a text.
pub fn push_hex(text: &mut String, bytes: &[u8]) {
    HEXLOWER.encode_append(bytes, text);
}

/// Writes [`hex`] into a buffer of exactly twice the length of `bytes`.
///
/// # Panics
/// If the buffer has another length.
pub fn write_hex(bytes: &[u8], digits: &mut [u8]) {
    HEXLOWER.encode_mut(bytes, digits);
}

/// Exactly `N` bytes out of hexadecimal digits of either case.
///
/// ```
/// assert_eq!(canon::encoding::from_hex("0FA0"), Some([0x0f, 0xa0]));
/// assert_eq!(canon::encoding::from_hex::<2>("0fa"), None);
/// ```
pub fn from_hex<const N: usize>(digits: &str) -> Option<[u8; N]> {
    decode(&HEXLOWER_PERMISSIVE, digits).ok()
}

/// As [`from_hex`], for digits in lower case only. The error is where the first other byte is, if the length is right.
pub(crate) fn from_lower_hex<const N: usize>(digits: &str) -> Result<[u8; N], Option<usize>> {
    decode(&HEXLOWER, digits)
}

fn decode<const N: usize>(
    encoding: &data_encoding::Encoding,
    digits: &str,
) -> Result<[u8; N], Option<usize>> {
    if digits.len() != 2 * N {
        return Err(None);
    }
    let mut bytes = [0; N];
    match encoding.decode_mut(digits.as_bytes(), &mut bytes) {
        Ok(_) => Ok(bytes),
        Err(partial) => Err(Some(partial.error.position)),
    }
}

/// One character of `a-z` and `2-7` for each five bits.
///
/// ```
/// assert_eq!(canon::encoding::base32(b"hello"), "nbswy3dp");
/// ```
pub fn base32(bytes: &[u8]) -> String {
    let mut text = BASE32_NOPAD.encode(bytes);
    text.make_ascii_lowercase();
    text
}
