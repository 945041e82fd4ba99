//! The catalogue of workflows: their sources, and which file wins when two have the same id.
//!
//! From the lowest precedence to the highest:
//!
//! 1. **bundled**: part of the program;
//! 2. **pack**: `workflows/` of installed packs, the highest version of each;
//! 3. **user**: the user's own folder;
//! 4. **configured**: folders that were attached, then those that the process was started with, in their order;
//! 5. **git**: repositories that the user listed in `sources.toml`;
//! 6. **project**: `workflows/` in the workspace, or in its nearest ancestor up to the root of the repository.
//!
//! A later source wins, and shadowed files are listed with the reason. Two rules override precedence: an id that begins
//! with `wr.` always belongs to the program, and an invalid file is reported and never shadows a valid one.
//!
//! Folders are scanned on every call, so that an edit takes effect immediately. Files are parsed and compiled when they
//! change, bundled workflows on first use.
#![forbid(unsafe_code)]

mod bundled;
mod compiled;
mod entry;
mod error;
mod folder;
pub mod git;
mod managed;
mod packs;
mod project;
mod read;
mod repository;
mod resolve;
mod sources;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use canon::error::Envelope;
use guide::record::{WorkflowHash, WorkflowSourceKind};
use guide::workflow::compile::Bindings;
use guide::workflow::ids::{IdStatus, RESERVED_NAMESPACE};
use guide::workflow::registry;
use guide::workflow::source::{MAX_SOURCE_BYTES, Source};

pub use self::entry::{
    Entry, FileProblem, Listing, ResolvedWorkflow, ShadowCause, Shadowed, SourceCategory, SourceInfo,
};
pub use self::error::CatalogueErrorCode;
pub use self::read::open_regular;

use self::compiled::Compiled;
use self::folder::{Content, Folders};
use self::project::Project;
use self::repository::Repositories;
use self::resolve::{Candidate, Winner, candidates, decide, file_problem, words};
use self::sources::Sources;

/// The locations of workflow sources.
#[derive(Clone, Debug, Default)]
pub struct CatalogueOptions {
    /// The folder of installed packs. It does not have to exist.
    pub packs_dir: Option<PathBuf>,
    /// The user's own folder. It does not have to exist.
    pub user_dir: Option<PathBuf>,
    /// Folders that this process was started with. Later folders have precedence.
    pub configured_dirs: Vec<PathBuf>,
    /// The file that lists attached folders and git repositories. It does not have to exist.
    pub sources_file: Option<PathBuf>,
    /// The folder for copies of git repositories. Without it, only local repositories are read.
    pub git_cache: Option<PathBuf>,
}

/// The workflows that can be run. Clones share their caches.
#[derive(Clone, Debug)]
pub struct Catalogue {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    options: CatalogueOptions,
    folders: Folders,
    repositories: Repositories,
}

impl Catalogue {
    /// Creates a catalogue. Nothing is read before the first query.
    pub fn new(options: CatalogueOptions) -> Self {
        let (folders, repositories) = (Folders::default(), Repositories::default());
        Self { inner: Arc::new(Inner { options, folders, repositories }) }
    }

