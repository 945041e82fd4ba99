//! Every file of a folder, in the order of paths.

use std::fs::File;
use std::os::unix::fs::PermissionsExt as _;
use std::vec;

use super::{key, shelf};
use crate::rooted::{Dir, Kind, Name};
use crate::{Code, Error};

/// As deep as a path of a workspace may be.
const MAX_DEPTH: usize = 64;

/// Something in a folder.
#[derive(Debug)]
pub(super) struct Found {
    /// The path below the folder.
    pub(super) path: String,
    /// What it is.
    pub(super) what: What,
}

/// What was found.
#[derive(Debug)]
pub(super) enum What {
    /// A file, open, with its size and whether it may be executed.
    File { file: File, size: u64, executable: bool },
    /// A link and its target. Only where links are taken.
    Link(String),
    /// A folder without anything in it.
    EmptyFolder,
}

/// How a folder is gone through.
pub(super) struct Walk<'a> {
    /// What the folder is called in refusals.
    pub(super) label: &'a str,
    /// The code of the refusals that are about what the folder holds.
    pub(super) code: Code,
    /// Whether links are taken; they are refused otherwise, and never followed.
    pub(super) links: bool,
    /// Which paths are left out, with everything below them.
    pub(super) skip: &'a dyn Fn(&str) -> bool,
}

/// A folder on the way down: its handle, its path with a `/` behind, and the names that are left.
struct Level {
    dir: Dir,
    prefix: String,
    names: vec::IntoIter<(Name, Option<Kind>)>,
}

impl Walk<'_> {
    /// Shows everything to `visit`, folders before what they hold, names in byte order.
    pub(super) fn run(
        &self,
        dir: &Dir,
        visit: &mut dyn FnMut(Found) -> Result<(), Error>,
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
                None => shelf::kind(&level.dir, &name)?.ok_or_else(|| self.refusal(&path, "went away"))?,
            };
            let fail = |error| self.with_code(shelf::refusal(&error, &self.shown(&path)));
            match kind {
                Kind::File => {
                    let file = level.dir.open_file(&name).map_err(fail)?;
                    let facts = file.metadata().map_err(fail)?;
                    let executable = facts.permissions().mode() & 0o111 != 0;
                    visit(Found { path, what: What::File { file, size: facts.len(), executable } })?;
                }
                Kind::Dir => {
                    let below = level.dir.open_dir(&name).map_err(fail)?;
                    if levels.len() == MAX_DEPTH {
                        return Err(self.refusal(&path, "is deeper than 64 folders"));
                    }
                    let below = self.level(below, format!("{path}/"))?;
                    if below.names.len() == 0 {
                        visit(Found { path, what: What::EmptyFolder })?;
                    }
                    levels.push(below);
                }
                Kind::Link if self.links => {
                    let target = level.dir.read_link(&name).map_err(fail)?.into_string();
                    let target =
                        target.map_err(|_| self.refusal(&path, "is a link to a name that is no UTF-8"))?;
                    visit(Found { path, what: What::Link(target) })?;
                }
                Kind::Link => return Err(self.refusal(&path, "is a link, and a library follows none")),
                Kind::Other => return Err(self.refusal(&path, "is no regular file")),
            }
        }
        Ok(())
    }

    fn level(&self, dir: Dir, prefix: String) -> Result<Level, Error> {
        let names = dir.names().map_err(|error| shelf::refusal(&error, &self.shown(&prefix)))?;
        Ok(Level { dir, prefix, names: names.into_iter() })
    }

    /// The name as text, where a workspace can have it.
    fn checked(&self, prefix: &str, name: &Name) -> Result<String, Error> {
        match name.0.to_str() {
            Some(text) if key::is_name(text) => Ok(text.to_owned()),
            _ => {
                let shown = key::shown(&name.0.to_string_lossy());
                let problem = "has a name that no workspace can have; rename it";
                Err(self.refusal(&format!("{prefix}{shown}"), problem))
            }
        }
    }

    fn refusal(&self, path: &str, problem: &str) -> Error {
        self.with_code(shelf::bad(&self.shown(path), problem))
    }

    /// What a folder holds is judged with its own code; what the system refuses, with that of the system.
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
