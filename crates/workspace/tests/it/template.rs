//! Templates: rendering and errors.

use serde_json::{Value, json};
use workspace::template::{MAX_LOOP_STEPS, MAX_NESTING, MAX_OUTPUT, check, render};
use workspace::{Code, Error};

#[test]
fn a_template_renders_the_documented_subset() {
    let vars = json!({
        "x": "a<b>&\"'`=", "n": 1.5, "i": 10.0, "yes": true, "no": false, "nil": null, "empty": "", "zero": 0,
        "none": [], "user": {"name": "Ada", "tags": ["p", "q"]}, "list": ["a", "b", "c"],
        "rows": [{"v": 1, "in": [7, 8]}, {"v": 2, "in": []}], "name": "top", "nothing": {},
    });
    let cases = [
        ("text stays", "plain } { text", "plain } { text"),
        ("HTML is escaped as Handlebars does", "{{x}}", "a&lt;b&gt;&amp;&quot;&#x27;&#x60;&#x3D;"),
        ("three braces are raw", "{{{x}}}", "a<b>&\"'`="),
        ("so is &", "{{& x}}", "a<b>&\"'`="),
        ("numbers are those of JavaScript", "{{n}} {{i}} {{zero}}", "1.5 10 0"),
        ("booleans", "{{yes}} {{no}}", "true false"),
        ("null is nothing", "[{{nil}}]", "[]"),
        ("lists and objects are JSON", "{{{user}}}", r#"{"name":"Ada","tags":["p","q"]}"#),
        ("paths", "{{user.name}} {{user.tags.1}} {{this.name}}", "Ada q top"),
        ("white space in tags", "{{ user.name }}", "Ada"),
        ("if", "{{#if yes}}A{{else}}B{{/if}}{{#if no}}A{{else}}B{{/if}}", "AB"),
        ("unless", "{{#unless yes}}A{{else}}B{{/unless}}{{#unless no}}A{{/unless}}", "BA"),
        (
            "each of these is false",
            "{{#if nil}}1{{/if}}{{#if empty}}2{{/if}}{{#if zero}}3{{/if}}{{#if none}}4{{/if}}",
            "",
        ),
        ("absent is false too", "{{#if absent.deep}}1{{else}}2{{/if}}", "2"),
        ("an empty object is true", "{{#if nothing}}1{{/if}}", "1"),
        (
            "each over a list",
            "{{#each list}}{{@index}}{{@key}}{{this}}{{#unless @last}},{{/unless}}{{/each}}",
            "00a,11b,22c",
        ),
        ("each over an object", "{{#each user}}{{@index}}:{{@key}} {{/each}}", "0:name 1:tags "),
        ("first", "{{#each list}}{{#if @first}}{{this}}{{/if}}{{/each}}", "a"),
        (
            "each of nothing",
            "{{#each none}}x{{else}}no{{/each}}{{#each nothing}}x{{else}}no{{/each}}",
            "nono",
        ),
        (
            "loops nest, conditions do not count",
            "{{#each rows}}{{#each in}}{{#if yes}}{{/if}}{{../v}}{{this}}{{../../name}} {{/each}}{{/each}}",
            "17top 18top ",
        ),
        ("comments", "a{{! x }}b{{!-- {{y}} --}}c{{!-- -- - --}}d", "abcd"),
        ("tildes", "a  {{~name~}}  b", "atopb"),
        ("tildes of comments and raw tags", "a {{~! c ~}} b {{~{name}~}} c", "abtopc"),
        ("tildes of long comments", "a {{~!-- c --~}} b", "ab"),
        ("lone tags take their line", "a\n  {{#if yes}}  \nb\n{{else}}\nc\n{{/if}}\nd\n", "a\nb\nd\n"),
        ("first and last line too", "{{! x }}\na\n{{#if yes}}\nb\n{{/if}}", "a\nb\n"),
        ("with line ends of two characters", "a\r\n{{#if yes}}\r\nb\r\n{{/if}}\r\nc", "a\r\nb\r\nc"),
        ("values stay on their line", "a\n{{name}}\nb", "a\ntop\nb"),
        ("two tags on a line keep it", "{{#if yes}}{{/if}}\nx", "\nx"),
    ];
    for (name, text, expected) in cases {
        assert_eq!(render(text, &vars).as_deref(), Ok(expected), "{name}: {text}");
    }
    // Case 28 of the specification.
    assert_eq!(render("t={{theme}}", &json!({"theme": "dark"})).unwrap(), "t=dark");
}

fn refused(text: &str, vars: &Value) -> (Code, u64, u64) {
    let error: Error = render(text, vars).unwrap_err();
    let number = |key: &str| error.details()[key].as_u64().unwrap();
    (error.code(), number("line"), number("column"))
}

#[test]
fn a_template_is_refused_with_its_line_and_column() {
    let vars = json!({"a": 1, "text": "t", "rows": [{"b": 1}]});
    let missing = Code::TemplateMissingVar;
    let syntax = Code::TemplateSyntax;
    let cases = [
        // Case 58 of the specification, both parts.
        ("{{x}}", missing, 1, 1),
        ("{{#each", syntax, 1, 1),
        ("ä\nb {{x.y}}", missing, 2, 3),
        ("{{a.b}}", missing, 1, 1),
        ("{{a.length}}", missing, 1, 1),
        ("{{#each x}}{{/each}}", missing, 1, 1),
        ("{{#each text}}{{/each}}", missing, 1, 1),
        ("{{#each rows}}{{a}}{{/each}}", missing, 1, 15),
        ("{{@index}}", missing, 1, 1),
        ("{{../a}}", missing, 1, 1),
        ("x{{#each rows}}", syntax, 1, 2),
        ("{{#if a}}{{#each rows}}{{/if}}{{/each}}", syntax, 1, 24),
        ("{{/if}}", syntax, 1, 1),
        ("{{else}}", syntax, 1, 1),
        ("{{#if a}}{{else}}{{else}}{{/if}}", syntax, 1, 18),
        ("{{#if a}}{{else if b}}{{/if}}", syntax, 1, 10),
        ("{{#if}}{{/if}}", syntax, 1, 1),
        ("{{#with a}}{{/with}}", syntax, 1, 1),
        ("{{#each rows as |row|}}{{/each}}", syntax, 1, 1),
        ("{{> partial}}", syntax, 1, 1),
        ("{{* inline}}", syntax, 1, 1),
        ("{{^}}", syntax, 1, 1),
        ("{{lookup a b}}", syntax, 1, 1),
        ("{{{upper a}}}", syntax, 1, 1),
        ("{{(a)}}", syntax, 1, 1),
        ("{{\"a\"}}", syntax, 1, 1),
        ("{{a.[0]}}", syntax, 1, 1),
        ("{{a/b}}", syntax, 1, 1),
        ("{{a..b}}", syntax, 1, 1),
        ("{{@root.a}}", syntax, 1, 1),
        ("{{../@index}}", syntax, 1, 1),
        ("{{{{raw}}}}", syntax, 1, 1),
        ("{{}}", syntax, 1, 1),
        ("{{{a}}", syntax, 1, 1),
        ("{{!-- x }}", syntax, 1, 1),
        ("\\{{a}}", syntax, 1, 2),
    ];
    for (text, code, line, column) in cases {
        assert_eq!(refused(text, &vars), (code, line, column), "{text}");
    }
    let hint = render("{{#each rows}}{{a}}{{/each}}", &vars).unwrap_err();
    assert!(hint.message().contains("`../a`"), "{hint}");
}

#[test]
fn template_limits_are_enforced() {
    let nested = |depth: usize| format!("{}x{}", "{{#if a}}".repeat(depth), "{{/if}}".repeat(depth));
    let vars = json!({"a": 1, "many": vec![0; 1000], "big": "x".repeat(MAX_OUTPUT)});
    assert_eq!(render(&nested(MAX_NESTING), &vars).unwrap(), "x");
    assert_eq!(render("{{big}}", &vars).unwrap().len(), MAX_OUTPUT);
    let thrice = "{{#each many}}{{#each ../many}}{{#each ../../many}}{{/each}}{{/each}}{{/each}}".to_owned();
    let idle = format!(
        "{{{{#each many}}}}{{{{#each ../many}}}}{}{{{{/each}}}}{{{{/each}}}}",
        "{{#if a}}{{/if}}".repeat(1000)
    );
    let cases = [
        ("too deep", nested(MAX_NESTING + 1), "levels of blocks in a template"),
        ("far too deep", nested(100_000), "levels of blocks in a template"),
        ("too much", "{{big}}.".to_owned(), "bytes of a rendered template"),
        ("too many turns", thrice, "loop steps of a template"),
        ("too much to do in too few turns", idle, "steps of rendering a template"),
        ("too long", "x".repeat(MAX_OUTPUT + 1), "bytes of a template"),
    ];
    for (name, text, limit) in cases {
        let error = render(&text, &vars).unwrap_err();
        assert_eq!((error.code(), &error.details()["limit"]), (Code::LimitExceeded, &json!(limit)), "{name}");
    }
    let turns = json!({"many": vec![0; usize::try_from(MAX_LOOP_STEPS).unwrap()]});
    assert_eq!(render("{{#each many}}{{/each}}", &turns).unwrap(), "", "the bound itself is within it");
}

#[test]
fn a_long_template_of_small_tags_is_read_in_linear_time() {
    // Each of these was, or could be, quadratic. The test fails by taking minutes.
    for text in ["{{!--x--}}", "{{!x}}", "{{!-----}}", "{{#if a}}{{/if}}", "{{a}}", "{{{a}}}"] {
        let text = text.repeat((1 << 20) / text.len());
        assert_eq!(check(&text), Ok(()));
    }
    for text in ["{{!--", "{{", "{{{", "{{! ", "--"] {
        let _ = check(&text.repeat((1 << 20) / text.len()));
    }
}

proptest::proptest! {
    #[test]
    fn no_template_panics(text in "([a-z .\n~{}#/!&@^-]|\\{\\{|\\}\\}|\\{\\{#(if|each|unless) a\\}\\}|\\{\\{/(if|each)\\}\\}|\\{\\{else\\}\\}|é){0,40}") {
        let vars = json!({"a": [1, {"b": "x"}], "b": true});
        let _ = render(&text, &vars);
    }

    #[test]
    fn text_without_braces_is_unchanged(text in "[^{]{0,200}") {
        proptest::prop_assert_eq!(render(&text, &json!({})).unwrap(), text);
    }

    #[test]
    fn escaped_values_contain_no_html(text in ".{0,100}") {
        let escaped = render("{{x}}", &json!({"x": &text})).unwrap();
        proptest::prop_assert!(!escaped.contains(['<', '>', '"', '\'', '`', '=']));
        proptest::prop_assert_eq!(render("{{{x}}}", &json!({"x": &text})).unwrap(), text);
    }
}
