//! Limits of each kind.
//!
//! The consumer enforces the limits of the whole workspace (files, bytes of a file, total bytes).
//! These are the smaller limits of single kinds, checked before any byte is passed on.

use std::fs::File;
use std::io::Read as _;

use super::files;
use crate::{Error, template};

/// A limit with its name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    name: &'static str,
    max: u64,
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// A literal is part of the plan.
pub(super) const LITERAL: Limit = Limit::new("bytes of a literal", 4 * MIB);
/// It must fit into a model's context many times over.
pub(super) const RENDERED: Limit = Limit::new("bytes of a rendered file", 2 * MIB);
/// Definitions and instructions are read completely by a model.
pub(super) const DEFINITION: Limit = Limit::new("bytes of an agent definition or an instruction", MIB);
/// Read for each skill that is searched.
pub(super) const FRONT_MATTER: Limit = Limit::new("bytes of front matter", 64 * KIB);
/// A skill is a few texts and scripts.
pub(super) const BUNDLE_FILES: Limit = Limit::new("files of a skill or a deliverable", 2_000);
pub(super) const BUNDLE_BYTES: Limit = Limit::new("bytes of a skill or a deliverable", 64 * MIB);
pub(super) const PAGE: Limit = Limit::new("bytes of a page", 4 * MIB);
/// From a larger space, pages must be selected.
pub(super) const SPACE: Limit = Limit::new("pages of a space", 20_000);
pub(super) const ATTACHMENTS: Limit = Limit::new("attachments of a session", 1_000);
/// All files of a checkout, counted before they are written.
pub(super) const REPO_BYTES: Limit = Limit::new("bytes of a repository", 2 << 30);
/// As many as a whole workspace may have.
pub(super) const FILES: Limit = Limit::new("files", 200_000);
/// A payload is read into memory to extract a member.
pub(super) const PAYLOAD: Limit = Limit::new("bytes of a payload that a member is taken from", 64 * MIB);
/// The rendered result has the same limit.
pub(super) const TEMPLATE: Limit = Limit::new("bytes of a template", template::MAX_TEMPLATE as u64);
/// A table with one or two lines per repository.
pub(super) const REPOS_TOML: Limit = Limit::new("bytes of repos.toml", MIB);
/// More than people maintain manually.
pub(super) const SKILLS: Limit = Limit::new("skills of a library", 2_000);

impl Limit {
    const fn new(name: &'static str, max: u64) -> Self {
        Self { name, max }
    }

    pub(super) const fn max(self) -> u64 {
        self.max
    }

    pub(super) fn check(self, seen: u64) -> Result<(), Error> {
        if seen > self.max { Err(Error::limit(self.name, self.max, seen)) } else { Ok(()) }
    }

    /// Reads a file, but never more than the limit, whatever its reported size.
    pub(super) fn read(self, file: &mut File, path: &str) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        let read = file.take(self.max + 1).read_to_end(&mut bytes);
        read.map_err(|error| files::refusal(&error, path))?;
        self.check(bytes.len() as u64).map_err(|error| error.detail("path", path))?;
        Ok(bytes)
    }
}

/// Counts towards a [`Limit`].
#[derive(Debug)]
pub(super) struct Count {
    limit: Limit,
    seen: u64,
}

impl Count {
    pub(super) const fn of(limit: Limit) -> Self {
        Self { limit, seen: 0 }
    }

    pub(super) fn add(&mut self, more: u64) -> Result<(), Error> {
        self.seen = self.seen.saturating_add(more);
        self.limit.check(self.seen)
    }
}
