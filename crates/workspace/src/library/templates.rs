//! The templates of a library.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::limits::TEMPLATE;
use super::{files, key, skills};
use crate::compose::TemplateResolver;
use crate::rooted::Dir;
use crate::{Code, Error, template};

const MAX_NAME_BYTES: usize = 128;

/// Finds templates by name: `templates/<name>.hbs` of the library, otherwise the only skill with
/// `templates/<name>.hbs`.
#[derive(Clone, Debug)]
pub struct Templates {
    root: Dir,
    /// Preloaded templates.
    loaded: BTreeMap<String, String>,
}

impl Templates {
    pub(super) const fn new(root: Dir) -> Self {
        Self { root, loaded: BTreeMap::new() }
    }

    /// Preloads templates, such as those declared by a manifest.
    ///
    /// # Errors
    /// All problems: the first by name, the others as its causes.
    pub fn preload<'n>(&mut self, names: impl IntoIterator<Item = &'n str>) -> Result<(), Error> {
        let mut problems = Vec::new();
        for name in names {
            match self.source(name) {
                Ok(text) => drop(self.loaded.insert(name.to_owned(), text)),
                Err(problem) => problems.push(problem),
            }
        }
        Error::first_of(problems).map_or(Ok(()), Err)
    }

    /// The text of a template.
    ///
    /// # Errors
    /// `TEMPLATE_NOT_FOUND`, `TEMPLATE_AMBIGUOUS` if two skills have it, `TEMPLATE_SYNTAX` if it is
    /// not a text file, `LIMIT_EXCEEDED`.
    pub fn source(&self, name: &str) -> Result<String, Error> {
        if let Some(text) = self.loaded.get(name) {
            return Ok(text.clone());
        }
        if !is_name(name) {
            return Err(impossible(name));
        }
        let own = format!("templates/{name}.hbs");
        if let Some(text) = self.read(&own)? {
            return Ok(text);
        }
        let (mut found, mut invalid) = (Vec::new(), Vec::new());
        for key in skills::keys(&self.root).map_err(|error| unreadable(&error))? {
            match skills::find(&self.root, &key, None) {
                Ok(skill) => {
                    let place = format!("{}/templates/{name}.hbs", skill.path);
                    found.extend(self.read(&place)?.map(|text| (place, text)));
                }
                // Invalid skills are not searched, and reported only if the template is not found.
                Err(error) => invalid.push(error),
            }
        }
        if found.len() > 1 {
            let places: Vec<String> = found.into_iter().map(|(place, _)| place).collect();
            let message = format!("the template `{name}` exists in {}; rename one", places.join(" and in "));
            return Err(Error::new(Code::TemplateAmbiguous, message)
                .detail("name", name)
                .detail("places", places));
        }
        found.pop().map(|(_, text)| text).ok_or_else(|| self.missing(name).caused_by(invalid))
    }

    fn missing(&self, name: &str) -> Error {
        let missing = files::missing(&self.root, &format!("templates/{name}.hbs"));
        let message = format!("{}, and no skill contains a template `{name}`", missing.message());
        Error::new(Code::TemplateNotFound, message).detail("name", name)
    }

    fn read(&self, place: &str) -> Result<Option<String>, Error> {
        files::text_if_any(&self.root, place, TEMPLATE).map_err(|error| unreadable(&error))
    }
}

impl TemplateResolver for Templates {
    fn resolve(&self, name: &str, vars: &Map<String, Value>) -> Result<String, Error> {
        let text = self.source(name)?;
        template::render(&text, &Value::Object(vars.clone())).map_err(|error| error.detail("template", name))
    }
}

/// A file error as a template error.
fn unreadable(error: &Error) -> Error {
    match error.code() {
        Code::LimitExceeded => error.clone(),
        _ => {
            let path = error.details().get("path").cloned().unwrap_or_default();
            Error::new(Code::TemplateSyntax, error.message()).detail("path", path)
        }
    }
}

fn is_name(name: &str) -> bool {
    name.len() <= MAX_NAME_BYTES
        && name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

fn impossible(name: &str) -> Error {
    let shown = key::shown(name);
    let message = format!("invalid template name `{shown}`: use letters, digits, `.`, `_` and `-`");
    Error::new(Code::TemplateNotFound, message).detail("name", shown)
}
