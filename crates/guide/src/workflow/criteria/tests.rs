use serde_json::json;

use super::*;
use crate::workflow::compiled::Criteria;

fn contains(value: &str) -> Value {
    json!({"type": "contains", "value": value, "message": format!("say {value}")})
}

#[test]
fn every_failed_rule_is_reported() {
    use FailureKind as K;
    let conditional = json!({"type": "length", "min": 80, "message": "explain",
        "condition": {"var": "rigor", "equals": "thorough"}});
    let schema =
        json!({"type": "schema", "schema": {"type": "object", "required": ["a"]}, "message": "an object"});
    type Case<'a> = (&'a str, Value, &'a str, Vec<(&'a str, FailureKind)>);
    let cases: Vec<Case<'_>> = vec![
        ("a list, all pass", json!([contains("a"), contains("b")]), "a b", vec![]),
        (
            "a list, both fail",
            json!([contains("a"), contains("b")]),
            "x",
            vec![("[0]", K::Required), ("[1]", K::Required)],
        ),
        ("or, one passes", json!({"or": [contains("a"), contains("b")]}), "b", vec![]),
        (
            "or, none passes",
            json!({"or": [contains("a"), {"and": [contains("b"), contains("c")]}]}),
            "b",
            vec![("or[0]", K::Alternative), ("or[1].and[1]", K::Alternative)],
        ),
        ("not", json!({"not": contains("TODO")}), "TODO", vec![("not", K::Forbidden)]),
        (
            "not or needs neither",
            json!({"not": {"or": [contains("a"), contains("b")]}}),
            "a b",
            vec![("not.or[0]", K::Forbidden), ("not.or[1]", K::Forbidden)],
        ),
        (
            "not and: any of the two has to go",
            json!({"not": {"and": [contains("a"), contains("b")]}}),
            "a b",
            vec![("not.and[0]", K::Forbidden), ("not.and[1]", K::Forbidden)],
        ),
        ("not and, one is missing", json!({"not": {"and": [contains("a"), contains("b")]}}), "a", vec![]),
        ("not not", json!({"not": {"not": contains("a")}}), "x", vec![("not.not", K::Required)]),
        ("an ignored rule", json!([conditional.clone()]), "short", vec![]),
        ("ignored below not too", json!({"not": conditional}), "short", vec![]),
        ("a schema", json!([schema.clone()]), r#"{"a": 1}"#, vec![]),
        ("a schema that fails", json!([schema.clone()]), "{}", vec![("[0]", K::Required)]),
        ("no JSON", json!([schema]), "prose", vec![("[0]", K::Required)]),
        (
            "flags",
            json!([{"type": "regex", "pattern": "^x$", "flags": "im", "message": "m"}]),
            "a\nX\nb",
            vec![],
        ),
        ("characters, not bytes", json!([{"type": "length", "max": 2, "message": "m"}]), "éé", vec![]),
    ];
    for (name, criteria, notes, expected) in cases {
        assert_eq!(check(&criteria), Ok(()), "{name}");
        let verdict = evaluate(&Criteria(criteria), notes, &Map::new()).unwrap();
        let found: Vec<(&str, K)> =
            verdict.failures.iter().map(|failure| (failure.path.as_str(), failure.kind)).collect();
        assert_eq!(found, expected, "{name}");
        assert_eq!(verdict.passed(), expected.is_empty(), "{name}");
    }
}

#[test]
fn a_failed_length_gives_both_numbers() {
    let rules = json!([{"type": "length", "min": 3, "max": 5, "message": "m"}]);
    for (notes, expected) in [
        ("ab", "the notes have 2 characters; at least 3 are required"),
        ("abcdef", "the notes have 6 characters; at most 5 are allowed"),
    ] {
        let verdict = evaluate(&Criteria(rules.clone()), notes, &Map::new()).unwrap();
        assert_eq!(verdict.failures[0].detail, expected);
    }
}

