//! Which workflows exist, and which file has precedence.

mod git_facts;
mod repositories;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use catalogue::{Catalogue, CatalogueErrorCode, CatalogueOptions, ShadowCause, SourceCategory};
use guide::record::WorkflowSourceKind as Kind;
use guide::workflow::ids::IdStatus;
use tempfile::TempDir;

/// A machine: a user's folder, a data directory and a repository with a workspace three levels below.
pub(super) struct Machine {
    pub(super) root: TempDir,
}

impl Machine {
    pub(super) fn new() -> Self {
        let root = TempDir::new().unwrap();
        for folder in ["user", "one", "two", "attached", "data", "repo/.git", "repo/crates/app"] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        Self { root }
    }

    /// The path of a name, with links resolved.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        fs::canonicalize(self.root.path()).unwrap().join(name)
    }

    pub(super) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(super) fn options(&self) -> CatalogueOptions {
        CatalogueOptions {
            packs_dir: Some(self.path("data/packs")),
            user_dir: Some(self.path("user")),
            configured_dirs: vec![self.path("one"), self.path("two")],
            sources_file: Some(self.path("data/sources.toml")),
            git_cache: Some(self.path("data/cache/git")),
        }
    }

    pub(super) fn catalogue(&self) -> Catalogue {
        Catalogue::new(self.options())
    }

    pub(super) fn workspace(&self) -> PathBuf {
        self.path("repo/crates/app")
    }
}

/// A workflow whose name identifies its file.
pub(super) fn workflow(id: &str, name: &str) -> String {
    format!(
        r#"{{"id": "{id}", "name": "{name}", "description": "Says who it is.", "version": "1.0.0",
            "steps": [{{"id": "say", "title": "Say it", "prompt": "Say {name}."}}]}}"#
    )
}

fn slotted(id: &str) -> String {
    format!(
        r#"{{"id": "{id}", "name": "Slotted", "description": "Has a slot.", "version": "1.0.0",
            "extensionPoints": [{{"slotId": "check", "purpose": "How to check", "default": "routine-default"}}],
            "steps": [{{"id": "say", "title": "Say it", "prompt": "Run {{{{wr.bindings.check}}}}."}}]}}"#
    )
}

#[test]
fn a_catalogue_can_be_shared() {
    fn shared<T: Send + Sync + Clone>() {}
    shared::<Catalogue>();
}

#[test]
fn a_later_source_wins_and_the_losers_are_listed() {
    // Each row adds a file, which has precedence from then on.
    let ladder = [
        ("user/a.json", Kind::User, "a.json"),
        ("attached/a.yaml", Kind::Remote, "attached/a.yaml"),
        ("one/a.json", Kind::Remote, "one/a.json"),
        ("two/a.yml", Kind::Remote, "two/a.yml"),
        ("shared/workflows/a.json", Kind::Remote, "shared:workflows/a.json"),
        ("repo/workflows/a.json", Kind::Project, "workflows/a.json"),
        ("repo/crates/app/workflows/a.json", Kind::Project, "workflows/a.json"),
    ];
    let machine = Machine::new();
    let catalogue = machine.catalogue();
    catalogue.attach(machine.path("attached").to_str().unwrap()).unwrap();
    fs::create_dir_all(machine.path("shared/.git")).unwrap();
    fs::create_dir_all(machine.path("shared/workflows")).unwrap();
    let sources = fs::read_to_string(machine.path("data/sources.toml")).unwrap();
    let location = machine.path("shared");
    machine.write(
        "data/sources.toml",
        &format!("{sources}\n[[repository]]\nlocation = \"{}\"\n", location.display()),
    );
    for (index, (file, kind, reference)) in ladder.iter().enumerate() {
        machine.write(file, &workflow("team.same", file));
        let found = catalogue.find(Some(&machine.workspace()), "team.same").unwrap();
        assert_eq!(found.workflow.name, *file);
        assert_eq!(found.source_kind, *kind, "{file}");
        assert_eq!(found.source_ref, *reference, "{file}");
        assert_eq!(found.path.as_deref(), Some(machine.path(file).as_path()));
        assert_eq!(found.hash, found.workflow.hash());
        // The nearest `workflows/` belongs to the project; the one at the root is then not a source.
        let losers: Vec<&str> = ladder[..index]
            .iter()
            .rev()
            .map(|(loser, ..)| *loser)
            .filter(|loser| !(index == 6 && *loser == "repo/workflows/a.json"))
            .collect();
        let listed: Vec<PathBuf> = found.explanation.iter().map(|loser| PathBuf::from(&loser.path)).collect();
        assert_eq!(listed, losers.iter().map(|loser| machine.path(loser)).collect::<Vec<_>>(), "{file}");
        assert!(found.explanation.iter().all(|loser| loser.cause == ShadowCause::Precedence));

        let listing = catalogue.list(Some(&machine.workspace()));
        let entry = listing.entries.iter().find(|entry| entry.workflow_id == "team.same").unwrap();
        assert_eq!((entry.name.as_str(), entry.workflow_hash), (*file, Some(found.hash)));
        assert_eq!(entry.shadowed, found.explanation);
        assert_eq!((listing.problems.len(), &listing.unreadable), (0, &Vec::new()));
    }
    let listing = catalogue.list(Some(&machine.workspace()));
    let categories: Vec<SourceCategory> = listing.sources.iter().map(|source| source.category).collect();
    use SourceCategory as C;
    assert_eq!(
        categories,
        [C::BuiltIn, C::User, C::Managed, C::Configured, C::Configured, C::Git, C::Project]
    );
    let counts: Vec<(usize, usize)> = listing.sources[1..]
        .iter()
        .map(|source| (source.effective_workflow_count, source.shadowed_workflow_count))
        .collect();
    assert_eq!(counts, [(0, 1), (0, 1), (0, 1), (0, 1), (0, 1), (1, 0)]);
    assert!(listing.sources[2].added_at_ms.is_some());

    let alone = catalogue.find(None, "team.same").unwrap();
    assert_eq!(alone.workflow.name, "shared/workflows/a.json", "without a workspace there is no project");
}

