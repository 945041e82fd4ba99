//! Parses file names and the four kinds of briefcase references.

use canon::budget;
use serde_json::Number;

use super::javascript;
use crate::{Code, Error};

/// The target of a reference.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Reference<'a> {
    KbSpace {
        space_id: &'a str,
    },
    KbPage {
        space_id: &'a str,
        page_slug: &'a str,
    },
    Artifact {
        artifact_id: &'a str,
        version: Number,
    },
    ScmRepo {
        repo_ref: &'a str,
        git_ref: &'a str,
    },
    /// A link that is shown to the agent; nothing is mounted.
    ExternalUrl,
}

impl<'a> Reference<'a> {
    /// Parses a reference leniently, as existing writers expect. A dispatch is stricter.
    pub(super) fn read(kind: &str, text: &'a str) -> Result<Self, Error> {
        match kind {
            "kb_space" => Ok(Self::KbSpace { space_id: text }),
            "kb_page" => match text.split_once('/') {
                Some((space_id, page_slug)) if !space_id.is_empty() && !page_slug.is_empty() => {
                    Ok(Self::KbPage { space_id, page_slug })
                }
                _ => Err(bad(kind, text, "must be `<spaceId>/<pageSlug>`")),
            },
            "artifact" => {
                let parts = text.rsplit_once('@').filter(|(artifact_id, _)| !artifact_id.is_empty());
                let (artifact_id, version) =
                    parts.ok_or_else(|| bad(kind, text, "must be `<artifactId>@<version>`"))?;
                let version = javascript::parse_int(version)
                    .filter(|version| version.as_f64().is_some_and(|version| version >= 1.0))
                    .ok_or_else(|| bad(kind, text, "must have a version of at least 1 after its last `@`"))?;
                Ok(Self::Artifact { artifact_id, version })
            }
            "scm_repo" => {
                let (repo_ref, git_ref) = text.split_once('@').unwrap_or((text, "HEAD"));
                Ok(Self::ScmRepo { repo_ref, git_ref })
            }
            "external_url" => Ok(Self::ExternalUrl),
            _ => {
                let kind = quoted(kind);
                let message = format!(
                    "unknown reference kind {kind:?}; use kb_space, kb_page, artifact, scm_repo or external_url"
                );
                Err(Error::new(Code::ComposeBadReference, message).detail("kind", kind))
            }
        }
    }
}

fn bad(kind: &str, text: &str, rule: &str) -> Error {
    let text = quoted(text);
    let message = format!("a reference of the kind `{kind}` {rule}, but is {text:?}");
    Error::new(Code::ComposeBadReference, message).detail("kind", kind).detail("ref", text)
}

/// Whether a trimmed name is a valid file name: not empty, relative, and without `..`.
pub(crate) fn is_file_name(trimmed: &str) -> bool {
    !trimmed.is_empty() && !trimmed.contains("..") && !trimmed.starts_with('/')
}

/// A file name without surrounding white space.
pub(super) fn file_name<'a>(name: &'a str, whose: &str) -> Result<&'a str, Error> {
    let trimmed = javascript::trim(name);
    if is_file_name(trimmed) {
        return Ok(trimmed);
    }
    let shown = quoted(name);
    let message = format!(
        "{shown:?} is not a valid name of {whose}: it must not be empty, begin with `/` or contain `..`"
    );
    Err(Error::new(Code::ComposeInvalidFileName, message).detail("fileName", shown))
}

/// Untrusted text, truncated for a message.
pub(super) fn quoted(text: &str) -> String {
    budget::truncate(text, 120).into_owned()
}
