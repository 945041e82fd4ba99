//! Size limits of a workspace.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::Error;
use crate::plan::SourceKind;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Limits of an apply. They are enforced while bytes arrive, so a source's declared length does not
/// matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Files, links and directories of all mounts together.
    pub files: u64,
    pub file_bytes: u64,
    /// Bytes of all files together.
    pub total_bytes: u64,
    pub literal_bytes: u64,
    /// Bytes of a rendered file.
    pub rendered_bytes: u64,
    /// Bytes of an agent definition or a section of instructions.
    pub definition_bytes: u64,
    /// Files of a skill.
    pub bundle_files: u64,
    /// Bytes of a skill.
    pub bundle_bytes: u64,
    pub page_bytes: u64,
    /// Pages of a space, including assets.
    pub space_pages: u64,
    pub repository_bytes: u64,
    /// Attachments of a session.
    pub attachments: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            files: 200_000,
            file_bytes: 256 * MIB,
            total_bytes: 8 * GIB,
            literal_bytes: 4 * MIB,
            rendered_bytes: 2 * MIB,
            definition_bytes: MIB,
            bundle_files: 2_000,
            bundle_bytes: 64 * MIB,
            page_bytes: 4 * MIB,
            space_pages: 20_000,
            repository_bytes: 2 * GIB,
            attachments: 1_000,
        }
    }
}

/// Files up to this size are read as a whole before they are written: one read and one write
/// instead of a loop.
pub(super) const SMALL: usize = 64 << 10;

/// A limit with its name.
type Bound = (&'static str, u64);

/// The limits of one kind of source.
#[derive(Clone, Copy, Debug)]
struct OfKind {
    file: Bound,
    files: Option<Bound>,
    bytes: Option<Bound>,
}

impl Limits {
    fn of(&self, kind: SourceKind) -> OfKind {
        let file = ("bytes of a file", self.file_bytes);
        let tree = |files, bytes| OfKind { file, files, bytes };
        let single = |name, bytes: u64| OfKind { file: (name, bytes.min(file.1)), files: None, bytes: None };
        match kind {
            SourceKind::RenderedAgentsMd
            | SourceKind::RenderedContextJson
            | SourceKind::RenderedSystemOverlay => single("bytes of a rendered file", self.rendered_bytes),
            SourceKind::StaticLiteral => single("bytes of a literal", self.literal_bytes),
            SourceKind::AgentDefinition => {
                single("bytes of the definition of an agent", self.definition_bytes)
            }
            SourceKind::InstructionSection => {
                single("bytes of a section of instructions", self.definition_bytes)
            }
            SourceKind::SkillBundle => tree(
                Some(("files of a skill", self.bundle_files)),
                Some(("bytes of a skill", self.bundle_bytes)),
            ),
            SourceKind::KbSpace | SourceKind::KbPages => OfKind {
                file: ("bytes of a page", self.page_bytes.min(file.1)),
                files: Some(("pages of a space", self.space_pages)),
                bytes: None,
            },
            SourceKind::ScmRepo => tree(None, Some(("bytes of a repository", self.repository_bytes))),
            SourceKind::ArtifactVersion | SourceKind::DeliverableSpecs | SourceKind::Deliverables => {
                tree(None, None)
            }
            SourceKind::SessionAttachment => tree(Some(("attachments of a session", self.attachments)), None),
        }
    }
}

/// Counters of one mount or of all.
#[derive(Debug, Default)]
pub(super) struct Count {
    files: AtomicU64,
    bytes: AtomicU64,
}

impl Count {
    pub(super) fn files(&self) -> u64 {
        self.files.load(Ordering::Relaxed)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    fn add_file(&self) -> u64 {
        self.files.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn add_bytes(&self, bytes: u64) -> u64 {
        self.bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes)
    }

    /// Subtracts what a discarded attempt had added.
    pub(super) fn subtract(&self, other: &Self) {
        self.files.fetch_sub(other.files(), Ordering::Relaxed);
        self.bytes.fetch_sub(other.bytes(), Ordering::Relaxed);
    }
}

/// Counts the output of one attempt against the limits of its mount and of the workspace.
#[derive(Debug)]
pub(super) struct Meter<'a> {
    pub(super) limits: &'a Limits,
    pub(super) kind: SourceKind,
    pub(super) mount: &'a Count,
    pub(super) all: &'a Count,
}

impl Meter<'_> {
    /// Counts one file, link or directory.
    pub(super) fn item(&self) -> Result<(), Error> {
        // Both counters are updated before either is checked, so that a discarded attempt can be
        // subtracted from both.
        let (mount, all) = (self.mount.add_file(), self.all.add_file());
        if let Some(bound) = self.limits.of(self.kind).files {
            within(bound, mount)?;
        }
        within(("files of a workspace", self.limits.files), all)
    }

    /// Counts more bytes of a file that now has `so_far`.
    pub(super) fn bytes(&self, more: u64, so_far: u64) -> Result<(), Error> {
        let (mount, all) = (self.mount.add_bytes(more), self.all.add_bytes(more));
        let bounds = self.limits.of(self.kind);
        within(bounds.file, so_far)?;
        if let Some(bound) = bounds.bytes {
            within(bound, mount)?;
        }
        within(("bytes of a workspace", self.limits.total_bytes), all)
    }
}

fn within((name, max): Bound, seen: u64) -> Result<(), Error> {
    if seen > max { Err(Error::limit(name, max, seen)) } else { Ok(()) }
}