#[test]
fn two_files_of_one_folder_go_by_name() {
    let machine = Machine::new();
    machine.write("user/b.json", &workflow("user.same", "b"));
    machine.write("user/a.yaml", &workflow("user.same", "a"));
    let found = machine.catalogue().find(None, "user.same").unwrap();
    assert_eq!(found.workflow.name, "a");
    assert_eq!(found.explanation[0].cause, ShadowCause::SameFolder);
}

#[test]
fn ids_of_the_program_are_the_programs() {
    let machine = Machine::new();
    let catalogue = machine.catalogue();
    let before = catalogue.find(Some(&machine.workspace()), "wr.change_review").unwrap();
    machine.write("repo/workflows/mine.json", &workflow("wr.change_review", "Mine"));
    machine.write("user/new.json", &workflow("wr.brand_new", "Mine"));

    let found = catalogue.find(Some(&machine.workspace()), "wr.change_review").unwrap();
    assert_eq!((found.source_kind, found.hash), (Kind::Bundled, before.hash));
    assert_eq!(catalogue.bundled_hash("wr.change_review"), Some(before.hash));
    assert_eq!(found.tags, ["review_audit"]);

    let listing = catalogue.list(Some(&machine.workspace()));
    let entry = listing.entries.iter().find(|entry| entry.workflow_id == "wr.change_review").unwrap();
    assert_eq!(entry.source_kind, Kind::Bundled);
    assert_eq!(entry.shadowed[0].cause, ShadowCause::Reserved);
    let reported: Vec<(&str, &str)> = listing
        .problems
        .iter()
        .map(|problem| (problem.workflow_id.as_deref().unwrap(), problem.problems[0].code.as_str()))
        .collect();
    assert_eq!(reported, [("wr.change_review", "RESERVED_ID"), ("wr.brand_new", "RESERVED_ID")]);
    assert!(listing.entries.iter().all(|entry| entry.workflow_id != "wr.brand_new"));

    let refused = catalogue.find(None, "wr.brand_new").unwrap_err();
    assert_eq!(refused.code(), "PRECONDITION_FAILED");
    assert!(refused.message().contains("user/new.json"), "{refused}");
    assert_eq!(catalogue.find(None, "wr.absent_altogether").unwrap_err().code(), "NOT_FOUND");
}

