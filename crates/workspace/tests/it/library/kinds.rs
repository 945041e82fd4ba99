//! Every kind except skills and repositories.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Number, Value, json};
use workspace::Code;
use workspace::library::Library;
use workspace::plan::{AgentMode, Source};
use workspace::slot::Mode;

use super::{SECRET, TestLibrary, example, resolve};

fn agent(slug: &str) -> Source {
    Source::AgentDefinition {
        org_id: "org1".into(),
        agent_slug: slug.into(),
        group_key: "engineering".into(),
        agent_mode: AgentMode::Primary,
    }
}

fn instruction(key: &str) -> Source {
    Source::InstructionSection {
        org_id: "org1".into(),
        section_key: key.into(),
        agent_slug: "engineer".into(),
        group_key: "engineering".into(),
    }
}

fn artifact(id: &str, version: impl Into<Number>, field: Option<Value>) -> Source {
    Source::ArtifactVersion {
        artifact_id: id.into(),
        version: version.into(),
        file_name: "x".into(),
        payload_field: field,
        content_type: None,
    }
}

fn space(id: &str) -> Source {
    Source::KbSpace { space_id: id.into() }
}

fn pages(id: &str, slugs: &[&str]) -> Source {
    Source::KbPages { space_id: id.into(), page_slugs: slugs.iter().map(|slug| (*slug).to_owned()).collect() }
}

fn spec(key: &str) -> Source {
    Source::DeliverableSpecs { contract_key: key.into() }
}

fn deliverables(key: &str) -> Source {
    Source::Deliverables { contract_key: key.into() }
}

fn attachments(session: &str) -> Source {
    Source::SessionAttachment { session_id: session.into() }
}

fn literal(bytes: &str) -> Source {
    Source::StaticLiteral { path_within_workspace: "/etc/passwd".into(), bytes: bytes.into() }
}

/// A library with a valid item of each kind.
fn stocked() -> TestLibrary {
    let shelf = TestLibrary::new();
    shelf
        .write("agents/engineering/engineer.md", "the engineer")
        .write("agents/reviewer.md", "the reviewer of all")
        .write("agents/engineering/both.md", "of the group")
        .write("agents/both.md", "of all")
        .write("instructions/rules.md", "the rules")
        .write("instructions/team/rules.md", "the rules of the team")
        .write(
            "artifacts/a@b/3/payload.json",
            r#"{"body":"héllo","n":1.5,"list":[1, {"b":2,"a":1}],"none":null}"#,
        )
        .write("artifacts/raw/1/page.html", "<p>")
        .write("artifacts/raw/1/.DS_Store", "x")
        .write("kb/space/b.md", "b")
        .write("kb/space/a/deep.md", "deep")
        .write("kb/space/a.md", "a")
        .write("kb/space/_assets/x.png", "png")
        .write("kb/space/.hidden.md", "x")
        .write("kb/space/notes.txt", "x")
        .write("kb/empty/.gitkeep", "")
        .write("deliverable-specs/notes/spec.json", "{}")
        .write("deliverable-specs/notes/templates/a.hbs", "t")
        .write("deliverables/notes@2/out.md", "two")
        .write("deliverables/notes@10/out.md", "ten")
        .write("deliverables/plain/a/b.txt", "b")
        .write("attachments/s1/report.pdf", "one")
        .write("attachments/s1/2/report.pdf", "two")
        .write("attachments/s1/3/Report.PDF", "three");
    shelf
}

type Expected = &'static [(&'static str, &'static str)];

