//! Artifacts: a folder for each version, with one file in it.

use serde_json::{Map, Number, Value};

use super::limits::PAYLOAD;
use super::{key, shelf};
use crate::Error;
use crate::resolve::Content;
use crate::rooted::{Dir, Kind};

/// The file that members are taken from.
const PAYLOAD_FILE: &str = "payload.json";

/// One version of an artifact: a member of its payload, or the bytes of its only file.
pub(super) fn version(
    root: &Dir,
    id: &str,
    version: &Number,
    field: Option<&Value>,
) -> Result<Content, Error> {
    let folder = key::path("artifact", id, || format!("artifacts/{id}/{version}"))?;
    if version.as_u64().is_none_or(|version| version == 0) {
        return Err(key::impossible("artifact version", &format!("{id}/{version}")));
    }
    let payload = format!("{folder}/{PAYLOAD_FILE}");
    let path = if shelf::kind(root, &payload)?.is_some() { payload } else { only_file(root, &folder)? };
    // Where a plan says `null`, no member was asked for.
    let Some(field) = field.filter(|field| !field.is_null()) else {
        return Ok(Content::File(shelf::file(root, &path)?));
    };
    let Some(field) = field.as_str() else {
        return Err(shelf::bad(&path, "was asked for a member whose name is no text"));
    };
    if !path.ends_with(&format!("/{PAYLOAD_FILE}")) {
        let problem =
            format!("is no {PAYLOAD_FILE}, and only that has members to take `{}` from", key::shown(field));
        return Err(shelf::bad(&path, &problem));
    }
    let bytes = PAYLOAD.read(&mut shelf::file(root, &path)?, &path)?;
    member(&bytes, field).map(Content::Bytes).map_err(|problem| shelf::bad(&path, &problem))
}

/// Text as it is, everything else as compact JSON.
fn member(payload: &[u8], field: &str) -> Result<Vec<u8>, String> {
    let members: Map<String, Value> =
        serde_json::from_slice(payload).map_err(|error| format!("is no JSON object: {error}"))?;
    match members.get(field) {
        Some(Value::String(text)) => Ok(text.clone().into_bytes()),
        Some(other) => Ok(other.to_string().into_bytes()),
        None => Err(format!("has no member `{}`", key::shown(field))),
    }
}

/// The path of the one file in a folder. Hidden files are those of editors and systems.
fn only_file(root: &Dir, folder: &str) -> Result<String, Error> {
    let names = shelf::folder(root, folder)?.names().map_err(|error| shelf::refusal(&error, folder))?;
    let mut names = names.into_iter().filter(|(name, _)| !name.0.as_encoded_bytes().starts_with(b"."));
    let (Some((name, kind)), None) = (names.next(), names.next()) else {
        let problem = format!("has to hold a {PAYLOAD_FILE}, or one file and nothing else");
        return Err(shelf::bad(folder, &problem));
    };
    let Some(name) = name.0.to_str().filter(|name| key::is_name(name) && kind != Some(Kind::Dir)) else {
        return Err(shelf::bad(folder, "has to hold one file with a plain name"));
    };
    Ok(format!("{folder}/{name}"))
}
