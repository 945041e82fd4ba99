//! Repositories: `repos.toml` lists their locations, `git` fetches them.
//!
//! ```toml
//! [repos.demo]
//! path = "repos/demo"            # a repository or a plain folder, relative to the library or absolute
//!
//! [repos."acme/site"]
//! url = "https://example.org/acme/site.git"
//! ```
//!
//! Nothing else is ever contacted: a reference that is not in the table is not found.

mod checkout;
mod folder;
mod git;
mod location;
mod revision;

use std::path::Path;

use self::folder::Folder;
use self::location::Location;
use super::limits::{Count, FILES, REPO_BYTES};
use super::walk::{EntryKind, FolderWalk, WalkEntry};
use super::{key, put};
use crate::resolve::{Content, Sink};
use crate::rooted::Dir;
use crate::slot::Mode;
use crate::{Code, Error};

/// The library and a scratch folder.
pub(super) struct RepoContext<'a> {
    pub(super) root: &'a Dir,
    pub(super) path: &'a Path,
    pub(super) scratch: &'a Path,
}

/// Puts the files of a repository at a revision.
pub(super) fn resolve(
    place: &RepoContext<'_>,
    repo_ref: &str,
    git_ref: &str,
    mode: Mode,
    sink: &mut dyn Sink,
) -> Result<(), Error> {
    let address = match location::find(place.root, repo_ref)? {
        Location::Url(url) => url,
        Location::Path(path) => {
            let named = |error: Error| error.detail("repoRef", key::shown(repo_ref));
            match folder::open(place, &path).map_err(named)? {
                Folder::Plain(folder) => return plain(&folder, repo_ref, git_ref, sink),
                Folder::Repository => {
                    let address = place.path.join(&path).into_os_string().into_string();
                    address.map_err(|_| location::bad(repo_ref, "has a path that is not UTF-8"))?
                }
            }
        }
    };
    let revision = revision::parse(git_ref).ok_or_else(|| {
        let message = format!("`{}` is not a valid git revision", key::shown(git_ref));
        let advice = "use `HEAD`, a branch, a tag or a full commit id";
        Error::new(Code::ResolveNotFound, format!("{message}; {advice}"))
            .detail("repoRef", key::shown(repo_ref))
    })?;
    let checkout = checkout::make(place.scratch, &address, revision, mode, sink)
        .map_err(|error| error.detail("repoRef", key::shown(repo_ref)).detail("ref", git_ref))?;
    sink.pinned(&checkout.commit);
    if checkout.submodules > 0 {
        let count = checkout.submodules;
        sink.warn(format!(
            "repository {}: {count} submodule(s) left empty; add them as separate repositories",
            key::shown(repo_ref)
        ));
    }
    // `FETCH_HEAD` contains a local path.
    let internal = |path: &str| match mode {
        Mode::ReadOnly => path == ".git",
        Mode::ReadWrite => path == ".git/FETCH_HEAD",
    };
    tree(checkout.folder(), &format!("the checkout of {}", key::shown(repo_ref)), &internal, sink)
}

/// The remote host, if any.
pub(super) fn host(root: &Dir, repo_ref: &str) -> Option<String> {
    match location::find(root, repo_ref).ok()? {
        Location::Url(url) => location::host(&url).map(str::to_owned),
        Location::Path(_) => None,
    }
}

/// A folder without git has only its current content.
fn plain(folder: &Dir, repo_ref: &str, git_ref: &str, sink: &mut dyn Sink) -> Result<(), Error> {
    if git_ref != "HEAD" {
        let message =
            format!("`{}` is a folder and not a git repository, so it has only `HEAD`", key::shown(repo_ref));
        let error = Error::new(Code::ResolveNotFound, message);
        return Err(error.detail("repoRef", key::shown(repo_ref)).detail("ref", key::shown(git_ref)));
    }
    // Nested repositories keep their files, without their history.
    let history = |path: &str| path.rsplit('/').next() == Some(".git");
    tree(folder, &format!("repository {}", key::shown(repo_ref)), &history, sink)
}

fn tree(folder: &Dir, label: &str, skip: &dyn Fn(&str) -> bool, sink: &mut dyn Sink) -> Result<(), Error> {
    let (mut files, mut bytes) = (Count::of(FILES), Count::of(REPO_BYTES));
    let walk = FolderWalk { label, code: Code::ResolveBadResponse, links: true, skip };
    walk.run(folder, &mut |WalkEntry { path, what }| {
        files.add(1)?;
        let (executable, content) = match what {
            EntryKind::File { file, size, executable } => {
                bytes.add(size)?;
                (executable, Content::File(file))
            }
            EntryKind::Link(target) => (false, Content::Link(target)),
            EntryKind::EmptyFolder => (false, Content::Directory),
        };
        Ok(put(sink, path, executable, content)?)
    })
}
