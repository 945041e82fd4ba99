//! JavaScript semantics that the identity of a workspace depends on.
//!
//! The `applyId` of a workspace is compared with ids from JavaScript programs, so its pre-image
//! must match theirs byte for byte: `JSON.stringify` of an object whose keys were inserted in
//! sorted order. That is nearly RFC 8785, which [`canon::canonical`] writes, with three
//! differences:
//!
//! * Keys that look like array indices (`0` to `4294967294`) come first, in numeric order, as in
//!   JavaScript objects: `9` before `10` before `a`.
//! * Every number is a double. `9007199254740993` is hashed as its neighbour, where the RFC 8785
//!   writer here refuses it.
//! * A key `__proto__` disappears, because assigning to it sets the prototype instead of a member.
//!
//! This module also has other JavaScript behaviour that a plan shows: what `trim` strips, what
//! `parseInt` reads, and the key order of objects.

use canon::canonical;
use canon::digest::Digest;
use serde_json::{Number, Value};
use sha2::{Digest as _, Sha256};

/// The key that does not become a member.
pub(crate) const PROTO: &str = "__proto__";

/// The largest key that counts as an array index.
const MAX_ARRAY_INDEX: u64 = 4_294_967_294;

/// 2^53: every integer up to it is a distinct double.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// 2^64: the first double beyond the integers of a [`Number`].
const BEYOND_INTEGERS: f64 = 18_446_744_073_709_551_616.0;

/// The chunk size for hashing. The text of a large context is never held as a whole.
const PIECE: usize = 64 << 10;

/// The first 16 hexadecimal digits of the SHA-256 of the canonical text.
pub(crate) fn short_hash(value: &Value) -> String {
    let mut hasher = Sha256::new();
    let mut text = Vec::with_capacity(PIECE + 1024);
    write_canonical(value, &mut text, &mut |text| {
        hasher.update(&*text);
        text.clear();
    });
    hasher.update(&text);
    let mut digits = Digest::from_bytes(hasher.finalize().into()).to_hex();
    digits.truncate(16);
    digits
}

/// Writes the canonical text, and passes it on in chunks of [`PIECE`]. Recurses as deep as the
/// value, which the request limits.
fn write_canonical(value: &Value, out: &mut Vec<u8>, hand_on: &mut impl FnMut(&mut Vec<u8>)) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => out.extend_from_slice(number_text(number).as_bytes()),
        Value::String(text) => write_text(text, out),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                out.push(if index == 0 { b'[' } else { b',' });
                write_canonical(item, out, hand_on);
            }
            out.extend_from_slice(if items.is_empty() { b"[]" } else { b"]" });
        }
        // Byte order, in which a map keeps its keys, is right for almost all objects.
        Value::Object(members)
            if members.keys().all(|key| is_ordinary(key)) && members.keys().is_sorted() =>
        {
            write_members(members.iter(), out, hand_on);
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().filter(|(key, _)| *key != PROTO).collect();
            members.sort_by(|(left, _), (right, _)| left.encode_utf16().cmp(right.encode_utf16()));
            members.sort_by_key(|(key, _)| in_object(key));
            write_members(members.into_iter(), out, hand_on);
        }
    }
    if out.len() >= PIECE {
        hand_on(out);
    }
}

fn write_members<'a>(
    members: impl Iterator<Item = (&'a String, &'a Value)>,
    out: &mut Vec<u8>,
    hand_on: &mut impl FnMut(&mut Vec<u8>),
) {
    let mut before = b'{';
    for (key, member) in members {
        out.push(before);
        write_text(key, out);
        out.push(b':');
        write_canonical(member, out, hand_on);
        before = b',';
    }
    out.extend_from_slice(if before == b'{' { b"{}" } else { b"}" });
}

/// `serde_json` escapes exactly what `JSON.stringify` does, and a `String` has no lone surrogates.
fn write_text(text: &str, out: &mut Vec<u8>) {
    serde_json::to_writer(out, text).expect("writing to memory does not fail");
}

/// Whether a key sorts by its bytes: ASCII, not an array index, and not `__proto__`.
fn is_ordinary(key: &str) -> bool {
    key.is_ascii() && !key.starts_with(|first: char| first.is_ascii_digit()) && key != PROTO
}

/// The key for a stable sort into JavaScript's key order: array indices first, by number; then the
/// others in insertion order.
pub(crate) fn in_object(key: &str) -> (bool, u64) {
    let index = array_index(key);
    (index.is_none(), index.unwrap_or_default())
}

