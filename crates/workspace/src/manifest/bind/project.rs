//! Projects the mount configuration into the context: composing reads nothing else, and the
//! identity of a plan covers what it reads.

use serde_json::{Map, Value};

use crate::manifest::compiled::CompiledMount;
use crate::manifest::{Location, Manifest};
use crate::slot::Slot;
use crate::{Code, Error};

/// Whether the known configuration of a slot has the right form.
pub(in crate::manifest) fn check(slot: Slot, key: &str, value: &Value) -> Result<(), String> {
    match (slot, key) {
        (Slot::References, "kbSpaces") => texts(value).map(drop),
        (Slot::References, "kb") => spaces_of(value).map(drop),
        (Slot::References, "externalProjects") => projects_of(value).map(drop),
        (Slot::Repos, "work") => repositories_of(value).map(drop),
        _ => Ok(()),
    }
}

/// Sets the context keys that follow from the manifest and that the caller did not set.
pub(super) fn into_context(
    manifest: &Manifest,
    mounts: &[(Slot, CompiledMount)],
    context: &mut Map<String, Value>,
) -> Result<(), Error> {
    let mut found = ProjectedContext::default();
    let mut errors = Vec::new();
    for (slot, mount) in mounts.iter().filter(|(_, mount)| mount.enabled) {
        for (key, value) in &mount.config {
            if let Err(reason) = found.take(*slot, key, value) {
                errors.push(refused(manifest, *slot, key, &reason));
            }
        }
    }
    if let Some(error) = Error::first_of(errors) {
        return Err(error);
    }
    let ProjectedContext { spaces, mut projects, mut repositories } = found;
    if !repositories.is_empty() {
        let primary = repositories.iter().position(|repository| repository.primary).unwrap_or(0);
        let primary = repositories.remove(primary);
        projects.extend(repositories.into_iter().map(|repository| repository.url));
        set(context, "repoRef", Value::String(primary.url));
    }
    set_list(context, "kbSpaceIds", spaces);
    set_list(context, "externalProjectIds", projects);
    set_list(context, "skills", manifest.spec.skills.iter().map(|skill| skill.slug.clone()));
    set_list(context, "delegatedSubAgents", manifest.agent.sub_agents.iter().map(|agent| agent.slug.clone()));
    Ok(())
}

/// Only values from inputs can be wrong here; the rest was checked when the manifest was compiled.
fn refused(manifest: &Manifest, slot: Slot, key: &str, reason: &str) -> Error {
    let mount = manifest.spec.mounts.iter().find(|(known, _)| *known == slot);
    match mount {
        Some((_, mount)) => {
            let path = format!("{}.{key}", mount.place.path);
            Location { path, ..mount.place.clone() }.refuse(Code::BindInputInvalid, reason)
        }
        None => Error::new(Code::BindInputInvalid, reason),
    }
}

/// A key of the caller is kept, including `null`.
fn set(context: &mut Map<String, Value>, key: &str, value: Value) {
    if !context.contains_key(key) {
        context.insert(key.to_owned(), value);
    }
}

/// An empty list is not set: it would only change the identity of the plan.
fn set_list(context: &mut Map<String, Value>, key: &str, items: impl IntoIterator<Item = String>) {
    let mut seen = std::collections::BTreeSet::new();
    let items: Vec<Value> =
        items.into_iter().filter(|item| seen.insert(item.clone())).map(Value::String).collect();
    if !items.is_empty() {
        set(context, key, Value::Array(items));
    }
}

#[derive(Default)]
struct ProjectedContext {
    spaces: Vec<String>,
    projects: Vec<String>,
    repositories: Vec<Repository>,
}

struct Repository {
    url: String,
    primary: bool,
}

impl ProjectedContext {
    fn take(&mut self, slot: Slot, key: &str, value: &Value) -> Result<(), String> {
        match (slot, key) {
            (Slot::References, "kbSpaces") => self.spaces.extend(texts(value)?),
            (Slot::References, "kb") => self.spaces.extend(spaces_of(value)?),
            (Slot::References, "externalProjects") => self.projects.extend(projects_of(value)?),
            (Slot::Repos, "work") => self.repositories.extend(repositories_of(value)?),
            _ => {}
        }
        Ok(())
    }
}

/// A string or a list of strings.
fn texts(value: &Value) -> Result<Vec<String>, String> {
    let text = |value: &Value| match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        _ => None,
    };
    let texts = match value {
        Value::Array(items) => items.iter().map(text).collect(),
        other => text(other).map(|text| vec![text]),
    };
    texts.ok_or_else(|| "must be a non-empty string or a list of non-empty strings".to_owned())
}

/// `kb: {spaces}`. A string from a token is accepted in place of the object and has no spaces.
fn spaces_of(value: &Value) -> Result<Vec<String>, String> {
    match value {
        Value::Object(members) => members.get("spaces").map_or(Ok(Vec::new()), texts),
        _ => Err("must be an object with `spaces`".to_owned()),
    }
}

/// A string, a list, or `{repos}`.
fn projects_of(value: &Value) -> Result<Vec<String>, String> {
    match value {
        Value::Object(members) => members.get("repos").map_or(Ok(Vec::new()), texts),
        other => texts(other),
    }
}

/// A list of `{url, primary?}` or of URLs, or a single one.
fn repositories_of(value: &Value) -> Result<Vec<Repository>, String> {
    let repository = |value: &Value| {
        let (url, primary) = match value {
            Value::Object(members) => (members.get("url")?, members.get("primary")),
            other => (other, None),
        };
        let primary = match primary {
            None => false,
            Some(primary) => primary.as_bool()?,
        };
        url.as_str().filter(|url| !url.is_empty()).map(|url| Repository { url: url.to_owned(), primary })
    };
    let repositories = match value {
        Value::Array(items) => items.iter().map(repository).collect(),
        other => repository(other).map(|repository| vec![repository]),
    };
    repositories.ok_or_else(|| "must be a list of `{url, primary}` or of strings".to_owned())
}
