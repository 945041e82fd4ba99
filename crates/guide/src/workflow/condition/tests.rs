use serde_json::json;

use super::*;

#[test]
fn conditions_are_evaluated() {
    let context = json!({
        "rigor": " Thorough ", "count": 3, "text": "3.0", "flag": true, "said": "Yes", "zero": 0, "none": null,
        "empty": "", "list": ["a", 2, {"x": 1.0}], "deep": {"a": {"b": [10, {"c": "hit"}]}}, "a.b": "dotted",
    });
    let context = context.as_object().unwrap();
    let cases = [
        (json!({}), true),
        (json!({"var": "rigor", "equals": "thorough"}), true),
        (json!({"var": "rigor", "not_equals": "quick"}), true),
        (json!({"var": "count", "equals": "3"}), true),
        (json!({"var": "text", "equals": 3}), true),
        (json!({"var": "text", "equals": "3"}), false),
        (json!({"var": "flag", "equals": "yes"}), true),
        (json!({"var": "flag", "equals": 1}), true),
        (json!({"var": "said", "equals": true}), true),
        (json!({"var": "said", "equals": false}), false),
        (json!({"var": "zero", "equals": false}), true),
        (json!({"var": "missing", "equals": null}), true),
        (json!({"var": "none", "equals": null}), true),
        (json!({"var": "missing", "not_equals": "x"}), true),
        (json!({"var": "missing", "equals": false}), false),
        (json!({"var": "count", "gt": 2}), true),
        (json!({"var": "count", "gte": 3}), true),
        (json!({"var": "count", "lt": 3}), false),
        (json!({"var": "text", "gt": 2}), false),
        (json!({"var": "missing", "lt": 2}), false),
        (json!({"var": "list", "contains": "A"}), true),
        (json!({"var": "list", "contains": {"x": 1}}), true),
        (json!({"var": "list", "equals": ["a", 2.0, {"x": 1}]}), true),
        (json!({"var": "rigor", "contains": "Thor"}), true),
        (json!({"var": "rigor", "contains": "thor"}), false),
        (json!({"var": "said", "startsWith": "Ye"}), true),
        (json!({"var": "said", "endsWith": "s"}), true),
        (json!({"var": "count", "startsWith": "3"}), false),
        (json!({"var": "said", "matches": "^Y.s$"}), true),
        (json!({"var": "count", "in": [1, "3"]}), true),
        (json!({"var": "count", "in": []}), false),
        (json!({"var": "deep.a.b.1.c", "equals": "hit"}), true),
        (json!({"var": "deep.a.b.7.c"}), false),
        (json!({"var": "deep.a.b.x"}), false),
        (json!({"var": "a.b", "equals": "dotted"}), true),
        (json!({"var": "flag"}), true),
        (json!({"var": "zero"}), false),
        (json!({"var": "empty"}), false),
        (json!({"var": "list"}), true),
        (json!({"and": []}), true),
        (json!({"or": []}), false),
        (json!({"and": [{"var": "flag"}, {"not": {"var": "zero"}}]}), true),
        (json!({"or": [{"var": "zero"}, {"var": "missing"}]}), false),
    ];
    for (condition, expected) in cases {
        assert_eq!(check(&condition), Ok(()), "{condition}");
        assert_eq!(evaluate(&Condition(condition.clone()), context), Ok(expected), "{condition}");
    }
}

#[test]
fn invalid_conditions_are_rejected() {
    let mut deep = json!({"var": "a"});
    for _ in 0..40 {
        deep = json!({"not": deep});
    }
    let wide = json!({"and": vec![json!({}); 300]});
    let cases = [
        (json!(null), "", "must be an object"),
        (json!([]), "", "must be an object"),
        (json!({"var": "a", "equal": 1}), "", "unknown operator `equal`"),
        (json!({"equals": 1}), "", "requires `var`"),
        (json!({"var": 3}), "var", "variable name"),
        (json!({"var": "a..b"}), "var", "not a valid variable name"),
        (json!({"var": "a b"}), "var", "not a valid variable name"),
        (json!({"var": "a", "gt": 1, "lt": 5}), "", "`gt`, `lt` cannot be combined"),
        (json!({"var": "a", "and": []}), "", "cannot be combined"),
        (json!({"and": {}}), "and", "list of conditions"),
        (json!({"and": [{"var": "a", "gt": "1"}]}), "and[0].gt", "a number"),
        (json!({"var": "a", "in": "x"}), "in", "list"),
        (json!({"var": "a", "startsWith": 1}), "startsWith", "a string"),
        (json!({"var": "a", "matches": "(?=x)"}), "matches", "look-around"),
        (json!({"var": "a", "matches": "((a{1000}){1000}){1000}"}), "matches", "exceeds the limit"),
        (json!({"kind": "condition_ref"}), "", "conditionId"),
        (deep, "not.not", "deeper than 32"),
        (wide, "", "more than 256 parts"),
    ];
    for (condition, path, message) in cases {
        let faults = check(&condition).unwrap_err();
        assert_eq!(faults.len(), 1, "{condition}: {faults:?}");
        assert!(faults[0].path.starts_with(path), "{condition}: {faults:?}");
        assert!(faults[0].message.contains(message), "{condition}: {faults:?}");
        let _ = evaluate(&Condition(condition), &Map::new());
    }
}

#[test]
fn conditions_that_can_never_hold_are_detected() {
    for (condition, expected) in [
        (json!({}), false),
        (json!({"var": "a"}), false),
        (json!({"or": []}), true),
        (json!({"not": {}}), true),
        (json!({"and": [{"var": "a"}, {"not": {}}]}), true),
        (json!({"or": [{"var": "a"}, {"not": {}}]}), false),
        (json!({"var": "a", "in": []}), true),
    ] {
        assert_eq!(never_holds(&condition), expected, "{condition}");
    }
}

#[test]
fn a_misspelled_operator_gets_a_suggestion() {
    let fault = check(&json!({"var": "a", "not_equal": 1})).unwrap_err().remove(0);
    assert_eq!(fault.fix, "Did you mean `not_equals`?");
}
