//! One revision of a repository, checked out into a private folder.
//!
//! The order is: fetch one commit without its history, count what it has, and only then write files. A tree of a
//! few objects can stand for billions of files, so counting comes before writing.

use std::path::Path;
use std::time::Instant;

use super::git::{FOLDER, Git, TIMEOUT};
use super::revision::Revision;
use crate::library::limits::{Count, FILES, REPO_BYTES};
use crate::library::scratch::Scratch;
use crate::resolve::Sink;
use crate::rooted::Dir;
use crate::slot::Mode;
use crate::{Code, Error};

/// Long enough for the listing of as many files as there may be.
const MAX_LISTING: u64 = 64 << 20;
/// Long enough for a line or two.
const MAX_ANSWER: u64 = 4096;

/// A checkout; it goes away when it is dropped.
pub(super) struct Checkout {
    /// The commit that it is.
    pub(super) commit: String,
    /// How many repositories within the repository were left out.
    pub(super) submodules: u64,
    folder: Dir,
    _scratch: Scratch,
}

impl Checkout {
    /// The work tree, with its `.git`.
    pub(super) const fn folder(&self) -> &Dir {
        &self.folder
    }
}

/// Fetches and checks out.
pub(super) fn make(
    scratch: &Path,
    address: &str,
    revision: Revision<'_>,
    mode: Mode,
    sink: &dyn Sink,
) -> Result<Checkout, Error> {
    let failed = |error: std::io::Error| {
        let message = format!("no private folder can be made in {}: {error}", scratch.display());
        Error::new(Code::ResolveUpstream, message)
    };
    let scratch = Scratch::new(scratch).map_err(failed)?;
    let stop = || sink.check().map_err(Error::from);
    let git = Git { folder: scratch.path(), deadline: Instant::now() + TIMEOUT, stop: &stop };
    let fetch =
        ["fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--no-auto-maintenance"];
    let fetch = [&fetch[..], &["--", address, revision.as_str()]].concat();
    let fetch_as = |format: &str| {
        // No template: it would bring the hooks of this machine along.
        git.run(&["init", "--quiet", "--template=", format, FOLDER], MAX_ANSWER)?;
        git.within(&fetch, MAX_ANSWER)
    };
    match fetch_as("--object-format=sha1") {
        // How ids are made is known only once the other side has been asked.
        Err(error) if error.message().contains("mismatched algorithms") || revision.is_sha256() => {
            std::fs::remove_dir_all(scratch.path().join(FOLDER)).map_err(failed)?;
            fetch_as("--object-format=sha256")?;
        }
        other => drop(other?),
    }
    let commit = line(&git.within(&["rev-parse", "--verify", "--quiet", "FETCH_HEAD^{commit}"], MAX_ANSWER)?);
    let listing = git.within(&["ls-tree", "-r", "-l", "-z", "--full-tree", &commit], MAX_LISTING)?;
    let submodules = count(&listing)?;

    // An index without the times of this machine, so that equal commits give equal bytes.
    git.within(&["read-tree", &commit], MAX_ANSWER)?;
    git.within(&["checkout-index", "--all", "--force", "--quiet"], MAX_ANSWER)?;
    if mode == Mode::ReadWrite {
        match branch(&git, address, revision) {
            Some(branch) => {
                let full = format!("refs/heads/{branch}");
                git.within(&["update-ref", &full, &commit], MAX_ANSWER)?;
                git.within(&["symbolic-ref", "HEAD", &full], MAX_ANSWER)?;
            }
            None => drop(git.within(&["update-ref", "--no-deref", "HEAD", &commit], MAX_ANSWER)?),
        }
    }
    let folder = Dir::open_root(&scratch.path().join(FOLDER)).map_err(failed)?;
    Ok(Checkout { commit, submodules, folder, _scratch: scratch })
}

/// Refuses a commit that has more than there may be; says how many submodules it has.
fn count(listing: &[u8]) -> Result<u64, Error> {
    let (mut files, mut bytes, mut submodules) = (Count::of(FILES), Count::of(REPO_BYTES), 0);
    // Mode, type, id, length, a tab, and the path.
    for entry in listing.split(|byte| *byte == 0).filter(|entry| !entry.is_empty()) {
        let facts = entry.split(|byte| *byte == b'\t').next().unwrap_or_default();
        let facts = String::from_utf8_lossy(facts);
        let mut facts = facts.split_ascii_whitespace();
        let (kind, length) = (facts.nth(1), facts.nth(1));
        files.add(1)?;
        bytes.add(length.and_then(|length| length.parse().ok()).unwrap_or(0))?;
        submodules += u64::from(kind == Some("commit"));
    }
    Ok(submodules)
}

/// The branch that was fetched, for whoever goes on working on it; nothing for a tag or a commit.
fn branch(git: &Git<'_>, address: &str, revision: Revision<'_>) -> Option<String> {
    let full = match revision {
        Revision::Commit(_) => return None,
        Revision::Head => {
            let answer = git.within(&["ls-remote", "--symref", "--", address, "HEAD"], MAX_ANSWER).ok()?;
            let answer = String::from_utf8(answer).ok()?;
            answer.lines().next()?.strip_prefix("ref: ")?.split('\t').next()?.to_owned()
        }
        Revision::Name(name) => {
            let name = name.strip_prefix("refs/heads/").unwrap_or(name);
            let full = format!("refs/heads/{name}");
            let answer = git
                .within(&["ls-remote", "--", address, &full, &format!("refs/tags/{name}")], MAX_ANSWER)
                .ok()?;
            let answer = String::from_utf8(answer).ok()?;
            // With a tag of the same name, the tag was fetched.
            let [only] = answer.lines().collect::<Vec<_>>()[..] else { return None };
            only.split('\t').nth(1).filter(|found| *found == full)?;
            full
        }
    };
    let branch = full.strip_prefix("refs/heads/")?;
    super::revision::parse(branch)
        .is_some_and(|parsed| matches!(parsed, Revision::Name(_)))
        .then(|| branch.to_owned())
}

fn line(output: &[u8]) -> String {
    String::from_utf8_lossy(output).trim().to_owned()
}
