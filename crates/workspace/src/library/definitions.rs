//! Agents and instructions: a Markdown file each.

use super::limits::DEFINITION;
use super::{front_matter, key, shelf};
use crate::Error;
use crate::rooted::Dir;

/// The definition of an agent: that of its group, else the one that all groups share.
///
/// A composed plan looks for the agents that one delegates to in the group of the one that
/// delegates; a reviewer of everybody stands once, outside the groups.
pub(super) fn agent(root: &Dir, group: &str, slug: &str) -> Result<String, Error> {
    let own = key::path("agent", slug, || format!("agents/{group}/{slug}.md"))?;
    if key::is_path(group)
        && let Some(text) = shelf::text_if_any(root, &own, DEFINITION)?
    {
        return checked(&own, text);
    }
    let shared = format!("agents/{slug}.md");
    match shelf::text_if_any(root, &shared, DEFINITION)? {
        Some(text) => checked(&shared, text),
        None => Err(shelf::missing(root, &own).detail("alsoLookedFor", shared)),
    }
}

/// A section of instructions.
pub(super) fn instruction(root: &Dir, section: &str) -> Result<String, Error> {
    let path = key::path("instruction", section, || format!("instructions/{section}.md"))?;
    match shelf::text_if_any(root, &path, DEFINITION)? {
        Some(text) => checked(&path, text),
        None => Err(shelf::missing(root, &path)),
    }
}

/// The text, where an agent can do something with it.
fn checked(path: &str, text: String) -> Result<String, Error> {
    let document = front_matter::split(&text).map_err(|problem| shelf::bad(path, &problem))?;
    if document.body.trim().is_empty() && document.matter.is_none_or(|matter| matter.is_empty()) {
        return Err(shelf::bad(path, "is empty"));
    }
    Ok(text)
}
