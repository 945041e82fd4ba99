//! The briefcase of a dispatch: immutable, one per run.

use serde_json::Value;

use super::problems::Problems;
use super::{context, reference};
use crate::compose::member::Member;
use crate::{Code, Error};

const MAX_UPLOADS: usize = 200;
const MAX_REFERENCES: usize = 500;
const MAX_VARS: usize = 100;

pub(super) fn check(briefcase: &Member<'_, '_>, problems: &mut Problems) {
    if briefcase.non_null().is_none() || problems.take(briefcase.object()).is_none() {
        return;
    }
    let uploads = briefcase.get("uploads");
    if let Some(uploads) = problems.list(&uploads, "uploads of a briefcase", MAX_UPLOADS) {
        for upload in uploads.items() {
            check_upload(&upload, problems);
        }
    }
    let references = briefcase.get("references");
    if let Some(references) = problems.list(&references, "references of a briefcase", MAX_REFERENCES) {
        for item in references.items() {
            check_reference(&item, problems);
        }
    }
    let vars = briefcase.get("vars");
    let count = match vars.non_null() {
        None => 0,
        Some(Value::Object(members)) => members.len(),
        Some(_) => {
            problems.add(vars.refusal("an object"));
            0
        }
    };
    if count > MAX_VARS {
        let message = format!("too many variables in the briefcase: {count}; the limit is {MAX_VARS}");
        problems.add(Error::new(Code::DispatchInvalid, message).detail("pointer", vars.pointer()));
    }
    problems.take(briefcase.get("mcpTools").list().map(drop));
}

fn check_upload(upload: &Member<'_, '_>, problems: &mut Problems) {
    if problems.take(upload.object()).is_none() {
        return;
    }
    let name = upload.get("filename");
    if let Some(text) = problems.take(name.text())
        && !context::is_file_name(text)
    {
        problems.add(context::bad_file_name(&name));
    }
    problems.take(upload.get("contentType").text_if_any());
    let artifact = upload.get("artifact");
    if problems.take(artifact.object()).is_some() {
        problems.id(&artifact.get("artifactId"));
        problems.integer(&artifact.get("version"), context::VERSIONS);
    }
}

fn check_reference(item: &Member<'_, '_>, problems: &mut Problems) {
    if problems.take(item.object()).is_none() {
        return;
    }
    let (kind, text) = (item.get("kind"), item.get("ref"));
    if let (Some(kind), Some(text)) = (problems.take(kind.text()), problems.take(text.text())) {
        problems.take(reference::check(kind, text, &item.pointer()));
    }
    problems.take(item.get("title").text_if_any());
}
