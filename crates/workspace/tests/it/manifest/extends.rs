//! Manifests and their bases.

use serde_json::{Value, json};
use workspace::manifest::{self, BaseFile, Bases, Format, Position, SystemBases};
use workspace::{Code, Error};

use super::{bind, compile, yaml};

/// Bases of a test.
struct Table(Vec<(&'static str, String)>);

impl Bases for Table {
    fn find(&self, slug: &str, version: &str) -> Result<Option<BaseFile>, Error> {
        let known = self.0.iter().find(|(known, _)| *known == slug && version == "1.0.0");
        let file = |(name, text): &(&str, String)| BaseFile {
            name: (*name).to_owned(),
            bytes: text.clone().into_bytes(),
            format: Format::Yaml,
        };
        Ok(known.map(file))
    }
}

fn extending(base: &str, spec: &str) -> String {
    yaml(spec).replace("kind: W", &format!("extends: interlock://manifest/{base}@1.0.0\nkind: W"))
}

fn base(slug: &str, spec: &str) -> (&'static str, String) {
    let slug: &'static str = slug.to_owned().leak();
    let text = format!(
        "apiVersion: interlock.dev/workspace/v1\nkind: WorkspaceManifest\nmetadata: {{slug: {slug}, version: 1.0.0}}\nspec:\n{spec}"
    );
    (slug, text)
}

#[test]
fn a_base_and_a_manifest_merge_by_the_rules() {
    let table = Table(vec![base(
        "b",
        "  inputs: {x: {type: number, default: 1}, y: {type: number, default: 2}}
  mounts: {inputs: true, deliverables: {mode: read-write}, references: {kbSpaces: [old]}}
  seedFiles: [{path: a, slot: inputs, content: base}, {path: b, slot: inputs, content: base}]
  env: [{name: A, value: '1'}, {name: B, value: '2'}]
  skills: [{slug: s, version: 1.0.0}, {slug: t}]
  credentials: [{name: T, kind: scm-token, sourceRef: base}]
  permissions: {tools: {deny: [exec]}}
  persistence: {paths: [p, q]}
",
    )]);
    let child = extending(
        "b",
        "  inputs: {x: {type: number, default: 9}}
  mounts: {references: {kbSpaces: [new]}, repos: true, inputs: false}
  seedFiles: [{path: a, slot: inputs, content: child}, {path: a, slot: deliverables, content: other}]
  env: [{name: A, value: '3'}, {name: N, value: '${input.x}${input.y}'}]
  skills: [{slug: s, version: 2.0.0}]
  persistence: {paths: [p]}
",
    );
    let (manifest, warnings) = manifest::compile_with(child.as_bytes(), "m", Format::Yaml, &table).unwrap();
    let bound = bind(&manifest, json!({})).unwrap();
    let written: Value = serde_json::to_value(&bound.manifest).unwrap();
    let mounts: Vec<&str> = bound.manifest.mounts.iter().map(|(slot, _)| slot.key()).collect();
    assert_eq!(mounts, ["inputs", "deliverables", "references", "repos"], "the base's order, then the rest");
    assert_eq!(written["mounts"]["inputs"]["enabled"], false);
    assert_eq!(written["mounts"]["references"]["config"]["kbSpaces"], json!(["new"]));
    // Case 31: the last duplicate is kept in its position.
    let env = json!([{"name": "B", "value": "2"}, {"name": "A", "value": "3"}, {"name": "N", "value": "92"}]);
    assert_eq!(written["env"], env);
    let seeds: Vec<(&str, &str)> =
        bound.manifest.seed_files.iter().map(|seed| (seed.slot.key(), seed.rel_path.as_str())).collect();
    assert_eq!(seeds, [("inputs", "b"), ("inputs", "a"), ("deliverables", "a")]);
    let skills: Vec<(&str, Option<&str>)> =
        bound.skills.iter().map(|skill| (skill.slug.as_str(), skill.version.as_deref())).collect();
    assert_eq!(skills, [("t", None), ("s", Some("2.0.0"))]);
    assert_eq!(bound.persistence, ["q", "p"]);
    assert_eq!(bound.permissions.deny.len(), 1, "what the child does not say is the base's");
    // Both seeds of `inputs` are in a slot that is not mounted now.
    assert_eq!(warnings.len(), 2);
    assert_eq!(&*warnings[0].place.file, "b");
    assert_eq!(warnings[1].place.position, Some(Position { line: 9, column: 15 }));
}

#[test]
fn an_invalid_base_has_its_own_code() {
    let table = Table(vec![
        base("nested", "  mounts: {}\n"),
        base("broken", "  mounts: {bogus: true}\n  env: [{name: x, value: y}]\n"),
        base("other", "  mounts: {}\n"),
    ]);
    let mut table = table;
    // Case 30, its second half.
    table.0[0].1 =
        table.0[0].1.replace("kind: W", "extends: interlock://manifest/reviewer-base@1.0.0\nkind: W");
    table.0[2].1 = table.0[2].1.replace("slug: other", "slug: another");
    let cases = [
        ("absent", Code::ManifestBaseNotFound, 0),
        ("nested", Code::ManifestExtendsDepth, 0),
        ("broken", Code::ManifestBaseInvalid, 2),
        ("other", Code::ManifestBaseInvalid, 1),
    ];
    for (slug, code, causes) in cases {
        let child = extending(slug, "");
        let error = manifest::compile_with(child.as_bytes(), "m", Format::Yaml, &table).unwrap_err();
        assert_eq!((error.code(), error.causes().len()), (code, causes), "{slug}: {error}");
        assert_eq!(error.details()["path"], "$.extends", "{slug}");
    }
    let both = extending("absent", "  env: [{name: x, value: y}]\n");
    let error = manifest::compile_with(both.as_bytes(), "m", Format::Yaml, &table).unwrap_err();
    assert_eq!(error.causes()[0].code(), Code::ValidationError, "the problems of the file are beside it");
}

#[test]
fn the_nearest_owner_of_a_base_wins() {
    let project = Table(vec![base("reviewer-base", "  mounts: {uploads: true}\n")]);
    let user = Table(vec![]);
    let ladder = manifest::Ladder::new(vec![&user, &project]);
    let mounts = |slug: &str| {
        let child = extending(slug, "");
        let (manifest, _) = manifest::compile_with(child.as_bytes(), "m", Format::Yaml, &ladder).unwrap();
        let bound = bind(&manifest, json!({})).unwrap();
        bound.manifest.mounts.iter().map(|(slot, _)| slot.key()).collect::<Vec<_>>()
    };
    assert_eq!(mounts("reviewer-base"), ["uploads"]);
    assert_eq!(mounts("subagent-base"), ["inputs", "references", "deliverables"]);
}

#[test]
fn bases_are_read_from_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("manifests")).unwrap();
    let write =
        |name: &str, text: &str| std::fs::write(folder.path().join("manifests").join(name), text).unwrap();
    write("mine@1.0.0.yml", &base("mine", "  mounts: {uploads: true}\n").1);
    write("large@1.0.0.yaml", &"#".repeat(manifest::MAX_BYTES + 1));
    std::os::unix::fs::symlink("mine@1.0.0.yml", folder.path().join("manifests/link@1.0.0.yaml")).unwrap();
    let bases = manifest::FolderBases::open(folder.path()).unwrap();
    let ladder = manifest::Ladder::new(vec![&bases]);
    let compile = |slug: &str| {
        let text = extending(slug, "");
        manifest::compile_with(text.as_bytes(), "m", Format::Yaml, &ladder)
            .map(|_| ())
            .map_err(|error| error.code())
    };
    assert_eq!(compile("mine"), Ok(()));
    assert_eq!(compile("subagent-base"), Ok(()));
    assert_eq!(compile("absent"), Err(Code::ManifestBaseNotFound));
    assert_eq!(compile("large"), Err(Code::ManifestBaseInvalid));
    assert_eq!(compile("link"), Err(Code::ManifestBaseInvalid), "no link is followed");
    assert!(manifest::FolderBases::open(&folder.path().join("absent")).is_err());
}

#[test]
fn every_built_in_base_can_be_extended() {
    for slug in SystemBases::slugs() {
        let (manifest, warnings) = compile(&extending(slug, "")).unwrap();
        assert!(warnings.is_empty(), "{slug}");
        let writable = bind(&manifest, json!({})).unwrap().manifest.mounts.into_iter();
        let writable: Vec<String> = writable
            .filter(|(slot, mount)| {
                mount.mode.unwrap_or(slot.default_mode()) == workspace::slot::Mode::ReadWrite
            })
            .map(|(slot, _)| slot.to_string())
            .collect();
        let expected: &[&str] = if slug == "reviewer-base" { &[] } else { &["deliverables"] };
        assert_eq!(writable, expected, "{slug}");
    }
}
