//! Grammars of ids.

use crate::name::{PackName, Scope};

/// A node type or chain: a lowercase letter, then letters, digits, dots, underscores and hyphens.
pub(crate) fn type_id(text: &str) -> bool {
    begins_lower(text)
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

pub(crate) fn publishable_name(text: &str) -> bool {
    PackName::parse(text).is_ok_and(|name| name.scope() != Scope::Local)
}

/// An agent id: a pack name, including `local`.
pub(crate) fn agent_id(text: &str) -> bool {
    PackName::parse(text).is_ok()
}

pub(crate) fn version(text: &str) -> bool {
    crate::version::parse(text).is_some()
}

/// The id of a prompt template or library.
pub(crate) fn template_id(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_lowercase() || first.is_ascii_digit())
        && text.len() <= 128
        && text.bytes().all(|byte| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'_' | b'-')
        })
}

/// A variable name.
pub(crate) fn variable(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// A lowercase letter, then lowercase letters, digits and hyphens.
pub(crate) fn slug(text: &str) -> bool {
    begins_lower(text)
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

/// As [`slug`], with dots.
pub(crate) fn dotted_slug(text: &str) -> bool {
    begins_lower(text)
        && text
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'-'))
}

/// As [`dotted_slug`], with underscores.
pub(crate) fn scope_key(text: &str) -> bool {
    begins_lower(text)
        && text.bytes().all(|byte| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'_' | b'-')
        })
}

/// A model capability: a slug, including `x-host-<host>-<name>`.
pub(crate) fn model_capability(text: &str) -> bool {
    slug(text)
}

/// `vendor.<org>.<name>` or `x-<name>`, in slugs.
fn extension(text: &str) -> bool {
    if let Some(rest) = text.strip_prefix("x-") {
        return slug(rest);
    }
    let mut parts = text.split('.');
    parts.next() == Some("vendor")
        && parts.next().is_some_and(slug)
        && parts.next().is_some_and(slug)
        && parts.next().is_none()
}

pub(crate) fn export_format(text: &str) -> bool {
    let plain =
        begins_lower(text) && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    plain || extension(text)
}

/// A card field type.
pub(crate) fn field_type(text: &str) -> bool {
    let known = ["text", "longtext", "number", "boolean", "select", "multiselect", "file", "artifact-ref"];
    known.contains(&text) || extension(text)
}

/// A URI with a scheme, syntactically.
pub(crate) fn uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
        && !rest.is_empty()
        && rest.bytes().all(|byte| {
            byte.is_ascii_graphic()
                && !matches!(byte, b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}')
        })
}

/// An `https://` URI with a host.
pub(crate) fn https(text: &str) -> bool {
    uri(text) && text.strip_prefix("https://").is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'))
}

/// A lowercase host name with at least two labels.
pub(crate) fn host(text: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    };
    text.len() <= 253
        && text.split('.').all(label)
        && text.rsplit_once('.').is_some_and(|(_, last)| begins_lower(last))
}

pub(crate) fn date_time(text: &str) -> bool {
    crate::time::is_date_time(text)
}

fn begins_lower(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_lowercase())
}