#[test]
fn each_kind_yields_what_the_library_has() {
    let shelf = stocked();
    #[rustfmt::skip]
    let cases: [(&str, Source, Expected); 21] = [
        ("a literal",                  literal("aGk="),                    &[("", "hi")]),
        ("an empty literal",           literal(""),                        &[("", "")]),
        ("an agent of its group",      agent("engineer"),                  &[("", "the engineer")]),
        ("an agent of all groups",     agent("reviewer"),                  &[("", "the reviewer of all")]),
        ("the group comes first",      agent("both"),                      &[("", "of the group")]),
        ("an instruction",             instruction("rules"),               &[("", "the rules")]),
        ("an instruction in a folder", instruction("team/rules"),          &[("", "the rules of the team")]),
        ("a member that is text",      artifact("a@b", 3, Some("body".into())), &[("", "héllo")]),
        ("a member that is a number",  artifact("a@b", 3, Some("n".into())),    &[("", "1.5")]),
        ("a member that is a list",    artifact("a@b", 3, Some("list".into())), &[("", r#"[1,{"a":1,"b":2}]"#)]),
        ("a member that is null",      artifact("a@b", 3, Some("none".into())), &[("", "null")]),
        ("a null field asks for all",  artifact("raw", 1, Some(Value::Null)),   &[("", "<p>")]),
        ("a raw artifact",             artifact("raw", 1, None),           &[("", "<p>")]),
        ("every page of a space",      space("space"),
            &[("_assets/x.png", "png"), ("a/deep.md", "deep"), ("a.md", "a"), ("b.md", "b")]),
        ("an empty space",             space("empty"),                     &[]),
        ("some pages, once each",      pages("space", &["b", "a/deep", "b"]), &[("a/deep.md", "deep"), ("b.md", "b")]),
        ("a specification",            spec("notes"),                      &[("spec.json", "{}"), ("templates/a.hbs", "t")]),
        ("the newest deliverables",    deliverables("notes"),              &[("out.md", "ten")]),
        ("pinned deliverables",        deliverables("notes@2"),            &[("out.md", "two")]),
        ("attachments, equal names numbered", attachments("s1"),
            &[("report.pdf", "two"), ("Report (2).PDF", "three"), ("report (3).pdf", "one")]),
        ("a session without any",      attachments("s2"),                  &[]),
    ];
    for (name, source, expected) in cases {
        let found = shelf.resolve(&source).unwrap_or_else(|error| panic!("{name}: {error}"));
        let expected: Vec<(&str, String)> =
            expected.iter().map(|(path, text)| (*path, (*text).to_owned())).collect();
        assert_eq!(found.texts(), expected, "{name}");
        // The same folder gives the same items in the same order.
        assert_eq!(shelf.resolve(&source).unwrap().texts(), expected, "{name}, again");
    }
}

#[test]
fn skipped_files_of_a_space_are_reported() {
    let found = stocked().resolve(&space("space")).unwrap();
    assert_eq!(found.warnings, ["kb/space/notes.txt skipped: neither a page (`.md`) nor below `_assets`"]);
}

#[test]
fn missing_files_are_reported_by_name() {
    let shelf = stocked();
    use Code::{ResolveBadResponse as Bad, ResolveEmptySelection as Empty, ResolveNotFound as Absent};
    #[rustfmt::skip]
    let cases = [
        ("an agent",                agent("unknown"),                     Absent, "agents/engineering/unknown.md"),
        ("an instruction",          instruction("nope"),                  Absent, "instructions/nope.md"),
        ("an artifact",             artifact("nope", 1, None),            Absent, "artifacts/nope/1"),
        ("a version",               artifact("raw", 2, None),             Absent, "artifacts/raw/2"),
        ("a member",                artifact("a@b", 3, Some("x".into())), Bad,    "no member `x`"),
        ("a member of a raw file",  artifact("raw", 1, Some("x".into())), Bad,    "payload.json"),
        ("a member that is 3",      artifact("a@b", 3, Some(json!(3))),   Bad,    "not a string"),
        ("a version of zero",       artifact("raw", 0, None),             Absent, "raw/0"),
        ("a space",                 space("nope"),                        Absent, "kb/nope"),
        ("one page of two",         pages("space", &["a", "nope"]),       Absent, "kb/space/nope.md"),
        ("no page at all",          pages("space", &[]),                  Empty,  "`space`"),
        ("a specification",         spec("nope"),                         Absent, "deliverable-specs/nope"),
        ("deliverables",            deliverables("nope"),                 Absent, "deliverables/nope"),
    ];
    for (name, source, code, says) in cases {
        let refused = shelf.resolve(&source).unwrap_err();
        assert_eq!(refused.code(), code, "{name}: {refused}");
        assert!(refused.message().contains(says), "{name}: {refused}");
    }
    let refused = shelf.resolve(&agent("enginer")).unwrap_err();
    let says = "the library has no agents/engineering/enginer.md; it has agents/engineering/engineer.md";
    assert_eq!(refused.message(), says);
    let refused = shelf.resolve(&pages("space", &["x", "a", "y", "../z"])).unwrap_err();
    assert_eq!(refused.causes().len(), 2, "all that are missing are named: {refused:?}");
}

#[test]
fn keys_with_parent_segments_find_nothing() {
    let shelf = stocked();
    fs::write(shelf.outside().join("payload.json"), SECRET).unwrap();
    let keys = [
        "..",
        "../..",
        "../secret",
        "a/../../secret",
        "/etc/passwd",
        "a//b",
        "a\\..\\b",
        "a\0b",
        "a\nb",
        ".",
        "",
        ".git",
        &"x/".repeat(600),
        &"y".repeat(5_000),
    ];
    for key in keys {
        let all: [Source; 8] = [
            agent(key),
            instruction(key),
            artifact(key, 1, None),
            space(key),
            pages("space", &[key]),
            spec(key),
            deliverables(key),
            attachments(key),
        ];
        for source in all {
            let refused = shelf.resolve(&source).unwrap_err();
            assert_eq!(refused.code(), Code::ResolveNotFound, "{key:?} as {}: {refused}", source.kind());
            assert!(refused.message().len() < 1_500, "{}", refused.message().len());
        }
    }
    // A group is only the first place to search.
    let source = Source::AgentDefinition {
        org_id: "o".into(),
        agent_slug: "secret".into(),
        group_key: "../..".into(),
        agent_mode: AgentMode::Subagent,
    };
    assert_eq!(shelf.resolve(&source).unwrap_err().code(), Code::ResolveNotFound);
}

/// The file that each kind reads, with its source.
fn single_files() -> Vec<(&'static str, Source)> {
    vec![
        ("agents/engineering/x.md", agent("x")),
        ("instructions/x.md", instruction("x")),
        ("artifacts/x/1/payload.json", artifact("x", 1, None)),
        ("artifacts/x/1/payload.json", artifact("x", 1, Some("a".into()))),
        ("artifacts/x/1/raw.bin", artifact("x", 1, None)),
        ("kb/x/x.md", space("x")),
        ("kb/x/_assets/x.png", space("x")),
        ("kb/x/x.md", pages("x", &["x"])),
        ("deliverable-specs/x/spec.json", spec("x")),
        ("deliverables/x/x.md", deliverables("x")),
        ("attachments/x/x.md", attachments("x")),
    ]
}

#[test]
fn a_link_or_a_pipe_in_place_of_a_file_is_refused() {
    for (path, source) in single_files() {
        for plant in ["link", "pipe", "folder link"] {
            let shelf = TestLibrary::new();
            shelf.write(path, "good");
            let full = shelf.path().join(path);
            match plant {
                "link" => {
                    fs::remove_file(&full).unwrap();
                    symlink(shelf.outside().join("secret.md"), &full).unwrap();
                }
                "pipe" => {
                    fs::remove_file(&full).unwrap();
                    make_pipe(&full);
                }
                _ => {
                    // The parent folder is a link to one outside that has the file.
                    let above = full.parent().unwrap();
                    let moved = shelf.outside().join("moved");
                    fs::rename(above, &moved).unwrap();
                    fs::write(moved.join(full.file_name().unwrap()), SECRET).unwrap();
                    symlink(&moved, above).unwrap();
                }
            }
            let refused = shelf.resolve(&source).map(|found| found.texts().len()).unwrap_err();
            assert_eq!(refused.code(), Code::ResolveBadResponse, "{plant} at {path}: {refused}");
            assert!(!refused.to_string().contains(SECRET));
        }
    }
}

pub(super) fn make_pipe(path: &std::path::Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}

#[test]
fn limits_are_enforced() {
    const MIB: u64 = 1 << 20;
    #[rustfmt::skip]
    let cases = [
        ("agents/engineering/x.md",      MIB,      agent("x")),
        ("instructions/x.md",            MIB,      instruction("x")),
        ("artifacts/x/1/payload.json",   64 * MIB, artifact("x", 1, Some("a".into()))),
        ("kb/x/x.md",                    4 * MIB,  space("x")),
        ("kb/x/x.md",                    4 * MIB,  pages("x", &["x"])),
        ("deliverable-specs/x/spec.json", MIB,     spec("x")),
        ("deliverable-specs/x/z.bin",    64 * MIB, spec("x")),
    ];
    for (path, max, source) in cases {
        let shelf = TestLibrary::new();
        shelf.write("deliverable-specs/x/spec.json", "{}").write(path, "");
        let file = fs::File::options().write(true).open(shelf.path().join(path)).unwrap();
        file.set_len(max + 1).unwrap();
        let refused = shelf.resolve(&source).map(|found| found.items.len()).unwrap_err();
        assert_eq!(refused.code(), Code::LimitExceeded, "{path}: {refused}");
        assert_eq!(refused.details()["max"], max, "{path}");
    }
    let refused = TestLibrary::new()
        .resolve(&literal(&"AAAA".repeat(1_398_102)))
        .map(|found| found.items.len())
        .unwrap_err();
    assert_eq!(refused.code(), Code::LimitExceeded);
    let shelf = TestLibrary::new();
    for number in 0..1_001 {
        shelf.write(&format!("attachments/x/{number:04}"), "");
    }
    assert_eq!(shelf.resolve(&attachments("x")).unwrap_err().code(), Code::LimitExceeded);
}

#[test]
fn invalid_text_and_json_is_refused() {
    #[rustfmt::skip]
    let cases: [(&str, &[u8], Source, &str); 9] = [
        ("agents/engineering/x.md",       b"a\xff",            agent("x"),                       "byte 1 is not UTF-8"),
        ("agents/engineering/x.md",       b"",                 agent("x"),                       "is empty"),
        ("agents/engineering/x.md",       b"---\nname: [\n---\nx", agent("x"),                   "not valid YAML"),
        ("instructions/x.md",             b"\xff",             instruction("x"),                 "byte 0 is not UTF-8"),
        ("artifacts/x/1/payload.json",    b"[1]",              artifact("x", 1, Some("a".into())), "not a JSON object"),
        ("artifacts/x/1/payload.json",    b"{\"a\":\"\xff\"}", artifact("x", 1, Some("a".into())), "not a JSON object"),
        ("deliverable-specs/x/spec.json", b"{",                spec("x"),                        "not a JSON object"),
        ("deliverable-specs/x/other.md",  b"{}",               spec("x"),                        "does not contain spec.json"),
        ("artifacts/x/1/sub/a.txt",       b"a",                artifact("x", 1, None),           "one file"),
    ];
    for (path, content, source, says) in cases {
        let shelf = TestLibrary::new();
        shelf.write(path, content);
        let refused = shelf.resolve(&source).map(|found| found.items.len()).unwrap_err();
        assert_eq!(refused.code(), Code::ResolveBadResponse, "{path}: {refused}");
        assert!(refused.message().contains(says), "{path}: {refused}");
    }
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let shelf = TestLibrary::new();
    shelf.write("artifacts/x/1/payload.json", deep);
    assert_eq!(
        shelf.resolve(&artifact("x", 1, Some("a".into()))).unwrap_err().code(),
        Code::ResolveBadResponse
    );
    for bytes in ["aGk", "aGk=\n", "aGl=", "!", "YQ==YQ=="] {
        assert_eq!(shelf.resolve(&literal(bytes)).unwrap_err().code(), Code::ResolveBadResponse, "{bytes:?}");
    }
}

#[test]
fn invalid_workspace_names_are_refused() {
    for name in [&b"a\\b.md"[..], b"a\nb.md", b"\xff.md"] {
        let shelf = TestLibrary::new();
        shelf.write("kb/x/good.md", "good");
        use std::os::unix::ffi::OsStrExt as _;
        fs::write(shelf.path().join("kb/x").join(std::ffi::OsStr::from_bytes(name)), "x").unwrap();
        let refused = shelf.resolve(&space("x")).map(|found| found.items.len()).unwrap_err();
        assert_eq!(refused.code(), Code::ResolveBadResponse);
        assert!(refused.message().contains("rename it"), "{refused}");
    }
}

#[test]
fn a_stopped_sink_ends_the_resolver_at_once() {
    use workspace::resolve::{ResolveRequest, Resolver as _};
    let shelf = stocked();
    let mut sink = super::Collected { room: Some(2), ..Default::default() };
    let source = space("space");
    let want = ResolveRequest { source: &source, mode: Mode::ReadOnly };
    let stopped = shelf.library().resolve(want, &mut sink).unwrap_err();
    assert_eq!((stopped.code(), sink.items.len()), (Code::ApplyIo, 2));
}

#[test]
fn a_too_deep_folder_is_refused() {
    let shelf = TestLibrary::new();
    shelf.write(&format!("kb/x/{}a.md", "d/".repeat(70)), "deep");
    let refused = shelf.resolve(&space("x")).map(|found| found.items.len()).unwrap_err();
    assert_eq!(refused.code(), Code::ResolveBadResponse, "{refused}");
}

#[test]
fn a_missing_library_is_refused() {
    let shelf = TestLibrary::new();
    shelf.write("file", "x");
    for path in ["nope", "file"] {
        let refused = Library::open(&shelf.path().join(path)).unwrap_err();
        assert_eq!(refused.code(), Code::ResolveNotFound, "{refused}");
        assert!(refused.message().contains(path));
    }
}

#[test]
fn the_example_library_is_complete() {
    let library = example();
    let skill = |key: &str| Source::SkillBundle { skill_key: key.into() };
    let sources = [
        agent("engineer"),
        agent("reviewer"),
        instruction("house-rules"),
        artifact("changes", 1, Some("body".into())),
        space("handbook"),
        pages("handbook", &["release", "style"]),
        spec("release-notes"),
        skill("code-review"),
        skill("writing/release-notes"),
        Source::ScmRepo { repo_ref: "demo".into(), git_ref: "HEAD".into() },
    ];
    for source in sources {
        let found = resolve(&library, &source, Mode::ReadOnly).unwrap();
        assert!(!found.items.is_empty(), "{}", source.kind());
        assert!(found.warnings.is_empty(), "{}: {:?}", source.kind(), found.warnings);
    }
    use workspace::compose::TemplateResolver as _;
    let vars = json!({"version": "1.4.0", "highlights": ["Faster start"]});
    let notes = library.templates().resolve("release-notes", vars.as_object().unwrap()).unwrap();
    assert!(notes.starts_with("# Release 1.4.0\n\n- Faster start\n\n## Breaking changes\n"), "{notes}");
    let vars = json!({"version": "1.4.0", "highlights": []});
    let notes = library.templates().resolve("release-notes", vars.as_object().unwrap()).unwrap();
    assert!(notes.starts_with("# Release 1.4.0\n\n## Breaking changes\n"), "{notes}");
    assert_eq!(library.skill("code-review", None).unwrap().version.unwrap().to_string(), "1.1.0");
}
