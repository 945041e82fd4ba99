//! Workflow ids: `namespace.name`, and what becomes of the older ones.
//!
//! `wr.*` belongs to the workflows that come with the program: nobody else may define one, so
//! nobody can put another workflow in its place. Ids without a namespace still run, with a
//! warning that suggests a new one. The suggestion depends only on where the file was found and what
//! is in it, so that everybody who sees the file gets the same.

use canon::digest::Digest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::problem::quoted;

/// The namespace of the program's own workflows.
pub const RESERVED_NAMESPACE: &str = "wr";

/// The shortest and the longest workflow id, in characters.
pub const ID_CHARACTERS: std::ops::RangeInclusive<usize> = 3..=64;

/// Where a workflow was found. Decides which namespaces it may use, and which one is suggested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SourceOrigin {
    /// It comes with the program.
    Bundled,
    /// In the user's folder.
    User,
    /// In the workspace.
    Project,
    /// In a repository or another shared place.
    Remote,
    /// In a package of somebody else.
    Plugin,
}

impl SourceOrigin {
    /// The namespace that is suggested for workflows from here.
    pub const fn namespace(self) -> &'static str {
        match self {
            Self::Bundled => RESERVED_NAMESPACE,
            Self::User => "user",
            Self::Project => "project",
            Self::Remote | Self::Plugin => "repo",
        }
    }
}

/// Whether an id has a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IdStatus {
    /// `namespace.name`.
    Namespaced,
    /// A name alone. It runs, with a warning; new workflows may not have one.
    Legacy,
}

/// Why an id is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// It has another length.
    #[error("a workflow id has 3 to 64 characters, not {measured}")]
    Length {
        /// What it has.
        measured: usize,
    },
    /// It is not spelt as an id.
    #[error("{id:?} is neither `namespace.name` (each `[a-z][a-z0-9_-]*`, one dot) nor `[a-z0-9_-]+`")]
    Spelling {
        /// The id, cut if it is long.
        id: String,
    },
    /// It is in the program's own namespace.
    #[error("{id:?} is in `wr.`, which is reserved for the workflows that come with the program")]
    Reserved {
        /// The id.
        id: String,
    },
}

/// Checks the id of a workflow that was found at `origin`.
///
/// # Errors
/// See [`IdError`].
pub fn check(id: &str, origin: SourceOrigin) -> Result<IdStatus, IdError> {
    let measured = id.chars().count();
    if !ID_CHARACTERS.contains(&measured) {
        return Err(IdError::Length { measured });
    }
    let spelling = || IdError::Spelling { id: quoted(id) };
    let Some((namespace, name)) = id.split_once('.') else {
        return if id.bytes().all(is_id_byte) { Ok(IdStatus::Legacy) } else { Err(spelling()) };
    };
    if !is_segment(namespace) || !is_segment(name) {
        return Err(spelling());
    }
    if namespace == RESERVED_NAMESPACE && origin != SourceOrigin::Bundled {
        return Err(IdError::Reserved { id: id.to_owned() });
    }
    Ok(IdStatus::Namespaced)
}

/// An id that could be used instead of `id`, for a file found at `origin`.
///
/// `source` is the bytes of the file. Only when `taken` says that the plain suggestion is in use do four
/// digits of their digest follow it: never a time, never a random number.
pub fn suggest(id: &str, origin: SourceOrigin, source: &[u8], taken: impl Fn(&str) -> bool) -> String {
    let name = id.rsplit('.').next().unwrap_or(id);
    let mut plain: String = name
        .chars()
        .map(|character| character.to_ascii_lowercase())
        .map(|character| if character.is_ascii_alphanumeric() { character } else { '_' })
        .take(48)
        .collect();
    if !plain.starts_with(|first: char| first.is_ascii_lowercase()) {
        plain.insert_str(0, "w_");
    }
    let suggestion = format!("{}.{plain}", origin.namespace());
    if !taken(&suggestion) {
        return suggestion;
    }
    format!("{suggestion}_{}", &Digest::of_bytes(source).to_hex()[..4])
}

/// `[a-z][a-z0-9_-]*`.
fn is_segment(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_lowercase()) && text.bytes().all(is_id_byte)
}

const fn is_id_byte(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_what_becomes_of_them() {
        use SourceOrigin as O;
        let long = format!("project.{}", "x".repeat(60));
        let cases = [
            ("project.triage", O::Project, Ok(IdStatus::Namespaced)),
            ("wr.bug_hunt", O::Bundled, Ok(IdStatus::Namespaced)),
            ("wr.bug_hunt", O::User, Err("reserved")),
            ("wrx.bug_hunt", O::User, Ok(IdStatus::Namespaced)),
            ("old-one", O::User, Ok(IdStatus::Legacy)),
            ("9-lives", O::User, Ok(IdStatus::Legacy)),
            ("a.b.c", O::User, Err("neither")),
            ("a.9b", O::User, Err("neither")),
            (".name", O::User, Err("neither")),
            ("Upper", O::User, Err("neither")),
            ("ab", O::User, Err("3 to 64")),
            (long.as_str(), O::User, Err("3 to 64")),
        ];
        for (id, origin, expected) in cases {
            match (check(id, origin), expected) {
                (Ok(status), Ok(wanted)) => assert_eq!(status, wanted, "{id}"),
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{id}: {error}"),
                (found, wanted) => panic!("{id}: {found:?}, not {wanted:?}"),
            }
        }
    }

    #[test]
    fn suggestions_depend_on_the_place_and_the_file_only() {
        let free = |_: &str| false;
        let taken = |_: &str| true;
        for (id, origin, expected) in [
            ("Old-Triage", SourceOrigin::User, "user.old_triage"),
            ("old-triage", SourceOrigin::Project, "project.old_triage"),
            ("wr.mine", SourceOrigin::Remote, "repo.mine"),
            ("9-lives", SourceOrigin::User, "user.w_9_lives"),
            ("", SourceOrigin::User, "user.w_"),
        ] {
            let suggestion = suggest(id, origin, b"{}", free);
            assert_eq!(suggestion, expected, "{id}");
            assert_eq!(suggest(id, origin, b"{}", taken), format!("{expected}_4413"), "{id}, taken");
            assert_eq!(check(&suggestion, origin), Ok(IdStatus::Namespaced), "{id}");
        }
    }
}
