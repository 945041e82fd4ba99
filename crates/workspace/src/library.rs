//! A folder of agents, skills and pages as the source of bytes.
//!
//! A library is a plain folder that a person can read and keep in git; `docs/formats/workspace-library.md`
//! draws it. [`Library`] is a [`Resolver`]: it finds what a [`Source`] names, one module for
//! each kind, and renders the three files that describe a workspace ([`render`]).
//! [`Templates`] finds the templates that a composition needs.
//!
//! # Invariants
//! * Everything below the library is opened below a handle of it, and no link is followed: what a
//!   stranger put into a library cannot lead out of it.
//! * Links are passed on only from repositories; whoever takes the items decides about them.
//! * The same folder gives the same items in the same order.
//! * No configuration of a repository or of the user is ever run. `git` is started only for locations that
//!   `repos.toml` lists.

mod artifacts;
mod attachments;
mod contracts;
mod definitions;
mod front_matter;
mod key;
mod limits;
mod literal;
mod pages;
pub mod render;
mod repos;
mod scratch;
mod shelf;
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
use crate::resolve::{Content, Item, Resolver, Sink, Stopped, Want};
use crate::rooted::Dir;
use crate::{Code, Error};

/// A library, open.
///
/// What was rendered is remembered, so that the three rendered files of an apply agree even when
/// somebody edits the library in between. Open a library for each apply: it costs one system call.
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
    /// `RESOLVE_NOT_FOUND` where there is no folder, `RESOLVE_DENIED` where it may not be read.
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
            Error::new(code, format!("no library can be opened at {shown}: {error}")).detail("path", shown)
        })?;
        Ok(Self {
            root,
            path: absolute,
            scratch: std::env::temp_dir(),
            renderer: render::Renderer::default(),
        })
    }

    /// Uses another folder for what is fetched, in place of the system's folder for temporary files.
    /// On the file system of the workspace, large repositories are cloned there instead of copied.
    #[must_use]
    pub fn with_scratch(mut self, folder: &Path) -> Self {
        folder.clone_into(&mut self.scratch);
        self
    }

    /// The templates of this library.
    pub fn templates(&self) -> Templates {
        Templates::new(self.root.clone())
    }

    /// The newest version of a skill that is in a range, or the newest of all.
    ///
    /// # Errors
    /// `RESOLVE_NOT_FOUND`, `SKILL_INVALID_BUNDLE`, `SKILL_VERSION_UNSATISFIED`.
    pub fn skill(&self, key: &str, range: Option<&Range>) -> Result<Skill, Error> {
        skills::find(&self.root, key, range)
    }
}

impl Resolver for Library {
    fn resolve(&self, want: Want<'_>, sink: &mut dyn Sink) -> Result<(), Error> {
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
                let place = repos::Place { root, path: &self.path, scratch: &self.scratch };
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

/// Puts the only file of a kind that yields one.
fn one(sink: &mut dyn Sink, content: Content) -> Result<(), Error> {
    Ok(sink.put(Item { rel_path: String::new(), executable: false, content })?)
}

/// Puts a file of a tree.
fn put(sink: &mut dyn Sink, rel_path: String, executable: bool, content: Content) -> Result<(), Stopped> {
    sink.put(Item { rel_path, executable, content })
}
