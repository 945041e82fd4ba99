//! Reads facts about a workspace from the files of its git repository.
//!
//! `git` itself is never executed: in a folder that another user prepared, its configuration could run arbitrary
//! commands. Instead, a few small regular files are read up to a limit, and only valid names of branches and commits are
//! returned. All other content is ignored.

mod objects;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Component, Path, PathBuf};

use canon::digest::Digest;
use guide::record::{ObservationKey, ObservationValue, budgets};

use super::{project::repository_root, read};

/// The maximum size of a `HEAD`, ref or `.git` file, in bytes.
const MAX_SMALL_FILE: u64 = 4096;
/// How much of `packed-refs` is searched, in bytes: about two hundred thousand refs.
const MAX_PACKED_REFS: u64 = 16 << 20;
/// The maximum number of symbolic refs that are followed. They may form a cycle.
const MAX_HOPS: usize = 5;

/// Facts about the repository of a workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GitFacts {
    /// The canonical path of the folder that contains `.git`.
    pub root: Option<PathBuf>,
    /// The branch, truncated to 80 characters. `None` if `HEAD` is detached.
    pub branch: Option<String>,
    /// The commit, in lower-case hexadecimal digits. `None` before the first commit.
    pub head: Option<String>,
}

/// Reads the facts of a workspace. They are empty if it is not in a repository.
///
/// A workspace in a linked worktree has the worktree's branch, and the worktree's folder as its root.
pub fn facts(workspace: &Path) -> GitFacts {
    let Some(root) = fs::canonicalize(workspace).ok().and_then(|workspace| repository_root(&workspace))
    else {
        return GitFacts::default();
    };
    let (branch, head) = Layout::of(&root).map(|layout| layout.head()).unwrap_or_default();
    let branch = branch.map(|branch| branch.chars().take(budgets::SHORT_STRING_CHARACTERS).collect());
    GitFacts { root: Some(root), branch, head }
}

/// Whether the repository at `root` has a branch: a local one, or a remote-tracking one such as `remote/name`.
pub fn has_branch(root: &Path, name: &str) -> bool {
    let names = [format!("refs/heads/{name}"), format!("refs/remotes/{name}")];
    let layout = Layout::of(root);
    layout.is_some_and(|layout| {
        names.into_iter().any(|name| is_ref_name(&name) && layout.resolve(name).is_some())
    })
}

/// Whether the repository at `root` has a commit with this id or id prefix.
pub fn has_commit(root: &Path, id: &str) -> bool {
    let Some(layout) = Layout::of(root) else { return false };
    let Some(common) = fs::canonicalize(&layout.common).ok() else { return false };
    // All ids of a repository have the same length, so the length of the `HEAD` commit applies.
    let id_bytes = layout.head().1.map_or(20, |head| head.len() / 2);
    let objects =
        fs::canonicalize(common.join("objects")).ok().filter(|objects| objects.starts_with(&common));
    objects.is_some_and(|objects| objects::has_commit(&objects, id, id_bytes))
}

/// The facts as a session records them. Values that exceed the limits of a record are left out.
pub fn observations(facts: &GitFacts) -> Vec<(ObservationKey, ObservationValue)> {
    let mut observations = Vec::with_capacity(4);
    if let Some(branch) = &facts.branch {
        let branch: String = branch.chars().take(budgets::SHORT_STRING_CHARACTERS).collect();
        observations.push((ObservationKey::GitBranch, ObservationValue::ShortString(branch)));
    }
    // The record supports only SHA-1 commits.
    if let Some(head) = facts.head.as_ref().filter(|head| head.len() == 40 && is_commit(head)) {
        observations.push((ObservationKey::GitHeadSha, ObservationValue::GitSha1(head.clone())));
    }
    if let Some(root) = &facts.root {
        // The digest of lossily converted text could be the same for two folders.
        if let Some(text) = root.to_str() {
            let digest = Digest::of_bytes(text.as_bytes());
            observations.push((ObservationKey::RepoRootHash, ObservationValue::Sha256(digest)));
        }
    }
    observations.extend(facts.root.as_deref().and_then(path_observation));
    observations
}

/// A workspace outside of any repository, as a session records it. `None` if its path is too long for a record.
pub fn observed_root(workspace: &Path) -> Option<(ObservationKey, ObservationValue)> {
    path_observation(&fs::canonicalize(workspace).ok()?)
}

fn path_observation(root: &Path) -> Option<(ObservationKey, ObservationValue)> {
    let text = root.to_str().filter(|text| text.chars().count() <= budgets::PATH_CHARACTERS)?;
    Some((ObservationKey::RepoRoot, ObservationValue::Path(text.to_owned())))
}