fn array_index(key: &str) -> Option<u64> {
    let digits = key.bytes().all(|byte| byte.is_ascii_digit()) && (1..=10).contains(&key.len());
    if !digits || (key.starts_with('0') && key != "0") {
        return None;
    }
    key.parse().ok().filter(|index| *index <= MAX_ARRAY_INDEX)
}

pub(crate) fn number_text(number: &Number) -> String {
    match number.as_i64() {
        Some(integer) if integer.unsigned_abs() <= canonical::MAX_EXACT_INTEGER => integer.to_string(),
        _ => canonical::string_of(&Value::Number(number.clone())),
    }
}

/// The number as a double: as an integer if it is one, `0` for `-0`.
pub(crate) fn as_double(number: &Number) -> Number {
    match number.as_f64() {
        Some(double) => number_of(double).unwrap_or_else(|| number.clone()),
        None => number.clone(),
    }
}

/// A double as a JSON number; `None` if it is not finite.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole, and within the range")]
fn number_of(double: f64) -> Option<Number> {
    if double.fract() != 0.0 || !double.is_finite() {
        return Number::from_f64(double);
    }
    if (0.0..BEYOND_INTEGERS).contains(&double) {
        Some(Number::from(double as u64))
    } else if (-EXACT..0.0).contains(&double) {
        Some(Number::from(double as i64))
    } else {
        Number::from_f64(double)
    }
}

