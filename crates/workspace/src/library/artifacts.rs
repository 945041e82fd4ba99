//! Artifacts: a folder for each version, with one file in it.

use serde_json::{Map, Number, Value};

use super::limits::PAYLOAD;
use super::{files, key};
use crate::Error;
use crate::resolve::Content;
use crate::rooted::{Dir, Kind};

/// The file that has members.
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
    let path = if files::kind(root, &payload)?.is_some() { payload } else { only_file(root, &folder)? };
    // `null` in a plan means that no member is requested.
    let Some(field) = field.filter(|field| !field.is_null()) else {
        return Ok(Content::File(files::file(root, &path)?));
    };
    let Some(field) = field.as_str() else {
        return Err(files::bad(&path, "was requested with a member name that is not a string"));
    };
    if !path.ends_with(&format!("/{PAYLOAD_FILE}")) {
        let problem = format!("is not {PAYLOAD_FILE}, so it has no member `{}`", key::shown(field));
        return Err(files::bad(&path, &problem));
    }
    let bytes = PAYLOAD.read(&mut files::file(root, &path)?, &path)?;
    member(&bytes, field).map(Content::Bytes).map_err(|problem| files::bad(&path, &problem))
}

/// Strings unchanged, other values as compact JSON.
fn member(payload: &[u8], field: &str) -> Result<Vec<u8>, String> {
    let members: Map<String, Value> =
        serde_json::from_slice(payload).map_err(|error| format!("is not a JSON object: {error}"))?;
    match members.get(field) {
        Some(Value::String(text)) => Ok(text.clone().into_bytes()),
        Some(other) => Ok(other.to_string().into_bytes()),
        None => Err(format!("has no member `{}`", key::shown(field))),
    }
}

/// The path of the only file in a folder. Hidden files are ignored.
fn only_file(root: &Dir, folder: &str) -> Result<String, Error> {
    let names = files::folder(root, folder)?.names().map_err(|error| files::refusal(&error, folder))?;
    let mut names = names.into_iter().filter(|(name, _)| !name.0.as_encoded_bytes().starts_with(b"."));
    let (Some((name, kind)), None) = (names.next(), names.next()) else {
        let problem = format!("must contain {PAYLOAD_FILE}, or exactly one file");
        return Err(files::bad(folder, &problem));
    };
    let Some(name) = name.0.to_str().filter(|name| key::is_name(name) && kind != Some(Kind::Dir)) else {
        return Err(files::bad(folder, "must contain one file with a valid name"));
    };
    Ok(format!("{folder}/{name}"))
}
