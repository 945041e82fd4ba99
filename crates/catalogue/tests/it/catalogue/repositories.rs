//! Workflows from git repositories, with and without `git`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use super::{Machine, workflow};

/// Runs `git` like a user who prepares a repository.
fn git(folder: &Path, arguments: &[&str]) {
    let done = Command::new("git")
        .current_dir(folder)
        .args(["-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"])
        .args(arguments)
        .output()
        .unwrap();
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// A repository with one workflow, a link that leads outside, and one file that is too large.
fn upstream(machine: &Machine) {
    machine.write("upstream/workflows/a.json", &workflow("team.fetched", "Fetched"));
    machine.write("upstream/workflows/large.json", &"x".repeat((1 << 20) + 1));
    machine.write("upstream/workflows/below/ignored.json", "{");
    machine.write("upstream/workflows/.gitattributes", "*.json filter=evil\n");
    symlink("/etc/passwd", machine.path("upstream/workflows/link.json")).unwrap();
    let folder = machine.path("upstream");
    git(&folder, &["init", "--quiet"]);
    git(&folder, &["add", "."]);
    git(&folder, &["commit", "--quiet", "-m", "one"]);
}

fn configure(machine: &Machine, location: &str, branch: Option<&str>) {
    let branch = branch.map(|branch| format!("branch = \"{branch}\"\n")).unwrap_or_default();
    machine.write("data/sources.toml", &format!("[[repository]]\nlocation = \"{location}\"\n{branch}"));
}

#[test]
fn an_address_is_fetched_once_and_kept() {
    let machine = Machine::new();
    upstream(&machine);
    let location = format!("file://{}", machine.path("upstream").display());
    configure(&machine, &location, Some("main"));
    let catalogue = machine.catalogue();
    let found = catalogue.find(None, "team.fetched").unwrap();
    assert_eq!(found.source_ref, "upstream#main:workflows/a.json");

    let listing = catalogue.list(None);
    assert!(listing.problems.is_empty(), "no link was copied: {:?}", listing.problems);
    assert!(listing.unreadable[0].contains("large.json is 1048577 bytes"), "{:?}", listing.unreadable);

    // The repository is gone, but the copy is still used, also by a new process.
    fs::remove_dir_all(machine.path("upstream")).unwrap();
    assert_eq!(machine.catalogue().find(None, "team.fetched").unwrap().hash, found.hash);
    let left =
        fs::read_dir(fs::read_dir(machine.path("data/cache/git")).unwrap().next().unwrap().unwrap().path());
    assert_eq!(left.unwrap().count(), 2, "the copy and its pointer, and no clone");
}

#[test]
fn an_old_copy_is_renewed_and_a_failure_keeps_it() {
    let machine = Machine::new();
    upstream(&machine);
    configure(&machine, &format!("file://{}", machine.path("upstream").display()), None);
    assert_eq!(machine.catalogue().find(None, "team.fetched").unwrap().workflow.name, "Fetched");
    let home = fs::read_dir(machine.path("data/cache/git")).unwrap().next().unwrap().unwrap().path();
    let make_old = || {
        let old = std::time::SystemTime::now() - std::time::Duration::from_secs(7200);
        fs::File::options().write(true).open(home.join("current")).unwrap().set_modified(old).unwrap();
    };
    machine.write("upstream/workflows/a.json", &workflow("team.fetched", "Renewed"));
    git(&machine.path("upstream"), &["commit", "--quiet", "-am", "two"]);
    assert_eq!(
        machine.catalogue().find(None, "team.fetched").unwrap().workflow.name,
        "Fetched",
        "still fresh"
    );
    make_old();
    assert_eq!(machine.catalogue().find(None, "team.fetched").unwrap().workflow.name, "Renewed");
    assert_eq!(fs::read_dir(&home).unwrap().count(), 2, "the copy before is gone");

    fs::remove_dir_all(machine.path("upstream")).unwrap();
    make_old();
    let catalogue = machine.catalogue();
    assert_eq!(catalogue.find(None, "team.fetched").unwrap().workflow.name, "Renewed");
    let listing = catalogue.list(None);
    assert!(listing.unreadable[0].contains("the last copy is used"), "{:?}", listing.unreadable);
}

#[test]
fn a_local_repository_is_read_where_it_is() {
    let machine = Machine::new();
    upstream(&machine);
    configure(&machine, machine.path("upstream").to_str().unwrap(), None);
    let catalogue = machine.catalogue();
    assert_eq!(catalogue.find(None, "team.fetched").unwrap().workflow.name, "Fetched");
    machine.write("upstream/workflows/a.json", &workflow("team.fetched", "Edited"));
    assert_eq!(catalogue.find(None, "team.fetched").unwrap().workflow.name, "Edited", "without a commit");
    assert!(!machine.path("data/cache").exists(), "nothing was cloned");
}

#[test]
fn repositories_that_cannot_be_had_are_reported() {
    let machine = Machine::new();
    fs::create_dir_all(machine.path("empty")).unwrap();
    git(&machine.path("empty"), &["init", "--quiet"]);
    let absent = format!("file://{}", machine.path("absent").display());
    let empty = machine.path("empty");
    for (location, branch, expected) in [
        (absent.as_str(), None, "`git` failed"),
        (empty.to_str().unwrap(), None, "no folder `workflows`"),
        (empty.to_str().unwrap(), Some("main"), "`git` failed"),
        ("http://example.org/a.git", None, "neither"),
        ("ext::sh", None, "neither"),
        ("/nowhere", Some("--evil"), "not a valid branch name"),
    ] {
        configure(&machine, location, branch);
        let listing = machine.catalogue().list(None);
        assert!(listing.unreadable[0].contains(expected), "{location}: {:?}", listing.unreadable);
        assert!(listing.sources.iter().any(|source| source.stale), "{location}");
        assert!(listing.entries.iter().any(|entry| entry.workflow_id == "wr.change_review"));
    }
    machine
        .write("data/sources.toml", "[[repository]]\nbranch = \"x\"\n[other]\n[[directory]]\npath = \"x\"\n");
    assert_eq!(machine.catalogue().list(None).unreadable.len(), 3);
}
