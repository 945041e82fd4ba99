//! Compiling manifests, and their problems.

mod bind;
mod extends;

use serde_json::{Map, Value, json};
use workspace::manifest::{self, Bound, Format, Manifest, Surface, Warning};
use workspace::{Code, Error};

/// A minimal manifest with additional `spec` lines, each indented by two.
fn yaml(spec: &str) -> String {
    let head = "apiVersion: interlock.dev/workspace/v1\nkind: WorkspaceManifest\nmetadata: {slug: m, version: 1.0.0}\n";
    let agent = "  agent: {slug: engineer, stage: engineering, role: engineer}\n";
    format!("{head}spec:\n{agent}{spec}")
}

fn compile(text: &str) -> Result<(Manifest, Vec<Warning>), Error> {
    manifest::compile(text.as_bytes(), "m.yaml", Format::Yaml)
}

fn compiled(spec: &str) -> Manifest {
    compile(&yaml(spec)).unwrap_or_else(|error| panic!("{spec}: {error} {:?}", error.causes())).0
}

fn object(value: Value) -> Map<String, Value> {
    serde_json::from_value(value).unwrap()
}

fn bind(manifest: &Manifest, inputs: Value) -> Result<Bound, Error> {
    manifest.bind(Surface::Workflow, &object(inputs), Map::new())
}

