//! Binding manifests, and the resulting context.

use serde_json::{Map, Value, json};
use workspace::Code;
use workspace::manifest::Surface;

use super::{bind, compile, compiled, object, problems, yaml};

#[test]
fn a_single_token_keeps_its_type_and_an_embedded_one_becomes_text() {
    // Case 32.
    let manifest = compiled(
        "  inputs: {list: {type: array}, n: {type: number}, flag: {type: boolean}, s: {type: string}, o: {type: object}}
  mounts:
    references:
      whole: '${input.list}'
      embedded: 'x ${input.list} ${input.n} ${input.flag} ${input.s}'
      number: '${input.n}'
      nested: [{deep: '${ input.o }'}, 'plain $']
      fallback: '${input.unset | default: 7}'
"
        .replace("o: {type: object}}", "o: {type: object}, unset: {type: number}}")
        .as_str(),
    );
    let inputs = json!({"list": ["a", 1], "n": 1.50, "flag": true, "s": "é", "o": {"k": [null]}});
    let bound = bind(&manifest, inputs).unwrap();
    let config = serde_json::to_value(&bound.manifest.mounts[0].1.config).unwrap();
    let expected = json!({
        "whole": ["a", 1], "embedded": "x [\"a\",1] 1.5 true é", "number": 1.5,
        "nested": [{"deep": {"k": [null]}}, "plain $"], "fallback": 7,
    });
    assert_eq!(config, expected);
}

#[test]
fn invalid_inputs_are_refused() {
    let manifest = compiled(
        "  inputs:
    s: {type: string, required: true, pattern: '^[a-z]+$', minLength: 2, maxLength: 4}
    e: {type: string, enum: [x, y], default: x}
    n: {type: number, minimum: 1, exclusiveMaximum: 3}
    m: {type: number, exclusiveMinimum: 1, maximum: 3, enum: [2, 3]}
    b: {type: boolean}
    a: {type: array}
    t: {type: 'string[]'}
    o: {type: object}
",
    );
    let accepted = [
        json!({"s": "abcd", "e": "y", "n": 1, "m": 2.0, "b": false, "a": [1], "t": ["x"], "o": {}}),
        json!({"s": "ab", "n": 2.9}),
    ];
    for inputs in accepted {
        bind(&manifest, inputs.clone()).unwrap_or_else(|error| panic!("{inputs}: {error}"));
    }
    let cases = [
        ("missing", json!({}), Code::BindInputMissing),
        ("null", json!({"s": null}), Code::BindInputInvalid),
        ("too short", json!({"s": "a"}), Code::BindInputInvalid),
        ("too long", json!({"s": "abcde"}), Code::BindInputInvalid),
        ("no match", json!({"s": "aB"}), Code::BindInputInvalid),
        ("not in enum", json!({"s": "ab", "e": "z"}), Code::BindInputInvalid),
        ("below", json!({"s": "ab", "n": 0.9}), Code::BindInputInvalid),
        ("at the excluded maximum", json!({"s": "ab", "n": 3}), Code::BindInputInvalid),
        ("at the excluded minimum", json!({"s": "ab", "m": 1}), Code::BindInputInvalid),
        ("above", json!({"s": "ab", "m": 4}), Code::BindInputInvalid),
        ("number not in enum", json!({"s": "ab", "m": 2.5}), Code::BindInputInvalid),
        ("text for boolean", json!({"s": "ab", "b": "true"}), Code::BindInputInvalid),
        ("object for array", json!({"s": "ab", "a": {}}), Code::BindInputInvalid),
        ("number in texts", json!({"s": "ab", "t": [1]}), Code::BindInputInvalid),
        ("array for object", json!({"s": "ab", "o": []}), Code::BindInputInvalid),
        ("undeclared", json!({"s": "ab", "es": 1}), Code::BindInputInvalid),
    ];
    for (name, inputs, code) in cases {
        let error = bind(&manifest, inputs).expect_err(name);
        assert_eq!((error.code(), error.causes().len()), (code, 0), "{name}: {error}");
    }
    let together = bind(&manifest, json!({"n": 0, "q": 1})).unwrap_err();
    let codes: Vec<Code> = problems(&together).into_iter().map(|(code, _)| code).collect();
    assert_eq!(codes, [Code::BindInputMissing, Code::BindInputInvalid, Code::BindInputInvalid]);
    let secret = bind(&manifest, json!({"s": "HUNTER2"})).unwrap_err();
    assert!(!secret.to_string().contains("HUNTER2"), "a value is not quoted: {secret}");
}