/// Converts every number within to a double. Recurses as deep as the value.
pub(crate) fn as_doubles(value: &mut Value) {
    match value {
        Value::Number(number) => *number = as_double(number),
        Value::Array(items) => items.iter_mut().for_each(as_doubles),
        Value::Object(members) => members.values_mut().for_each(as_doubles),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// `text.trim()`. Unlike [`str::trim`], it strips U+FEFF and keeps U+0085.
pub(crate) fn trim(text: &str) -> &str {
    text.trim_matches(is_white_space)
}

fn is_white_space(character: char) -> bool {
    matches!(
        character,
        '\u{9}'..='\u{d}' | ' ' | '\u{a0}' | '\u{feff}' | '\u{2028}' | '\u{2029}'
        // The rest of the category Zs.
        | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}'
    )
}

/// `Number.parseInt(text, 10)`; `None` if the result is not finite.
pub(crate) fn parse_int(text: &str) -> Option<Number> {
    let text = text.trim_start_matches(is_white_space);
    let (sign, digits) = match text.as_bytes().first() {
        Some(b'-') => (-1.0, &text[1..]),
        Some(b'+') => (1.0, &text[1..]),
        _ => (1.0, text),
    };
    let end = digits.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
    let magnitude: f64 = digits[..end].parse().ok()?;
    number_of(sign * magnitude)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn canonical_text(value: &Value) -> String {
        let mut text = Vec::new();
        write_canonical(value, &mut text, &mut |_| {});
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn the_canonical_text_matches_the_specification() {
        // Golden vector D.
        let context = json!({
            "z": -0.0, "skills": ["b", "a"], "10": 1, "9": 2.0, "n": 1.5, "big": 1e21,
            "nested": {"b": null, "a": [true, false]}, "prompt": "héllo\n\"x\"\u{2028}\u{1}/",
        });
        let expected = concat!(
            r#"{"9":2,"10":1,"big":1e+21,"n":1.5,"nested":{"a":[true,false],"b":null},"#,
            r#""prompt":"héllo\n\"x\""#,
            "\u{2028}",
            r#"\u0001/","skills":["b","a"],"z":0}"#
        );
        assert_eq!(canonical_text(&context), expected);
        assert_eq!(short_hash(&context), "77a68fa1aa7d6a60");
        assert_eq!(short_hash(&json!({})), "44136fa355b3678a");
    }

    #[test]
    fn chunked_hashing_gives_the_same_result() {
        let value = json!({"list": vec![json!({"b": "x".repeat(100), "10": 1, "9": [null, true]}); 2_000]});
        let whole = canonical_text(&value);
        assert!(whole.len() > 3 * PIECE);
        assert_eq!(short_hash(&value), Digest::of_bytes(whole.as_bytes()).to_hex()[..16]);
    }

    #[test]
    fn keys_are_in_javascript_order() {
        let cases = [
            (r#"{"b":1,"a":2,"10":3,"9":4,"00":5,"0":6}"#, r#"{"0":6,"9":4,"10":3,"00":5,"a":2,"b":1}"#),
            (r#"{"4294967295":1,"4294967294":2,"5":3}"#, r#"{"5":3,"4294967294":2,"4294967295":1}"#),
            (r#"{"-1":1,"1.5":2,"1e3":3,"1":4}"#, r#"{"1":4,"-1":1,"1.5":2,"1e3":3}"#),
            ("{\"\u{ffff}\":1,\"\u{10000}\":2,\"é\":3}", "{\"é\":3,\"\u{10000}\":2,\"\u{ffff}\":1}"),
            (r#"{"__proto__":{"a":1},"a":{"__proto__":2},"b":[{"__proto__":null}]}"#, r#"{"a":{},"b":[{}]}"#),
            (r#"{"":[],"a":{}}"#, r#"{"":[],"a":{}}"#),
        ];
        for (text, expected) in cases {
            let value: Value = serde_json::from_str(text).unwrap();
            assert_eq!(canonical_text(&value), expected);
        }
    }

    #[test]
    fn strings_are_escaped_as_in_json_stringify() {
        let text = "\u{0}\u{8}\t\n\u{b}\u{c}\r\u{1f}\"\\/\u{7f}\u{85}\u{2028}🦀";
        let expected = "\"\\u0000\\b\\t\\n\\u000b\\f\\r\\u001f\\\"\\\\/\u{7f}\u{85}\u{2028}🦀\"";
        assert_eq!(canonical_text(&json!(text)), expected);
    }

    #[test]
    fn numbers_are_doubles() {
        let cases = [
            ("0", "0"),
            ("-0", "0"),
            ("-0.0", "0"),
            ("1.0", "1"),
            ("1e2", "100"),
            ("-5", "-5"),
            ("0.1", "0.1"),
            ("1e21", "1e+21"),
            ("1e20", "100000000000000000000"),
            ("1e-7", "1e-7"),
            ("0.000001", "0.000001"),
            ("9007199254740992", "9007199254740992"),
            ("9007199254740993", "9007199254740992"),
            ("-9007199254740993", "-9007199254740992"),
            ("18446744073709551615", "18446744073709552000"),
            ("-9223372036854775808", "-9223372036854776000"),
            ("123456789012345680000000", "1.2345678901234569e+23"),
            ("5e-324", "5e-324"),
            ("1.7976931348623157e308", "1.7976931348623157e+308"),
        ];
        let read = |text: &str| canon::json::read(text.as_bytes(), &canon::json::Limits::DEFAULT).unwrap();
        for (literal, expected) in cases {
            let mut value = read(literal);
            assert_eq!(canonical_text(&value), expected, "{literal}");
            as_doubles(&mut value);
            assert_eq!(canonical_text(&value), expected, "{literal} as a double");
            let again = read(&value.to_string());
            assert_eq!(canonical_text(&again), expected, "{literal} written and read");
        }
    }

    #[test]
    fn trim_strips_javascript_white_space() {
        let stripped = "\u{9}\u{a}\u{b}\u{c}\u{d} \u{a0}\u{1680}\u{2000}\u{200a}\u{2028}\u{2029}\u{202f}\u{205f}\u{3000}\u{feff}";
        assert_eq!(trim(&format!("{stripped}a b{stripped}")), "a b");
        for kept in ['\u{85}', '\u{180e}', '\u{200b}', '\u{0}', '\u{1c}'] {
            assert_eq!(trim(&kept.to_string()), kept.to_string(), "U+{:04X}", u32::from(kept));
        }
    }

    #[test]
    fn parse_int_reads_a_prefix() {
        let cases = [
            ("3", Some("3")),
            ("3abc", Some("3")),
            ("1.9", Some("1")),
            (" 2", Some("2")),
            ("\u{feff}\u{a0}2", Some("2")),
            ("+7", Some("7")),
            ("-7", Some("-7")),
            ("0x10", Some("0")),
            ("007", Some("7")),
            ("1e5", Some("1")),
            ("1_000", Some("1")),
            ("9007199254740993", Some("9007199254740992")),
            ("100000000000000000000000", Some("1e+23")),
            ("-0", Some("0")),
            ("", None),
            ("abc", None),
            ("+", None),
            ("+-1", None),
            ("- 1", None),
            ("\u{85}1", None),
            ("٣", None),
            ("é1", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_int(text).as_ref().map(number_text).as_deref(), expected, "{text:?}");
        }
        assert_eq!(parse_int(&"9".repeat(400)), None, "more than a double holds");
    }
}
