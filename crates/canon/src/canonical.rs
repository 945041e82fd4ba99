//! Canonical JSON: [RFC 8785](https://www.rfc-editor.org/rfc/rfc8785).
//!
//! Members are sorted by the UTF-16 code units of their keys, numbers are written as ECMAScript writes the nearest
//! double, strings escape only what must be escaped, and there is no white space. Equal values therefore have equal
//! bytes, and a [digest](crate::digest) of the bytes identifies the value.
//!
//! `serde_json_canonicalizer` does the writing. It silently rounds large integers to the nearest double and writes a
//! NaN inside a list as `null`, and it recurses as deep as the value. [`to_string`] and [`to_vec`] therefore check the
//! value first and reject what would lose information or exhaust the stack:
//!
//! * integers beyond ±2^53, the range in which every integer is a distinct double,
//! * numbers that are not finite,
//! * nesting beyond [`json::MAX_DEPTH`].
//!
//! ```
//! let value = serde_json::json!({"numbers": [1e30, 4.50, 2e-3], "\u{20ac}": "\u{7}\n"});
//! let text = canon::canonical::to_string(&value)?;
//! assert_eq!(text, r#"{"numbers":[1e+30,4.5,0.002],"€":"\u0007\n"}"#);
//! # Ok::<(), canon::canonical::CanonicalError>(())
//! ```

mod check;

use serde::Serialize;
use serde_json::Value;

use crate::json;

/// The largest magnitude up to which every integer is a distinct double: 2^53.
pub const MAX_EXACT_INTEGER: u64 = 1 << 53;

/// The canonical text of `value`.
///
/// `value` is serialized twice, once to check it and once to write it, so `Serialize` must be deterministic.
///
/// # Errors
/// The value has no lossless canonical form; see [`CanonicalError`].
pub fn to_string<T: Serialize + ?Sized>(value: &T) -> Result<String, CanonicalError> {
    check::check(value)?;
    serde_json_canonicalizer::to_string(&value).map_err(|cause| CanonicalError::NotJson { cause })
}

/// The canonical bytes of `value`; see [`to_string`].
///
/// # Errors
/// As [`to_string`].
pub fn to_vec<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, CanonicalError> {
    check::check(value)?;
    serde_json_canonicalizer::to_vec(&value).map_err(|cause| CanonicalError::NotJson { cause })
}

/// The canonical text of a value from [`json::read`], with large integers rounded.
///
/// A value from the reader is never too deep, and a [`Value`] has no NaN and no duplicate keys, so the only possible
/// problem is integers beyond ±2^53. This function writes those as the nearest double, as RFC 8785 prescribes: use it
/// to show a value or to agree with a program that rounds too. If the text identifies the value, use [`to_string`].
///
/// # Panics
/// If `value` is nested deeper than [`json::MAX_DEPTH`], which no value from the reader is. Otherwise the stack could
/// overflow, which cannot be caught.
pub fn string_of(value: &Value) -> String {
    assert!(
        json::within_depth(value, json::MAX_DEPTH),
        "a value nested deeper than {} levels did not come from the strict reader",
        json::MAX_DEPTH
    );
    serde_json_canonicalizer::to_string(value)
        .expect("a shallow `Value` has only finite numbers, string keys and no duplicate keys")
}

/// Appends the text of [`string_of`] to `out`.
///
/// This is a hot path: simple values are written directly, and only values with a special rule in RFC 8785 go to the
/// general writer.
///
/// # Panics
/// As [`string_of`].
pub fn write_to(out: &mut Vec<u8>, value: &Value) {
    const PLAIN: &str = "strings and integers always serialize";
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::String(text) => serde_json::to_writer(out, text).expect(PLAIN),
        Value::Number(number) if number.as_i64().is_some_and(|n| n.unsigned_abs() <= MAX_EXACT_INTEGER) => {
            serde_json::to_writer(out, number).expect(PLAIN);
        }
        // For ASCII keys, byte order equals UTF-16 order, whatever order the map has.
        Value::Object(members) if members.keys().all(|key| key.is_ascii()) && members.keys().is_sorted() => {
            for (index, (key, member)) in members.iter().enumerate() {
                out.push(if index == 0 { b'{' } else { b',' });
                serde_json::to_writer(&mut *out, key).expect(PLAIN);
                out.push(b':');
                write_member(out, member);
            }
            out.extend_from_slice(if members.is_empty() { b"{}" } else { b"}" });
        }
        other => out.extend_from_slice(string_of(other).as_bytes()),
    }
}

/// Members are written directly if they do not nest, so no depth check is needed.
fn write_member(out: &mut Vec<u8>, member: &Value) {
    match member {
        Value::Array(_) | Value::Object(_) => out.extend_from_slice(string_of(member).as_bytes()),
        plain => write_to(out, plain),
    }
}

/// Why a value has no canonical form.
#[derive(Debug, thiserror::Error)]
pub enum CanonicalError {
    #[error("the value is nested deeper than {limit} levels")]
    TooDeep {
        /// The maximum depth.
        limit: usize,
    },
    #[error("the integer {integer} is beyond ±2^53, where a JSON number cannot represent every integer")]
    InexactInteger {
        /// The integer in decimal.
        integer: String,
    },
    #[error("JSON cannot represent NaN or infinity")]
    NotFinite,
    /// `Serialize` returned an error.
    #[error("serialization failed: {message}")]
    Refused { message: String },
    /// Something without a JSON form, such as a map with non-string keys.
    #[error("the value has no JSON form")]
    NotJson {
        #[source]
        cause: serde_json::Error,
    },
}
