//! The prompt library: all templates of a host.

use std::collections::BTreeMap;

use super::PromptKind;
use super::reference::PromptRef;
use super::template::Template;
use super::version::compare;
use crate::failure::FailureCode;

/// Why a reference cannot be resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    #[error("no prompt has this name and version")]
    NotFound,
    /// More than one library has the prompt.
    #[error("two libraries have a prompt with this name; add `libraryId` to the reference")]
    Ambiguous,
}

impl LookupError {
    pub const fn code(self) -> FailureCode {
        match self {
            Self::NotFound => FailureCode::PromptTemplateNotFound,
            Self::Ambiguous => FailureCode::PromptRefAmbiguous,
        }
    }
}

/// The templates of a host, its packs and its users.
#[derive(Clone, Debug, Default)]
pub struct Library {
    /// The library id of the host's own templates.
    id: String,
    /// Versions by template name, then by library.
    templates: BTreeMap<String, BTreeMap<String, Vec<Template>>>,
}

impl Library {
    /// An empty library.
    pub fn new(id: impl Into<String>) -> Self {
        Self { id: id.into(), templates: BTreeMap::new() }
    }

    /// Adds a template. Replaces one with the same name, library and version.
    pub fn add(&mut self, template: Template) {
        let library = template.pack.clone().unwrap_or_else(|| self.id.clone());
        let versions =
            self.templates.entry(template.template_id.clone()).or_default().entry(library).or_default();
        versions.retain(|other| other.version != template.version);
        let place = versions.partition_point(|other| compare(&other.version, &template.version).is_lt());
        versions.insert(place, template);
    }

    /// Finds the template of a reference.
    ///
    /// # Errors
    /// No template matches, or two do.
    pub fn find(&self, reference: &PromptRef) -> Result<&Template, LookupError> {
        let libraries = self.templates.get(&reference.template_id).ok_or(LookupError::NotFound)?;
        let version = |versions: &'_ Vec<Template>| match &reference.version {
            Some(version) => versions.iter().position(|template| template.version == *version),
            None => versions.len().checked_sub(1),
        };
        let wanted = |library: &String| reference.library_id.as_ref().is_none_or(|wanted| wanted == library);
        let mut found = libraries
            .iter()
            .filter(|(library, _)| wanted(library))
            .filter_map(|(_, versions)| version(versions).map(|place| &versions[place]));
        match (found.next(), found.next()) {
            (Some(template), None) => Ok(template),
            (Some(_), Some(_)) => Err(LookupError::Ambiguous),
            (None, _) => Err(LookupError::NotFound),
        }
    }

    /// The first template of a kind in a library, by name: the default for an agent that names only the library.
    pub fn default_of(&self, library: &str, kind: PromptKind) -> Option<PromptRef> {
        let mut found = self.templates.values().filter_map(|libraries| libraries.get(library)?.last());
        found.find(|template| template.kind == kind).map(Template::reference)
    }

    /// All templates, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Template> {
        self.templates.values().flat_map(|libraries| libraries.values().flatten())
    }
}
