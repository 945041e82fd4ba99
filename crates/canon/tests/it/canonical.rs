//! What the canonical writer rejects, and key order.

use std::collections::BTreeMap;

use canon::{
    canonical::{self, CanonicalError},
    digest::Digest,
    json::{self, Limits},
};
use serde::Serialize;
use serde_json::{Value, json};

/// A list nested `depth` times. Use [`dismantle`]: dropping it recurses.
fn nested(depth: usize) -> Value {
    (1..depth).fold(json!([]), |inner, _| Value::Array(vec![inner]))
}

fn dismantle(mut value: Value) {
    while let Value::Array(mut items) = value {
        value = items.pop().unwrap_or(Value::Null);
    }
}

#[test]
fn keys_sort_by_utf16() {
    // U+10000 and above begin with a code unit below U+E000, and so come before U+E000..U+FFFF.
    let cases = [
        ("a surrogate pair before the private use area", ["\u{10000}", "\u{e000}"]),
        ("the last character before U+FFFF", ["\u{10ffff}", "\u{ffff}"]),
        ("below the surrogates the order is as expected", ["\u{d7ff}", "\u{10000}"]),
        ("pairs among themselves", ["\u{1f600}", "\u{1f601}"]),
        ("a prefix before the longer key", ["a", "a\0"]),
        ("the empty key first", ["", "\0"]),
        ("digits are text", ["10", "9"]),
        ("upper case first", ["Z", "a"]),
        ("escaped characters sort by what they are", ["\"", "A"]),
        ("a backslash too", ["\\", "]"]),
    ];
    for (name, [first, second]) in cases {
        let value: Value = [second, first].iter().map(|key| (String::from(*key), json!(0))).collect();
        let text = canonical::to_string(&value).unwrap();
        let keys: Vec<String> =
            [first, second].iter().map(|key| canonical::to_string(*key).unwrap()).collect();
        assert_eq!(text, format!("{{{}:0,{}:0}}", keys[0], keys[1]), "{name}");
    }
}

#[test]
fn integers_are_limited_to_2_to_the_53() {
    const EDGE: i64 = 1 << 53;
    for integer in [0, 1, -1, EDGE, -EDGE] {
        assert_eq!(canonical::to_string(&json!([integer])).unwrap(), format!("[{integer}]"));
    }
    for integer in [EDGE + 1, EDGE + 2, -EDGE - 1, i64::MIN, i64::MAX] {
        let refused = canonical::to_string(&json!({"a": [integer]})).unwrap_err();
        assert!(
            matches!(&refused, CanonicalError::InexactInteger { integer: named } if *named == integer.to_string()),
            "{refused}"
        );
        assert!(Digest::of_canonical(&json!([integer])).is_err(), "{integer} has no digest");
    }
    assert!(canonical::to_vec(&u64::MAX).is_err());
    assert!(canonical::to_vec(&i128::MIN).is_err());
    assert!(canonical::to_vec(&u128::MAX).is_err());
    assert_eq!(
        canonical::string_of(&json!(9_007_199_254_740_993_u64)),
        "9007199254740992",
        "rounded on request"
    );
    assert_eq!(canonical::to_string(&1e20).unwrap(), "100000000000000000000", "a double is itself");
}

#[test]
fn depth_is_limited() {
    let deepest = nested(json::MAX_DEPTH);
    let text = canonical::to_string(&deepest).unwrap();
    assert_eq!(text.len(), 2 * json::MAX_DEPTH);
    assert_eq!(json::read(text.as_bytes(), &Limits::default()).unwrap(), deepest);

    for depth in [json::MAX_DEPTH + 1, 100_000] {
        let value = nested(depth);
        assert_eq!(json::depth_of(&value), depth);
        assert!(!json::within_depth(&value, json::MAX_DEPTH));
        assert!(matches!(canonical::to_string(&value), Err(CanonicalError::TooDeep { limit: 128 })));
        assert!(matches!(canonical::to_vec(&value), Err(CanonicalError::TooDeep { limit: 128 })));
        assert!(matches!(Digest::of_canonical(&value), Err(CanonicalError::TooDeep { limit: 128 })));
        dismantle(value);
    }
}

#[test]
#[should_panic(expected = "did not come from the strict reader")]
fn string_of_panics_before_the_stack_overflows() {
    canonical::string_of(&nested(json::MAX_DEPTH + 1));
}

#[derive(Serialize)]
enum Shape {
    Unit,
    Newtype(u8),
    Tuple(u8, f32),
    Struct { b: Option<u8>, a: char },
}

#[test]
fn serializes_every_kind_of_type() {
    let shapes = (
        [Shape::Unit, Shape::Newtype(1), Shape::Tuple(2, 0.5), Shape::Struct { b: None, a: '"' }],
        BTreeMap::from([(10, ()), (9, ())]),
        "text",
    );
    let text = canonical::to_string(&shapes).unwrap();
    let expected = r#"[["Unit",{"Newtype":1},{"Tuple":[2,0.5]},{"Struct":{"a":"\"","b":null}}],{"10":null,"9":null},"text"]"#;
    assert_eq!(text, expected);
    assert_eq!(canonical::to_string(&serde_json::to_value(&shapes).unwrap()).unwrap(), expected);
}

#[test]
fn maps_require_string_keys() {
    let map = BTreeMap::from([(vec![1], 1)]);
    assert!(matches!(canonical::to_string(&map), Err(CanonicalError::NotJson { .. })));
}

#[test]
fn digest_covers_the_canonical_bytes() {
    let value = json!({"b": [1.0, 2], "a": "€"});
    let expected = Digest::of_bytes("{\"a\":\"€\",\"b\":[1,2]}".as_bytes());
    assert_eq!(Digest::of_canonical(&value).unwrap(), expected);
}