#[test]
fn invalid_criteria_are_rejected() {
    let mut deep = contains("a");
    for _ in 0..20 {
        deep = json!({"not": deep});
    }
    let rule = |more: Value| {
        let mut rule = json!({"message": "m"});
        rule.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!([rule])
    };
    let cases = [
        (json!("x"), "", "must be an object"),
        (json!([]), "", "no rules"),
        (json!({"and": []}), "and", "no rules"),
        (json!({"and": [], "or": []}), "", "a rule requires a `type`"),
        (json!({"nand": []}), "", "a rule requires a `type`"),
        (rule(json!({"type": "contain", "value": "x"})), "[0].type", "unknown type"),
        (json!([{"type": "contains", "value": "x"}]), "[0].message", "`message` must be a string"),
        (rule(json!({"type": "contains"})), "[0].value", "`value` must be a string"),
        (
            rule(json!({"type": "contains", "value": "x", "pattern": "y"})),
            "[0].pattern",
            "`pattern` is not allowed",
        ),
        (rule(json!({"type": "regex", "pattern": "("})), "[0].pattern", "unclosed group"),
        (rule(json!({"type": "regex", "pattern": "a", "flags": "y"})), "[0].pattern", "flag"),
        (rule(json!({"type": "length"})), "[0]", "requires `min` or `max`"),
        (rule(json!({"type": "length", "min": -1})), "[0].min", "whole number"),
        (rule(json!({"type": "length", "min": 3, "max": 2})), "[0]", "is greater than"),
        (rule(json!({"type": "schema"})), "[0].schema", "requires a `schema`"),
        (
            rule(json!({"type": "schema", "schema": {"type": "objet"}})),
            "[0].schema",
            "not a valid JSON Schema",
        ),
        (rule(json!({"type": "schema", "schema": {"$ref": "http://x/y"}})), "[0].schema", "`$ref`"),
        (
            rule(json!({"type": "schema", "schema": {"pattern": "(?=a)"}})),
            "[0].schema",
            "not a valid JSON Schema",
        ),
        (
            rule(json!({"type": "contains", "value": "x", "condition": {"var": "a", "eq": 1}})),
            "[0].condition",
            "unknown operator",
        ),
        (deep, "not.not", "nested at most 16"),
        (json!(vec![contains("a"); 70]), "[64]", "at most 64 parts"),
    ];
    for (criteria, path, message) in cases {
        let faults = check(&criteria).unwrap_err();
        assert_eq!(faults.len(), 1, "{criteria}: {faults:?}");
        assert!(faults[0].path.starts_with(path), "{criteria}: {faults:?}");
        assert!(faults[0].message.contains(message), "{criteria}: {faults:?}");
        let _ = evaluate(&Criteria(criteria.clone()), "notes", &Map::new());
        let _ = requirements(&Criteria(criteria), &Map::new());
    }
}

#[test]
fn requirements_are_described() {
    let criteria = json!({"and": [
        {"type": "regex", "pattern": "severity:(high|low)", "flags": "i", "message": "State a severity."},
        {"type": "length", "min": 80, "message": "Explain it", "condition": {"var": "rigor", "equals": "thorough"}},
        {"or": [contains("a"), {"and": [contains("b"), contains("c")]}]},
        {"not": contains("TODO")},
        {"type": "schema", "schema": {"type": "object"}, "message": "as JSON"},
    ]});
    let lines = |context: Value| -> Vec<String> {
        let found = requirements(&Criteria(criteria.clone()), context.as_object().unwrap());
        found.into_iter().map(|requirement| requirement.text).collect()
    };
    assert_eq!(
        lines(json!({})),
        [
            "State a severity",
            "At least one of (contain \"a\" (say a); or all of (contain \"b\" (say b); contain \"c\" (say c)))",
            "Must not contain \"TODO\" (say TODO)",
            "Must be JSON that matches the schema `{\"type\":\"object\"}` (as JSON)",
        ]
    );
    assert_eq!(lines(json!({"rigor": "thorough"}))[1], "Must have at least 80 characters (Explain it)");
}

/// Finding G4: a `schema` rule with `block` checks one fenced block of the notes and ignores the text around it.
#[test]
fn a_schema_rule_can_check_one_named_block() {
    let rule = json!([{"type": "schema", "block": "findings", "message": "List them",
        "schema": {"type": "array", "minItems": 1}}]);
    assert_eq!(check(&rule), Ok(()));
    for (name, notes, detail) in [
        ("there", "Found two.\n\n```json findings\n[1, 2]\n```\nMore.", None),
        ("indented, in a longer fence", "  ````json findings\n[1]\n````", None),
        ("the last of two", "```json findings\n[]\n```\n```json findings\n[1]\n```", None),
        (
            "inside of another",
            "````md\n```json findings\n[1]\n```\n````",
            Some("no fenced block ```json findings"),
        ),
        ("of another name", "```json others\n[1]\n```", Some("no fenced block ```json findings")),
        ("not closed", "```json findings\n[1]", Some("no fenced block ```json findings")),
        ("not JSON", "```json findings\n[1,]\n```", Some("is not JSON")),
        ("against the schema", "```json findings\n[]\n```", Some("/: ")),
    ] {
        let verdict = evaluate(&Criteria(rule.clone()), notes, &Map::new()).unwrap();
        match detail {
            None => assert!(verdict.passed(), "{name}: {verdict:?}"),
            Some(detail) => assert!(verdict.failures[0].detail.contains(detail), "{name}: {verdict:?}"),
        }
    }
    for block in [json!(""), json!("two words"), json!(3), json!("x".repeat(65))] {
        let rule = json!([{"type": "schema", "block": block, "message": "m", "schema": {}}]);
        assert_eq!(check(&rule).unwrap_err()[0].path, "[0].block", "{block}");
    }
}

#[test]
fn flags_are_not_evidence() {
    for (criteria, expected) in [
        (json!([contains("planningComplete = true")]), true),
        (json!({"and": [contains("done"), contains("all ready")]}), true),
        (json!([contains("severity:")]), false),
        (json!([contains("done"), {"type": "length", "min": 80, "message": "m"}]), false),
        (json!([]), false),
    ] {
        assert_eq!(is_flag_only(&criteria), expected, "{criteria}");
    }
}
