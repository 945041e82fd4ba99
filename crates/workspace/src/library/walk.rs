//! Walks all files of a folder in path order.

use std::fs::File;
use std::os::unix::fs::PermissionsExt as _;
use std::vec;

use super::{files, key};
use crate::rooted::{Dir, Kind, Name};
use crate::{Code, Error};

/// The depth limit of workspace paths.
const MAX_DEPTH: usize = 64;

#[derive(Debug)]
pub(super) struct WalkEntry {
    /// The path below the folder.
    pub(super) path: String,
    pub(super) what: EntryKind,
}

#[derive(Debug)]
pub(super) enum EntryKind {
    /// An open file with its size and executable bit.
    File { file: File, size: u64, executable: bool },
    /// A link and its target, if links are accepted.
    Link(String),
    /// An empty folder.
    EmptyFolder,
}

/// The options of a walk.
pub(super) struct FolderWalk<'a> {
    /// The folder's name in errors.
    pub(super) label: &'a str,
    /// The code of errors about the folder's contents.
    pub(super) code: Code,
    /// Whether links are accepted; otherwise they are refused. They are never followed.
    pub(super) links: bool,
    /// Paths to skip, with everything below them.
    pub(super) skip: &'a dyn Fn(&str) -> bool,
}

/// A folder on the way down: its handle, its path with a trailing `/`, and the remaining names.
struct Level {
    dir: Dir,
    prefix: String,
    names: vec::IntoIter<(Name, Option<Kind>)>,
}

impl FolderWalk<'_> {
    /// Passes everything to `visit`, folders before their contents, names in byte order.
    pub(super) fn run(
        &self,
        dir: &Dir,
        visit: &mut dyn FnMut(WalkEntry) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut levels = vec![self.level(dir.clone(), String::new())?];
        while let Some(level) = levels.last_mut() {
            let Some((name, kind)) = level.names.next() else {
                levels.pop();
                continue;
            };
            let name = self.checked(&level.prefix, &name)?;
            let path = format!("{}{name}", level.prefix);
            if (self.skip)(&path) {
                continue;
            }
            let kind = match kind {
                Some(kind) => kind,
                None => files::kind(&level.dir, &name)?.ok_or_else(|| self.refusal(&path, "disappeared"))?,
            };
            let fail = |error| self.with_code(files::refusal(&error, &self.shown(&path)));
            match kind {
                Kind::File => {
                    let file = level.dir.open_file(&name).map_err(fail)?;
                    let facts = file.metadata().map_err(fail)?;
                    let executable = facts.permissions().mode() & 0o111 != 0;
                    visit(WalkEntry { path, what: EntryKind::File { file, size: facts.len(), executable } })?;
                }
                Kind::Dir => {
                    let below = level.dir.open_dir(&name).map_err(fail)?;
                    if levels.len() == MAX_DEPTH {
                        return Err(self.refusal(&path, "is nested deeper than 64 folders"));
                    }
                    let below = self.level(below, format!("{path}/"))?;
                    if below.names.len() == 0 {
                        visit(WalkEntry { path, what: EntryKind::EmptyFolder })?;
                    }
                    levels.push(below);
                }
                Kind::Link if self.links => {
                    let target = level.dir.read_link(&name).map_err(fail)?.into_string();
                    let target =
                        target.map_err(|_| self.refusal(&path, "is a link to a name that is not UTF-8"))?;
                    visit(WalkEntry { path, what: EntryKind::Link(target) })?;
                }
                Kind::Link => return Err(self.refusal(&path, "is a link, and links are not followed")),
                Kind::Other => return Err(self.refusal(&path, "is not a regular file")),
            }
        }
        Ok(())
    }

    fn level(&self, dir: Dir, prefix: String) -> Result<Level, Error> {
        let names = dir.names().map_err(|error| files::refusal(&error, &self.shown(&prefix)))?;
        Ok(Level { dir, prefix, names: names.into_iter() })
    }

    /// The name as a string, if it is valid in a workspace.
    fn checked(&self, prefix: &str, name: &Name) -> Result<String, Error> {
        match name.0.to_str() {
            Some(text) if key::is_name(text) => Ok(text.to_owned()),
            _ => {
                let shown = key::shown(&name.0.to_string_lossy());
                let problem = "has an invalid name; rename it";
                Err(self.refusal(&format!("{prefix}{shown}"), problem))
            }
        }
    }

    fn refusal(&self, path: &str, problem: &str) -> Error {
        self.with_code(files::bad(&self.shown(path), problem))
    }

    /// Content errors use the walk's code; system errors use their own.
    fn with_code(&self, error: Error) -> Error {
        if error.code() != Code::ResolveBadResponse {
            return error;
        }
        let path = error.details().get("path").cloned().unwrap_or_default();
        Error::new(self.code, error.message()).detail("path", path)
    }

    fn shown(&self, path: &str) -> String {
        if path.is_empty() { self.label.to_owned() } else { format!("{}/{path}", self.label) }
    }
}