fn path(error: &Error) -> String {
    error.details().get("path").and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The problem and its causes: code and path of each.
fn problems(error: &Error) -> Vec<(Code, String)> {
    let all = std::iter::once(error).chain(error.causes());
    all.map(|error| (error.code(), path(error))).collect()
}

#[test]
fn all_problems_are_reported_together_with_path_and_position() {
    // Case 29.
    let text = "\
apiVersion: interlock.dev/workspace/v1
kind: WorkspaceManifest
metadata: {slug: m, version: '1.0'}
spec:
  agent:
    slug: engineer
    stage: engineering
    role: boss
  env:
    - name: lower
      value: x
";
    let error = compile(text).unwrap_err();
    let at = |path: &str| (Code::ValidationError, path.to_owned());
    let expected = [at("$.metadata.version"), at("$.spec.agent.role"), at("$.spec.env[0].name")];
    assert_eq!(problems(&error), expected);
    let positions: Vec<(u64, u64)> = std::iter::once(&error)
        .chain(error.causes())
        .map(|error| (error.details()["line"].as_u64().unwrap(), error.details()["column"].as_u64().unwrap()))
        .collect();
    assert_eq!(positions, [(3, 30), (8, 11), (10, 13)]);
    assert!(error.message().starts_with("m.yaml:3:30: $.metadata.version: "), "{error}");
}

#[test]
fn json_reports_the_same_problems_with_its_positions() {
    let text = "{\n  \"apiVersion\": \"interlock.dev/workspace/v1\",\n  \"kind\": \"WorkspaceManifest\",\n  \
                \"metadata\": {\"slug\": \"é\\\"\", \"version\": \"1.0.0\"},\n  \"spec\": {\"agent\": {\"slug\": \"a\", \
                \"stage\": \"s\", \"role\": \"boss\"}}\n}";
    let error = manifest::compile(text.as_bytes(), "m.json", Format::Json).unwrap_err();
    let expected = [
        (Code::ValidationError, "$.metadata.slug".to_owned()),
        (Code::ValidationError, "$.spec.agent.role".to_owned()),
    ];
    assert_eq!(problems(&error), expected);
    assert_eq!((&error.details()["line"], &error.details()["column"]), (&json!(4), &json!(24)));
    assert_eq!(error.causes()[0].details()["line"], 5);
}

#[test]
fn invalid_files_are_refused() {
    let deep = format!("{}x{}", "[".repeat(65), "]".repeat(65));
    let bomb: String = (0..40).fold("a0: &a0 [x, x]\n".to_owned(), |text, n| {
        format!("{text}a{}: &a{} [*a{n}, *a{n}, *a{n}]\n", n + 1, n + 1)
    });
    let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(900_000), "*a, ".repeat(500));
    let large = "#".repeat(manifest::MAX_BYTES + 1);
    let cases: [(&str, &str, &str); 12] = [
        ("nothing", "", "an object"),
        ("a list", "[]", "an object"),
        ("two documents", "a: 1\n---\nb: 2\n", "m.yaml"),
        ("a custom tag", "a: !secret x\n", "tag"),
        ("a key twice", "a: 1\na: 2\n", "duplicate key `a`"),
        ("a key twice, spelt differently", "1: a\n'1': b\n", "duplicate key `1`"),
        ("an alias bomb", &bomb, "m.yaml"),
        ("a bomb of text", &long, "m.yaml"),
        ("a bomb of itself", "a: &a [*a]\n", "m.yaml"),
        ("too deep", &deep, "m.yaml"),
        ("too large", &large, "the limit is 1048576"),
        ("not YAML", "a: [", "m.yaml"),
    ];
    for (name, text, part) in cases {
        let error = compile(text).unwrap_err();
        assert_eq!(error.code(), Code::ValidationError, "{name}");
        assert!(error.message().contains(part), "{name}: {error}");
        assert!(error.message().len() < 1000, "{name}: {error}");
    }
    let cases = [
        ("a key twice", r#"{"a": 1, "a": 2}"#.to_owned()),
        ("not JSON", "{'a': 1}".to_owned()),
        ("too deep", deep),
        ("not UTF-8 escapes", r#"{"a": "\ud800"}"#.to_owned()),
    ];
    for (name, text) in cases {
        let error = manifest::compile(text.as_bytes(), "m.json", Format::Json).unwrap_err();
        assert_eq!(error.code(), Code::ValidationError, "{name}");
        assert!(error.details().contains_key("line"), "{name}: {error}");
    }
    let bytes = manifest::compile(b"\xff", "m.yaml", Format::Yaml).unwrap_err();
    assert!(bytes.message().contains("UTF-8"), "{bytes}");
}

#[test]
fn invalid_members_are_refused() {
    // The last column is the path of the first problem, below `$.spec`.
    let cases = [
        ("unknown member", "  mountz: {}\n", ".mountz"),
        ("unknown slot", "  mounts: {bogus: true}\n", ".mounts.bogus"),
        ("a slot of the platform", "  mounts: {tmp: true}\n", ".mounts.tmp"),
        // Case 30, its first half.
        ("read-write references", "  mounts: {references: {mode: read-write}}\n", ".mounts.references.mode"),
        ("no mode", "  mounts: {repos: {mode: rw}}\n", ".mounts.repos.mode"),
        ("a slot that is a text", "  mounts: {repos: 'yes'}\n", ".mounts.repos"),
        (
            "spaces that are a number",
            "  mounts: {references: {kbSpaces: 3}}\n",
            ".mounts.references.kbSpaces",
        ),
        ("work without url", "  mounts: {repos: {work: [{ref: x}]}}\n", ".mounts.repos.work"),
        ("null", "  env:\n", ".env"),
        ("a variable in lower case", "  env: [{name: a, value: x}]\n", ".env[0].name"),
        ("a value that is a list", "  env: [{name: A, value: []}]\n", ".env[0].value"),
        ("a value that is missing", "  env: [{name: A}]\n", ".env[0].value"),
        ("other namespace", "  env: [{name: A, value: '${env.X}'}]\n", ".env[0].value"),
        ("secrets", "  env: [{name: A, value: '${secrets.X}'}]\n", ".env[0].value"),
        ("undeclared input", "  env: [{name: A, value: '${input.x}'}]\n", ".env[0].value"),
        ("undeclared credential", "  env: [{name: A, value: '${credential.X}'}]\n", ".env[0].value"),
        (
            "a credential outside env",
            "  credentials: [{name: T, kind: scm-token, sourceRef: x}]\n  mounts: {references: {x: '${credential.T}'}}\n",
            ".mounts.references.x",
        ),
        ("a seed with neither", "  seedFiles: [{path: a, slot: inputs}]\n", ".seedFiles[0]"),
        (
            "a seed with both",
            "  seedFiles: [{path: a, slot: inputs, content: x, template: t}]\n",
            ".seedFiles[0]",
        ),
        ("a seed in no slot", "  seedFiles: [{path: a, slot: nope, content: x}]\n", ".seedFiles[0].slot"),
        (
            "a seed that climbs",
            "  seedFiles: [{path: ../a, slot: inputs, content: x}]\n",
            ".seedFiles[0].path",
        ),
        (
            "a template that climbs",
            "  seedFiles: [{path: a, slot: inputs, template: ../t}]\n",
            ".seedFiles[0].template",
        ),
        (
            "vars without template",
            "  seedFiles: [{path: a, slot: inputs, content: x, vars: {}}]\n",
            ".seedFiles[0].vars",
        ),
        ("an absolute path", "  persistence: {paths: [/etc]}\n", ".persistence.paths[0]"),
        ("a climbing path", "  persistence: {paths: [a/../b]}\n", ".persistence.paths[0]"),
        (
            "a token in a path that is not filled in",
            "  persistence: {paths: ['${input.a}']}\n",
            ".persistence.paths[0]",
        ),
        (
            "a token in a reference",
            "  credentials: [{name: T, kind: scm-token, sourceRef: '${input.a}'}]\n",
            ".credentials[0].sourceRef",
        ),
        (
            "a seed in a slot of the platform",
            "  seedFiles: [{path: a, slot: agents-md, content: x}]\n",
            ".seedFiles[0].slot",
        ),
        ("no port", "  outputSurface: {kind: web}\n", ".outputSurface.port"),
        ("port 0", "  outputSurface: {kind: web, port: 0}\n", ".outputSurface.port"),
        (
            "a relative health path",
            "  outputSurface: {kind: none, healthPath: x}\n",
            ".outputSurface.healthPath",
        ),
        ("a bad skill", "  skills: [{slug: A B}]\n", ".skills[0].slug"),
        (
            "a bad credential",
            "  credentials: [{name: T, kind: password, sourceRef: x}]\n",
            ".credentials[0].kind",
        ),
        (
            "a tool without its name",
            "  toolSelection: [{kind: tool, providerKind: catalog, resourceId: r}]\n",
            ".toolSelection[0].toolName",
        ),
        (
            "a provider with one",
            "  toolSelection: [{kind: provider, providerKind: catalog, resourceId: r, toolName: t}]\n",
            ".toolSelection[0].toolName",
        ),
        ("no tool key", "  permissions: {tools: {allow: [fly]}}\n", ".permissions.tools.allow[0]"),
        ("no input type", "  inputs: {a: {type: date}}\n", ".inputs.a.type"),
        ("an input without a name", "  inputs: {'a b': {type: string}}\n", ".inputs[\"a b\"]"),
        ("a default of another type", "  inputs: {a: {type: number, default: x}}\n", ".inputs.a.default"),
        (
            "a default outside enum",
            "  inputs: {a: {type: string, enum: [x], default: y}}\n",
            ".inputs.a.default",
        ),
        ("an empty enum", "  inputs: {a: {type: string, enum: []}}\n", ".inputs.a.enum"),
        ("a bound of another type", "  inputs: {a: {type: string, minimum: 1}}\n", ".inputs.a.minimum"),
        ("an invalid pattern", "  inputs: {a: {type: string, pattern: '('}}\n", ".inputs.a.pattern"),
        (
            "a pattern that is huge",
            "  inputs: {a: {type: string, pattern: '((a{1000}){1000}){1000}'}}\n",
            ".inputs.a.pattern",
        ),
        (
            "a token's default of another type",
            "  inputs: {a: {type: number}}\n  mounts: {references: {x: '${input.a | default: \"q\"}'}}\n",
            ".mounts.references.x",
        ),
        (
            "a working file in no slot",
            "  workingFiles: [{slug: a, path: x/y.md, format: markdown, syncDirection: down-only, source: {kind: page}}]\n",
            ".workingFiles[0].path",
        ),
        (
            "a working file in a slot that is not enabled",
            "  workingFiles: [{slug: a, path: inputs/y.md, format: markdown, syncDirection: down-only, source: {kind: page}}]\n",
            ".workingFiles[0].path",
        ),
        (
            "a working file that syncs up from a read-only slot",
            "  mounts: {inputs: true}\n  workingFiles: [{slug: a, path: /workspace/inputs/y.md, format: markdown, syncDirection: up-only, source: {kind: page}}]\n",
            ".workingFiles[0].path",
        ),
    ];
    for (name, spec, path) in cases {
        let error = compile(&yaml(spec)).map(|_| ()).expect_err(name);
        let expected = (Code::ValidationError, format!("$.spec{path}"));
        assert_eq!(problems(&error)[0], expected, "{name}: {error}");
    }
    let reserved = compile(&yaml("  env: [{name: PATH, value: x}, {name: XEMA_X, value: x}]\n")).unwrap_err();
    let codes: Vec<Code> = problems(&reserved).into_iter().map(|(code, _)| code).collect();
    assert_eq!(codes, [Code::EnvReservedName, Code::EnvReservedName]);
}

#[test]
fn the_head_of_a_manifest_is_exact() {
    let whole = yaml("");
    let cases = [
        ("api version", "interlock.dev/workspace/v1", "interlock.dev/workspace/v2", "$.apiVersion"),
        ("kind", "kind: WorkspaceManifest", "kind: Manifest", "$.kind"),
        ("slug", "slug: m,", "slug: M_1,", "$.metadata.slug"),
        ("a version that YAML reads as a number", "version: 1.0.0", "version: 1.0", "$.metadata.version"),
        ("leading zero", "version: 1.0.0", "version: 1.00.0", "$.metadata.version"),
        (
            "empty surfaceCompat",
            "version: 1.0.0",
            "version: 1.0.0, surfaceCompat: []",
            "$.metadata.surfaceCompat",
        ),
        ("nothing at all", "  agent:", "  # agent:", "$.spec"),
        (
            "no agent",
            "  agent: {slug: engineer, stage: engineering, role: engineer}",
            "  env: []",
            "$.spec.agent",
        ),
        ("no stage", "stage: engineering, ", "", "$.spec.agent.stage"),
        ("empty agent", "slug: engineer", "slug: ''", "$.spec.agent.slug"),
        ("extends", "kind:", "extends: base@1.0.0\nkind:", "$.extends"),
        ("extends without a version", "kind:", "extends: interlock://manifest/base\nkind:", "$.extends"),
    ];
    for (name, from, to, path) in cases {
        let text = whole.replacen(from, to, 1);
        assert_ne!(text, whole, "{name}");
        let error = compile(&text).map(|_| ()).expect_err(name);
        assert_eq!(problems(&error)[0], (Code::ValidationError, path.to_owned()), "{name}: {error}");
    }
}

#[test]
fn alternative_spellings_are_read() {
    let text = yaml("").replace("interlock.dev", "xema.dev").replace("stage:", "phase:");
    let text = text.replace("kind: W", "extends: xema://manifest/subagent-base@1.0.0\nkind: W");
    let bound = bind(&compile(&text).unwrap().0, json!({})).unwrap();
    let written = serde_json::to_string(&bound.manifest).unwrap();
    assert_eq!(bound.manifest.agent.group_key, "engineering");
    assert!(!written.contains("xema"), "{written}");
}

#[test]
fn both_formats_give_the_same_manifest() {
    let spec =
        "  mounts: {repos: true, inputs: true, references: {kbSpaces: [a]}}\n  env: [{name: A, value: é}]\n";
    let json = r#"{"apiVersion": "interlock.dev/workspace/v1", "kind": "WorkspaceManifest",
        "metadata": {"slug": "m", "version": "1.0.0"},
        "spec": {"mounts": {"repos": true, "inputs": true, "references": {"kbSpaces": ["a"]}},
                 "agent": {"slug": "engineer", "stage": "engineering", "role": "engineer"},
                 "env": [{"name": "A", "value": "\u00e9"}]}}"#;
    let (from_json, _) = manifest::compile(json.as_bytes(), "m.json", Format::of_name("m.JSON")).unwrap();
    let one = bind(&compiled(spec), json!({})).unwrap();
    let other = bind(&from_json, json!({})).unwrap();
    assert_eq!(
        serde_json::to_string(&one.manifest).unwrap(),
        serde_json::to_string(&other.manifest).unwrap()
    );
    assert_eq!(one.agent_context, other.agent_context);
}

#[test]
fn a_manifest_full_of_tokens_is_compiled_in_linear_time() {
    // Patterns, defaults and nearest names, as often as a file allows. The test fails by taking
    // minutes.
    let inputs: String = (0..250)
        .map(|n| format!("n{n}{}: {{type: string, pattern: '^(a|b){{1,99}}$'}}, ", "x".repeat(50)))
        .collect();
    let known = format!("n0{}", "x".repeat(50));
    let cases = [
        (format!("${{input.{known} | default: 'ab'}}").repeat(5_000), true),
        (format!("${{input.{known} | default: 'zz'}}").repeat(5_000), false),
        ("${input.unknown}".repeat(20_000), false),
        (format!("${{input.m0{}}}", "x".repeat(50)).repeat(5_000), false),
    ];
    for (tokens, accepted) in cases {
        let spec = format!("  inputs: {{{inputs}}}\n  mounts: {{references: {{x: \"{tokens}\"}}}}\n");
        assert_eq!(compile(&yaml(&spec)).is_ok(), accepted, "{}", &tokens[..60]);
    }
    let many: Map<String, Value> =
        (0..50_000).map(|n| (format!("n{n}{}", "y".repeat(10)), json!(1))).collect();
    let error = compiled(&format!("  inputs: {{{inputs}}}\n"))
        .bind(Surface::Workflow, &many, Map::new())
        .unwrap_err();
    assert_eq!((error.code(), error.causes().len()), (Code::BindInputInvalid, 99));
}

#[test]
fn the_number_of_listed_problems_is_limited() {
    let items = "{name: a, value: x}, ".repeat(900);
    let error = compile(&yaml(&format!("  env: [{items}]\n"))).unwrap_err();
    assert_eq!(error.causes().len(), 99);
}

#[test]
fn the_example_of_the_format_page_compiles_and_binds() {
    let page =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats/workspace-manifest.md");
    let page = std::fs::read_to_string(page).unwrap();
    let example = page.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let (manifest, warnings) =
        compile(example).unwrap_or_else(|error| panic!("{error} {:?}", error.causes()));
    assert_eq!(warnings, []);
    let bound = bind(&manifest, json!({"page": "release"})).unwrap();
    assert_eq!(bound.manifest.agent.deliverable_spec_ref.as_deref(), Some("page-release"));
    assert_eq!(bound.agent_context["repoRef"], "website");
    // The example contains every member of the format.
    for member in ["inputs", "mounts", "agent", "seedFiles", "env", "skills", "toolSelection", "credentials"]
    {
        assert!(example.contains(&format!("\n  {member}:\n")), "{member}");
    }
}

#[test]
fn the_example_compiles_and_binds() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/workspace");
    let read =
        |name: &str| std::fs::read(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let (manifest, warnings) = manifest::compile(&read("manifest.yaml"), "manifest.yaml", Format::Yaml)
        .unwrap_or_else(|error| panic!("{error} {:?}", error.causes()));
    assert_eq!(warnings, []);
    let inputs: Value = serde_json::from_slice(&read("inputs.json")).unwrap();
    let context: Value = serde_json::from_slice(&read("context.json")).unwrap();
    let request = manifest.bind_request(&object(inputs), object(context.clone())).unwrap();
    let expected = json!({
        "prompt": "Write the release notes.", "instructions": ["house-rules"], "kbSpaceIds": ["handbook"],
        "repoRef": "demo", "skills": ["code-review", "writing/release-notes"], "delegatedSubAgents": ["reviewer"],
    });
    assert_eq!(request.value["agentContext"], expected);
    assert_eq!(request.bound.manifest.required_template_names, ["release-notes"]);
    assert_eq!(context["agentOverrides"]["role"], manifest.role().as_str(), "the role is repeated");
}
