//! The context of a dispatch. It is hashed, mounted and shown to an agent, so the parts that
//! composing reads must be valid.

use std::io;
use std::ops::RangeInclusive;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use canon::json::{self, Limits};
use serde_json::Value;

use super::problems::{Problems, coded};
use crate::compose::member::Member;
use crate::compose::{PROTO, is_file_name as is_trimmed_file_name, trim};
use crate::{Code, Error};

/// The largest context, as compact JSON. Large documents belong in artifacts.
const MAX_BYTES: u64 = 1 << 20;
const MAX_DEPTH: usize = 32;
/// The valid versions of an artifact.
pub(super) const VERSIONS: RangeInclusive<u64> = 1..=1 << 53;

pub(super) fn check(context: &Member<'_, '_>, problems: &mut Problems) {
    let mut found = Vec::new();
    if let Err(problem) = context.object() {
        found.push(problem);
    } else if let Some(value) = context.raw() {
        check_bounds(context, value, &mut found);
        check_reserved(context, &mut found);
    }
    for problem in found {
        problems.add(coded(Code::DispatchBadContext, &problem));
    }
}

fn check_bounds(context: &Member<'_, '_>, value: &Value, found: &mut Vec<Error>) {
    let mut size = Size(0);
    if serde_json::to_writer(&mut size, value).is_err() || size.0 > MAX_BYTES {
        found.push(context.refusal(&format!("at most {MAX_BYTES} bytes of JSON")));
    }
    if !json::within_depth(value, MAX_DEPTH) {
        found.push(context.refusal(&format!("nested at most {MAX_DEPTH} levels deep")));
    }
    if let Some(pointer) = proto_within(value) {
        let pointer = format!("{}{pointer}", context.pointer());
        let message = format!("`{pointer}` is not allowed as a name, because some programs drop it");
        found.push(Error::new(Code::DispatchBadContext, message).detail("pointer", pointer));
    }
}

/// Counts written bytes and stops at the limit.
struct Size(u64);

impl io::Write for Size {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        if self.0 > MAX_BYTES { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes.len()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The pointer to the first `__proto__` within. Recurses as deep as the value, which the dispatch
/// limits.
fn proto_within(value: &Value) -> Option<String> {
    match value {
        Value::Object(members) => members.iter().find_map(|(key, member)| {
            if key == PROTO {
                return Some(format!("/{PROTO}"));
            }
            Some(format!("/{}{}", key.replace('~', "~0").replace('/', "~1"), proto_within(member)?))
        }),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .find_map(|(index, item)| Some(format!("/{index}{}", proto_within(item)?))),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// The keys that composing reads. Null counts as absent.
fn check_reserved(context: &Member<'_, '_>, found: &mut Vec<Error>) {
    let mut note = |result: Result<(), Error>| found.extend(result.err());
    for key in ["delegatedSubAgents", "skills", "instructions", "kbSpaceIds", "externalProjectIds"] {
        note(context.get(key).texts().map(drop));
    }
    for key in ["repoRef", "repoRevision", "deliverableSpecRef", "sessionId"] {
        note(context.get(key).text_if_any().map(drop));
    }
    note(check_inputs_json(&context.get("inputsJsonBase64")));
    let refs = context.get("deliverablesRef");
    note(match refs.non_null() {
        None | Some(Value::String(_)) => Ok(()),
        Some(Value::Array(_)) => refs.texts().map(drop),
        Some(_) => Err(refs.refusal("a string or a list of strings")),
    });
    let page_mounts = context.get("kbPageMounts");
    note(page_mounts.list().map(drop));
    for page_mount in page_mounts.items() {
        note(page_mount.object().map(drop));
        note(page_mount.get("spaceId").text().map(drop));
        note(page_mount.get("pageSlugs").texts().map(drop));
    }
    let artifacts = context.get("inputArtifacts");
    note(artifacts.list().map(drop));
    for artifact in artifacts.items() {
        check_input_artifact(&artifact, &mut note);
    }
}

fn check_input_artifact(artifact: &Member<'_, '_>, note: &mut impl FnMut(Result<(), Error>)) {
    if let Err(problem) = artifact.object() {
        return note(Err(problem));
    }
    note(artifact.get("artifactId").text().map(drop));
    let version = artifact.get("version");
    note(match version.number().map(serde_json::Number::as_u64) {
        Ok(Some(number)) if VERSIONS.contains(&number) => Ok(()),
        Ok(_) => Err(version.refusal("an integer from 1")),
        Err(problem) => Err(problem),
    });
    let name = artifact.get("fileName");
    note(match name.text() {
        Ok(text) if is_file_name(text) => Ok(()),
        Ok(_) => Err(bad_file_name(&name)),
        Err(problem) => Err(problem),
    });
    for key in ["slot", "payloadField", "contentType"] {
        note(artifact.get(key).text_if_any().map(drop));
    }
}

/// Base64 of JSON, or absent.
fn check_inputs_json(member: &Member<'_, '_>) -> Result<(), Error> {
    let Some(text) = member.text_that_says_something()? else { return Ok(()) };
    let bytes = STANDARD.decode(text).map_err(|_| member.refusal("padded base64"))?;
    json::read(&bytes, &Limits::DEFAULT).map_err(|_| member.refusal("base64 of JSON")).map(drop)
}

/// Whether a trimmed name is a valid file name.
pub(super) fn is_file_name(name: &str) -> bool {
    is_trimmed_file_name(trim(name))
}

pub(super) fn bad_file_name(name: &Member<'_, '_>) -> Error {
    let pointer = name.pointer();
    let message = format!("`{pointer}` must be a file name: not empty, relative, and without `..`");
    Error::new(Code::DispatchInvalid, message).detail("pointer", pointer)
}
