//! `extends`: one base with an exact version, looked up from the nearest owner outwards.

use super::model::{Document, Reference};
use super::problem::{Location, Problems, quoted};
use super::read::{self, Use};
use super::{Format, read_node};
use crate::{Code, Error};

/// A base manifest as stored.
#[derive(Clone, Debug)]
pub struct BaseFile {
    /// The file name in problems.
    pub name: String,
    pub bytes: Vec<u8>,
    pub format: Format,
}

/// Provides base manifests.
///
/// # Contract
/// * Returns the manifest with exactly this slug and version, or `None`.
/// * The same request always gets the same bytes: a version never changes.
pub trait Bases {
    /// The base with this slug and version.
    ///
    /// # Errors
    /// If it exists but cannot be read.
    fn find(&self, slug: &str, version: &str) -> Result<Option<BaseFile>, Error>;
}

/// The built-in bases.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemBases;

impl SystemBases {
    /// Slug and text of each; all have version 1.0.0.
    const ALL: [(&str, &str); 4] = [
        ("primary-agent-base", include_str!("bases/primary-agent-base.yaml")),
        ("agent-session-base", include_str!("bases/agent-session-base.yaml")),
        ("subagent-base", include_str!("bases/subagent-base.yaml")),
        ("reviewer-base", include_str!("bases/reviewer-base.yaml")),
    ];

    pub fn slugs() -> impl Iterator<Item = &'static str> {
        Self::ALL.into_iter().map(|(slug, _)| slug)
    }
}

impl Bases for SystemBases {
    fn find(&self, slug: &str, version: &str) -> Result<Option<BaseFile>, Error> {
        let known = Self::ALL.into_iter().find(|(known, _)| *known == slug && version == "1.0.0");
        Ok(known.map(|(slug, text)| BaseFile {
            name: format!("{slug}@{version}"),
            bytes: text.as_bytes().to_vec(),
            format: Format::Yaml,
        }))
    }
}

/// Several owners of bases, nearest first: user, project, organisation, biome. The built-in ones
/// come last.
pub struct Ladder<'a> {
    rungs: Vec<&'a dyn Bases>,
}

impl<'a> Ladder<'a> {
    /// A ladder with these rungs and the built-in bases below them.
    pub fn new(rungs: Vec<&'a dyn Bases>) -> Self {
        Self { rungs }
    }
}

impl Bases for Ladder<'_> {
    fn find(&self, slug: &str, version: &str) -> Result<Option<BaseFile>, Error> {
        for rung in &self.rungs {
            if let Some(found) = rung.find(slug, version)? {
                return Ok(Some(found));
            }
        }
        SystemBases.find(slug, version)
    }
}

/// Finds and reads the base, with the digest of its bytes.
pub(super) fn load(
    reference: &Reference,
    place: &Location,
    bases: &dyn Bases,
) -> Result<(Document, canon::digest::Digest), Error> {
    let Reference { slug, version } = reference;
    let named = format!("{slug}@{version}");
    let invalid = |causes: Vec<Error>| {
        let message = format_args!("the base {} is invalid", quoted(&named));
        place.refuse(Code::ManifestBaseInvalid, message).detail("base", named.as_str()).caused_by(causes)
    };
    let Some(file) = bases.find(slug, version).map_err(|error| invalid(vec![error]))? else {
        let known: Vec<String> = SystemBases::slugs().map(|slug| format!("{slug}@1.0.0")).collect();
        let hint = match canon::nearest::nearest(&named, &known, 1).first() {
            Some(near) => format!("; did you mean `{near}`?"),
            None => String::new(),
        };
        let message = format_args!("manifest {} not found{hint}", quoted(&named));
        return Err(place.refuse(Code::ManifestBaseNotFound, message).detail("base", named));
    };
    let root = read_node(&file.bytes, &file.name, file.format).map_err(|error| invalid(vec![error]))?;
    let mut problems = Problems::new(&file.name);
    let document = read::document(&root, Use::Base, &mut problems);
    let errors = problems.into_errors();
    let Some(document) = document.filter(|_| errors.is_empty()) else { return Err(invalid(errors)) };
    if document.metadata.slug != *slug || document.metadata.version != *version {
        let found = format!("{}@{}", document.metadata.slug, document.metadata.version);
        let message = format!("{}: the file declares itself as {}", file.name, quoted(&found));
        return Err(invalid(vec![Error::new(Code::ValidationError, message)]));
    }
    if document.extends.is_some() {
        let message = format_args!(
            "{} extends another manifest; only one level of `extends` is allowed",
            quoted(&named)
        );
        return Err(place.refuse(Code::ManifestExtendsDepth, message).detail("base", named));
    }
    Ok((document, canon::digest::Digest::of_bytes(&file.bytes)))
}