#[test]
fn a_missing_input_does_not_become_empty() {
    let manifest = compiled("  inputs: {a: {type: string}}\n  env: [{name: A, value: 'x${input.a}'}]\n");
    let error = bind(&manifest, json!({})).unwrap_err();
    assert_eq!(problems(&error), [(Code::BindInputMissing, "$.spec.env[0].value".to_owned())]);
}

#[test]
fn the_size_added_by_inputs_is_limited() {
    let tokens = "${input.a}".repeat(20_000);
    let manifest = compiled(&format!(
        "  inputs: {{a: {{type: string}}, b: {{type: array}}}}\n  mounts: {{references: {{x: '{tokens}'}}}}\n"
    ));
    let large = bind(&manifest, json!({"a": "x".repeat(1 << 19)})).unwrap_err();
    assert_eq!(large.code(), Code::LimitExceeded);
    let larger = bind(&manifest, json!({"a": "x".repeat(1 << 21)})).unwrap_err();
    assert_eq!(larger.details()["limit"], "bytes of inputs");
    let deep = (0..200).fold(json!(1), |value, _| json!([value]));
    let deep = bind(&manifest, json!({"a": "", "b": deep})).unwrap_err();
    assert_eq!(deep.details()["limit"], "levels of an input");
}

#[test]
fn mounts_set_context_keys_that_the_caller_did_not_set() {
    let spec =
        |mounts: &str| format!("  mounts: {{{mounts}}}\n  skills: [{{slug: code-review}}, {{slug: a/b}}]\n");
    let skills = json!(["code-review", "a/b"]);
    let cases = [
        ("spaces", "references: {kbSpaces: [k, j, k]}", json!({"kbSpaceIds": ["k", "j"]})),
        ("the other variant", "references: {kb: {spaces: [k]}}", json!({"kbSpaceIds": ["k"]})),
        ("both", "references: {kb: {spaces: [k]}, kbSpaces: [j]}", json!({"kbSpaceIds": ["k", "j"]})),
        ("a project", "references: {externalProjects: p}", json!({"externalProjectIds": ["p"]})),
        ("projects", "references: {externalProjects: [p, q]}", json!({"externalProjectIds": ["p", "q"]})),
        (
            "projects by repos",
            "references: {externalProjects: {repos: [p]}}",
            json!({"externalProjectIds": ["p"]}),
        ),
        (
            "the first repository",
            "repos: {work: [{url: a}, {url: b}]}",
            json!({"repoRef": "a", "externalProjectIds": ["b"]}),
        ),
        (
            "the primary one",
            "repos: {work: [{url: a}, {url: b, primary: true}]}, references: {externalProjects: x}",
            json!({"repoRef": "b", "externalProjectIds": ["x", "a"]}),
        ),
        ("a disabled mount says nothing", "references: {enabled: false, kbSpaces: [k]}", json!({})),
        ("an empty list is not set", "references: {kbSpaces: []}", json!({})),
        ("what is not known stays", "references: {other: 1}", json!({})),
    ];
    for (name, mounts, expected) in cases {
        let bound = bind(&compiled(&spec(mounts)), json!({})).unwrap();
        let mut expected = object(expected);
        expected.insert("skills".to_owned(), skills.clone());
        assert_eq!(bound.agent_context, expected, "{name}");
    }
    let text = yaml(&spec("references: {kbSpaces: [k]}"));
    let text =
        text.replace("role: engineer", "role: engineer, subAgents: [{slug: qa}, {slug: docs, alias: d}]");
    let given = object(json!({"kbSpaceIds": null, "skills": ["mine"], "prompt": "x"}));
    let bound = compile(&text).unwrap().0.bind(Surface::Workflow, &Map::new(), given).unwrap();
    let expected =
        json!({"kbSpaceIds": null, "skills": ["mine"], "prompt": "x", "delegatedSubAgents": ["qa", "docs"]});
    assert_eq!(Value::Object(bound.agent_context), expected, "the caller's keys stay");
    let wrong = compiled("  inputs: {s: {type: number}}\n  mounts: {references: {kbSpaces: '${input.s}'}}\n");
    let error = bind(&wrong, json!({"s": 1})).unwrap_err();
    assert_eq!(problems(&error), [(Code::BindInputInvalid, "$.spec.mounts.references.kbSpaces".to_owned())]);
}

