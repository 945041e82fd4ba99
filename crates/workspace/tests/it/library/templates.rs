//! Templates by name.

use std::os::unix::fs::symlink;

use serde_json::json;
use workspace::Code;
use workspace::compose::TemplateResolver as _;

use super::TestLibrary;

const SKILL: &str = "---\nname: a\ndescription: b\n---\n";

fn stocked() -> TestLibrary {
    let shelf = TestLibrary::new();
    shelf
        .write("templates/own.hbs", "own")
        .write("skills/a/SKILL.md", SKILL)
        .write("skills/a/templates/own.hbs", "of the skill")
        .write("skills/a/templates/one.hbs", "one")
        .write("skills/a/templates/two.hbs", "two")
        .write("skills/deep/b@1.0.0/SKILL.md", SKILL)
        .write("skills/deep/b@1.0.0/templates/old.hbs", "old")
        .write("skills/deep/b@2.0.0/SKILL.md", SKILL)
        .write("skills/deep/b@2.0.0/templates/two.hbs", "two")
        .write("skills/deep/b@2.0.0/templates/new.hbs", "new");
    shelf
}

#[test]
fn a_template_comes_from_the_library_or_from_one_skill() {
    let shelf = stocked();
    let templates = shelf.library().templates();
    #[rustfmt::skip]
    let cases = [
        ("own",         Ok("own")),
        ("one",         Ok("one")),
        ("new",         Ok("new")),
        ("old",         Err(Code::TemplateNotFound)),
        ("two",         Err(Code::TemplateAmbiguous)),
        ("nope",        Err(Code::TemplateNotFound)),
        ("../own",      Err(Code::TemplateNotFound)),
        ("a/own",       Err(Code::TemplateNotFound)),
        ("",            Err(Code::TemplateNotFound)),
        (".own",        Err(Code::TemplateNotFound)),
    ];
    for (name, expected) in cases {
        let found = templates.source(name);
        assert_eq!(found.as_deref().map_err(workspace::Error::code), expected, "{name}");
    }
}

#[test]
fn all_missing_templates_are_reported() {
    let shelf = stocked();
    let mut templates = shelf.library().templates();
    let names = ["own", "nope", "one", "neither", "two"];
    let refused = templates.preload(names).unwrap_err();
    assert_eq!(refused.code(), Code::TemplateNotFound);
    let causes: Vec<Code> = refused.causes().iter().map(workspace::Error::code).collect();
    assert_eq!(causes, [Code::TemplateNotFound, Code::TemplateAmbiguous]);
    templates.preload(["own", "one"]).unwrap();
    shelf.write("templates/own.hbs", "changed");
    assert_eq!(templates.source("own").unwrap(), "own", "what was read ahead stays");
}

#[test]
fn a_template_is_rendered_with_its_variables() {
    let shelf = stocked();
    shelf.write("templates/theme.hbs", "t={{theme}}").write("templates/open.hbs", "{{#each x}}");
    let templates = shelf.library().templates();
    let vars = |value: serde_json::Value| value.as_object().unwrap().clone();
    // Case 28.
    assert_eq!(templates.resolve("theme", &vars(json!({"theme": "dark"}))).unwrap(), "t=dark");
    // Case 58.
    assert_eq!(templates.resolve("theme", &vars(json!({}))).unwrap_err().code(), Code::TemplateMissingVar);
    assert_eq!(templates.resolve("open", &vars(json!({}))).unwrap_err().code(), Code::TemplateSyntax);
    assert_eq!(templates.resolve("nope", &vars(json!({}))).unwrap_err().code(), Code::TemplateNotFound);
}

#[test]
fn a_broken_skill_is_reported_only_if_a_template_is_not_found() {
    let shelf = stocked();
    shelf.write("skills/broken/SKILL.md", "no front matter").write("skills/broken/templates/lost.hbs", "x");
    let templates = shelf.library().templates();
    assert_eq!(templates.source("one").unwrap(), "one");
    let refused = templates.source("lost").unwrap_err();
    assert_eq!(refused.code(), Code::TemplateNotFound);
    assert_eq!(refused.causes()[0].code(), Code::SkillInvalidBundle);
}

#[test]
fn a_template_that_is_not_text_is_refused() {
    let shelf = stocked();
    symlink(shelf.outside().join("secret.md"), shelf.path().join("templates/link.hbs")).unwrap();
    shelf.write("templates/bytes.hbs", b"\xff").write("templates/large.hbs", vec![b'x'; (2 << 20) + 1]);
    let templates = shelf.library().templates();
    for (name, code) in
        [("link", Code::TemplateSyntax), ("bytes", Code::TemplateSyntax), ("large", Code::LimitExceeded)]
    {
        let refused = templates.source(name).unwrap_err();
        assert_eq!(refused.code(), code, "{refused}");
    }
}
