//! Skills: bundles, versions, and invalid ones.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use workspace::Code;
use workspace::library::Range;
use workspace::plan::Source;

use super::{SECRET, TestLibrary};

fn skill(key: &str) -> Source {
    Source::SkillBundle { skill_key: key.into() }
}

fn front(name: &str, version: &str) -> String {
    let version = if version.is_empty() { String::new() } else { format!("version: {version}\n") };
    format!("---\nname: {name}\ndescription: Does {name}.\n{version}---\n\nDo it.\n")
}

#[test]
fn a_bundle_contains_every_file_of_its_folder() {
    let shelf = TestLibrary::new();
    shelf
        .write("skills/review/SKILL.md", front("review", ""))
        .write("skills/review/scripts/run.sh", "#!/bin/sh\n")
        .write("skills/review/.hidden", "verbatim")
        .write("skills/review/deep/SKILL.md", front("deep", ""))
        .write("skills/review/image.bin", b"\xff\x00");
    fs::create_dir(shelf.path().join("skills/review/empty")).unwrap();
    let script = shelf.path().join("skills/review/scripts/run.sh");
    fs::set_permissions(script, fs::Permissions::from_mode(0o755)).unwrap();
    let found = shelf.resolve(&skill("review")).unwrap();
    let paths = [".hidden", "SKILL.md", "deep/SKILL.md", "empty", "image.bin", "scripts/run.sh"];
    assert_eq!(found.paths(), paths);
    assert_eq!(found.executable, ["scripts/run.sh"]);
    assert_eq!(found.text("empty"), "/");
    assert!(found.warnings.is_empty());
}

#[test]
fn the_highest_version_in_the_range_is_selected() {
    let shelf = TestLibrary::new();
    shelf
        .write("skills/w/notes/SKILL.md", front("notes", "1.9.0"))
        .write("skills/w/notes@1.10.0/SKILL.md", front("notes", ""))
        .write("skills/w/notes@2.0.0/SKILL.md", front("notes", "2.0.0"))
        .write("skills/w/notes@next/SKILL.md", front("notes", ""))
        .write("skills/w/notes-of-others/SKILL.md", front("notes-of-others", ""));
    #[rustfmt::skip]
    let cases = [
        (None,            Ok("2.0.0")),
        (Some("^1"),      Ok("1.10.0")),
        (Some("1.9"),     Ok("1.9.0")),
        (Some("<1.10"),   Ok("1.9.0")),
        (Some("*"),       Ok("2.0.0")),
        (Some("^3"),      Err(Code::SkillVersionUnsatisfied)),
        (Some("latest"),  Err(Code::SkillVersionUnsatisfied)),
    ];
    for (range, expected) in cases {
        let wanted = range.map_or("w/notes".to_owned(), |range| format!("w/notes@{range}"));
        let found = shelf.resolve(&skill(&wanted)).map(|found| found.warnings);
        assert_eq!(
            found.as_ref().map(|_| ()).map_err(workspace::Error::code),
            expected.map(|_| ()),
            "{wanted}: {found:?}"
        );
        let Some(range) = range.and_then(|range| range.parse::<Range>().ok()) else { continue };
        let version =
            shelf.library().skill("w/notes", Some(&range)).map(|found| found.version.unwrap().to_string());
        assert_eq!(version.as_deref().map_err(workspace::Error::code), expected, "{wanted}");
    }
    let warnings = shelf.resolve(&skill("w/notes")).unwrap().warnings;
    assert_eq!(warnings, ["skills/w/notes@next is skipped: the part after `@` is not a version"]);
    let refused = shelf.resolve(&skill("w/notes@^3")).unwrap_err();
    assert!(refused.message().contains("1.9.0, 1.10.0, 2.0.0"), "{refused}");
}

#[test]
fn a_skill_without_a_version_matches_no_range() {
    let shelf = TestLibrary::new();
    shelf.write("skills/a/SKILL.md", front("a", ""));
    assert_eq!(shelf.library().skill("a", None).unwrap().version, None);
    assert_eq!(shelf.resolve(&skill("a@*")).unwrap_err().code(), Code::SkillVersionUnsatisfied);
}

#[test]
fn a_name_that_differs_from_its_folder_is_a_warning() {
    let shelf = TestLibrary::new();
    shelf.write("skills/a/b/SKILL.md", front("other", ""));
    let found = shelf.resolve(&skill("a/b")).unwrap();
    assert_eq!(found.warnings, ["skills/a/b/SKILL.md has `name: other`, but its folder is `b`"]);
}