#[test]
fn a_bundled_workflow_can_be_asked_for_without_its_namespace() {
    let machine = Machine::new();
    let catalogue = machine.catalogue();
    let found = catalogue.find(None, "change-review").unwrap();
    assert_eq!(found.canonical_id.as_deref(), Some("wr.change_review"));
    assert!(found.warnings[0].contains("`wr.change_review`"));
    machine.write("user/own.json", &workflow("change-review", "Own"));
    let found = catalogue.find(None, "change-review").unwrap();
    assert_eq!(
        (found.workflow.name.as_str(), found.canonical_id.as_deref()),
        ("Own", None),
        "a file comes first"
    );
}

#[test]
fn every_bundled_workflow_can_be_found() {
    let machine = Machine::new();
    let catalogue = machine.catalogue();
    let listing = catalogue.list(None);
    assert!(listing.entries.len() > 20);
    for entry in &listing.entries {
        let found = catalogue.find(None, &entry.workflow_id).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((&found.workflow.name, &found.tags), (&entry.name, &entry.tags));
        assert!(!entry.tags.is_empty() && entry.workflow_hash.is_none());
    }
}

#[test]
fn a_broken_file_is_reported_and_hides_nothing() {
    let machine = Machine::new();
    let huge = format!("{{\"steps\": [], \"about\": \"{}\"}}", "x".repeat(1 << 20));
    let deep = "[".repeat(100_000);
    let uncompilable = workflow("user.unknown_contract", "x")
        .replace(r#""prompt""#, r#""outputContract": {"contractRef": "wr.contracts.nothing"}, "prompt""#);
    let broken = [
        ("array.json", "[1, 2]", None, "MISSING_MEMBER"),
        ("compile.json", uncompilable.as_str(), Some("user.unknown_contract"), "UNKNOWN_CONTRACT"),
        ("deep.json", deep.as_str(), None, "SOURCE_UNREADABLE"),
        ("empty.json", "", None, "SOURCE_UNREADABLE"),
        ("huge.json", huge.as_str(), None, "SOURCE_TOO_LARGE"),
        ("neither.json", r#"{"id": "user.neither"}"#, Some("user.neither"), "MISSING_MEMBER"),
        ("noise.yaml", "a: [b", None, "SOURCE_UNREADABLE"),
        ("schema.json", r#"{"id": "user.schema", "steps": []}"#, Some("user.schema"), "MISSING_MEMBER"),
    ];
    for (name, text, ..) in &broken {
        machine.write(&format!("user/{name}"), text);
    }
    machine.write("user/fine.json", &workflow("user.fine", "Fine"));
    // Not guided workflows, and not mistakes either.
    machine.write("user/run.json", r#"{"id": "user.run", "nodes": []}"#);
    machine.write("user/notes.txt", "not a workflow");
    machine.write("user/.draft.json", "{");
    machine.write("user/below/ignored.json", "{");
    fs::create_dir(machine.path("user/folder.json")).unwrap();

    let catalogue = machine.catalogue();
    let listing = catalogue.list(None);
    let reported: Vec<(&str, Option<&str>)> = listing
        .problems
        .iter()
        .map(|problem| (problem.path.rsplit('/').next().unwrap(), problem.workflow_id.as_deref()))
        .collect();
    assert_eq!(reported, broken.iter().map(|(name, _, id, _)| (*name, *id)).collect::<Vec<_>>());
    for (problem, (name, _, _, code)) in listing.problems.iter().zip(&broken) {
        assert!(problem.problems.iter().any(|found| found.code.as_str() == *code), "{name}: {problem:?}");
        assert!(problem.problems.iter().all(|found| !found.fix.is_empty() && found.file.is_some()), "{name}");
    }
    assert!(listing.entries.iter().any(|entry| entry.workflow_id == "user.fine"));

    let refused = catalogue.find(None, "user.unknown_contract").unwrap_err();
    assert_eq!(refused.code(), CatalogueErrorCode::Invalid.as_str());
    for part in ["user/compile.json", "steps[0]", "wr.contracts.nothing"] {
        assert!(refused.message().contains(part), "{part}: {refused}");
    }
}

#[test]
fn a_broken_file_is_not_in_the_way_of_one_below() {
    let machine = Machine::new();
    machine.write("user/a.json", &workflow("team.same", "Whole"));
    machine.write("repo/workflows/a.json", r#"{"id": "team.same", "steps": 7}"#);
    let found = machine.catalogue().find(Some(&machine.workspace()), "team.same").unwrap();
    assert_eq!(found.workflow.name, "Whole");
    assert_eq!(found.explanation[0].cause, ShadowCause::Broken);
    assert!(found.warnings[0].contains("repo/workflows/a.json"), "{:?}", found.warnings);
}

#[test]
fn only_regular_files_are_read() {
    let machine = Machine::new();
    machine.write("elsewhere/secret.json", &workflow("user.linked", "Linked"));
    symlink(machine.path("elsewhere/secret.json"), machine.path("user/link.json")).unwrap();
    symlink(machine.path("user/circle.json"), machine.path("user/circle.json")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        machine.path("user/pipe.json"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let listing = machine.catalogue().list(None);
    let messages: Vec<&str> =
        listing.problems.iter().map(|problem| problem.problems[0].message.as_str()).collect();
    assert_eq!(messages, ["it is a symbolic link", "it is a symbolic link", "it is not a regular file"]);

    symlink(machine.path("elsewhere"), machine.path("repo/workflows")).unwrap();
    let listing = machine.catalogue().list(Some(&machine.workspace()));
    assert!(listing.unreadable[0].contains("symbolic link"), "{:?}", listing.unreadable);
    assert!(listing.entries.iter().all(|entry| entry.workflow_id != "user.linked"));
}

#[test]
fn a_folder_of_too_many_files_says_so() {
    let machine = Machine::new();
    for index in 0..1002 {
        machine.write(&format!("user/{index:04}.json"), r#"{"nodes": []}"#);
    }
    machine.write("user/zzz.json", &workflow("user.last", "Last"));
    let listing = machine.catalogue().list(None);
    assert!(listing.unreadable[0].contains("1003 workflow files"), "{:?}", listing.unreadable);
    assert!(listing.unreadable[0].contains("first 1000"), "{:?}", listing.unreadable);
}

#[test]
fn the_project_ends_at_the_root_of_its_repository() {
    let machine = Machine::new();
    let catalogue = machine.catalogue();
    let named = |workspace: &Path| {
        catalogue.find(Some(workspace), "team.same").map(|found| found.workflow.name.clone())
    };
    machine.write("workflows/a.json", &workflow("team.same", "above"));
    machine.write("repo/.interlock/workflows/a.json", &workflow("team.same", "state"));
    assert!(named(&machine.workspace()).is_err(), "neither above the root, nor the state of the workspace");
    machine.write("repo/workflows/a.json", &workflow("team.same", "root"));
    assert_eq!(named(&machine.workspace()).unwrap(), "root");
    assert_eq!(named(&machine.path("repo")).unwrap(), "root");
    machine.write("repo/crates/workflows/a.json", &workflow("team.same", "nearer"));
    assert_eq!(named(&machine.workspace()).unwrap(), "nearer");
    assert_eq!(named(&machine.path("repo")).unwrap(), "root");

    // Without a repository, only the folder itself counts.
    machine.write("plain/workflows/a.json", &workflow("team.same", "plain"));
    fs::create_dir_all(machine.path("plain/below")).unwrap();
    assert_eq!(named(&machine.path("plain")).unwrap(), "plain");
    assert!(named(&machine.path("plain/below")).is_err());

    for workspace in [Path::new("relative"), &machine.path("absent")] {
        let listing = catalogue.list(Some(workspace));
        assert_eq!(listing.unreadable.len(), 1, "{workspace:?}");
        assert!(listing.entries.iter().any(|entry| entry.workflow_id == "wr.change_review"));
    }
}

#[test]
fn a_project_fills_the_slots_of_workflows() {
    let machine = Machine::new();
    machine.write("user/slotted.json", &slotted("user.slotted"));
    machine.write("user/plain.json", &workflow("user.plain", "Plain"));
    let catalogue = machine.catalogue();
    let workspace = machine.workspace();
    let prompt = || {
        catalogue.find(Some(&workspace), "user.slotted").map(|found| found.workflow.steps[0].prompt.clone())
    };
    assert_eq!(prompt().unwrap(), "Run routine-default.");

    machine
        .write("repo/workflows/bindings.json", r#"{"user.slotted": {"check": "routine-ours"}, "other": 7}"#);
    assert_eq!(prompt().unwrap(), "Run routine-ours.");
    let bound = catalogue.find(Some(&workspace), "user.slotted").unwrap();
    assert_ne!(bound.hash, catalogue.find(None, "user.slotted").unwrap().hash, "another pin");
    assert!(catalogue.list(Some(&workspace)).problems.is_empty(), "bindings are not a workflow");

    machine.write("repo/workflows/bindings.json", r#"{"user.slotted": {"chekc": "routine-ours"}}"#);
    let refused = prompt().unwrap_err();
    assert_eq!(refused.code(), "PRECONDITION_FAILED");
    assert!(refused.message().contains("repo/workflows/bindings.json"), "{refused}");
    assert!(refused.message().contains("chekc"), "{refused}");

    machine.write("repo/workflows/bindings.json", "{");
    assert!(prompt().unwrap_err().message().contains("bindings.json"));
    let unharmed = catalogue.find(Some(&workspace), "user.plain").unwrap();
    assert!(unharmed.warnings[0].contains("bindings.json"), "{:?}", unharmed.warnings);
    assert!(catalogue.find(Some(&workspace), "wr.change_review").is_ok());
    let listing = catalogue.list(Some(&workspace));
    assert!(listing.problems[0].path.ends_with("bindings.json"));
}

#[test]
fn an_edit_counts_at_once() {
    let machine = Machine::new();
    let catalogue = machine.catalogue();
    let name = || catalogue.find(None, "user.edited").map(|found| found.workflow.name.clone());
    for round in 0..20 {
        // The same length, and probably the same time.
        machine.write("user/edited.json", &workflow("user.edited", &format!("{round:02}")));
        assert_eq!(name().unwrap(), format!("{round:02}"));
    }
    // A file that was restored with an old time has changed nevertheless.
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    for text in ["AA", "BB"] {
        machine.write("user/edited.json", &workflow("user.edited", text));
        fs::File::options()
            .write(true)
            .open(machine.path("user/edited.json"))
            .unwrap()
            .set_modified(old)
            .unwrap();
        assert_eq!(name().unwrap(), text);
    }
    fs::rename(machine.path("user/edited.json"), machine.path("user/renamed.json")).unwrap();
    assert_eq!(name().unwrap(), "BB");
    fs::remove_file(machine.path("user/renamed.json")).unwrap();
    assert_eq!(name().unwrap_err().code(), "NOT_FOUND");
}

#[test]
fn an_unknown_id_gets_the_nearest_ones() {
    let machine = Machine::new();
    machine.write("user/a.json", &workflow("user.release_notes", "Notes"));
    let catalogue = machine.catalogue();
    for (asked, expected) in [
        ("user.relase_notes", "`user.release_notes`"),
        ("wr.chage_review", "`wr.change_review`"),
        ("team.change_review", "`wr.change_review`"),
        ("nothing-like-it", "list_workflows"),
        ("", "list_workflows"),
    ] {
        let refused = catalogue.find(None, asked).unwrap_err();
        assert_eq!(refused.code(), "NOT_FOUND", "{asked}");
        assert!(refused.suggestion().contains(expected), "{asked}: {refused}");
    }
    let long = catalogue.find(None, &"x".repeat(1 << 20)).unwrap_err();
    assert!(long.message().len() < 1000);
}

#[test]
fn older_ids_run_with_a_suggestion() {
    let machine = Machine::new();
    machine.write("user/a.json", &workflow("old-one", "Old"));
    machine.write("repo/workflows/b.json", &workflow("other-one", "Other"));
    machine.write("repo/workflows/c.json", &workflow("project.other_one", "Taken"));
    let catalogue = machine.catalogue();
    let found = catalogue.find(Some(&machine.workspace()), "old-one").unwrap();
    assert_eq!((found.id_status, found.suggested_id.as_deref()), (IdStatus::Legacy, Some("user.old_one")));
    assert!(found.warnings[0].contains("`user.old_one`"));
    let listing = catalogue.list(Some(&machine.workspace()));
    let other = listing.entries.iter().find(|entry| entry.workflow_id == "other-one").unwrap();
    let suggestion = other.suggested_id.as_deref().unwrap();
    assert!(suggestion.starts_with("project.other_one_") && suggestion.len() == 22, "{suggestion}");
}

#[test]
fn attaching_and_detaching_are_idempotent() {
    let machine = Machine::new();
    machine.write("attached/a.json", &workflow("team.attached", "Attached"));
    let comment = "# by hand\n[[repository]] # ours\nlocation = \"/nowhere\"\n";
    machine.write("data/sources.toml", comment);
    let catalogue = machine.catalogue();
    let path = machine.path("attached");
    let path = path.to_str().unwrap();
    let sloppy = format!("{path}/./");
    assert_eq!(catalogue.attach(path).unwrap(), path);
    let once = fs::read_to_string(machine.path("data/sources.toml")).unwrap();
    assert_eq!(catalogue.attach(&sloppy).unwrap(), path);
    assert_eq!(fs::read_to_string(machine.path("data/sources.toml")).unwrap(), once);
    assert!(once.starts_with(comment), "what people wrote stays: {once}");
    assert!(catalogue.find(None, "team.attached").is_ok());
    assert!(machine.catalogue().find(None, "team.attached").is_ok(), "another process sees it too");

    fs::remove_dir_all(machine.path("attached")).unwrap();
    let listing = catalogue.list(None);
    assert!(listing.unreadable.iter().any(|line| line.contains("attached")), "{:?}", listing.unreadable);
    assert!(listing.sources.iter().any(|source| source.stale && source.category == SourceCategory::Managed));
    for _ in 0..2 {
        assert_eq!(catalogue.detach(&sloppy).unwrap(), path, "a folder that is gone can be detached");
        assert!(!fs::read_to_string(machine.path("data/sources.toml")).unwrap().contains("attached"));
    }
}

#[test]
fn what_cannot_be_attached() {
    let machine = Machine::new();
    machine.write("file", "x");
    let catalogue = machine.catalogue();
    let (file, absent, up) = (machine.path("file"), machine.path("absent"), machine.path("user/../one"));
    for (path, expected) in [
        ("relative/path", "not absolute"),
        ("", "not absolute"),
        ("https://example.org/a.git", "only the user decides"),
        (file.to_str().unwrap(), "not a folder"),
        (absent.to_str().unwrap(), "cannot be read"),
        (up.to_str().unwrap(), "`..`"),
        ("/with\nline", "control characters"),
    ] {
        let refused = catalogue.attach(path).unwrap_err();
        assert_eq!(refused.code(), "VALIDATION_ERROR", "{path}");
        assert!(refused.message().contains(expected), "{path}: {refused}");
        assert!(!refused.suggestion().is_empty());
    }
    assert!(!machine.path("data/sources.toml").exists());

    // A list that cannot be parsed is never overwritten.
    for text in ["directory = 7", "[[directory", "\u{0}"] {
        machine.write("data/sources.toml", text);
        let refused = catalogue.attach(machine.path("attached").to_str().unwrap()).unwrap_err();
        assert_eq!(refused.code(), "INTERNAL_ERROR", "{text:?}");
        assert_eq!(fs::read_to_string(machine.path("data/sources.toml")).unwrap(), text);
        assert!(!catalogue.list(None).unreadable.is_empty(), "{text:?}");
    }
    let refused = Catalogue::new(CatalogueOptions::default()).attach("/tmp").unwrap_err();
    assert_eq!(refused.code(), "INTERNAL_ERROR");
}

#[test]
fn a_list_that_another_process_is_changing_is_busy() {
    let machine = Machine::new();
    let lock = fs::File::create(machine.path("data/.sources.toml.lock")).unwrap();
    lock.lock().unwrap();
    let refused = machine.catalogue().attach(machine.path("attached").to_str().unwrap()).unwrap_err();
    assert_eq!(refused.retry_hint(), canon::error::Retry::AfterMs(250));
    drop(lock);
    assert!(machine.catalogue().attach(machine.path("attached").to_str().unwrap()).is_ok());
}

#[test]
fn a_folder_that_is_named_twice_does_not_shadow_itself() {
    let machine = Machine::new();
    machine.write("repo/workflows/a.json", &workflow("team.same", "Same"));
    let catalogue = machine.catalogue();
    catalogue.attach(machine.path("repo/workflows").to_str().unwrap()).unwrap();
    let found = catalogue.find(Some(&machine.workspace()), "team.same").unwrap();
    assert_eq!((found.source_kind, found.explanation.len()), (Kind::Project, 0));
    assert_eq!(catalogue.find(None, "team.same").unwrap().source_kind, Kind::Remote);
}
