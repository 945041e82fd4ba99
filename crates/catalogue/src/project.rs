//! The project's own workflows: `workflows/` in the workspace, or in its nearest ancestor within the repository.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use guide::workflow::compile::{Bindings, MAX_BINDINGS_BYTES};
use guide::workflow::problem::{Problem, ProblemCode};

use super::{folder::BINDINGS_FILE, read};

/// The folder of a project's workflows.
const FOLDER: &str = "workflows";
/// The maximum number of ancestors of a workspace that are examined.
const MAX_LEVELS: usize = 64;

/// The workflow folder of a project.
#[derive(Debug, Default)]
pub(super) struct Project {
    /// The path of `…/workflows`, if it exists.
    pub(super) folder: Option<PathBuf>,
    /// A message if the folder could not be read.
    pub(super) unreadable: Option<String>,
}

impl Project {
    /// The project that a workspace belongs to.
    pub(super) fn of(workspace: &Path) -> Self {
        let unreadable = |why: String| Self {
            folder: None,
            unreadable: Some(format!("{}: {why}, so no project workflows were read", workspace.display())),
        };
        if !workspace.is_absolute() {
            return unreadable("the workspace is not an absolute path".to_owned());
        }
        let workspace = match fs::canonicalize(workspace) {
            Ok(path) => path,
            Err(error) => return unreadable(format!("the workspace cannot be read ({error})")),
        };
        for level in levels(&workspace) {
            let folder = level.join(FOLDER);
            match fs::symlink_metadata(&folder) {
                Ok(metadata) if metadata.is_dir() => return Self { folder: Some(folder), unreadable: None },
                // A symbolic link could make a repository list the files of any folder on this machine.
                Ok(metadata) if metadata.is_symlink() => {
                    let why = format!("{} is a symbolic link, which is not followed", folder.display());
                    return Self { folder: None, unreadable: Some(why) };
                }
                _ => {}
            }
        }
        Self::default()
    }

    /// The path of the bindings file, if the project has a workflow folder.
    pub(super) fn bindings_file(&self) -> Option<PathBuf> {
        self.folder.as_ref().map(|folder| folder.join(BINDINGS_FILE))
    }

    /// The project's bindings for the slots of a workflow.
    ///
    /// # Errors
    /// The file exists and is invalid.
    pub(super) fn bindings(&self, workflow_id: &str) -> Result<Bindings, Vec<Problem>> {
        let Some(file) = self.bindings_file() else { return Ok(Bindings::default()) };
        let found = match read::regular(&file, MAX_BINDINGS_BYTES as u64) {
            Ok(bytes) => Bindings::parse(&bytes, workflow_id),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Bindings::default()),
            Err(error) => Err(vec![Problem::new(
                "",
                ProblemCode::Unreadable,
                error.to_string(),
                "Make it a small regular file that can be read.",
            )]),
        };
        let file = file.display().to_string();
        found.map_err(|problems| problems.into_iter().map(|problem| problem.in_file(&file)).collect())
    }
}

/// The folder that contains `.git`: the workspace or an ancestor of it. `workspace` is canonical.
///
/// The search stops at folders of another owner. Otherwise, a user who can write to a shared folder such as `/tmp` could
/// control the projects below it.
pub(super) fn repository_root(workspace: &Path) -> Option<PathBuf> {
    let owner = fs::metadata(workspace).ok()?.uid();
    workspace
        .ancestors()
        .take(MAX_LEVELS)
        .take_while(|level| fs::metadata(level).is_ok_and(|metadata| metadata.uid() == owner))
        .find(|level| fs::symlink_metadata(level.join(".git")).is_ok())
        .map(Path::to_path_buf)
}

/// The workspace and its ancestors up to the root of its repository. Without a repository, only the workspace.
fn levels(workspace: &Path) -> Vec<PathBuf> {
    let Some(root) = repository_root(workspace) else { return vec![workspace.to_path_buf()] };
    workspace.ancestors().take_while(|level| level.starts_with(&root)).map(Path::to_path_buf).collect()
}