    /// Finds a workflow by id, in the version that a run started now would be pinned to.
    ///
    /// # Errors
    /// `NOT_FOUND` with the nearest ids. `PRECONDITION_FAILED` with the file and the cause, if a file has that id but the
    /// file, or the project's bindings for it, are invalid.
    pub fn find(
        &self,
        workspace: Option<&Path>,
        workflow_id: &str,
    ) -> Result<Arc<ResolvedWorkflow>, Envelope> {
        let project = workspace.map(Project::of).unwrap_or_default();
        // Folders are not scanned for a reserved id, because no file can provide one.
        if is_reserved(workflow_id) {
            return match registry::bundled_workflow(workflow_id) {
                Some(_) => find_bundled(workflow_id, &project).map(Arc::new),
                None => Err(self.unknown(&project, workflow_id)),
            };
        }
        let sources = self.sources(&project);
        let all = candidates(&sources.layers);
        let verdict = all.get(workflow_id).map(|candidates| decide(candidates));
        let (winner, shadowed, broken) = match verdict {
            Some(verdict) => (verdict.winner, verdict.shadowed, verdict.broken),
            None => (None, Vec::new(), Vec::new()),
        };
        let Some(Winner { candidate, parsed, .. }) = winner else {
            if let Some((candidate, problems)) = broken.first() {
                return Err(error::invalid(workflow_id, &candidate.path(), problems));
            }
            let Some(canonical) = bundled::canonical_id(workflow_id) else {
                return Err(not_found(workflow_id, all.keys().copied(), &sources.unreadable));
            };
            let mut found = find_bundled(canonical, &project)?;
            found.warnings.push(format!("`{workflow_id}` is another name of `{canonical}`; use that."));
            found.canonical_id = Some(canonical.to_owned());
            return Ok(Arc::new(found));
        };
        let (compiled, mut warnings) = compile(&project, &candidate.path(), parsed.digest, &parsed.source)?;
        let id_status = id_status(workflow_id);
        let suggested_id = suggested_id(&candidate, &all);
        if let Some(suggestion) = &suggested_id {
            warnings.push(format!("The id `{workflow_id}` has no namespace. Rename it to `{suggestion}`."));
        }
        for (broken, problems) in &broken {
            let cause = problems.first().map(ToString::to_string).unwrap_or_default();
            warnings.push(format!("{} has the same id and is broken: {cause}", broken.path()));
        }
        let reason = match shadowed.len() {
            0 => "No other file has this id.".to_owned(),
            _ => format!(
                "Of the files with this id, it comes from {}, the highest that is valid.",
                words(candidate.layer.info.category)
            ),
        };
        Ok(Arc::new(ResolvedWorkflow {
            workflow: compiled.workflow.clone(),
            hash: compiled.workflow.hash(),
            source_kind: candidate.layer.info.kind,
            source_ref: candidate.source_ref(),
            source: candidate.layer.info.key.clone(),
            path: Some(candidate.file.path.clone()),
            reason,
            explanation: shadowed,
            warnings,
            canonical_id: None,
            id_status,
            suggested_id,
            about: parsed.source.about.clone(),
            examples: parsed.source.examples.clone(),
            tags: Vec::new(),
            passes: compiled.passes.clone(),
        }))
    }

    /// The current source text of a workflow that was [found](Self::find). `None` if it has no file, or the file cannot
    /// be read.
    pub fn source_text(&self, found: &ResolvedWorkflow) -> Option<String> {
        match &found.path {
            Some(path) => {
                let bytes = read::regular(path, MAX_SOURCE_BYTES as u64).ok()?;
                String::from_utf8(bytes).ok()
            }
            None => {
                let bundled = registry::bundled_workflow(&found.workflow.workflow_id)?;
                Some(bundled.source.to_owned())
            }
        }
    }

