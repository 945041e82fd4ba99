//! A folder of agents, skills and pages as a source.
//!
//! A library is a plain folder that people can read and keep in git; see
//! `docs/formats/workspace-library.md`. [`Library`] is a [`Resolver`]: it finds what a [`Source`]
//! names, with one module per kind, and renders the three files that describe a workspace
//! ([`render`]). [`Templates`] finds the templates of a composition.
//!
//! # Invariants
//! * Everything is opened relative to a handle of the library, without following links: untrusted
//!   content in a library cannot lead out of it.
//! * Links are passed on only from repositories; the consumer decides about them.
//! * The same folder gives the same items in the same order.
//! * Configuration of repositories or users is never executed. `git` is started only for locations
//!   listed in `repos.toml`.

mod artifacts;
mod attachments;
mod contracts;
mod definitions;
mod files;
mod front_matter;
mod key;
mod limits;
mod literal;
mod pages;
pub mod render;
mod repos;
mod scratch;
mod skills;
mod templates;
mod versions;
mod walk;

use std::io;
use std::path::{Path, PathBuf};

pub use self::skills::Skill;
pub use self::templates::Templates;
pub use self::versions::{NotAVersion, Range, Version};
use crate::plan::Source;
use crate::resolve::{Content, Item, ResolveRequest, Resolver, Sink, Stopped};
use crate::rooted::Dir;
use crate::{Code, Error};

/// An open library.
///
/// Renderings are cached, so that the three rendered files of an apply are consistent even if the
/// library is edited meanwhile. Open a library for each apply: it costs one system call.
#[derive(Debug)]
pub struct Library {
    root: Dir,
    path: PathBuf,
    scratch: PathBuf,
    renderer: render::Renderer,
}

impl Library {
    /// Opens the library in a folder.
    ///
    /// # Errors
    /// `RESOLVE_NOT_FOUND` if the folder does not exist, `RESOLVE_DENIED` if it cannot be read.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let open =
            || -> io::Result<(Dir, PathBuf)> { Ok((Dir::open_root(path)?, std::path::absolute(path)?)) };
        let (root, absolute) = open().map_err(|error| {
            let shown = path.display().to_string();
            let code = match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Code::ResolveNotFound,
                io::ErrorKind::PermissionDenied => Code::ResolveDenied,
                _ => Code::ResolveUpstream,
            };
            Error::new(code, format!("cannot open a library at {shown}: {error}")).detail("path", shown)
        })?;
        Ok(Self {
            root,
            path: absolute,
            scratch: std::env::temp_dir(),
            renderer: render::Renderer::default(),
        })
    }

    /// Uses another scratch folder instead of the system's temporary folder. On the file system of
    /// the workspace, large repositories are moved instead of copied.
    #[must_use]
    pub fn with_scratch(mut self, folder: &Path) -> Self {
        folder.clone_into(&mut self.scratch);
        self
    }

    pub fn templates(&self) -> Templates {
        Templates::new(self.root.clone())
    }

    /// The highest version of a skill in a range, or the highest of all.
    ///
    /// # Errors
    /// `RESOLVE_NOT_FOUND`, `SKILL_INVALID_BUNDLE`, `SKILL_VERSION_UNSATISFIED`.
    pub fn skill(&self, key: &str, range: Option<&Range>) -> Result<Skill, Error> {
        skills::find(&self.root, key, range)
    }
}

impl Resolver for Library {
    fn resolve(&self, want: ResolveRequest<'_>, sink: &mut dyn Sink) -> Result<(), Error> {
        sink.check()?;
        let root = &self.root;
        match want.source {
            Source::RenderedAgentsMd(params) => {
                let rendering = self.renderer.rendering(root, params)?;
                one(sink, Content::Bytes(rendering.agents_md.clone().into_bytes()))
            }
            Source::RenderedContextJson(params) => {
                let rendering = self.renderer.rendering(root, params)?;
                one(sink, Content::Bytes(rendering.context_json.clone().into_bytes()))
            }
            Source::RenderedSystemOverlay(params) => {
                let rendering = self.renderer.rendering(root, params)?;
                one(sink, Content::Bytes(rendering.system_overlay.clone().into_bytes()))
            }
            Source::StaticLiteral { bytes, .. } => one(sink, Content::Bytes(literal::bytes(bytes)?)),
            Source::AgentDefinition { agent_slug, group_key, .. } => {
                one(sink, Content::Bytes(definitions::agent(root, group_key, agent_slug)?.into_bytes()))
            }
            Source::InstructionSection { section_key, .. } => {
                one(sink, Content::Bytes(definitions::instruction(root, section_key)?.into_bytes()))
            }
            Source::ArtifactVersion { artifact_id, version, payload_field, .. } => {
                one(sink, artifacts::version(root, artifact_id, version, payload_field.as_ref())?)
            }
            Source::SkillBundle { skill_key } => skills::resolve(root, skill_key, sink),
            Source::KbSpace { space_id } => pages::space(root, space_id, sink),
            Source::KbPages { space_id, page_slugs } => pages::selection(root, space_id, page_slugs, sink),
            Source::DeliverableSpecs { contract_key } => contracts::spec(root, contract_key, sink),
            Source::Deliverables { contract_key } => contracts::deliverables(root, contract_key, sink),
            Source::SessionAttachment { session_id } => attachments::of_session(root, session_id, sink),
            Source::ScmRepo { repo_ref, git_ref } => {
                let place = repos::RepoContext { root, path: &self.path, scratch: &self.scratch };
                repos::resolve(&place, repo_ref, git_ref, want.mode, sink)
            }
        }
    }

    fn upstream(&self, source: &Source) -> Option<String> {
        match source {
            Source::ScmRepo { repo_ref, .. } => repos::host(&self.root, repo_ref),
            _ => None,
        }
    }
}

/// Puts the only file of a single-file kind.
fn one(sink: &mut dyn Sink, content: Content) -> Result<(), Error> {
    Ok(sink.put(Item { rel_path: String::new(), executable: false, content })?)
}

/// Puts a file of a tree.
fn put(sink: &mut dyn Sink, rel_path: String, executable: bool, content: Content) -> Result<(), Stopped> {
    sink.put(Item { rel_path, executable, content })
}