/// Whether every path that [`facts`] would read for a workspace passes `allowed`, which gets canonical paths. `workspace`
/// is canonical. A file of `git` can name any other folder, so each is checked before anything in it is read.
pub fn stays_within(workspace: &Path, allowed: &dyn Fn(&Path) -> bool) -> bool {
    let resolved = |path: &Path| fs::canonicalize(path).is_ok_and(|path| allowed(&path));
    let Some(root) = repository_root(workspace) else { return true };
    let dot_git = root.join(".git");
    if !allowed(&root) || !resolved(&dot_git) {
        return false;
    }
    let own = match fs::metadata(&dot_git) {
        Ok(metadata) if metadata.is_dir() => dot_git,
        _ => match small(&dot_git).as_deref().and_then(|text| text.strip_prefix("gitdir:")) {
            Some(elsewhere) => root.join(elsewhere.trim()),
            // Nothing else would be read.
            None => return true,
        },
    };
    if !resolved(&own) {
        return false;
    }
    small(&own.join("commondir")).is_none_or(|text| resolved(&own.join(text.trim())))
}

/// The locations of a repository's files.
struct Layout {
    /// The files of this worktree.
    own: PathBuf,
    /// The files that all worktrees share.
    common: PathBuf,
}

impl Layout {
    fn of(root: &Path) -> Option<Self> {
        let dot_git = root.join(".git");
        let own = if fs::metadata(&dot_git).ok()?.is_dir() {
            dot_git
        } else {
            let text = small(&dot_git)?;
            root.join(text.strip_prefix("gitdir:")?.trim())
        };
        if !own.is_dir() {
            return None;
        }
        let common = match small(&own.join("commondir")) {
            Some(text) => own.join(text.trim()),
            None => own.clone(),
        };
        Some(Self { own, common })
    }

    /// The branch and the commit that are checked out.
    fn head(&self) -> (Option<String>, Option<String>) {
        let Some(text) = small(&self.own.join("HEAD")) else { return (None, None) };
        match Ref::parse(&text) {
            Some(Ref::Commit(commit)) => (None, Some(commit)),
            Some(Ref::Symbolic(name)) => {
                let branch = name.strip_prefix("refs/heads/").map(str::to_owned);
                (branch, self.resolve(name))
            }
            None => (None, None),
        }
    }

    /// Resolves a ref to a commit.
    fn resolve(&self, mut name: String) -> Option<String> {
        for _ in 0..MAX_HOPS {
            let loose = small(&self.own.join(&name)).or_else(|| small(&self.common.join(&name)));
            match loose {
                Some(text) => match Ref::parse(&text)? {
                    Ref::Commit(commit) => return Some(commit),
                    Ref::Symbolic(next) => name = next,
                },
                None => return self.packed(&name),
            }
        }
        None
    }

    /// Looks up a ref in `packed-refs`. Each line has a commit, a space and a name.
    fn packed(&self, name: &str) -> Option<String> {
        let (file, _) = read::open_regular(&self.common.join("packed-refs")).ok()?;
        let mut lines = BufReader::new(file.take(MAX_PACKED_REFS));
        let mut line = Vec::new();
        loop {
            line.clear();
            if lines.read_until(b'\n', &mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim_ascii_end();
            let Some(commit) = line.strip_suffix(name.as_bytes()) else { continue };
            let Some(commit) = commit.strip_suffix(b" ") else { continue };
            if let Some(commit) = std::str::from_utf8(commit).ok().and_then(as_commit) {
                return Some(commit);
            }
        }
    }
}

/// The content of a ref.
enum Ref {
    Commit(String),
    Symbolic(String),
}

impl Ref {
    fn parse(text: &str) -> Option<Self> {
        match text.strip_prefix("ref:") {
            Some(name) => {
                let name = name.trim();
                is_ref_name(name).then(|| Self::Symbolic(name.to_owned()))
            }
            None => as_commit(text.trim()).map(Self::Commit),
        }
    }
}

/// Reads a small file as text.
fn small(path: &Path) -> Option<String> {
    String::from_utf8(read::regular(path, MAX_SMALL_FILE).ok()?).ok()
}

fn as_commit(text: &str) -> Option<String> {
    let text = text.to_ascii_lowercase();
    is_commit(&text).then_some(text)
}

/// 40 hexadecimal digits, or 64 in SHA-256 repositories.
fn is_commit(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether a name is a valid ref below `refs/`. It becomes part of a path, and is shown to people.
fn is_ref_name(name: &str) -> bool {
    let path = Path::new(name);
    name.len() <= 1024
        && name.starts_with("refs/")
        && !name.ends_with('/')
        && !name.contains("//")
        && path.components().all(|component| matches!(component, Component::Normal(_)))
        && name.split('/').all(|part| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock"))
        && !name.chars().any(|character| {
            character.is_control()
                || character == '\\'
                || is_direction(character)
                || " ~^:?*[".contains(character)
        })
}

/// Bidirectional control characters, which can disguise text.
const fn is_direction(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}
