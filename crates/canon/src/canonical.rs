//! The one way to write a JSON value: [RFC 8785](https://www.rfc-editor.org/rfc/rfc8785).
//!
//! Members are sorted by the UTF-16 code units of their keys, numbers are written as
//! ECMAScript writes the nearest double, strings escape only what must be escaped, and
//! there is no white space. Values that are equal therefore have equal bytes, and a
//! [digest](crate::digest) of the bytes is an identity of the value.
//!
//! The writing is done by `serde_json_canonicalizer`. It rounds large integers to the nearest
//! double and writes a NaN inside a list as `null`, both without a word, and it recurses
//! as deep as the value does. [`to_string`] and [`to_vec`] therefore look at the value
//! first and refuse what would lose information or exhaust the stack:
//!
//! * integers beyond ±2^53, the range in which every integer has a double of its own,
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

/// The greatest magnitude up to which every integer is a double of its own: 2^53.
pub const MAX_EXACT_INTEGER: u64 = 1 << 53;

/// The canonical text of `value`.
///
/// `value` is serialised twice, once to be checked and once to be written; a `Serialize`
/// implementation that answers differently the second time gets what it asks for.
///
/// # Errors
/// The value has no canonical form that keeps what it says; see [`CanonicalError`].
pub fn to_string<T: Serialize + ?Sized>(value: &T) -> Result<String, CanonicalError> {
    check::check(value)?;
    serde_json_canonicalizer::to_string(&value).map_err(|cause| CanonicalError::NotJson { cause })
}

/// The canonical bytes of `value`: those of [`to_string`].
///
/// # Errors
/// As [`to_string`].
pub fn to_vec<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, CanonicalError> {
    check::check(value)?;
    serde_json_canonicalizer::to_vec(&value).map_err(|cause| CanonicalError::NotJson { cause })
}

/// The canonical text of a value that [`json::read`] gave, large integers rounded.
///
/// A value from the reader is never too deep, and a [`Value`] holds no NaN and no key
/// twice, so nothing is left to refuse but integers beyond ±2^53. This function writes
/// those as RFC 8785 prescribes, as the nearest double: right for showing a value or for
/// agreeing with a program that rounds too. Where the text becomes an identity, use
/// [`to_string`].
///
/// # Panics
/// When `value` is nested deeper than [`json::MAX_DEPTH`], which no value from the
/// reader is. A panic can be caught and reported; the stack overflow it stands for
/// could not.
pub fn string_of(value: &Value) -> String {
    assert!(
        json::within_depth(value, json::MAX_DEPTH),
        "a value nested deeper than {} levels did not come from the strict reader",
        json::MAX_DEPTH
    );
    serde_json_canonicalizer::to_string(value)
        .expect("a shallow `Value` has only finite numbers, text keys, and no key twice")
}

/// Appends the text of [`string_of`] to `out`.
///
/// What many values are told apart by is written here: the plain cases go straight into the
/// buffer, and only what RFC 8785 has a special rule for goes to the general writer.
///
/// # Panics
/// As [`string_of`].
pub fn write_to(out: &mut Vec<u8>, value: &Value) {
    const PLAIN: &str = "texts and integers always serialise";
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::String(text) => serde_json::to_writer(out, text).expect(PLAIN),
        Value::Number(number) if number.as_i64().is_some_and(|n| n.unsigned_abs() <= MAX_EXACT_INTEGER) => {
            serde_json::to_writer(out, number).expect(PLAIN);
        }
        // Only there do bytes and UTF-16 units sort alike, whatever order the map keeps.
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

/// Members are written in place as long as they do not nest, so that no depth has to be counted.
fn write_member(out: &mut Vec<u8>, member: &Value) {
    match member {
        Value::Array(_) | Value::Object(_) => out.extend_from_slice(string_of(member).as_bytes()),
        plain => write_to(out, plain),
    }
}

/// Why a value has no canonical form.
#[derive(Debug, thiserror::Error)]
pub enum CanonicalError {
    /// Nested deeper than [`json::MAX_DEPTH`].
    #[error("the value is nested deeper than {limit} levels")]
    TooDeep {
        /// The deepest nesting that is written.
        limit: usize,
    },
    /// An integer beyond ±2^53: its neighbours would have the same canonical form.
    #[error(
        "the integer {integer} is beyond ±2^53, where a JSON number can no longer tell it from its neighbours"
    )]
    InexactInteger {
        /// The integer, in decimal digits.
        integer: String,
    },
    /// A NaN or an infinity.
    #[error("JSON has no number for NaN or infinity")]
    NotFinite,
    /// `Serialize` itself gave up.
    #[error("the value refused to be serialised: {message}")]
    Refused {
        /// What the implementation said.
        message: String,
    },
    /// Something JSON has no form for, for example a map whose keys are not texts.
    #[error("the value has no JSON form")]
    NotJson {
        /// What the serialiser said.
        #[source]
        cause: serde_json::Error,
    },
}
