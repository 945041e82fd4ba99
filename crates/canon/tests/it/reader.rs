//! What the strict reader accepts, and every error.

use canon::json::{self, Limits, Numbers, Position, ReadError, ReadErrorCode, ReadErrorKind};
use serde_json::{Value, json};

use ReadErrorKind as K;

const DEFAULT: Limits = Limits::DEFAULT;
const EXACT: Limits = Limits::DEFAULT.numbers(Numbers::Exact);

fn unexpected(expected: &'static str, found: impl Into<Option<char>>) -> ReadErrorKind {
    K::Unexpected { expected, found: found.into() }
}

fn duplicate(key: &str) -> ReadErrorKind {
    K::DuplicateKey { key: key.to_owned() }
}

fn out_of_range(literal: &str) -> ReadErrorKind {
    K::OutOfRange { literal: literal.to_owned() }
}

fn inexact(literal: &str) -> ReadErrorKind {
    K::InexactInteger { literal: literal.to_owned() }
}

/// Input, limits, error, and its (offset, line, column).
type Refused = (&'static [u8], Limits, ReadErrorKind, (usize, usize, usize));

fn refused() -> Vec<Refused> {
    let word_end = "`\"` at the end of the string";
    let hexadecimal = "four hexadecimal digits after `\\u`";
    vec![
        // No value.
        (b"", DEFAULT, K::Empty, (0, 1, 1)),
        (b" \r\n\t ", DEFAULT, K::Empty, (5, 2, 3)),
        (b"\xEF\xBB\xBF{}", DEFAULT, K::ByteOrderMark, (0, 1, 1)),
        // Not a value.
        (b"nul", DEFAULT, unexpected("`null`", None), (3, 1, 4)),
        (b"nulL", DEFAULT, unexpected("`null`", 'L'), (3, 1, 4)),
        (b"True", DEFAULT, unexpected("a value", 'T'), (0, 1, 1)),
        (b"trUe", DEFAULT, unexpected("`true`", 'U'), (2, 1, 3)),
        (b"falsy", DEFAULT, unexpected("`false`", 'y'), (4, 1, 5)),
        (b"NaN", DEFAULT, unexpected("a value", 'N'), (0, 1, 1)),
        (b"-Infinity", DEFAULT, unexpected("a digit", 'I'), (1, 1, 2)),
        (b"'a'", DEFAULT, unexpected("a value", '\''), (0, 1, 1)),
        (b"// note\n1", DEFAULT, unexpected("a value", '/'), (0, 1, 1)),
        (b"\x00", DEFAULT, unexpected("a value", '\0'), (0, 1, 1)),
        ("\u{a0}1".as_bytes(), DEFAULT, unexpected("a value", '\u{a0}'), (0, 1, 1)),
        ("1\u{feff}".as_bytes(), DEFAULT, K::Trailing { found: '\u{feff}' }, (1, 1, 2)),
        // More than one value.
        (b"1 2", DEFAULT, K::Trailing { found: '2' }, (2, 1, 3)),
        (b"{}\n{}", DEFAULT, K::Trailing { found: '{' }, (3, 2, 1)),
        (b"[]]", DEFAULT, K::Trailing { found: ']' }, (2, 1, 3)),
        (b"nullnull", DEFAULT, K::Trailing { found: 'n' }, (4, 1, 5)),
        ("\"é\"é".as_bytes(), DEFAULT, K::Trailing { found: 'é' }, (4, 1, 4)),
        // Lists and objects.
        (b"[", DEFAULT, unexpected("a value", None), (1, 1, 2)),
        (b"[1", DEFAULT, unexpected("`,` or `]`", None), (2, 1, 3)),
        (b"[1 2]", DEFAULT, unexpected("`,` or `]`", '2'), (3, 1, 4)),
        (b"[1,]", DEFAULT, unexpected("a value", ']'), (3, 1, 4)),
        (b"[,1]", DEFAULT, unexpected("a value", ','), (1, 1, 2)),
        (b"[1}", DEFAULT, unexpected("`,` or `]`", '}'), (2, 1, 3)),
        (b"]", DEFAULT, unexpected("a value", ']'), (0, 1, 1)),
        (b"{", DEFAULT, unexpected("a key or `}`", None), (1, 1, 2)),
        (b"{1:2}", DEFAULT, unexpected("a key or `}`", '1'), (1, 1, 2)),
        (b"{a:2}", DEFAULT, unexpected("a key or `}`", 'a'), (1, 1, 2)),
        (b"{\"a\"}", DEFAULT, unexpected("`:`", '}'), (4, 1, 5)),
        (b"{\"a\":}", DEFAULT, unexpected("a value", '}'), (5, 1, 6)),
        (b"{\"a\":1", DEFAULT, unexpected("`,` or `}`", None), (6, 1, 7)),
        (b"{\"a\":1,}", DEFAULT, unexpected("a key", '}'), (7, 1, 8)),
        (b"{\"a\":1]", DEFAULT, unexpected("`,` or `}`", ']'), (6, 1, 7)),
        (b"{\"a\":1\n\"b\":2}", DEFAULT, unexpected("`,` or `}`", '"'), (7, 2, 1)),
        // Strings.
        (b"\"", DEFAULT, unexpected(word_end, None), (1, 1, 2)),
        (b"\"abc", DEFAULT, unexpected(word_end, None), (4, 1, 5)),
        (b"\"abcdefghijkl", DEFAULT, unexpected(word_end, None), (13, 1, 14)),
        (b"\"a\\\"", DEFAULT, unexpected(word_end, None), (4, 1, 5)),
        (b"\"a\nb\"", DEFAULT, K::ControlCharacter { found: '\n' }, (2, 1, 3)),
        (b"\"12345678\tb\"", DEFAULT, K::ControlCharacter { found: '\t' }, (9, 1, 10)),
        (b"\"\x1f\"", DEFAULT, K::ControlCharacter { found: '\u{1f}' }, (1, 1, 2)),
        (b"{\"\x00\":1}", DEFAULT, K::ControlCharacter { found: '\0' }, (2, 1, 3)),
        (b"\"\\", DEFAULT, K::Escape { found: None }, (1, 1, 2)),
        (b"\"\\x41\"", DEFAULT, K::Escape { found: Some('x') }, (1, 1, 2)),
        (b"\"\\'\"", DEFAULT, K::Escape { found: Some('\'') }, (1, 1, 2)),
        (b"\"\\U0041\"", DEFAULT, K::Escape { found: Some('U') }, (1, 1, 2)),
        (b"\"\\u12", DEFAULT, unexpected(hexadecimal, None), (5, 1, 6)),
        (b"\"\\u12g4\"", DEFAULT, unexpected(hexadecimal, 'g'), (5, 1, 6)),
        (b"\"\\u+123\"", DEFAULT, unexpected(hexadecimal, '+'), (3, 1, 4)),
        // Text that is not Unicode.
        (b"\"a\xFF\"", DEFAULT, K::InvalidUtf8 { byte: 0xFF }, (2, 1, 3)),
        (b"\"\xC0\xAF\"", DEFAULT, K::InvalidUtf8 { byte: 0xC0 }, (1, 1, 2)),
        (b"\"\xED\xA0\x80\"", DEFAULT, K::InvalidUtf8 { byte: 0xED }, (1, 1, 2)),
        (b"\"\xF4\x90\x80\x80\"", DEFAULT, K::InvalidUtf8 { byte: 0xF4 }, (1, 1, 2)),
        (b"[\n \"\xC3\xA9\xE2\x82", DEFAULT, K::InvalidUtf8 { byte: 0xE2 }, (6, 2, 4)),
        (b"\"\\ud800\"", DEFAULT, K::LoneSurrogate { unit: 0xD800 }, (1, 1, 2)),
        (b"\"ab\\uDFFF\"", DEFAULT, K::LoneSurrogate { unit: 0xDFFF }, (3, 1, 4)),
        (b"\"\\ud83dx\"", DEFAULT, K::LoneSurrogate { unit: 0xD83D }, (1, 1, 2)),
        (b"\"\\ud83d\\n\"", DEFAULT, K::LoneSurrogate { unit: 0xD83D }, (1, 1, 2)),
        (b"\"\\ud83d\\u0041\"", DEFAULT, K::LoneSurrogate { unit: 0xD83D }, (1, 1, 2)),
        (b"\"\\ud83d\\ud83d\"", DEFAULT, K::LoneSurrogate { unit: 0xD83D }, (1, 1, 2)),
        (b"{\"\\udc00\":1}", DEFAULT, K::LoneSurrogate { unit: 0xDC00 }, (2, 1, 3)),
        // Numbers.
        (b"01", DEFAULT, K::LeadingZero, (0, 1, 1)),
        (b"[-00.5]", DEFAULT, K::LeadingZero, (2, 1, 3)),
        (b"+1", DEFAULT, unexpected("a value", '+'), (0, 1, 1)),
        (b"-", DEFAULT, unexpected("a digit", None), (1, 1, 2)),
        (b"--1", DEFAULT, unexpected("a digit", '-'), (1, 1, 2)),
        (b".5", DEFAULT, unexpected("a value", '.'), (0, 1, 1)),
        (b"5.", DEFAULT, unexpected("a digit after the decimal point", None), (2, 1, 3)),
        (b"5.e1", DEFAULT, unexpected("a digit after the decimal point", 'e'), (2, 1, 3)),
        (b"5e", DEFAULT, unexpected("a digit in the exponent", None), (2, 1, 3)),
        (b"5e+", DEFAULT, unexpected("a digit in the exponent", None), (3, 1, 4)),
        (b"[5E-]", DEFAULT, unexpected("a digit in the exponent", ']'), (4, 1, 5)),
        (b"0x10", DEFAULT, K::Trailing { found: 'x' }, (1, 1, 2)),
        (b"1_000", DEFAULT, K::Trailing { found: '_' }, (1, 1, 2)),
        (b"[1, 1e400]", DEFAULT, out_of_range("1e400"), (4, 1, 5)),
        (b"-1e400", DEFAULT, out_of_range("-1e400"), (0, 1, 1)),
        (b"1.7976931348623159e308", DEFAULT, out_of_range("1.7976931348623159e308"), (0, 1, 1)),
        (b"1e99999999999999999999", DEFAULT, out_of_range("1e99999999999999999999"), (0, 1, 1)),
        (b"1e400", EXACT, out_of_range("1e400"), (0, 1, 1)),
        (b"[9007199254740993]", EXACT, inexact("9007199254740993"), (1, 1, 2)),
        (b"-9007199254740993", EXACT, inexact("-9007199254740993"), (0, 1, 1)),
        (b"18446744073709551615", EXACT, inexact("18446744073709551615"), (0, 1, 1)),
        (b"-9223372036854775809", EXACT, inexact("-9223372036854775809"), (0, 1, 1)),
        (b"100000000000000000000000", EXACT, inexact("100000000000000000000000"), (0, 1, 1)),
        (b"1152921504606847000", EXACT, inexact("1152921504606847000"), (0, 1, 1)),
        // Duplicate keys.
        (b"{\"a\":1,\"a\":2}", DEFAULT, duplicate("a"), (7, 1, 8)),
        (b"{\"a\":1,\n \"\\u0061\":1}", DEFAULT, duplicate("a"), (9, 2, 2)),
        (b"[{\"\":[],\"b\":{},\"\":{\"c\":[0]}}]", DEFAULT, duplicate(""), (15, 1, 16)),
        (b"{\"\\ud83d\\ude00\":1,\"\xF0\x9F\x98\x80\":1}", DEFAULT, duplicate("😀"), (18, 1, 19)),
        // Limits.
        (b"[1]", DEFAULT.max_bytes(2), K::TooLarge { limit: 2, measured: 3 }, (2, 1, 3)),
        (b"\xFF", DEFAULT.max_bytes(0), K::TooLarge { limit: 0, measured: 1 }, (0, 1, 1)),
        (b"[]", DEFAULT.max_depth(0), K::TooDeep { limit: 0, measured: 1 }, (0, 1, 1)),
        (b"[\n{\"a\": [", DEFAULT.max_depth(2), K::TooDeep { limit: 2, measured: 3 }, (8, 2, 7)),
    ]
}

#[test]
fn every_error_has_a_kind_and_position() {
    for (bytes, limits, kind, (offset, line, column)) in refused() {
        let shown = String::from_utf8_lossy(bytes);
        let expected = ReadError { kind, position: Position { offset, line, column } };
        assert_eq!(json::read(bytes, &limits), Err(expected), "{shown}");
    }
}

#[test]
fn rejects_more_than_serde_json_only_for_known_reasons() {
    for (bytes, limits, kind, _) in refused() {
        let strict_only = matches!(
            kind,
            K::DuplicateKey { .. } | K::InexactInteger { .. } | K::TooLarge { .. } | K::TooDeep { .. }
        );
        if !strict_only && limits == DEFAULT {
            let theirs = serde_json::from_slice::<Value>(bytes);
            assert!(theirs.is_err(), "{}", String::from_utf8_lossy(bytes));
        }
    }
}

#[test]
fn every_code_is_produced_and_has_a_page() {
    let produced: Vec<ReadErrorCode> = refused()
        .into_iter()
        .map(|(bytes, limits, ..)| json::read(bytes, &limits).unwrap_err().code())
        .collect();
    for code in ReadErrorCode::ALL {
        assert!(produced.contains(code), "{code}");
        let page = match code {
            ReadErrorCode::Syntax => include_str!("../../../../docs/errors/JSON_SYNTAX.md"),
            ReadErrorCode::TooLarge => include_str!("../../../../docs/errors/JSON_TOO_LARGE.md"),
            ReadErrorCode::TooDeep => include_str!("../../../../docs/errors/JSON_TOO_DEEP.md"),
            ReadErrorCode::DuplicateKey => include_str!("../../../../docs/errors/JSON_DUPLICATE_KEY.md"),
            ReadErrorCode::InexactNumber => include_str!("../../../../docs/errors/JSON_INEXACT_NUMBER.md"),
            ReadErrorCode::InvalidText => include_str!("../../../../docs/errors/JSON_INVALID_TEXT.md"),
        };
        assert!(page.starts_with(&format!("# {code}\n")), "the title of the page of {code} is its name");
    }
}

/// The first code block of each page is the actual message.
#[test]
fn page_examples_match_the_reader() {
    let cases: [(&[u8], Limits, &str); 6] = [
        (b"[1, 2,]", DEFAULT, include_str!("../../../../docs/errors/JSON_SYNTAX.md")),
        (b"[1, 2, 3]", DEFAULT.max_bytes(4), include_str!("../../../../docs/errors/JSON_TOO_LARGE.md")),
        (b"[[[1]]]", DEFAULT.max_depth(2), include_str!("../../../../docs/errors/JSON_TOO_DEEP.md")),
        (b"{\"a\": 1, \"a\": 2}", DEFAULT, include_str!("../../../../docs/errors/JSON_DUPLICATE_KEY.md")),
        (b"[9007199254740993]", EXACT, include_str!("../../../../docs/errors/JSON_INEXACT_NUMBER.md")),
        (b"\"\\ud83d\"", DEFAULT, include_str!("../../../../docs/errors/JSON_INVALID_TEXT.md")),
    ];
    for (bytes, limits, page) in cases {
        let said = json::read(bytes, &limits).unwrap_err().envelope().to_string();
        assert!(page.contains(&format!("```text\n{said}\n```")), "the page should quote:\n{said}");
        let input = String::from_utf8_lossy(bytes);
        assert!(page.contains(&format!("```json\n{input}\n```")), "the page should show the input {input}");
    }
}

#[test]
fn values_match_serde_json() {
    let cases: &[&str] = &[
        "0",
        "-0",
        "-0.0",
        "0e5",
        "-0e5",
        "1",
        "-1",
        "1.0",
        "1e2",
        "1E+2",
        "1e-2",
        "0.1",
        "1e-400",
        "-1e-400",
        "9007199254740993",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "-9223372036854775809",
        "18446744073709551615",
        "18446744073709551616",
        "-18446744073709551615",
        "-18446744073709551616",
        "123456789012345678901234567890",
        "1.7976931348623157e308",
        "5e-324",
        "2.4e-324",
        "2.2250738585072011e-308",
        "9007199254740993.0",
        "0.1e1",
        "333333333.33333329",
        r#""""#,
        r#""plain""#,
        r#""\"\\\/\b\f\n\r\t""#,
        r#""\u0000\u20AC\uD83D\ude00""#,
        "\"\u{7f}é€😀\"",
        r#""12345678""#,
        r#""1234567\n""#,
        r#""12345678\n12345678\u0041""#,
        r#""éééé\"éééé""#,
        "[]",
        " [ ] ",
        "{}",
        "\t{\r\n}\n",
        "[[],{},[{}]]",
        r#"{"a":{"b":[1,"c",null,true,false]},"":0}"#,
        r#"{ "b" : 1 , "a" : 2 }"#,
        "null",
        " true ",
        "false",
    ];
    for text in cases {
        let ours = json::read(text.as_bytes(), &DEFAULT).unwrap();
        let theirs: Value = serde_json::from_str(text).unwrap();
        assert_eq!(ours, theirs, "{text}");
        // Number equality ignores the sign of zero; the text does not.
        assert_eq!(ours.to_string(), theirs.to_string(), "{text}");
    }
}

#[test]
fn exact_mode_accepts_every_integer_that_is_a_double() {
    let cases = [
        "0",
        "-0",
        "9007199254740992",
        "-9007199254740992",
        "9007199254740994",
        "9223372036854775808",
        "-9223372036854775808",
        "18446744073709549568",
        "18446744073709551616",
        "100000000000000000000",
        "10000000000000000000000",
        "99999999999999991611392",
        // Not integers: fractions and exponents are rounded.
        "0.1",
        "9007199254740993.0",
        "9007199254740993e0",
        "1e23",
    ];
    for text in cases {
        assert_eq!(json::read(text.as_bytes(), &EXACT), json::read(text.as_bytes(), &DEFAULT), "{text}");
        assert!(json::read(text.as_bytes(), &EXACT).is_ok(), "{text}");
    }
    let greatest = format!("{:.0}", f64::MAX);
    assert!(json::read(greatest.as_bytes(), &EXACT).is_ok(), "all 309 digits of the largest double");
}

#[test]
fn depth_is_limited() {
    let lists = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let objects = |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
    for text in [lists(json::MAX_DEPTH), objects(json::MAX_DEPTH)] {
        let value = json::read(text.as_bytes(), &DEFAULT).unwrap();
        assert_eq!(json::depth_of(&value), json::MAX_DEPTH);
        assert_eq!(value.clone(), value);
    }
    // A limit above the maximum is the maximum.
    let limits = DEFAULT.max_depth(usize::MAX);
    for text in [lists(json::MAX_DEPTH + 1), objects(json::MAX_DEPTH + 1)] {
        let refused = json::read(text.as_bytes(), &limits).unwrap_err();
        assert_eq!(refused.kind, K::TooDeep { limit: 128, measured: 129 });
    }
}

#[test]
fn deep_nesting_is_rejected_at_the_limit() {
    for (unit, column) in [("[", 129), ("{\"a\":", 641), ("[{\"a\":", 385)] {
        let refused = json::read(unit.repeat(100_000).as_bytes(), &DEFAULT).unwrap_err();
        assert_eq!(refused.kind, K::TooDeep { limit: 128, measured: 129 }, "{unit}");
        assert_eq!(refused.position, Position { offset: column - 1, line: 1, column }, "{unit}");
    }
}

#[test]
fn duplicate_keys_are_found_in_linear_time() {
    let members: Vec<String> = (0..100_000).map(|index| format!("\"key{index}\":0")).collect();
    let text = format!("{{{},\"key99999\":1}}", members.join(","));
    let refused = json::read(text.as_bytes(), &DEFAULT).unwrap_err();
    assert_eq!(refused.kind, duplicate("key99999"));
    assert_eq!(&text[refused.position.offset..], "\"key99999\":1}");
}

#[test]
fn quoted_input_is_limited() {
    let long = "x".repeat(100_000);
    let twice = format!("{{\"{long}\":1,\"{long}\":2}}");
    let digits = format!("1{}", "0".repeat(100_000));
    for text in [twice, digits] {
        let envelope = json::read(text.as_bytes(), &DEFAULT).unwrap_err().envelope();
        let sent = serde_json::to_string(&envelope).unwrap();
        assert!(sent.len() < 1000, "{sent}");
        assert!(sent.contains("[TRUNCATED]"), "{sent}");
    }
}

#[test]
fn envelopes_have_position_and_limit() {
    let envelope = json::read(b"[\n[1]]", &DEFAULT.max_depth(1)).unwrap_err().envelope();
    assert_eq!(
        serde_json::to_value(&envelope).unwrap(),
        json!({
            "code": "JSON_TOO_DEEP",
            "message": "the nesting depth is at least 2; the limit is 1, at line 2, column 1 (byte 2)",
            "suggestion": "Flatten the value to at most 1 levels of lists and objects.",
            "retry": {"kind": "not_retryable"},
            "details": {"offset": 2, "line": 2, "column": 1, "limit": 1, "measured": 2},
        })
    );
}

#[test]
fn every_error_has_a_suggestion() {
    for (bytes, limits, ..) in refused() {
        let envelope = json::read(bytes, &limits).unwrap_err().envelope();
        assert!(envelope.suggestion().ends_with('.'), "{envelope}");
    }
}