    /// Lists all workflows, and all files that were left out.
    pub fn list(&self, workspace: Option<&Path>) -> Listing {
        let project = workspace.map(Project::of).unwrap_or_default();
        let mut sources = self.sources(&project);
        let mut listing =
            Listing { unreadable: std::mem::take(&mut sources.unreadable), ..Listing::default() };
        let mut counts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
        let mut reserved: BTreeMap<String, Vec<Shadowed>> = BTreeMap::new();
        {
            let all = candidates(&sources.layers);
            for (id, candidates) in &all {
                if is_reserved(id) {
                    let shadow = |candidate: &Candidate<'_>| {
                        let reason = "ids that begin with `wr.` belong to the program".to_owned();
                        candidate.shadowed(ShadowCause::Reserved, reason)
                    };
                    reserved.insert((*id).to_owned(), candidates.iter().map(shadow).collect());
                }
                let verdict = decide(candidates);
                listing
                    .problems
                    .extend(verdict.broken.iter().map(|(candidate, problems)| candidate.problem(problems)));
                let Some(Winner { candidate, parsed, hash }) = verdict.winner else { continue };
                counts.entry(candidate.layer.info.key.clone()).or_default().0 += 1;
                for loser in verdict.shadowed.iter().filter(|loser| loser.cause != ShadowCause::Broken) {
                    counts.entry(loser.source.clone()).or_default().1 += 1;
                }
                listing.entries.push(Entry {
                    workflow_id: (*id).to_owned(),
                    name: parsed.source.name.clone(),
                    description: parsed.source.description.clone(),
                    version: parsed.source.version.clone(),
                    workflow_hash: Some(hash),
                    source_kind: candidate.layer.info.kind,
                    source_ref: candidate.source_ref(),
                    source: candidate.layer.info.key.clone(),
                    tags: Vec::new(),
                    examples: parsed.source.examples.clone(),
                    id_status: id_status(id),
                    suggested_id: suggested_id(&candidate, &all),
                    shadowed: verdict.shadowed,
                });
            }
            for layer in &sources.layers {
                for file in &layer.folder.files {
                    if let Content::Broken { workflow_id: None, problems } = &file.content {
                        listing.problems.push(file_problem(&file.path, None, layer.info.kind, problems));
                    }
                }
            }
        }
        listing
            .entries
            .extend(bundled::cards().iter().map(|card| bundled_entry(card, reserved.remove(&card.id))));
        listing.entries.sort_by(|a, b| a.workflow_id.cmp(&b.workflow_id));
        if let (Some(file), Err(problems)) = (project.bindings_file(), project.bindings("")) {
            listing.problems.push(file_problem(&file, None, WorkflowSourceKind::Project, &problems));
        }
        listing.problems.sort_by(|a, b| a.path.cmp(&b.path));
        listing.sources = std::iter::once(sources::built_in())
            .chain(sources.layers.into_iter().map(|layer| {
                let mut info = layer.info;
                let is_file = |content: &Content| !matches!(content, Content::Elsewhere);
                info.total_workflow_count =
                    layer.folder.files.iter().filter(|file| is_file(&file.content)).count();
                (info.effective_workflow_count, info.shadowed_workflow_count) =
                    counts.get(&info.key).copied().unwrap_or_default();
                info
            }))
            .chain(sources.stale)
            .collect();
        listing.sources.sort_by_key(|info| info.category);
        listing
    }

    /// The hash that a run of a bundled workflow would be pinned to without bindings.
    pub fn bundled_hash(&self, workflow_id: &str) -> Option<WorkflowHash> {
        let parsed = bundled::source(registry::bundled_workflow(workflow_id)?).ok()?;
        let (digest, source) = &*parsed;
        compiled::compile(*digest, source, &Bindings::default()).ok().map(|compiled| compiled.workflow.hash())
    }

    /// Adds a folder to the sources, for this and every later process. Does nothing if the folder is already attached.
    /// Returns the stored path.
    ///
    /// # Errors
    /// The path is not a folder, or the list of sources cannot be changed.
    pub fn attach(&self, path: &str) -> Result<String, Envelope> {
        let file = self.inner.options.sources_file.as_deref().ok_or_else(error::no_store)?;
        managed::attach(file, path, SystemTime::now())
    }

    /// Removes a folder from the sources; its files are not touched. Does nothing if the folder is not attached. Returns
    /// the stored path.
    ///
    /// # Errors
    /// The path is not absolute, or the list of sources cannot be changed.
    pub fn detach(&self, path: &str) -> Result<String, Envelope> {
        let file = self.inner.options.sources_file.as_deref().ok_or_else(error::no_store)?;
        managed::detach(file, path)
    }

    fn sources(&self, project: &Project) -> Sources {
        let Inner { options, folders, repositories } = &*self.inner;
        Sources::read(options, project, folders, repositories)
    }

    /// The error for a reserved id that no bundled workflow has.
    fn unknown(&self, project: &Project, workflow_id: &str) -> Envelope {
        let sources = self.sources(project);
        let all = candidates(&sources.layers);
        // If a file claims the reserved id, the error explains to its author why that is not possible.
        let verdict = all.get(workflow_id).map(|candidates| decide(candidates));
        match verdict.as_ref().and_then(|verdict| verdict.broken.first()) {
            Some((candidate, problems)) => error::invalid(workflow_id, &candidate.path(), problems),
            None => not_found(workflow_id, all.keys().copied(), &sources.unreadable),
        }
    }
}

fn not_found<'a>(workflow_id: &str, ids: impl Iterator<Item = &'a str>, unreadable: &[String]) -> Envelope {
    let mut known: Vec<&str> = ids.chain(registry::bundled().iter().map(|workflow| workflow.id)).collect();
    known.sort_unstable();
    known.dedup();
    error::not_found(workflow_id, &known, unreadable)
}

