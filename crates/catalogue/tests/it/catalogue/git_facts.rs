//! Branch, commit and root, from files that can have any contents.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use canon::digest::Digest;
use catalogue::git::{GitFacts, facts, observations};
use guide::record::{ObservationKey as Key, ObservationValue as Value};

use super::Machine;

const COMMIT: &str = "4f3c2a1b0d9e8f7a6b5c4d3e2f1a0b9c8d7e6f5a";
const OTHER: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

/// The facts of a repository that consists of these files.
fn facts_of(files: &[(&str, &str)]) -> (Option<String>, Option<String>) {
    let machine = Machine::new();
    for (name, text) in files {
        machine.write(&format!("repo/{name}"), text);
    }
    let facts = facts(&machine.workspace());
    assert_eq!(facts.root, Some(machine.path("repo")));
    (facts.branch, facts.head)
}

#[test]
fn what_the_files_of_a_repository_say() {
    let long = "b".repeat(100);
    let long_head = format!("ref: refs/heads/{long}\n");
    let long_commit = "0123456789abcdef".repeat(4);
    let packed = format!(
        "# pack-refs with: peeled fully-peeled sorted\n{OTHER} refs/heads/mainline\n{OTHER} xrefs/heads/main\n\
         {COMMIT} refs/heads/main\n^{OTHER}\n"
    );
    let commit_line = format!("{COMMIT}\n");
    let upper = format!("{}\n", COMMIT.to_uppercase());
    type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], Option<&'a str>, Option<&'a str>);
    let cases: [Case<'_>; 21] = [
        (
            "a branch",
            &[(".git/HEAD", "ref: refs/heads/main\n"), (".git/refs/heads/main", &commit_line)],
            Some("main"),
            Some(COMMIT),
        ),
        (
            "a branch with a slash",
            &[(".git/HEAD", "ref: refs/heads/feature/x\n"), (".git/refs/heads/feature/x", &commit_line)],
            Some("feature/x"),
            Some(COMMIT),
        ),
        ("before the first commit", &[(".git/HEAD", "ref: refs/heads/main\n")], Some("main"), None),
        ("a commit by itself", &[(".git/HEAD", &commit_line)], None, Some(COMMIT)),
        ("in capitals", &[(".git/HEAD", &upper)], None, Some(COMMIT)),
        ("a longer digest", &[(".git/HEAD", &long_commit)], None, Some(&long_commit)),
        (
            "packed",
            &[(".git/HEAD", "ref: refs/heads/main\n"), (".git/packed-refs", &packed)],
            Some("main"),
            Some(COMMIT),
        ),
        (
            "a loose ref is newer than a packed one",
            &[
                (".git/HEAD", "ref: refs/heads/main\n"),
                (".git/refs/heads/main", OTHER),
                (".git/packed-refs", &packed),
            ],
            Some("main"),
            Some(OTHER),
        ),
        (
            "a ref to a ref",
            &[
                (".git/HEAD", "ref: refs/heads/alias\n"),
                (".git/refs/heads/alias", "ref: refs/heads/main"),
                (".git/refs/heads/main", &commit_line),
            ],
            Some("alias"),
            Some(COMMIT),
        ),
        (
            "a circle",
            &[
                (".git/HEAD", "ref: refs/heads/a"),
                (".git/refs/heads/a", "ref: refs/heads/b"),
                (".git/refs/heads/b", "ref: refs/heads/a"),
            ],
            Some("a"),
            None,
        ),
        (
            "no branch",
            &[(".git/HEAD", "ref: refs/remotes/origin/x"), (".git/refs/remotes/origin/x", &commit_line)],
            None,
            Some(COMMIT),
        ),
        ("a long name", &[(".git/HEAD", &long_head)], Some(&long[..80]), None),
        ("nothing", &[], None, None),
        ("an empty file", &[(".git/HEAD", "")], None, None),
        ("noise", &[(".git/HEAD", "\u{1}\u{2}{}[]")], None, None),
        ("a ref that climbs out", &[(".git/HEAD", "ref: refs/heads/../../../secret")], None, None),
        ("an absolute ref", &[(".git/HEAD", "ref: /etc/passwd")], None, None),
        ("a ref with a line break", &[(".git/HEAD", "ref: refs/heads/a\nb")], None, None),
        ("a ref that turns its text around", &[(".git/HEAD", "ref: refs/heads/a\u{202e}b")], None, None),
        ("another storage of refs", &[(".git/HEAD", "ref: refs/heads/.invalid\n")], None, None),
        (
            "a ref that holds noise",
            &[(".git/HEAD", "ref: refs/heads/main"), (".git/refs/heads/main", "not a commit")],
            Some("main"),
            None,
        ),
    ];
    for (name, files, branch, head) in cases {
        let found = facts_of(files);
        assert_eq!((found.0.as_deref(), found.1.as_deref()), (branch, head), "{name}");
    }
}

