//! Repositories, with the real `git`.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use workspace::plan::Source;
use workspace::resolve::Resolver as _;
use workspace::slot::Mode;
use workspace::{Code, Error};

use super::{Collected, SECRET, TestLibrary, resolve};

fn repo(repo_ref: &str, git_ref: &str) -> Source {
    Source::ScmRepo { repo_ref: repo_ref.into(), git_ref: git_ref.into() }
}

/// Runs `git` to prepare a repository.
fn git(folder: &Path, arguments: &[&str]) -> String {
    let done = Command::new("git")
        .current_dir(folder)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .args(["-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"])
        .args(["-c", "protocol.file.allow=always"])
        .args(arguments)
        .output()
        .unwrap();
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

/// A library with one repository, `demo`, with two commits, a tag on the first, and a branch.
struct Upstream {
    shelf: TestLibrary,
    first: String,
    second: String,
    branch: String,
}

impl Upstream {
    fn new() -> Self {
        let shelf = TestLibrary::new();
        let folder = shelf.outside().join("upstream");
        fs::create_dir(&folder).unwrap();
        let write = |path: &str, text: &str| {
            fs::create_dir_all(folder.join(path).parent().unwrap()).unwrap();
            fs::write(folder.join(path), text).unwrap();
        };
        git(&folder, &["init", "--quiet"]);
        write("README.md", "one");
        write("bin/run", "#!/bin/sh\n");
        fs::set_permissions(folder.join("bin/run"), fs::Permissions::from_mode(0o755)).unwrap();
        git(&folder, &["add", "."]);
        git(&folder, &["commit", "--quiet", "-m", "one"]);
        git(&folder, &["tag", "-a", "v1", "-m", "v1"]);
        let first = git(&folder, &["rev-parse", "HEAD"]);
        write("README.md", "two");
        git(&folder, &["commit", "--quiet", "-a", "-m", "two"]);
        let second = git(&folder, &["rev-parse", "HEAD"]);
        git(&folder, &["checkout", "--quiet", "-b", "feature/x"]);
        write("README.md", "branch");
        git(&folder, &["commit", "--quiet", "-a", "-m", "three"]);
        let branch = git(&folder, &["rev-parse", "HEAD"]);
        git(&folder, &["checkout", "--quiet", "main"]);
        shelf.write("repos.toml", "[repos.demo]\npath = \"../upstream\"\n");
        Self { shelf, first, second, branch }
    }

    fn folder(&self) -> PathBuf {
        self.shelf.outside().join("upstream")
    }

    fn resolve(&self, git_ref: &str, mode: Mode) -> Result<Collected, Error> {
        let scratch = self.shelf.outside().join("scratch");
        fs::create_dir_all(&scratch).unwrap();
        let library = self.shelf.library().with_scratch(&scratch);
        let found = resolve(&library, &repo("demo", git_ref), mode);
        assert_eq!(fs::read_dir(&scratch).unwrap().count(), 0, "nothing stays behind");
        found
    }
}

#[test]
fn a_revision_can_be_a_branch_tag_commit_or_head() {
    let upstream = Upstream::new();
    let cases = [
        ("HEAD", "two", &upstream.second),
        ("main", "two", &upstream.second),
        ("refs/heads/main", "two", &upstream.second),
        ("v1", "one", &upstream.first),
        ("feature/x", "branch", &upstream.branch),
        (&upstream.first, "one", &upstream.first),
        (&upstream.branch, "branch", &upstream.branch),
    ];
    for (git_ref, text, commit) in cases {
        let found = upstream.resolve(git_ref, Mode::ReadOnly).unwrap();
        assert_eq!(
            found.paths(),
            ["README.md", "bin/run"],
            "{git_ref}: no `.git` where nothing can be written"
        );
        assert_eq!(found.text("README.md"), text, "{git_ref}");
        assert_eq!(found.executable, ["bin/run"]);
        assert_eq!(found.pinned, [commit.as_str()], "{git_ref}");
    }
}

#[test]
fn file_urls_and_bare_repositories_work() {
    let upstream = Upstream::new();
    let bare = upstream.shelf.outside().join("bare.git");
    git(upstream.shelf.outside(), &["clone", "--quiet", "--bare", "upstream", "bare.git"]);
    for location in [
        format!("url = \"file://{}\"", upstream.folder().display()),
        format!("path = \"{}\"", bare.display()),
    ] {
        upstream.shelf.write("repos.toml", format!("[repos.demo]\n{location}\n"));
        assert_eq!(upstream.resolve("HEAD", Mode::ReadOnly).unwrap().text("README.md"), "two", "{location}");
    }
}

#[test]
fn a_sha256_repository_works() {
    let shelf = TestLibrary::new();
    let folder = shelf.outside().join("upstream");
    git(shelf.outside(), &["init", "--quiet", "--object-format=sha256", "upstream"]);
    fs::write(folder.join("a"), "a").unwrap();
    git(&folder, &["add", "."]);
    git(&folder, &["commit", "--quiet", "-m", "a"]);
    let commit = git(&folder, &["rev-parse", "HEAD"]);
    shelf.write("repos.toml", "[repos.demo]\npath = \"../upstream\"\n");
    for git_ref in ["main", &commit] {
        let found = shelf.resolve(&repo("demo", git_ref)).unwrap();
        assert_eq!((found.paths(), &found.pinned), (vec!["a"], &vec![commit.clone()]), "{git_ref}");
    }
}

#[test]
fn uncommitted_files_are_not_fetched() {
    let upstream = Upstream::new();
    fs::write(upstream.folder().join("README.md"), "edited").unwrap();
    fs::write(upstream.folder().join("new.txt"), "new").unwrap();
    let found = upstream.resolve("HEAD", Mode::ReadOnly).unwrap();
    assert_eq!((found.paths(), found.text("README.md")), (vec!["README.md", "bin/run"], "two".to_owned()));
}

#[test]
fn a_writable_repository_is_clean_and_on_its_branch() {
    let upstream = Upstream::new();
    for (git_ref, head) in
        [("HEAD", "main"), ("feature/x", "feature/x"), ("v1", "HEAD"), (&*upstream.first, "HEAD")]
    {
        let found = upstream.resolve(git_ref, Mode::ReadWrite).unwrap();
        let target = tempfile::tempdir().unwrap();
        for (path, kept) in &found.items {
            let path = target.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            match kept {
                super::Kept::File(bytes) => fs::write(path, bytes).unwrap(),
                super::Kept::Link(target) => symlink(target, path).unwrap(),
                super::Kept::Directory => fs::create_dir_all(path).unwrap(),
            }
        }
        fs::set_permissions(target.path().join("bin/run"), fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(git(target.path(), &["status", "--porcelain"]), "", "{git_ref}");
        assert_eq!(git(target.path(), &["rev-parse", "--abbrev-ref", "HEAD"]), head, "{git_ref}");
        assert_eq!(git(target.path(), &["rev-parse", "HEAD"]), found.pinned[0], "{git_ref}");
        fs::write(target.path().join("README.md"), "mine").unwrap();
        git(target.path(), &["commit", "--quiet", "-a", "-m", "mine"]);
        let everything = format!("{:?}", found.texts());
        assert!(!everything.contains(&*upstream.folder().to_string_lossy()), "local paths are not reported");
        assert!(!found.paths().iter().any(|path| path.starts_with(".git/hooks")), "{:?}", found.paths());
    }
}

#[test]
fn missing_revisions_are_refused() {
    let upstream = Upstream::new();
    let short = &upstream.first[..10];
    let unknown = "0123456789012345678901234567890123456789";
    for git_ref in [
        "nope",
        short,
        unknown,
        "-x",
        "--upload-pack=touch /tmp/x",
        "main:x",
        "+main",
        "main^",
        "",
        "refs/heads/*",
    ] {
        let refused = upstream.resolve(git_ref, Mode::ReadOnly).unwrap_err();
        assert_eq!(refused.code(), Code::ResolveNotFound, "{git_ref}: {refused}");
    }
    let shelf = &upstream.shelf;
    for repo_ref in ["nope", "../upstream", "/etc", "https://example.org/x", "file:///etc", "", "-x"] {
        let refused = shelf.resolve(&repo(repo_ref, "HEAD")).unwrap_err();
        assert_eq!(refused.code(), Code::ResolveNotFound, "{repo_ref}: {refused}");
        assert!(refused.message().contains("repos.toml"), "{refused}");
    }
    let empty = TestLibrary::new();
    assert_eq!(empty.resolve(&repo("demo", "HEAD")).unwrap_err().code(), Code::ResolveNotFound);
}

#[test]
fn an_invalid_repos_table_is_refused() {
    use Code::{ResolveBadResponse as Bad, ResolveDenied as Denied, ResolveNotFound as Absent};
    #[rustfmt::skip]
    let cases: [(&[u8], Code, &str); 14] = [
        (b"[repos.demo",                                      Bad,    "line 1"),
        (b"\xff",                                             Bad,    "UTF-8"),
        (b"[other]\n",                                        Bad,    "`other`"),
        (b"repos = 1\n",                                      Bad,    "not a table"),
        (b"[repos]\ndemo = \"x\"\n",                          Bad,    "must be a table"),
        (b"[repos.demo]\n",                                   Bad,    "one of"),
        (b"[repos.demo]\npath = \"a\"\nurl = \"b\"\n",        Bad,    "one of"),
        (b"[repos.demo]\nplace = \"a\"\n",                    Bad,    "one of"),
        (b"[repos.demo]\npath = 1\n",                         Bad,    "a string"),
        (b"[repos.demo]\nurl = \"ssh://git@example.org/a\"\n", Denied, "clone it yourself"),
        (b"[repos.demo]\nurl = \"http://example.org/a\"\n",   Denied, "https"),
        (b"[repos.demo]\nurl = \"ext::sh -c id\"\n",          Denied, "https"),
        (b"[repos.demo]\nurl = \"https://me:hunter2@example.org/a\"\n", Denied, "password"),
        (b"[repos.demo]\npath = \"nope\"\n",                  Absent, "nope"),
    ];
    for (toml, code, says) in cases {
        let shelf = TestLibrary::new();
        shelf.write("repos.toml", toml);
        let refused = shelf.resolve(&repo("demo", "HEAD")).unwrap_err();
        assert_eq!(refused.code(), code, "{}: {refused}", String::from_utf8_lossy(toml));
        assert!(refused.message().contains(says), "{refused}");
        assert!(!format!("{refused:?}").contains("hunter2"), "{refused:?}");
    }
}

#[test]
fn a_remote_repository_has_an_upstream_name() {
    let shelf = TestLibrary::new();
    shelf.write(
        "repos.toml",
        "[repos.far]\nurl = \"https://example.org/a.git\"\n[repos.near]\npath = \"x\"\n",
    );
    let library = shelf.library();
    assert_eq!(library.upstream(&repo("far", "HEAD")).as_deref(), Some("example.org"));
    assert_eq!(library.upstream(&repo("near", "HEAD")), None);
    assert_eq!(library.upstream(&repo("nope", "HEAD")), None);
}

#[test]
fn a_plain_folder_has_one_revision_and_ignores_parent_repositories() {
    let shelf = TestLibrary::new();
    // The library itself is in git, as usual.
    git(shelf.outside(), &["init", "--quiet"]);
    shelf.write("repos/demo/a.txt", "a").write("repos.toml", "[repos.demo]\npath = \"repos/demo\"\n");
    symlink("a.txt", shelf.path().join("repos/demo/link")).unwrap();
    shelf.write("repos/demo/vendor/.git/config", "x");
    let found = shelf.resolve(&repo("demo", "HEAD")).unwrap();
    assert_eq!(found.texts(), [("a.txt", "a".to_owned()), ("link", "-> a.txt".to_owned())]);
    assert_eq!(found.pinned, Vec::<String>::new());
    let refused = shelf.resolve(&repo("demo", "main")).unwrap_err();
    assert_eq!(refused.code(), Code::ResolveNotFound);
    // Links in the library are not followed, even if the table names them.
    shelf.write("repos.toml", "[repos.demo]\npath = \"repos/out\"\n");
    symlink(shelf.outside(), shelf.path().join("repos/out")).unwrap();
    assert_eq!(shelf.resolve(&repo("demo", "HEAD")).unwrap_err().code(), Code::ResolveBadResponse);
}

#[test]
fn a_repository_in_the_library_cannot_lead_out_of_it() {
    let upstream = Upstream::new();
    let shelf = &upstream.shelf;
    shelf.write("repos.toml", "[repos.demo]\npath = \"repos/demo\"\n");
    let inside = shelf.path().join("repos/demo");
    let outside = upstream.folder();
    let fresh = |options: &[&str]| {
        let _ = fs::remove_dir_all(&inside);
        fs::create_dir_all(shelf.path().join("repos")).unwrap();
        let clone =
            [&["clone", "--quiet"], options, &["--", outside.to_str().unwrap(), inside.to_str().unwrap()]];
        git(shelf.outside(), &clone.concat());
    };
    for options in [&["--no-hardlinks"][..], &["--bare", "--no-hardlinks"]] {
        fresh(options);
        assert_eq!(upstream.resolve("v1", Mode::ReadOnly).unwrap().text("README.md"), "one", "{options:?}");
    }
    for plant in ["link", "file", "commondir", "alternates", "link below", "bare alternates"] {
        match plant {
            "alternates" => fresh(&["--shared"]),
            "bare alternates" => fresh(&["--shared", "--bare"]),
            _ => fresh(&["--no-hardlinks"]),
        }
        let git = inside.join(".git");
        match plant {
            "link" => {
                fs::remove_dir_all(&git).unwrap();
                symlink(outside.join(".git"), &git).unwrap();
            }
            "file" => {
                fs::remove_dir_all(&git).unwrap();
                fs::write(&git, format!("gitdir: {}\n", outside.join(".git").display())).unwrap();
            }
            "commondir" => fs::write(git.join("commondir"), outside.join(".git").to_str().unwrap()).unwrap(),
            "link below" => {
                fs::remove_dir_all(git.join("objects")).unwrap();
                symlink(outside.join(".git/objects"), git.join("objects")).unwrap();
            }
            _ => {}
        }
        let refused = upstream.resolve("HEAD", Mode::ReadOnly).map(|found| found.items.len()).unwrap_err();
        assert_eq!(refused.code(), Code::ResolveBadResponse, "{plant}: {refused}");
    }
}

#[test]
fn repository_and_user_configuration_is_never_executed() {
    let upstream = Upstream::new();
    let folder = upstream.folder();
    let canary = upstream.shelf.outside().join("canary");
    let trap = upstream.shelf.outside().join("trap.sh");
    fs::write(&trap, format!("#!/bin/sh\ntouch '{}'\ncat\n", canary.display())).unwrap();
    fs::set_permissions(&trap, fs::Permissions::from_mode(0o755)).unwrap();
    let trap = trap.to_str().unwrap();

    // Hooks and settings of the source repository.
    for hook in ["post-checkout", "pre-receive", "post-update", "reference-transaction", "post-index-change"]
    {
        fs::create_dir_all(folder.join(".git/hooks")).unwrap();
        fs::copy(trap, folder.join(".git/hooks").join(hook)).unwrap();
    }
    git(&folder, &["config", "filter.trap.smudge", trap]);
    git(&folder, &["config", "filter.lfs.smudge", trap]);
    git(&folder, &["config", "uploadpack.packObjectsHook", trap]);
    git(&folder, &["config", "core.fsmonitor", trap]);
    // Attributes, a large-file pointer, a submodule and links in the tree.
    fs::write(folder.join(".gitattributes"), "*.txt filter=trap\n*.bin filter=lfs\n").unwrap();
    fs::write(folder.join("a.txt"), "a").unwrap();
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n";
    fs::write(folder.join("large.bin"), pointer).unwrap();
    symlink("../../secret.md", folder.join("out")).unwrap();
    symlink("a.txt", folder.join("in")).unwrap();
    let other = upstream.shelf.outside().join("other");
    fs::create_dir(&other).unwrap();
    git(&other, &["init", "--quiet"]);
    fs::write(other.join("inside"), SECRET).unwrap();
    git(&other, &["add", "."]);
    git(&other, &["commit", "--quiet", "-m", "other"]);
    git(
        &folder,
        &[
            "-c",
            "core.hooksPath=/dev/null",
            "-c",
            "core.fsmonitor=false",
            "submodule",
            "--quiet",
            "add",
            "../other",
            "sub",
        ],
    );
    git(&folder, &["-c", "filter.trap.clean=cat", "-c", "core.fsmonitor=false", "add", "."]);
    git(
        &folder,
        &["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "commit", "--quiet", "-m", "traps"],
    );
    let _ = fs::remove_file(&canary);

    for mode in [Mode::ReadOnly, Mode::ReadWrite] {
        let found = upstream.resolve("HEAD", mode).unwrap();
        assert!(!canary.exists(), "something was run");
        assert_eq!(found.text("large.bin"), pointer, "a pointer stays a pointer");
        assert_eq!(found.text("a.txt"), "a");
        assert_eq!(found.text("sub"), "/", "a submodule is an empty folder");
        // Links are passed on unchanged. The consumer refuses those that leave the mount.
        assert_eq!(
            (found.text("in"), found.text("out")),
            ("-> a.txt".to_owned(), "-> ../../secret.md".to_owned())
        );
        assert_eq!(found.warnings.len(), 1, "{:?}", found.warnings);
        assert!(!format!("{:?}", found.texts()).contains(SECRET));
    }
}

#[test]
fn a_git_bomb_is_refused_before_it_is_written() {
    let upstream = Upstream::new();
    let folder = upstream.folder();
    // 22 names for one file, 22 names for that folder, and so on: 234,256 files in six objects.
    fs::write(folder.join("blob"), "x").unwrap();
    let mut object = git(&folder, &["hash-object", "-w", "blob"]);
    let mut entry = "100644 blob";
    for _ in 0..4 {
        let names = (0..22).map(|number| format!("{entry} {object}\tf{number}\n")).collect::<String>();
        fs::write(folder.join("names"), names).unwrap();
        let mut made = Command::new("git");
        made.current_dir(&folder).arg("mktree").stdin(fs::File::open(folder.join("names")).unwrap());
        object = String::from_utf8(made.output().unwrap().stdout).unwrap().trim().to_owned();
        entry = "040000 tree";
    }
    let commit = git(&folder, &["commit-tree", &object, "-m", "bomb"]);
    let refused = upstream.resolve(&commit, Mode::ReadOnly).map(|found| found.items.len()).unwrap_err();
    assert_eq!(refused.code(), Code::LimitExceeded, "{refused}");
}

#[test]
fn a_stopped_sink_ends_a_fetch() {
    use workspace::resolve::ResolveRequest;
    let upstream = Upstream::new();
    let mut sink = Collected { room: Some(1), ..Default::default() };
    let source = repo("demo", "HEAD");
    let stopped = upstream
        .shelf
        .library()
        .resolve(ResolveRequest { source: &source, mode: Mode::ReadOnly }, &mut sink)
        .unwrap_err();
    assert_eq!((stopped.code(), sink.items.len()), (Code::ApplyIo, 1));
}
