//! Workflows from git repositories that the user listed.
//!
//! A local repository is read in place, from `workflows/` of its work tree. A URL, or a branch of a local repository, is
//! fetched with `git`: the files of `workflows/` are copied from a shallow bare clone into the cache. No file is checked
//! out, so the filters, hooks, links and submodules of the repository have no effect.
//!
//! ```text
//! <cache>/<digest of location and branch>/current          the commit that is used
//! <cache>/<digest of location and branch>/<commit>/*.json  its workflow files, never changed
//! ```

mod command;

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use canon::digest::Digest;
use guide::workflow::source::{Format, MAX_SOURCE_BYTES};

use self::command::Git;
use super::{managed::Repository, read};

/// The maximum number of files that are copied from a repository.
pub(super) const MAX_FILES: usize = 100;
/// The age from which a copy is fetched again.
const FRESH: Duration = Duration::from_secs(60 * 60);
/// How long to wait before a failed repository is fetched again.
const AFTER_FAILURE: Duration = Duration::from_secs(60);
/// The folder of a repository that contains workflows.
const FOLDER: &str = "workflows";

/// The current copy of a repository's files.
#[derive(Debug)]
pub(super) struct Copy {
    /// The folder to read, if it exists.
    pub(super) folder: Option<PathBuf>,
    /// Why the copy is missing, outdated or incomplete.
    pub(super) trouble: Option<String>,
}

/// Remembers failed repositories, so that an unreachable host does not slow down every call.
#[derive(Debug, Default)]
pub(super) struct Repositories(Mutex<HashMap<String, (Instant, String)>>);

impl Repositories {
    /// The files of a repository. They are fetched if the copy is outdated.
    pub(super) fn read(&self, repository: &Repository, cache: Option<&Path>) -> Copy {
        let none = |trouble: String| Copy { folder: None, trouble: Some(trouble) };
        let name = display_name(repository);
        let location = match read_location(repository) {
            Ok(location) => location,
            Err(why) => return none(format!("{name}: {why}")),
        };
        let url = match location {
            RepositoryLocation::WorkTree(path) => {
                let folder = path.join(FOLDER);
                return if folder.is_dir() {
                    Copy { folder: Some(folder), trouble: None }
                } else {
                    none(format!("{name}: there is no folder `{FOLDER}` in it"))
                };
            }
            RepositoryLocation::Remote(url) => url,
        };
        let Some(cache) = cache else {
            return none(format!("{name}: this process has no cache to keep a copy in"));
        };
        let key =
            Digest::of_bytes(format!("{url}\0{}", repository.branch.as_deref().unwrap_or("")).as_bytes())
                .to_hex();
        let home = cache.join(&key);
        let current = home.join("current");
        if age(&current).is_some_and(|age| age < FRESH)
            && let Some(folder) = copied(&home)
        {
            return Copy { folder: Some(folder), trouble: notes(&home, &name) };
        }
        let trouble = match self.refresh(&key, &url, repository.branch.as_deref(), &home) {
            Ok(()) => notes(&home, &name),
            Err(why) if copied(&home).is_some() => Some(format!("{name}: {why}; the last copy is used")),
            Err(why) => Some(format!("{name}: {why}")),
        };
        Copy { folder: copied(&home), trouble }
    }

    /// Updates a copy, unless an update failed recently.
    fn refresh(&self, key: &str, url: &str, branch: Option<&str>, home: &Path) -> Result<(), String> {
        let failures = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((until, why)) = failures().get(key)
            && Instant::now() < *until
        {
            return Err(why.clone());
        }
        // Fetch without holding the lock, so that others can use the current copy.
        let result = fetch(url, branch, home);
        match &result {
            Ok(()) => failures().remove(key),
            Err(why) => failures().insert(key.to_owned(), (Instant::now() + AFTER_FAILURE, why.clone())),
        };
        result
    }
}

/// The location without a password, for people and for records.
pub(super) fn display_name(repository: &Repository) -> String {
    let location = &repository.location;
    let clean = match location.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
            format!("{scheme}://{host}{path}")
        }
        None => location.clone(),
    };
    let clean = clean.split(['?', '#']).next().unwrap_or_default();
    match &repository.branch {
        Some(branch) => format!("{clean}#{branch}"),
        None => clean.to_owned(),
    }
}

enum RepositoryLocation {
    WorkTree(PathBuf),
    Remote(String),
}

/// Validates the location of a repository.
fn read_location(repository: &Repository) -> Result<RepositoryLocation, String> {
    let location = repository.location.as_str();
    if let Some(branch) = &repository.branch {
        let plain = |character: char| character.is_ascii_alphanumeric() || "._/-+@".contains(character);
        if branch.is_empty() || branch.len() > 255 || branch.starts_with('-') || !branch.chars().all(plain) {
            return Err("its `branch` is not a valid branch name".to_owned());
        }
    }
    if location.len() > 2048 || location.chars().any(|character| character.is_control() || character == ' ') {
        return Err("its `location` is too long, or has spaces or control characters".to_owned());
    }
    let path = Path::new(location);
    if path.is_absolute() {
        // A bare repository has no work tree, and a given branch may not be the one that is checked out.
        return if repository.branch.is_none() && path.join(".git").exists() {
            Ok(RepositoryLocation::WorkTree(path.to_path_buf()))
        } else {
            Ok(RepositoryLocation::Remote(location.to_owned()))
        };
    }
    // `ext::` and similar transports run commands. Plain HTTP lets an attacker on the network change the workflows.
    let scheme = ["https://", "ssh://", "file:///"].iter().any(|scheme| location.starts_with(scheme));
    let short = || {
        let (host, path) = location.split_once(':')?;
        let plain = |character: char| character.is_ascii_alphanumeric() || ".-_@".contains(character);
        let ssh = host.contains('@') && !host.starts_with('-') && host.chars().all(plain);
        (ssh && !path.is_empty() && !path.starts_with([':', '-'])).then_some(())
    };
    if scheme || short().is_some() {
        Ok(RepositoryLocation::Remote(location.to_owned()))
    } else {
        Err("its `location` is neither an absolute path nor https://, ssh://, file:/// or user@host:path"
            .to_owned())
    }
}

