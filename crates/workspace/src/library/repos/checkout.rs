//! Checks out one revision of a repository into a private folder.
//!
//! Fetches one commit without history, counts its files, and only then writes them. A few objects
//! can represent billions of files, so counting comes first.

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

/// Enough for the listing of the maximum number of files.
const MAX_LISTING: u64 = 64 << 20;
/// Enough for a line or two.
const MAX_ANSWER: u64 = 4096;

/// A checkout, removed on drop.
pub(super) struct Checkout {
    pub(super) commit: String,
    /// The number of skipped submodules.
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

pub(super) fn make(
    scratch: &Path,
    address: &str,
    revision: Revision<'_>,
    mode: Mode,
    sink: &dyn Sink,
) -> Result<Checkout, Error> {
    let failed = |error: std::io::Error| {
        let message = format!("cannot create a private folder in {}: {error}", scratch.display());
        Error::new(Code::ResolveUpstream, message)
    };
    let scratch = Scratch::new(scratch).map_err(failed)?;
    let stop = || sink.check().map_err(Error::from);
    let git = Git { folder: scratch.path(), deadline: Instant::now() + TIMEOUT, stop: &stop };
    let fetch =
        ["fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--no-auto-maintenance"];
    let fetch = [&fetch[..], &["--", address, revision.as_str()]].concat();
    let fetch_as = |format: &str| {
        // Without a template, which would copy local hooks.
        git.run(&["init", "--quiet", "--template=", format, FOLDER], MAX_ANSWER)?;
        git.within(&fetch, MAX_ANSWER)
    };
    match fetch_as("--object-format=sha1") {
        // The object format is known only after the remote was contacted.
        Err(error) if error.message().contains("mismatched algorithms") || revision.is_sha256() => {
            std::fs::remove_dir_all(scratch.path().join(FOLDER)).map_err(failed)?;
            fetch_as("--object-format=sha256")?;
        }
        other => drop(other?),
    }
    let commit = line(&git.within(&["rev-parse", "--verify", "--quiet", "FETCH_HEAD^{commit}"], MAX_ANSWER)?);
    let listing = git.within(&["ls-tree", "-r", "-l", "-z", "--full-tree", &commit], MAX_LISTING)?;
    let submodules = count(&listing)?;

    // An index without local times, so that equal commits give equal bytes.
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

/// Refuses a commit that exceeds the limits; returns the number of submodules.
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

/// The fetched branch, for further work on it; `None` for a tag or commit.
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
            // If a tag has the same name, the tag was fetched.
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
