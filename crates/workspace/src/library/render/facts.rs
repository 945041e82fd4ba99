//! The library's facts about the agent and the deliverable.

use crate::library::{contracts, definitions, front_matter};
use crate::plan::RenderParams;
use crate::rooted::Dir;
use crate::slot::{Mode, Slot};
use crate::{Code, Error};

/// The longest paragraph that is used as a summary.
const MAX_SUMMARY_BYTES: usize = 2_000;

/// The inputs of a rendering, besides the parameters.
#[derive(Debug, PartialEq)]
pub(super) struct Facts {
    /// The agent's name.
    pub(super) name: Option<String>,
    /// Its description, otherwise its first paragraph.
    pub(super) summary: Option<String>,
    pub(super) deliverable: Option<Deliverable>,
    /// The writable paths in grant order, scratch space last.
    pub(super) may_write: Vec<String>,
}

#[derive(Debug, PartialEq)]
pub(super) struct Deliverable {
    pub(super) spec_ref: String,
    /// The path of its specification, if the agent has one.
    pub(super) path: Option<String>,
    pub(super) title: Option<String>,
    pub(super) description: Option<String>,
}

impl Facts {
    /// Collects the facts. A missing agent or specification is ignored here: the mount that needs
    /// it fails with the file name.
    pub(super) fn gather(root: &Dir, params: &RenderParams) -> Result<Self, Error> {
        let (name, summary) = match definitions::agent(root, &params.group_key, &params.agent_slug) {
            Ok(text) => introduction(&text),
            Err(error) if error.code() == Code::ResolveNotFound => (None, None),
            Err(error) => return Err(error),
        };
        let deliverable = match params.deliverable_spec_ref.as_ref().and_then(|spec_ref| spec_ref.as_str()) {
            Some(spec_ref) if !spec_ref.is_empty() => {
                let specs = Slot::DeliverableSpecs.path();
                let mounted = params.mounts.iter().any(|mount| mount.mount == specs);
                let facts = contracts::facts(root, spec_ref)?.unwrap_or_default();
                Some(Deliverable {
                    spec_ref: spec_ref.to_owned(),
                    path: mounted.then(|| format!("{specs}/{spec_ref}")),
                    title: facts.title,
                    description: facts.description,
                })
            }
            _ => None,
        };
        let granted = params.mounts.iter().filter(|mount| mount.mode == Mode::ReadWrite);
        let mut may_write: Vec<String> = granted.map(|mount| mount.mount.clone()).collect();
        let tmp = Slot::Tmp.path();
        if !may_write.contains(&tmp) {
            may_write.push(tmp);
        }
        Ok(Self { name, summary, deliverable, may_write })
    }
}

/// The path of an input artifact. The parameters contain the caller's spelling; the file name is
/// trimmed as in JavaScript.
pub(super) fn place_of(path: &str) -> String {
    let space =
        |character: char| character == '\u{feff}' || (character.is_whitespace() && character != '\u{85}');
    for slot in Slot::ALL {
        let slot = slot.path();
        if let Some(name) = path.strip_prefix(&slot).and_then(|rest| rest.strip_prefix('/')) {
            return format!("{slot}/{}", name.trim_matches(space));
        }
    }
    path.to_owned()
}

/// The name and purpose of an agent, from its definition.
fn introduction(text: &str) -> (Option<String>, Option<String>) {
    let Ok(document) = front_matter::split(text) else { return (None, None) };
    let matter = document.matter.unwrap_or_default();
    let name = front_matter::text_of(&matter, "name").map(str::to_owned);
    let summary = front_matter::text_of(&matter, "description").map(str::to_owned);
    (name, summary.or_else(|| first_paragraph(document.body)))
}

/// The first paragraph that is not a heading, as one line.
fn first_paragraph(body: &str) -> Option<String> {
    let lines = body.lines().map(str::trim).skip_while(|line| line.is_empty() || line.starts_with('#'));
    let lines: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
    let paragraph = lines.join(" ");
    let end = paragraph.floor_char_boundary(MAX_SUMMARY_BYTES);
    (!paragraph.is_empty()).then(|| paragraph[..end].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_described_by_its_description_or_first_paragraph() {
        #[rustfmt::skip]
        let cases = [
            ("---\nname: E\ndescription: Builds.\n---\nText.", Some("E"), Some("Builds.")),
            ("---\nname: E\n---\n# E\n\nFirst\nline.\n\nRest.", Some("E"), Some("First line.")),
            ("# Only a heading\n",                              None,      None),
            ("plain",                                           None,      Some("plain")),
        ];
        for (text, name, summary) in cases {
            let (found, purpose) = introduction(text);
            assert_eq!((found.as_deref(), purpose.as_deref()), (name, summary), "{text:?}");
        }
    }
}
