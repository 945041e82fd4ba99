//! The templates that there are.

use std::collections::BTreeMap;

use super::PromptKind;
use super::reference::PromptRef;
use super::template::Template;
use super::version::compare;
use crate::failure::FailureCode;

/// Why a reference leads nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// There is no such template.
    #[error("there is no prompt of that name and version")]
    NotFound,
    /// There are two.
    #[error("two libraries have a prompt of that name; the reference has to say which")]
    Ambiguous,
}

impl LookupError {
    /// Why the node fails.
    pub const fn code(self) -> FailureCode {
        match self {
            Self::NotFound => FailureCode::PromptTemplateNotFound,
            Self::Ambiguous => FailureCode::PromptRefAmbiguous,
        }
    }
}

/// The templates of a host, of its packs, and of its users.
#[derive(Clone, Debug, Default)]
pub struct Library {
    /// What the templates of the host itself are found under.
    id: String,
    /// By name, then by library; the versions of each.
    templates: BTreeMap<String, BTreeMap<String, Vec<Template>>>,
}

impl Library {
    /// A library without templates.
    pub fn new(id: impl Into<String>) -> Self {
        Self { id: id.into(), templates: BTreeMap::new() }
    }

    /// Adds a template, in the place of one of the same name, library and version.
    pub fn add(&mut self, template: Template) {
        let library = template.pack.clone().unwrap_or_else(|| self.id.clone());
        let versions =
            self.templates.entry(template.template_id.clone()).or_default().entry(library).or_default();
        versions.retain(|other| other.version != template.version);
        let place = versions.partition_point(|other| compare(&other.version, &template.version).is_lt());
        versions.insert(place, template);
    }

    /// The template that a reference names.
    ///
    /// # Errors
    /// There is none, or there are two.
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

    /// The first template of a kind in a library, by name: what an agent draws from when it names only the library.
    pub fn default_of(&self, library: &str, kind: PromptKind) -> Option<PromptRef> {
        let mut found = self.templates.values().filter_map(|libraries| libraries.get(library)?.last());
        found.find(|template| template.kind == kind).map(Template::reference)
    }

    /// All templates, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Template> {
        self.templates.values().flat_map(|libraries| libraries.values().flatten())
    }
}
