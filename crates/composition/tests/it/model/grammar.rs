//! The grammars of WCP-003 as decided in 2.1, 2.2 and 2.3.

use crate::model::source::{KINDS, Kind};

pub(crate) const NAME_PATTERN: &str = "^[a-z0-9][a-z0-9-]*$";
pub(crate) const BUILTIN_PATTERN: &str = "^builtin-[a-z0-9][a-z0-9-]*$";
pub(crate) const RESERVED_PREFIX: &str = "builtin-";

/// D-7: ordinary user and assistant text.
pub(crate) const PROTECTED: [&str; 4] =
    ["message:user", "message:assistant", "message:user.text", "message:assistant.text"];

/// `^[a-z0-9][a-z0-9-]*$`, without a cap.
fn is_name(text: &str) -> bool {
    let lower_alnum = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.chars().next().is_some_and(lower_alnum) && text.chars().all(|c| lower_alnum(c) || c == '-')
}

/// 2.1: local ids and instance ids share one grammar and one cap.
pub(crate) fn is_local_id(text: &str) -> bool {
    is_name(text) && text.len() <= 128
}

pub(crate) fn is_instance_id(text: &str) -> bool {
    is_name(text) && text.len() <= 128
}

pub(crate) fn is_builtin_owner_id(text: &str) -> bool {
    text.strip_prefix(RESERVED_PREFIX).is_some_and(is_name) && text.len() <= 128
}

/// The contribution kind inside a canonical key, `None` when the key regex of 2.1 does not match.
pub(crate) fn kind_of_key(key: &str) -> Option<&'static Kind> {
    let (owner, rest) = key.split_once(':')?;
    let (kind, local) = rest.split_once('/')?;
    if !is_name(owner) || !is_name(local) {
        return None;
    }
    KINDS.iter().find(|known| known.name == kind)
}

/// 2.2: why a route path is refused, in the order of the list there.
pub(crate) fn path_fault(path: &str) -> Option<&'static str> {
    if path.is_empty() {
        return Some("empty");
    }
    if path.len() > 512 {
        return Some("too-long");
    }
    if !path.starts_with('/') {
        return Some("not-absolute");
    }
    if path.contains(['?', '#']) {
        return Some("query-or-hash");
    }
    if path == "/" {
        return None;
    }
    if path.ends_with('/') {
        return Some("trailing-slash");
    }
    if path.contains("//") {
        return Some("empty-segment");
    }
    let segments: Vec<&str> = path[1..].split('/').collect();
    if segments.iter().any(|segment| *segment == "." || *segment == "..") {
        return Some("dot-segment");
    }
    if segments.iter().any(|segment| segment.starts_with(':') && !is_parameter(segment)) {
        return Some("invalid-parameter");
    }
    if segments.iter().any(|segment| !is_parameter(segment) && !is_static(segment)) {
        return Some("invalid-character");
    }
    let parameters: Vec<&&str> = segments.iter().filter(|segment| is_parameter(segment)).collect();
    for (index, parameter) in parameters.iter().enumerate() {
        if parameters[..index].contains(parameter) {
            return Some("duplicate-parameter");
        }
    }
    if segments.len() > 32 {
        return Some("too-many-segments");
    }
    None
}

/// `:[a-z][A-Za-z0-9_]*`
fn is_parameter(segment: &str) -> bool {
    let Some(name) = segment.strip_prefix(':') else { return false };
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// `[A-Za-z0-9._~-]+`
fn is_static(segment: &str) -> bool {
    !segment.is_empty() && segment.chars().all(|c| c.is_ascii_alphanumeric() || "._~-".contains(c))
}

/// 2.2: the path with every parameter segment replaced by `:`.
pub(crate) fn shape(path: &str) -> String {
    let segments: Vec<&str> =
        path.split('/').map(|segment| if segment.starts_with(':') { ":" } else { segment }).collect();
    segments.join("/")
}

/// 2.3: why a claim is refused in a collection of the given family, first match wins.
pub(crate) fn claim_fault(claim: &str, family: &str) -> Option<&'static str> {
    if claim.is_empty() {
        return Some("empty");
    }
    if claim.len() > 256 {
        return Some("too-long");
    }
    let Some((declared, name)) = claim.split_once(':') else { return Some("unknown-family") };
    if !["message", "tool", "activity"].contains(&declared) {
        return Some("unknown-family");
    }
    if declared != family {
        return Some("claim-kind-mismatch");
    }
    let part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphanumeric())
            && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
    };
    if !name.split('.').all(part) {
        return Some("invalid-name");
    }
    None
}
