//! Repositories: `repos.toml` says where each is, `git` fetches it.
//!
//! ```toml
//! [repos.demo]
//! path = "repos/demo"            # a repository or a plain folder, relative to the library or absolute
//!
//! [repos."acme/site"]
//! url = "https://example.org/acme/site.git"
//! ```
//!
//! Nothing else is ever contacted: a reference that is not in the table is not found, whatever it looks like.

mod checkout;
mod folder;
mod git;
mod location;
mod revision;

use std::path::Path;

use self::folder::Folder;
use self::location::Location;
use super::limits::{Count, FILES, REPO_BYTES};
use super::walk::{Found, Walk, What};
use super::{key, put};
use crate::resolve::{Content, Sink};
use crate::rooted::Dir;
use crate::slot::Mode;
use crate::{Code, Error};

/// Where a library is, and where something can be put for a while.
pub(super) struct Place<'a> {
    pub(super) root: &'a Dir,
    pub(super) path: &'a Path,
    pub(super) scratch: &'a Path,
}

/// Puts the files of a repository at a revision.
pub(super) fn resolve(
    place: &Place<'_>,
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
                    address.map_err(|_| location::bad(repo_ref, "leads to a path that is no UTF-8"))?
                }
            }
        }
    };
    let revision = revision::parse(git_ref).ok_or_else(|| {
        let message = format!("`{}` is nothing that a repository can be asked for", key::shown(git_ref));
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
            "repository {}: {count} submodule(s) left empty; add them as repositories of their own",
            key::shown(repo_ref)
        ));
    }
    // `FETCH_HEAD` names a place on this machine.
    let internal = |path: &str| match mode {
        Mode::ReadOnly => path == ".git",
        Mode::ReadWrite => path == ".git/FETCH_HEAD",
    };
    tree(checkout.folder(), &format!("the checkout of {}", key::shown(repo_ref)), &internal, sink)
}

/// The machine that is asked, where it is another one.
pub(super) fn host(root: &Dir, repo_ref: &str) -> Option<String> {
    match location::find(root, repo_ref).ok()? {
        Location::Url(url) => location::host(&url).map(str::to_owned),
        Location::Path(_) => None,
    }
}

/// A folder that is no repository has one revision: what is in it now.
fn plain(folder: &Dir, repo_ref: &str, git_ref: &str, sink: &mut dyn Sink) -> Result<(), Error> {
    if git_ref != "HEAD" {
        let message =
            format!("`{}` is a folder and no git repository, so it has only `HEAD`", key::shown(repo_ref));
        let error = Error::new(Code::ResolveNotFound, message);
        return Err(error.detail("repoRef", key::shown(repo_ref)).detail("ref", key::shown(git_ref)));
    }
    // Repositories within it stay what they hold, without their histories.
    let history = |path: &str| path.rsplit('/').next() == Some(".git");
    tree(folder, &format!("repository {}", key::shown(repo_ref)), &history, sink)
}

fn tree(folder: &Dir, label: &str, skip: &dyn Fn(&str) -> bool, sink: &mut dyn Sink) -> Result<(), Error> {
    let (mut files, mut bytes) = (Count::of(FILES), Count::of(REPO_BYTES));
    let walk = Walk { label, code: Code::ResolveBadResponse, links: true, skip };
    walk.run(folder, &mut |Found { path, what }| {
        files.add(1)?;
        let (executable, content) = match what {
            What::File { file, size, executable } => {
                bytes.add(size)?;
                (executable, Content::File(file))
            }
            What::Link(target) => (false, Content::Link(target)),
            What::EmptyFolder => (false, Content::Directory),
        };
        Ok(put(sink, path, executable, content)?)
    })
}
