//! The briefcase.

use super::*;

fn with_references(references: &Value) -> Value {
    changed(
        base(),
        &[("/manifest/mounts/references", enabled(None)), ("/briefcase", json!({"references": references}))],
    )
}

#[test]
fn references_of_the_briefcase() {
    let cases = [
        (
            "kb_space",
            "s/x@y",
            Some(("kb-space:s/x@y", "kb/s/x@y", json!({"kind": "kb-space", "spaceId": "s/x@y"}))),
        ),
        // Case 22.
        (
            "kb_page",
            "s/p/q",
            Some((
                "kb-page:s:p/q",
                "kb/s",
                json!({"kind": "kb-pages", "spaceId": "s", "pageSlugs": ["p/q"]}),
            )),
        ),
        ("kb_page", "/p", None),
        ("kb_page", "s/", None),
        ("kb_page", "s", None),
        ("kb_page", "", None),
        // Case 23.
        (
            "artifact",
            "a@b@3",
            Some((
                "artifact:a@b:v3",
                "a@b-v3",
                json!({"kind": "artifact-version", "artifactId": "a@b", "version": 3, "fileName": "a@b-v3"}),
            )),
        ),
        (
            "artifact",
            "a@3abc",
            Some((
                "artifact:a:v3",
                "a-v3",
                json!({"kind": "artifact-version", "artifactId": "a", "version": 3, "fileName": "a-v3"}),
            )),
        ),
        (
            "artifact",
            "a@ 1.9",
            Some((
                "artifact:a:v1",
                "a-v1",
                json!({"kind": "artifact-version", "artifactId": "a", "version": 1, "fileName": "a-v1"}),
            )),
        ),
        (
            "artifact",
            "a@9007199254740993",
            Some((
                "artifact:a:v9007199254740992",
                "a-v9007199254740992",
                json!({"kind": "artifact-version", "artifactId": "a", "version": 9_007_199_254_740_992_u64, "fileName": "a-v9007199254740992"}),
            )),
        ),
        (
            "artifact",
            "a@100000000000000000000000",
            Some((
                "artifact:a:v1e+23",
                "a-v1e+23",
                json!({"kind": "artifact-version", "artifactId": "a", "version": 1e23, "fileName": "a-v1e+23"}),
            )),
        ),
        ("artifact", "@3", None),
        ("artifact", "a@0", None),
        ("artifact", "a@", None),
        ("artifact", "a@-1", None),
        ("artifact", "a@0x10", None),
        ("artifact", "a", None),
        // Case 25.
        (
            "scm_repo",
            "o/r@main",
            Some(("scm:o/r:main", "scm/o/r", json!({"kind": "scm-repo", "repoRef": "o/r", "ref": "main"}))),
        ),
        (
            "scm_repo",
            "git@h:o/r",
            Some(("scm:git:h:o/r", "scm/git", json!({"kind": "scm-repo", "repoRef": "git", "ref": "h:o/r"}))),
        ),
        (
            "scm_repo",
            "o/r",
            Some(("scm:o/r:HEAD", "scm/o/r", json!({"kind": "scm-repo", "repoRef": "o/r", "ref": "HEAD"}))),
        ),
        ("scm_repo", "@", Some(("scm::", "scm/", json!({"kind": "scm-repo", "repoRef": "", "ref": ""})))),
        ("ftp", "x", None),
    ];
    for (kind, text, expected) in cases {
        let result = composed(&with_references(&json!([{"kind": kind, "ref": text}])));
        match expected {
            Some((key, rel_path, source_json)) => {
                let plan = result.unwrap();
                let key = format!("briefcase-reference:{key}");
                assert_eq!(added(&plan), [key.as_str()], "{kind} {text}");
                assert_eq!(entry(&plan, &key).rel_path, rel_path, "{kind} {text}");
                assert_eq!(source(&plan, &key), source_json, "{kind} {text}");
            }
            None => assert_eq!(result.unwrap_err().code(), Code::ComposeBadReference, "{kind} {text}"),
        }
    }
    let silent = composed(&with_references(
        &json!([{"kind": "external_url", "ref": "https://x", "title": "x"}, {"kind": "external_url"}]),
    ));
    assert_eq!(added(&silent.unwrap()), [""; 0]);
    for wrong in [
        json!(5),
        json!({}),
        json!({"kind": 5, "ref": "x"}),
        json!({"kind": "kb_space"}),
        json!({"kind": "kb_space", "ref": 5}),
    ] {
        assert_eq!(
            refused(&with_references(&json!([wrong.clone()]))).code(),
            Code::ComposeBadReference,
            "{wrong}"
        );
    }
}

#[test]
fn a_title_names_the_file_of_an_artifact() {
    for (title, expected) in
        [(json!(" report.md\u{feff}"), "report.md"), (json!("  "), "a-v1"), (json!(null), "a-v1")]
    {
        let plan =
            composed(&with_references(&json!([{"kind": "artifact", "ref": "a@1", "title": title}]))).unwrap();
        assert_eq!(entry(&plan, "briefcase-reference:artifact:a:v1").rel_path, expected);
    }
    // Case 24: composing does not check titles, validation does.
    let plan =
        composed(&with_references(&json!([{"kind": "artifact", "ref": "a@1", "title": "../../etc/passwd"}])))
            .unwrap();
    assert_eq!(ValidPlan::check(&plan.to_value(), None, false).unwrap_err().code(), Code::PlanUnsafePath);
}

#[test]
fn uploads_of_the_briefcase() {
    let upload = |name: &str, content_type: Value| json!({"filename": name, "contentType": content_type, "artifact": {"artifactId": "a", "version": 1}});
    let with_uploads = |uploads: Value| {
        changed(
            base(),
            &[("/manifest/mounts/uploads", enabled(None)), ("/briefcase", json!({"uploads": uploads}))],
        )
    };
    let plan = composed(&with_uploads(json!([upload(" a b.txt\n", json!("text/plain"))]))).unwrap();
    let expected = json!({
        "kind": "artifact-version", "artifactId": "a", "version": 1, "fileName": "a b.txt", "contentType": "text/plain",
    });
    assert_eq!(source(&plan, "briefcase-upload:a:v1"), expected);
    assert_eq!(entry(&plan, "briefcase-upload:a:v1").rel_path, "a b.txt");
    let plan = composed(&with_uploads(json!([upload("f", json!(null))]))).unwrap();
    assert!(source(&plan, "briefcase-upload:a:v1").get("contentType").is_none(), "null is absent here");
    for name in ["../x", "a..b", "/x", " ", ""] {
        let error = refused(&with_uploads(json!([upload(name, json!(null))])));
        assert_eq!(error.code(), Code::ComposeInvalidFileName, "{name:?}");
    }
    // Members that no enabled slot needs are not checked.
    let bad = json!({"uploads": [upload("..", json!(5)), 7], "references": [{"kind": "ftp"}]});
    assert!(composed(&changed(base(), &[("/briefcase", bad)])).is_ok());
    // Case 43, and case 44.
    let validated =
        |uploads| ValidPlan::check(&composed(&with_uploads(uploads)).unwrap().to_value(), None, false);
    let other = |name: &str, id: &str| json!({"filename": name, "contentType": null, "artifact": {"artifactId": id, "version": 1}});
    let nested = validated(json!([other("a", "1"), other("a/b", "2")])).unwrap_err();
    assert_eq!(nested.code(), Code::PlanPathConflict);
    let twice = validated(json!([other("a", "1"), other("b", "1")])).unwrap_err();
    assert_eq!(twice.code(), Code::PlanDuplicateMountKey);
}
