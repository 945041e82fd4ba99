//! The sources of workflows, in order of precedence.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use guide::record::WorkflowSourceKind;
use guide::workflow::ids::SourceOrigin;
use guide::workflow::registry;

use super::entry::{SourceCategory, SourceInfo};
use super::folder::{Folder, Folders};
use super::project::Project;
use super::repository::{self, Repositories};
use super::resolve::Layer;
use super::{CatalogueOptions, managed, packs};

/// All sources except the bundled one, with their files.
#[derive(Debug, Default)]
pub(super) struct Sources {
    /// The sources that could be read, lowest precedence first.
    pub(super) layers: Vec<Layer>,
    /// The sources that could not be read.
    pub(super) stale: Vec<SourceInfo>,
    /// Messages about what could not be read.
    pub(super) unreadable: Vec<String>,
}

/// The location of a source.
struct SourceLocation {
    category: SourceCategory,
    folder: PathBuf,
    display_name: String,
    added_at_ms: Option<u64>,
    /// For a pack: the digests of the installed files.
    digests: Option<BTreeMap<String, String>>,
}

impl SourceLocation {
    fn folder(category: SourceCategory, folder: &Path) -> Self {
        Self {
            category,
            folder: folder.to_path_buf(),
            display_name: folder.display().to_string(),
            added_at_ms: None,
            digests: None,
        }
    }

    /// Leaves out files of a pack that changed since they were installed.
    fn check(&self, folder: &mut Folder) {
        let Some(digests) = &self.digests else { return };
        let notes = &mut folder.notes;
        folder.files.retain(|file| {
            let is_installed =
                file.digest.is_some_and(|digest| digests.get(&file.name) == Some(&digest.to_hex()));
            if !is_installed {
                notes.push(format!(
                    "{}: `{}` is not the file that was installed; install the pack again",
                    self.display_name, file.name
                ));
            }
            is_installed
        });
    }

    fn info(&self) -> SourceInfo {
        SourceInfo {
            key: format!("{}:{}", self.category.as_str(), self.display_name),
            category: self.category,
            kind: kind(self.category),
            display_name: self.display_name.clone(),
            total_workflow_count: 0,
            effective_workflow_count: 0,
            shadowed_workflow_count: 0,
            added_at_ms: self.added_at_ms,
            stale: false,
        }
    }
}

impl Sources {
    pub(super) fn read(
        options: &CatalogueOptions,
        project: &Project,
        folders: &Folders,
        repositories: &Repositories,
    ) -> Self {
        let mut sources = Self::default();
        let mut locations = sources.locations(options, project, repositories);
        // A folder that is listed twice would shadow itself. Only its highest precedence counts.
        let mut seen = HashSet::new();
        locations.reverse();
        locations.retain(|location| {
            seen.insert(fs::canonicalize(&location.folder).unwrap_or_else(|_| location.folder.clone()))
        });
        locations.reverse();
        for location in locations {
            match folders.read(&location.folder, origin(location.category)) {
                Ok(mut folder) => {
                    location.check(&mut folder);
                    sources.unreadable.append(&mut folder.notes);
                    sources.layers.push(Layer { info: location.info(), folder });
                }
                // The user folder is optional.
                Err(error)
                    if location.category == SourceCategory::User
                        && error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    sources.unreadable.push(format!("{}: {error}", location.display_name));
                    sources.stale.push(SourceInfo { stale: true, ..location.info() });
                }
            }
        }
        sources
    }

    /// The locations, lowest precedence first.
    fn locations(
        &mut self,
        options: &CatalogueOptions,
        project: &Project,
        repositories: &Repositories,
    ) -> Vec<SourceLocation> {
        let mut locations = Vec::new();
        if let Some(folder) = &options.packs_dir {
            let (found, mut notes) = packs::read(folder);
            self.unreadable.append(&mut notes);
            locations.extend(found.into_iter().map(|pack| SourceLocation {
                category: SourceCategory::Pack,
                folder: pack.folder,
                display_name: pack.display_name,
                added_at_ms: None,
                digests: Some(pack.digests),
            }));
        }
        if let Some(folder) = &options.user_dir {
            locations.push(SourceLocation::folder(SourceCategory::User, folder));
        }
        let managed = options.sources_file.as_deref().map(managed::read).unwrap_or_default();
        self.unreadable.extend(managed.troubles);
        for directory in managed.directories {
            locations.push(SourceLocation {
                added_at_ms: directory.added_at_ms,
                ..SourceLocation::folder(SourceCategory::Managed, &directory.path)
            });
        }
        for folder in &options.configured_dirs {
            locations.push(SourceLocation::folder(SourceCategory::Configured, folder));
        }
        for repository in &managed.repositories {
            let copy = repositories.read(repository, options.git_cache.as_deref());
            self.unreadable.extend(copy.trouble);
            let location = SourceLocation {
                category: SourceCategory::Git,
                folder: copy.folder.clone().unwrap_or_default(),
                display_name: repository::display_name(repository),
                added_at_ms: None,
                digests: None,
            };
            if copy.folder.is_some() {
                locations.push(location);
            } else {
                self.stale.push(SourceInfo { stale: true, ..location.info() });
            }
        }
        self.unreadable.extend(project.unreadable.clone());
        if let Some(folder) = &project.folder {
            locations.push(SourceLocation::folder(SourceCategory::Project, folder));
        }
        locations
    }
}

/// The bundled workflows as a source.
pub(super) fn built_in() -> SourceInfo {
    let count = registry::bundled().len();
    SourceInfo {
        key: SourceCategory::BuiltIn.as_str().to_owned(),
        category: SourceCategory::BuiltIn,
        kind: WorkflowSourceKind::Bundled,
        display_name: "built in".to_owned(),
        total_workflow_count: count,
        effective_workflow_count: count,
        shadowed_workflow_count: 0,
        added_at_ms: None,
        stale: false,
    }
}

const fn kind(category: SourceCategory) -> WorkflowSourceKind {
    match category {
        SourceCategory::BuiltIn => WorkflowSourceKind::Bundled,
        SourceCategory::Pack => WorkflowSourceKind::Plugin,
        SourceCategory::User => WorkflowSourceKind::User,
        SourceCategory::Managed | SourceCategory::Configured | SourceCategory::Git => {
            WorkflowSourceKind::Remote
        }
        SourceCategory::Project => WorkflowSourceKind::Project,
    }
}

const fn origin(category: SourceCategory) -> SourceOrigin {
    match category {
        SourceCategory::BuiltIn => SourceOrigin::Bundled,
        SourceCategory::Pack => SourceOrigin::Plugin,
        SourceCategory::User => SourceOrigin::User,
        SourceCategory::Managed | SourceCategory::Configured | SourceCategory::Git => SourceOrigin::Remote,
        SourceCategory::Project => SourceOrigin::Project,
    }
}
