//! Agents and instructions: a Markdown file each.

use super::limits::DEFINITION;
use super::{files, front_matter, key};
use crate::Error;
use crate::rooted::Dir;

/// The definition of an agent: that of its group, otherwise the shared one.
///
/// A composed plan looks for delegates in the group of the delegating agent; a reviewer for all
/// groups is outside the groups.
pub(super) fn agent(root: &Dir, group: &str, slug: &str) -> Result<String, Error> {
    let own = key::path("agent", slug, || format!("agents/{group}/{slug}.md"))?;
    if key::is_path(group)
        && let Some(text) = files::text_if_any(root, &own, DEFINITION)?
    {
        return checked(&own, text);
    }
    let shared = format!("agents/{slug}.md");
    match files::text_if_any(root, &shared, DEFINITION)? {
        Some(text) => checked(&shared, text),
        None => Err(files::missing(root, &own).detail("alsoLookedFor", shared)),
    }
}

pub(super) fn instruction(root: &Dir, section: &str) -> Result<String, Error> {
    let path = key::path("instruction", section, || format!("instructions/{section}.md"))?;
    match files::text_if_any(root, &path, DEFINITION)? {
        Some(text) => checked(&path, text),
        None => Err(files::missing(root, &path)),
    }
}

/// The text, which must not be empty.
fn checked(path: &str, text: String) -> Result<String, Error> {
    let document = front_matter::split(&text).map_err(|problem| files::bad(path, &problem))?;
    if document.body.trim().is_empty() && document.matter.is_none_or(|matter| matter.is_empty()) {
        return Err(files::bad(path, "is empty"));
    }
    Ok(text)
}