fn find_bundled(workflow_id: &str, project: &Project) -> Result<ResolvedWorkflow, Envelope> {
    let file = "the program itself";
    let Some(workflow) = registry::bundled_workflow(workflow_id) else {
        return Err(not_found(workflow_id, std::iter::empty(), &[]));
    };
    let parsed =
        bundled::source(workflow).map_err(|problems| error::invalid(workflow_id, file, &problems))?;
    let (digest, source) = &*parsed;
    let (compiled, warnings) = compile(project, file, *digest, source)?;
    Ok(ResolvedWorkflow {
        workflow: compiled.workflow.clone(),
        hash: compiled.workflow.hash(),
        source_kind: WorkflowSourceKind::Bundled,
        source_ref: workflow_id.to_owned(),
        source: SourceCategory::BuiltIn.as_str().to_owned(),
        path: None,
        reason: "Ids that begin with `wr.` are always the program's own.".to_owned(),
        explanation: Vec::new(),
        warnings,
        canonical_id: None,
        id_status: IdStatus::Namespaced,
        suggested_id: None,
        about: source.about.clone(),
        examples: source.examples.clone(),
        tags: workflow.tags.iter().map(|tag| (*tag).to_owned()).collect(),
        passes: compiled.passes.clone(),
    })
}

fn bundled_entry(card: &bundled::Card, shadowed: Option<Vec<Shadowed>>) -> Entry {
    Entry {
        workflow_id: card.id.clone(),
        name: card.name.clone(),
        description: card.description.clone(),
        version: card.version.clone(),
        workflow_hash: None,
        source_kind: WorkflowSourceKind::Bundled,
        source_ref: card.id.clone(),
        source: SourceCategory::BuiltIn.as_str().to_owned(),
        tags: card.tags.iter().map(|tag| (*tag).to_owned()).collect(),
        examples: card.examples.clone(),
        id_status: IdStatus::Namespaced,
        suggested_id: None,
        shadowed: shadowed.unwrap_or_default(),
    }
}

/// Compiles a workflow with the project's bindings, and collects warnings.
///
/// Invalid bindings are an error. They never cause a fallback to another file or to the defaults, because a run must not
/// silently differ from what the project configured.
fn compile(
    project: &Project,
    file: &str,
    digest: canon::digest::Digest,
    source: &Source,
) -> Result<(Arc<Compiled>, Vec<String>), Envelope> {
    let plain = compiled::compile(digest, source, &Bindings::default())
        .map_err(|problems| error::invalid(&source.id, file, &problems))?;
    let bindings_file = || project.bindings_file().unwrap_or_default().display().to_string();
    match project.bindings(&source.id) {
        Ok(bindings) if bindings.0.is_empty() => Ok((plain, Vec::new())),
        Ok(bindings) => match compiled::compile(digest, source, &bindings) {
            Ok(bound) => Ok((bound, Vec::new())),
            Err(problems) => Err(error::invalid(&source.id, &bindings_file(), &problems)),
        },
        // Without slots there is nothing to bind, so an invalid bindings file is irrelevant.
        Err(problems) if plain.workflow.bindings.is_empty() => {
            let cause = problems.first().map(ToString::to_string).unwrap_or_default();
            Ok((plain, vec![format!("The bindings of the project cannot be read: {cause}")]))
        }
        Err(problems) => Err(error::invalid(&source.id, &bindings_file(), &problems)),
    }
}

fn is_reserved(workflow_id: &str) -> bool {
    workflow_id.split_once('.').is_some_and(|(namespace, _)| namespace == RESERVED_NAMESPACE)
}

fn id_status(workflow_id: &str) -> IdStatus {
    if workflow_id.contains('.') { IdStatus::Namespaced } else { IdStatus::Legacy }
}

/// A suggested id for a workflow without a namespace.
fn suggested_id(candidate: &Candidate<'_>, all: &BTreeMap<&str, Vec<Candidate<'_>>>) -> Option<String> {
    let Content::Workflow(parsed) = &candidate.file.content else { return None };
    let [plain, suffixed] = &parsed.suggestions;
    let legacy = id_status(&parsed.source.id) == IdStatus::Legacy;
    legacy.then(|| if all.contains_key(plain.as_str()) { suffixed.clone() } else { plain.clone() })
}