#[test]
fn a_worktree_has_its_own_branch_and_shares_the_refs() {
    let machine = Machine::new();
    machine.write("repo/.git/HEAD", "ref: refs/heads/main\n");
    machine.write("repo/.git/refs/heads/topic", COMMIT);
    machine.write("repo/.git/worktrees/tree/HEAD", "ref: refs/heads/topic\n");
    machine.write("repo/.git/worktrees/tree/commondir", "../..\n");
    let absolute = format!("gitdir: {}\n", machine.path("repo/.git/worktrees/tree").display());
    for pointer in [absolute.as_str(), "gitdir: ../repo/.git/worktrees/tree\n"] {
        machine.write("tree/.git", pointer);
        machine.write("tree/src/lib.rs", "");
        let found = facts(&machine.path("tree/src"));
        assert_eq!(found.root, Some(machine.path("tree")));
        assert_eq!((found.branch.as_deref(), found.head.as_deref()), (Some("topic"), Some(COMMIT)));
    }
    for pointer in ["gitdir: ../absent", "gitdir:", "", "gitdir: .git", "gitdir: \u{0}", "noise"] {
        machine.write("tree/.git", pointer);
        let found = facts(&machine.path("tree"));
        assert_eq!(
            found,
            GitFacts { root: Some(machine.path("tree")), ..GitFacts::default() },
            "{pointer:?}"
        );
    }
}

#[test]
fn hostile_files_cost_nothing() {
    let machine = Machine::new();
    let fifo = |name: &str| {
        let path = machine.path(name);
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
            .unwrap();
    };
    fifo("repo/.git/HEAD");
    assert_eq!(facts(&machine.workspace()).head, None, "a pipe is not waited for");
    fs::remove_file(machine.path("repo/.git/HEAD")).unwrap();
    symlink("/dev/zero", machine.path("repo/.git/HEAD")).unwrap();
    assert_eq!(facts(&machine.workspace()).head, None, "an endless file is not read");
    fs::remove_file(machine.path("repo/.git/HEAD")).unwrap();
    machine.write("repo/.git/HEAD", &format!("ref: refs/heads/{}", "x".repeat(1 << 20)));
    assert_eq!(facts(&machine.workspace()).branch, None, "nor a long one");
    machine.write("repo/.git/HEAD", "ref: refs/heads/main");
    fs::File::create(machine.path("repo/.git/packed-refs")).unwrap().set_len(1 << 40).unwrap();
    assert_eq!(facts(&machine.workspace()).head, None, "a terabyte of NULs is searched as far as the bound");
    symlink(machine.path("repo/.git/refs"), machine.path("repo/.git/refs")).unwrap();
    assert_eq!(facts(&machine.workspace()).branch.as_deref(), Some("main"), "a circle of links");

    fs::remove_dir_all(machine.path("repo/.git")).unwrap();
    assert_eq!(facts(&machine.workspace()), GitFacts::default(), "no repository");
    assert_eq!(facts(Path::new("/absent/altogether")), GitFacts::default());
}

#[test]
fn observations_are_within_the_budgets_of_records() {
    let facts = GitFacts {
        root: Some("/home/me/app".into()),
        branch: Some("topic".to_owned()),
        head: Some(COMMIT.to_owned()),
    };
    assert_eq!(
        observations(&facts),
        [
            (Key::GitBranch, Value::ShortString("topic".to_owned())),
            (Key::GitHeadSha, Value::GitSha1(COMMIT.to_owned())),
            (Key::RepoRootHash, Value::Sha256(Digest::of_bytes(b"/home/me/app"))),
            (Key::RepoRoot, Value::Path("/home/me/app".to_owned())),
        ]
    );
    let large = GitFacts {
        root: Some(format!("/{}", "é".repeat(600)).into()),
        branch: Some("é".repeat(100)),
        head: Some("a".repeat(64)),
    };
    let keys: Vec<Key> = observations(&large).into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, [Key::GitBranch, Key::RepoRootHash], "what is too large is left out");
    assert!(observations(&GitFacts::default()).is_empty());
}
