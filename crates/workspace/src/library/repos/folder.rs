//! Folders named by a path in `repos.toml`.

use super::RepoContext;
use crate::library::limits::{Count, FILES};
use crate::library::walk::{FolderWalk, WalkEntry};
use crate::library::{files, key};
use crate::rooted::{Dir, Kind};
use crate::{Code, Error};

pub(super) enum Folder {
    /// A git repository, with or without a work tree.
    Repository,
    /// Files without history.
    Plain(Dir),
}

/// Inspects a path. Inside the library, links are not followed and a repository must be
/// self-contained: untrusted content in a library cannot lead out of it. A path outside the library
/// is trusted, because the author of `repos.toml` chose it.
pub(super) fn open(place: &RepoContext<'_>, path: &str) -> Result<Folder, Error> {
    let inside = key::is_path(path);
    let opened = if inside { place.root.open_dir(path) } else { Dir::open_root(&place.path.join(path)) };
    let folder = opened.map_err(|error| files::refusal(&error, path))?;
    let Some(git) = git_folder(&folder)? else { return Ok(Folder::Plain(folder)) };
    if inside {
        whole_in_itself(&folder, git, path)?;
    }
    Ok(Folder::Repository)
}

/// The history: `.git`, or the folder itself if it is bare. Repositories further up do not count.
fn git_folder(folder: &Dir) -> Result<Option<&'static str>, Error> {
    if files::kind(folder, ".git")?.is_some() {
        return Ok(Some(".git"));
    }
    let bare = files::kind(folder, "HEAD")? == Some(Kind::File)
        && files::kind(folder, "objects")? == Some(Kind::Dir)
        && files::kind(folder, "refs")? == Some(Kind::Dir);
    Ok(bare.then_some(""))
}

/// Refuses a history that is partly elsewhere: through a link, or through a file in which `git`
/// stores a path.
fn whole_in_itself(folder: &Dir, git: &str, path: &str) -> Result<(), Error> {
    let label = if git.is_empty() { path.to_owned() } else { format!("{path}/{git}") };
    let elsewhere = |file: &str| {
        let problem = "refers to another repository; name that one in repos.toml, outside the library";
        Err(files::bad(file, problem))
    };
    // Otherwise it is a file with a path, or a link.
    let Ok(git) = folder.open_dir(git) else { return elsewhere(&label) };
    for file in ["commondir", "objects/info/alternates", "objects/info/http-alternates"] {
        if files::kind(&git, file)?.is_some() {
            return elsewhere(&format!("{label}/{file}"));
        }
    }
    let mut files = Count::of(FILES);
    let walk = FolderWalk { label: &label, code: Code::ResolveBadResponse, links: false, skip: &|_| false };
    walk.run(&git, &mut |_: WalkEntry| files.add(1))
}
