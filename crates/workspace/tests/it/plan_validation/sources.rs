//! Validation of sources.

use super::*;

/// Every kind with all required members, and whether it is a folder.
fn sources() -> Vec<(Value, bool)> {
    let rendered = |kind| json!({"kind": kind, "orgId": "o", "projectId": "p", "agentSlug": "a", "groupKey": "g", "role": "r"});
    vec![
        (rendered("rendered-agents-md"), false),
        (rendered("rendered-context-json"), false),
        (rendered("rendered-system-overlay"), false),
        (json!({"kind": "static-literal", "pathWithinWorkspace": "x", "bytes": "eA=="}), false),
        (
            json!({"kind": "agent-definition", "orgId": "o", "agentSlug": "a", "groupKey": "g", "agentMode": "primary"}),
            false,
        ),
        (json!({"kind": "skill-bundle", "skillKey": "k"}), true),
        (
            json!({"kind": "instruction-section", "orgId": "o", "sectionKey": "k", "agentSlug": "a", "groupKey": "g"}),
            false,
        ),
        (json!({"kind": "artifact-version", "artifactId": "a", "version": 1, "fileName": "f"}), false),
        (json!({"kind": "kb-space", "spaceId": "s"}), true),
        (json!({"kind": "kb-pages", "spaceId": "s", "pageSlugs": ["p"]}), true),
        (json!({"kind": "scm-repo", "repoRef": "r", "ref": "HEAD"}), true),
        (json!({"kind": "deliverable-specs", "contractKey": "k"}), true),
        (json!({"kind": "deliverables", "contractKey": "k"}), true),
        (json!({"kind": "session-attachment", "sessionId": "s"}), true),
    ]
}

#[test]
fn every_source_member_is_required_and_typed() {
    assert_eq!(sources().len(), workspace::plan::SourceKind::ALL.len());
    for (source, _) in sources() {
        let valid = check(&plan([with_source(file("references", "x"), source.clone())])).unwrap();
        assert_eq!(
            serde_json::to_value(&valid.entries()[0].source).unwrap(),
            source,
            "read and written the same"
        );
        for member in source.as_object().unwrap().keys() {
            let mut without = source.clone();
            without.as_object_mut().unwrap().remove(member);
            let mut wrongs = vec![without];
            for value in [Value::Null, json!(true), json!({}), json!("")] {
                if member == "bytes" && value == "" {
                    continue; // An empty file is a file.
                }
                wrongs.push(with(source.clone(), member, value));
            }
            for wrong in wrongs {
                let refused =
                    check(&plan([with_source(file("references", "x"), wrong.clone())])).unwrap_err();
                assert_eq!(codes(&refused), [Code::PlanInvalidSource], "{wrong}");
            }
        }
    }
}

#[test]
fn invalid_sources_are_refused() {
    let literal = |bytes: &str| json!({"kind": "static-literal", "pathWithinWorkspace": "x", "bytes": bytes});
    let version = |version: Value| json!({"kind": "artifact-version", "artifactId": "a", "version": version, "fileName": "f"});
    let pages = |pages: Value| json!({"kind": "kb-pages", "spaceId": "s", "pageSlugs": pages});
    let mut optional = version(json!(1));
    optional["payloadField"] = json!(5);
    let cases = [
        ("no source", Value::Null),
        ("a text", json!("kb-space")),
        ("no kind", json!({})),
        ("a kind that is not there", json!({"kind": "http"})),
        ("a kind in capitals", json!({"kind": "KB-SPACE", "spaceId": "s"})),
        ("version 0", version(json!(0))),
        ("version -1", version(json!(-1))),
        ("version 1.5", version(json!(1.5))),
        ("a version as text", version(json!("1"))),
        ("base64 without padding", literal("eA")),
        ("base64 with white space", literal("e30=\n")),
        ("base64 with a space inside", literal("e3 0=")),
        ("base64 with bits that say nothing", literal("eB==")),
        ("base64 for URLs", literal("-_==")),
        ("padding alone", literal("====")),
        ("padding inside", literal("eA==eA==")),
        ("not ASCII", literal("é30=")),
        ("a page without a name", pages(json!(["p", ""]))),
        ("pages that are not a list", pages(json!("p"))),
        ("a page that is not a string", pages(json!([1]))),
        ("an optional member of another type", optional),
    ];
    for (name, source) in cases {
        let refused = check(&plan([with_source(file("references", "x"), source)])).unwrap_err();
        assert_eq!(codes(&refused), [Code::PlanInvalidSource], "{name}");
        assert_eq!(refused.details()["entry"], 0, "{name}");
    }
}

#[test]
fn valid_sources_are_accepted() {
    let version = |version: Value| json!({"kind": "artifact-version", "artifactId": "a", "version": version, "fileName": "f"});
    let mut with_null = version(json!(1));
    with_null["payloadField"] = Value::Null;
    let cases = [
        ("an empty file", json!({"kind": "static-literal", "pathWithinWorkspace": "x", "bytes": ""})),
        (
            "an empty selection, which is for the resolver to refuse",
            json!({"kind": "kb-pages", "spaceId": "s", "pageSlugs": []}),
        ),
        ("a large version", version(json!(1e23))),
        ("null where null is allowed", with_null),
    ];
    for (name, source) in cases {
        let valid = check(&plan([with_source(file("references", "x"), source.clone())])).expect(name);
        assert_eq!(serde_json::to_value(&valid.entries()[0].source).unwrap(), source, "{name}");
    }
    let valid = check(&plan([with_source(file("references", "x"), version(json!(2.0)))])).unwrap();
    let Source::ArtifactVersion { version, .. } = &valid.entries()[0].source else { panic!("an artifact") };
    assert_eq!(version.to_string(), "2", "one spelling for one version");
}