#[test]
fn invalid_skills_are_refused() {
    use Code::{ResolveNotFound as Absent, SkillInvalidBundle as Invalid};
    #[rustfmt::skip]
    let cases: [(&str, &str, &[u8], &str, Code); 14] = [
        ("no folder",              "skills/b/SKILL.md",      b"x",                                    "a",   Absent),
        ("a file for a folder",    "skills/a",               b"x",                                    "a",   Absent),
        ("no SKILL.md",            "skills/a/README.md",     b"x",                                    "a",   Invalid),
        ("no front matter",        "skills/a/SKILL.md",      b"# A\n",                                "a",   Invalid),
        ("no end",                 "skills/a/SKILL.md",      b"---\nname: a\n",                       "a",   Invalid),
        ("no YAML",                "skills/a/SKILL.md",      b"---\nname: [\n---\n",                  "a",   Invalid),
        ("no name",                "skills/a/SKILL.md",      b"---\ndescription: b\n---\n",           "a",   Invalid),
        ("a blank description",    "skills/a/SKILL.md",      b"---\nname: a\ndescription: ' '\n---\n", "a",  Invalid),
        ("a name that is a list",  "skills/a/SKILL.md",      b"---\nname: [a]\ndescription: b\n---\n", "a",  Invalid),
        ("a version of one point", "skills/a/SKILL.md",      b"---\nname: a\ndescription: b\nversion: 1.2\n---\n", "a", Invalid),
        ("no UTF-8",               "skills/a/SKILL.md",      b"---\nname: \xff\n---\n",               "a",   Invalid),
        ("another version",        "skills/a@2.0.0/SKILL.md", b"---\nname: a\ndescription: b\nversion: 1.0.0\n---\n", "a", Invalid),
        ("a key with capitals",    "skills/A/SKILL.md",      b"---\nname: A\ndescription: b\n---\n",  "A",   Absent),
        ("a key that climbs",      "skills/a/SKILL.md",      b"x",                                    "a/../a", Absent),
    ];
    for (name, path, content, key, code) in cases {
        let shelf = TestLibrary::new();
        shelf.write(path, content);
        let refused = shelf.resolve(&skill(key)).map(|found| found.items.len()).unwrap_err();
        assert_eq!(refused.code(), code, "{name}: {refused}");
    }
}

#[test]
fn links_pipes_and_bad_skills_inside_make_a_bundle_invalid() {
    for plant in
        ["link out", "link in", "link to a folder", "pipe", "sub-skill", "the folder itself", "SKILL.md"]
    {
        let shelf = TestLibrary::new();
        shelf.write("skills/a/SKILL.md", front("a", "")).write("skills/a/x.md", "x");
        let at = |path: &str| shelf.path().join("skills").join(path);
        match plant {
            "link out" => symlink(shelf.outside().join("secret.md"), at("a/y.md")).unwrap(),
            "link in" => symlink("x.md", at("a/y.md")).unwrap(),
            "link to a folder" => symlink(shelf.outside(), at("a/y")).unwrap(),
            "pipe" => super::kinds::make_pipe(&at("a/y")),
            "sub-skill" => drop(shelf.write("skills/a/sub/SKILL.md", "no front matter")),
            "the folder itself" => {
                fs::rename(at("a"), shelf.outside().join("a")).unwrap();
                symlink(shelf.outside().join("a"), at("a")).unwrap();
            }
            _ => {
                fs::rename(at("a/SKILL.md"), shelf.outside().join("SKILL.md")).unwrap();
                symlink(shelf.outside().join("SKILL.md"), at("a/SKILL.md")).unwrap();
            }
        }
        let refused = shelf.resolve(&skill("a")).map(|found| found.items.len()).unwrap_err();
        assert_eq!(refused.code(), Code::SkillInvalidBundle, "{plant}: {refused}");
        assert!(!refused.to_string().contains(SECRET));
    }
}

#[test]
fn two_folders_of_one_version_are_refused() {
    let shelf = TestLibrary::new();
    shelf.write("skills/a/SKILL.md", front("a", "1.0.0")).write("skills/a@1/SKILL.md", front("a", ""));
    let refused = shelf.resolve(&skill("a")).unwrap_err();
    assert_eq!(refused.code(), Code::SkillInvalidBundle);
    assert!(
        refused.message().contains("skills/a ") && refused.message().contains("skills/a@1 "),
        "{refused}"
    );
}

#[test]
fn bundles_are_limited() {
    let shelf = TestLibrary::new();
    shelf.write("skills/a/SKILL.md", front("a", "")).write("skills/a/large", "");
    let large = fs::File::options().write(true).open(shelf.path().join("skills/a/large")).unwrap();
    large.set_len(64 << 20).unwrap();
    assert_eq!(shelf.resolve(&skill("a")).unwrap_err().code(), Code::LimitExceeded);
    large.set_len(0).unwrap();
    for number in 0..2_000 {
        shelf.write(&format!("skills/a/{number}"), "");
    }
    assert_eq!(shelf.resolve(&skill("a")).unwrap_err().code(), Code::LimitExceeded);
}
