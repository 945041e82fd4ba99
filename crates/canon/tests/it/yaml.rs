//! YAML limits.

use canon::yaml::{Booleans, Fault, Limits, Tags, read};
use serde_json::{Value, json};

const LIMITS: Limits = Limits {
    max_bytes: 10_000,
    max_depth: 8,
    max_nodes: 1_000,
    max_aliases: 100,
    tags: Tags::Refused,
    booleans: Booleans::TrueFalse,
};

#[test]
fn json_values_are_read_as_json() {
    let cases = [
        ("a: 1\nb: [x, 'y', null, ~]\n", json!({"a": 1, "b": ["x", "y", null, null]})),
        ("level: no\non: yes\nis: true\n", json!({"level": "no", "on": "yes", "is": true})),
        ("a: &a {x: 1}\nb: *a\n", json!({"a": {"x": 1}, "b": {"x": 1}})),
        ("a: &a {x: 1}\nb:\n  <<: *a\n  y: 2\n", json!({"a": {"x": 1}, "b": {"x": 1, "y": 2}})),
        ("a: !!str 1\n", json!({"a": "1"})),
        ("just text\n", json!("just text")),
        ("a: \"\\u00e4\"\n", json!({"a": "ä"})),
    ];
    for (text, expected) in cases {
        assert_eq!(read::<Value>(text, &LIMITS), Ok(expected), "{text}");
    }
}

#[test]
fn hostile_texts_are_rejected() {
    let bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n";
    let many = |count: usize| format!("a: [{}]\n", "x,".repeat(count));
    let texts: Vec<(&str, String)> = vec![
        ("two documents", "a: 1\n---\nb: 2\n".to_owned()),
        ("a key that is a list", "? [a, b]\n: 1\n".to_owned()),
        ("an undefined alias", "a: *b\n".to_owned()),
        ("a self-referencing alias", "a: &a [*a]\n".to_owned()),
        ("an open list", "a: [\n".to_owned()),
        ("aliases that multiply", bomb.to_owned()),
        ("a string that aliases repeat", format!("a: &a {}\nb: [{}]\n", "x".repeat(5_000), "*a,".repeat(90))),
        ("too many aliases", format!("a: &a x\nb: [{}]\n", "*a,".repeat(101))),
        ("too many anchors", (0..102).map(|at| format!("k{at}: &a{at} x\n")).collect()),
        ("too many values", many(1_000)),
        ("too many levels", format!("a: {}{}\n", "[".repeat(5_000), "]".repeat(5_000))),
        ("levels by indentation", (0..20).map(|at| format!("{}a:\n", " ".repeat(at))).collect()),
        ("too many bytes", format!("a: {}\n", "x".repeat(10_000))),
        ("a custom tag", "a: !mine 1\n".to_owned()),
    ];
    for (name, text) in texts {
        let refused = read::<Value>(&text, &LIMITS).unwrap_err();
        assert!(refused.to_string().len() <= 400, "{name}: {refused}");
    }
    assert!(read::<Value>(&many(900), &LIMITS).is_ok(), "not every error is about a limit");
    let ignoring = Limits { tags: Tags::Ignored, ..LIMITS };
    assert_eq!(read::<Value>("a: !mine 1\n", &ignoring), Ok(json!({"a": 1})));
    let older = Limits { booleans: Booleans::Yaml11, ..LIMITS };
    assert_eq!(read::<Value>("a: yes\nb: 'yes'\n", &older), Ok(json!({"a": true, "b": "yes"})));
}

#[test]
fn errors_have_positions() {
    let twice = read::<Value>("a: 1\nb: 2\na: 3\n", &LIMITS).unwrap_err();
    assert_eq!(twice.fault, Fault::DuplicateKey("a".to_owned()));
    assert_eq!(twice.position, Some((3, 1)));
    let open = read::<Value>("a: 1\nb: [\n", &LIMITS).unwrap_err();
    assert!(matches!(&open.fault, Fault::Other(reason) if !reason.contains("line")), "{open:?}");
    assert!(open.position.is_some() && open.to_string().contains("line"), "{open:?}");
}
