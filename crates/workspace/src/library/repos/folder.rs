//! Folders that a path of `repos.toml` names.

use super::Place;
use crate::library::limits::{Count, FILES};
use crate::library::walk::{Found, Walk};
use crate::library::{key, shelf};
use crate::rooted::{Dir, Kind};
use crate::{Code, Error};

/// What a path names.
pub(super) enum Folder {
    /// A git repository, with or without a work tree.
    Repository,
    /// Files, and nothing that knows their history.
    Plain(Dir),
}

/// Looks at a path. Below the library no link is followed, and a repository has to be whole in itself: what a
/// stranger put into a library cannot lead out of it. A path that leaves the library is that of whoever wrote it down.
pub(super) fn open(place: &Place<'_>, path: &str) -> Result<Folder, Error> {
    let inside = key::is_path(path);
    let opened = if inside { place.root.open_dir(path) } else { Dir::open_root(&place.path.join(path)) };
    let folder = opened.map_err(|error| shelf::refusal(&error, path))?;
    let Some(git) = git_folder(&folder)? else { return Ok(Folder::Plain(folder)) };
    if inside {
        whole_in_itself(&folder, git, path)?;
    }
    Ok(Folder::Repository)
}

/// Where the history is: `.git`, or the folder itself where it has no work tree. A repository further up does
/// not count.
fn git_folder(folder: &Dir) -> Result<Option<&'static str>, Error> {
    if shelf::kind(folder, ".git")?.is_some() {
        return Ok(Some(".git"));
    }
    let bare = shelf::kind(folder, "HEAD")? == Some(Kind::File)
        && shelf::kind(folder, "objects")? == Some(Kind::Dir)
        && shelf::kind(folder, "refs")? == Some(Kind::Dir);
    Ok(bare.then_some(""))
}

/// Refuses a history of which a part is elsewhere: by a link, or by a file in which `git` keeps a path.
fn whole_in_itself(folder: &Dir, git: &str, path: &str) -> Result<(), Error> {
    let label = if git.is_empty() { path.to_owned() } else { format!("{path}/{git}") };
    let elsewhere = |file: &str| {
        let problem = "leads to another repository; name that one in repos.toml, outside the library";
        Err(shelf::bad(file, problem))
    };
    // Where it is no folder, it is a file that holds a path, or a link.
    let Ok(git) = folder.open_dir(git) else { return elsewhere(&label) };
    for file in ["commondir", "objects/info/alternates", "objects/info/http-alternates"] {
        if shelf::kind(&git, file)?.is_some() {
            return elsewhere(&format!("{label}/{file}"));
        }
    }
    let mut files = Count::of(FILES);
    let walk = Walk { label: &label, code: Code::ResolveBadResponse, links: false, skip: &|_| false };
    walk.run(&git, &mut |_: Found| files.add(1))
}