/// The folder of the current copy.
fn copied(home: &Path) -> Option<PathBuf> {
    let commit = String::from_utf8(read::regular(&home.join("current"), 80).ok()?).ok()?;
    let commit = commit.trim();
    let hex = commit.len() >= 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    let folder = home.join(commit);
    (hex && folder.is_dir()).then_some(folder)
}

/// A message about files that were left out of the copy.
fn notes(home: &Path, name: &str) -> Option<String> {
    let text = String::from_utf8(read::regular(&copied(home)?.join("left-out.txt"), 4096).ok()?).ok()?;
    Some(format!("{name}: {}", text.trim()))
}

fn age(file: &Path) -> Option<Duration> {
    SystemTime::now().duration_since(fs::symlink_metadata(file).ok()?.modified().ok()?).ok()
}

/// Updates the copy.
fn fetch(url: &str, branch: Option<&str>, home: &Path) -> Result<(), String> {
    let disk = |error: io::Error| format!("its copy cannot be written ({error})");
    fs::create_dir_all(home).map_err(disk)?;
    let unique = format!(
        "{}-{}",
        std::process::id(),
        Digest::of_bytes(format!("{:?}", Instant::now()).as_bytes()).to_hex()
    );
    let work = home.join(format!("work-{}", &unique[..unique.len().min(24)]));
    let result = clone_and_copy(url, branch, home, &work);
    // Best effort: leftovers only use disk space.
    let _ = fs::remove_dir_all(&work);
    result
}

fn clone_and_copy(url: &str, branch: Option<&str>, home: &Path, work: &Path) -> Result<(), String> {
    let disk = |error: io::Error| format!("its copy cannot be written ({error})");
    fs::create_dir(work).map_err(disk)?;
    let git = Git::until(Instant::now() + command::TIMEOUT);
    let bare = work.join("clone");
    git.clone_bare(url, branch, &bare)?;
    let commit = git.head(&bare)?;
    let target = home.join(&commit);
    if !target.is_dir() {
        let staged = work.join("files");
        fs::create_dir(&staged).map_err(disk)?;
        let mut left_out = Vec::new();
        let mut count = 0;
        let listed = git.list(&bare, FOLDER)?;
        if listed.is_empty() {
            return Err(format!("there is no folder `{FOLDER}` in it"));
        }
        for blob in listed {
            let wanted = blob.regular
                && Format::of_name(&blob.name).is_some()
                && !blob.name.contains(['/', '\\', '\0']);
            if !wanted {
                continue;
            }
            if blob.length > MAX_SOURCE_BYTES as u64 {
                left_out
                    .push(format!("{} is {} bytes; the limit is {MAX_SOURCE_BYTES}", blob.name, blob.length));
            } else if count == MAX_FILES {
                left_out.push(format!("it has more than {MAX_FILES} workflow files; the rest was ignored"));
                break;
            } else {
                count += 1;
                let bytes = git.blob(&bare, &blob.id, blob.length)?;
                fs::write(staged.join(&blob.name), bytes).map_err(disk)?;
            }
        }
        if !left_out.is_empty() {
            let text: String = left_out.join("; ").chars().take(1000).collect();
            fs::write(staged.join("left-out.txt"), text).map_err(disk)?;
        }
        match fs::rename(&staged, &target) {
            // Another process copied the same commit first.
            Err(_) if target.is_dir() => {}
            other => other.map_err(disk)?,
        }
    }
    let before = copied(home);
    let pointer = work.join("current");
    fs::write(&pointer, &commit).map_err(disk)?;
    fs::rename(&pointer, home.join("current")).map_err(disk)?;
    if let Some(before) = before.filter(|before| *before != target) {
        let _ = fs::remove_dir_all(before);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository(location: &str, branch: Option<&str>) -> Repository {
        Repository { location: location.to_owned(), branch: branch.map(str::to_owned) }
    }

    #[test]
    fn places_that_are_refused_and_places_that_are_not() {
        for (location, branch, allowed) in [
            ("https://example.org/a.git", None, true),
            ("https://example.org/a.git", Some("release/2"), true),
            ("ssh://git@example.org/a.git", None, true),
            ("git@example.org:team/a.git", None, true),
            ("/nowhere/a.git", None, true),
            ("http://example.org/a.git", None, false),
            ("ext::sh -c evil", None, false),
            ("ext::sh", None, false),
            ("-oProxyCommand=evil@x:y", None, false),
            ("a@b::c", None, false),
            ("relative/path", None, false),
            ("https://example.org/a.git", Some("--upload-pack=evil"), false),
            ("https://example.org/a.git", Some(""), false),
            ("", None, false),
        ] {
            assert_eq!(
                read_location(&repository(location, branch)).is_ok(),
                allowed,
                "{location} {branch:?}"
            );
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        for (location, branch, expected) in [
            ("https://me:secret@example.org/a.git", None, "https://example.org/a.git"),
            ("https://me:se@cret@example.org/a@b", Some("main"), "https://example.org/a@b#main"),
            ("https://example.org/a?token=secret", None, "https://example.org/a"),
            ("https://me:secret@example.org", None, "https://example.org"),
            ("git@example.org:a.git", None, "git@example.org:a.git"),
        ] {
            assert_eq!(display_name(&repository(location, branch)), expected);
        }
    }
}