#[test]
fn a_manifest_binds_only_for_its_surfaces() {
    let text = yaml("").replace("version: 1.0.0", "version: 1.0.0, surfaceCompat: [agent-session]");
    let (manifest, _) = compile(&text).unwrap();
    let error = bind(&manifest, json!({})).unwrap_err();
    assert_eq!(error.code(), Code::SurfaceIncompatible);
    assert!(manifest.bind(Surface::AgentSession, &Map::new(), Map::new()).is_ok());
    assert!(compiled("").check_surface(Surface::AgentSession).is_ok(), "both, where nothing is said");
}

#[test]
fn the_bound_manifest_composes() {
    let manifest = compiled(
        "  inputs: {who: {type: string, default: Ada}}
  mounts:
    repos: {mode: read-only, work: [{url: demo}]}
    inputs: true
    deliverables: {enabled: false}
  seedFiles:
    - {path: 'hello-${input.who}.txt', slot: repos, content: 'Hi ${input.who} {{x}}'}
    - {path: z, slot: repos, template: zeta, vars: {who: '${input.who}', n: 1}}
    - {path: a, slot: repos, template: alpha}
  env: [{name: PORT, value: 8080}, {name: TOKEN, value: 'Bearer ${credential.T}'}]
  credentials: [{name: T, kind: oauth-bearer, sourceRef: 'env:T'}]
  workingFiles: [{slug: w, path: repos/x.md, format: markdown, syncDirection: down-only, source: {kind: page, ref: {id: '${input.who}'}}}]
",
    );
    let bound = bind(&manifest, json!({})).unwrap();
    let written = serde_json::to_string(&bound.manifest).unwrap();
    assert_eq!(
        written,
        concat!(
            r#"{"slug":"m","version":"1.0.0","agent":{"slug":"engineer","groupKey":"engineering","role":"engineer"},"#,
            r#""mounts":{"repos":{"enabled":true,"mode":"read-only","config":{"work":[{"url":"demo"}]}},"#,
            r#""inputs":{"enabled":true,"config":{}},"deliverables":{"enabled":false,"config":{}}},"#,
            r#""seedFiles":[{"slot":"repos","relPath":"hello-Ada.txt","source":{"kind":"inline","bytesBase64":"SGkgQWRhIHt7eH19"}},"#,
            r#"{"slot":"repos","relPath":"z","source":{"kind":"template","name":"zeta","vars":{"n":1,"who":"Ada"}}},"#,
            r#"{"slot":"repos","relPath":"a","source":{"kind":"template","name":"alpha","vars":{}}}],"#,
            r#""env":[{"name":"PORT","value":"8080"},{"name":"TOKEN","value":"Bearer ${credential.T}"}],"#,
            r#""requiredTemplateNames":["alpha","zeta"],"#,
            r#""workingFiles":[{"slug":"w","path":"repos/x.md","format":"markdown","syncDirection":"down-only","#,
            r#""sourceKind":"page","sourceRef":{"id":"Ada"}}]}"#,
        )
    );
}

#[test]
fn a_manifest_completes_a_request() {
    let manifest = compiled("  mounts: {repos: true, inputs: true}\n  skills: [{slug: s}]\n");
    let none = Map::new();
    let rest = object(
        json!({"orgId": "o", "workflowRun": {"runId": "r", "jobRunId": "j"}, "agentContext": {"k": 1}}),
    );
    let whole = manifest.bind_request(&none, rest).unwrap();
    assert_eq!(whole.mount_order, ["repos", "inputs"]);
    assert_eq!(whole.value["agentContext"], json!({"k": 1, "skills": ["s"]}));
    assert_eq!((&whole.value["orgId"], &whole.value["manifest"]["slug"]), (&json!("o"), &json!("m")));
    assert_eq!(whole.bound.surface, Surface::Workflow);
    let cases = [
        ("neither", json!({}), Code::ComposeSurfaceXor),
        ("both", json!({"workflowRun": {}, "interactive": null}), Code::ComposeSurfaceXor),
        ("a manifest", json!({"interactive": {}, "manifest": {}}), Code::ValidationError),
        ("a context that is a list", json!({"interactive": {}, "agentContext": []}), Code::ValidationError),
    ];
    for (name, rest, code) in cases {
        assert_eq!(manifest.bind_request(&none, object(rest)).expect_err(name).code(), code, "{name}");
    }
    assert!(manifest.bind_request(&none, object(json!({"interactive": {}}))).is_ok());
}
