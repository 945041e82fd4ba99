//! Workflow ids: `namespace.name`, and older ids without a namespace.
//!
//! The namespace `wr.*` is reserved for bundled workflows, so that they cannot be replaced. Ids without a
//! namespace still work, with a warning that suggests a new id. The suggestion depends only on where the file
//! was found and its content, so that everyone who sees the file gets the same.

use canon::digest::Digest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::problem::quoted;

/// The namespace of bundled workflows.
pub const RESERVED_NAMESPACE: &str = "wr";

/// The allowed length of a workflow id, in characters.
pub const ID_CHARACTERS: std::ops::RangeInclusive<usize> = 3..=64;

/// Where a workflow was found. It determines the allowed and the suggested namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SourceOrigin {
    /// Part of the program.
    Bundled,
    /// The user's folder.
    User,
    /// The workspace.
    Project,
    /// A repository or another shared folder.
    Remote,
    /// A third-party package.
    Plugin,
}

impl SourceOrigin {
    /// The suggested namespace for workflows of this origin.
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
    /// Without a namespace. It works, with a warning; new workflows need a namespace.
    Legacy,
}

/// Why an id is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// The length is not allowed.
    #[error("a workflow id must have 3 to 64 characters, not {measured}")]
    Length { measured: usize },
    /// The spelling is invalid.
    #[error(
        "{id:?} is not a valid workflow id: use `namespace.name` (each part `[a-z][a-z0-9_-]*`) or `[a-z0-9_-]+`"
    )]
    Spelling {
        /// The id, truncated if it is long.
        id: String,
    },
    /// The namespace is reserved.
    #[error("{id:?} is in `wr.`, which is reserved for the workflows that come with the program")]
    Reserved { id: String },
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

/// Suggests an id to replace `id`, for a file found at `origin`.
///
/// `source` is the content of the file. If `taken` says that the plain suggestion is used, four digits of the
/// content's digest are appended, so the suggestion is deterministic.
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
    fn ids_are_checked_by_origin() {
        use SourceOrigin as O;
        let long = format!("project.{}", "x".repeat(60));
        let cases = [
            ("project.triage", O::Project, Ok(IdStatus::Namespaced)),
            ("wr.bug_hunt", O::Bundled, Ok(IdStatus::Namespaced)),
            ("wr.bug_hunt", O::User, Err("reserved")),
            ("wrx.bug_hunt", O::User, Ok(IdStatus::Namespaced)),
            ("old-one", O::User, Ok(IdStatus::Legacy)),
            ("9-lives", O::User, Ok(IdStatus::Legacy)),
            ("a.b.c", O::User, Err("not a valid workflow id")),
            ("a.9b", O::User, Err("not a valid workflow id")),
            (".name", O::User, Err("not a valid workflow id")),
            ("Upper", O::User, Err("not a valid workflow id")),
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
    fn suggestions_depend_only_on_origin_and_content() {
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
