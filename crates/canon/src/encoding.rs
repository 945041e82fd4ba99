//! Binary-to-text encodings: hexadecimal and base32, lowercase and without padding.

use data_encoding::{BASE32_NOPAD, HEXLOWER, HEXLOWER_PERMISSIVE};

/// Two hexadecimal digits per byte.
///
/// ```
/// assert_eq!(canon::encoding::hex(&[0x0f, 0xa0]), "0fa0");
/// ```
pub fn hex(bytes: &[u8]) -> String {
    HEXLOWER.encode(bytes)
}

/// Appends [`hex`] to a string.
pub fn push_hex(text: &mut String, bytes: &[u8]) {
    HEXLOWER.encode_append(bytes, text);
}

/// Writes [`hex`] to a buffer of exactly twice the length of `bytes`.
///
/// # Panics
/// If the buffer has another length.
pub fn write_hex(bytes: &[u8], digits: &mut [u8]) {
    HEXLOWER.encode_mut(bytes, digits);
}

/// Decodes exactly `N` bytes from hexadecimal digits of either case.
///
/// ```
/// assert_eq!(canon::encoding::from_hex("0FA0"), Some([0x0f, 0xa0]));
/// assert_eq!(canon::encoding::from_hex::<2>("0fa"), None);
/// ```
pub fn from_hex<const N: usize>(digits: &str) -> Option<[u8; N]> {
    decode(&HEXLOWER_PERMISSIVE, digits).ok()
}

/// As [`from_hex`], for lowercase digits only. The error has the offset of the first invalid byte, if the length is
/// right.
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

/// One character of `a-z` and `2-7` per five bits.
///
/// ```
/// assert_eq!(canon::encoding::base32(b"hello"), "nbswy3dp");
/// ```
pub fn base32(bytes: &[u8]) -> String {
    let mut text = BASE32_NOPAD.encode(bytes);
    text.make_ascii_lowercase();
    text
}
