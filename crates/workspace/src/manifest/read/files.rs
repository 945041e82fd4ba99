//! `spec.seedFiles`, `spec.persistence` and `spec.workingFiles`.

use super::reader::{Credentials, Reader};
use crate::manifest::model::{Expression, SeedFile, SeedSource, WorkingFile};
use crate::manifest::node::{Node, Tree};
use crate::manifest::problem::{At, quoted};
use crate::slot::{Slot, WORKSPACE};

const MAX_PATH: usize = 1024;
const MAX_NAME: usize = 128;

pub(super) fn seeds(reader: &mut Reader<'_>, node: &Node, at: &At<'_>) -> Vec<SeedFile> {
    let mut seeds = Vec::new();
    for (at, item) in reader.items(node, at) {
        seeds.extend(seed(reader, item, &at));
    }
    seeds
}

fn seed(reader: &mut Reader<'_>, node: &Node, at: &At<'_>) -> Option<SeedFile> {
    let fields = reader.fields(node, at, &["path", "slot", "template", "content", "vars"])?;
    let path = reader.required(&fields, at, "path").and_then(|node| {
        let at = at.member("path");
        let key = reader.bounded_text(node, &at, MAX_PATH)?;
        let path = reader.expression(node, &at, Credentials::Refused)?;
        if let Expression::Plain(_) = path {
            reader.relative_path(node, &at, key);
        }
        Some((key.to_owned(), path))
    });
    let slot = reader.required_text(&fields, at, "slot").and_then(|(text, node)| {
        let slot = seedable().find(|slot| slot.key() == text);
        if slot.is_none() {
            let known: Vec<&str> = seedable().map(Slot::key).collect();
            let message = format_args!("{} is invalid; use one of: {}", quoted(text), known.join(", "));
            reader.problem(node, &at.member("slot"), message);
        }
        slot
    });
    let source = match (fields.get("content"), fields.get("template")) {
        (Some(content), None) => {
            if let Some(vars) = fields.get("vars") {
                reader.problem(
                    vars,
                    &at.member("vars"),
                    "`vars` are only for templates; use `${input.NAME}` in `content`",
                );
            }
            let at = at.member("content");
            reader.text(content, &at)?;
            reader.expression(content, &at, Credentials::Refused).map(SeedSource::Content)
        }
        (None, Some(template)) => {
            let name = reader.text(template, &at.member("template"))?;
            if !is_template_name(name) {
                let message = format_args!(
                    "{} is not a valid template name: use letters, digits, `.`, `_` and `-`, at most {MAX_NAME}, starting with a letter or digit",
                    quoted(name)
                );
                reader.problem(template, &at.member("template"), message);
            }
            let vars = match fields.get("vars") {
                Some(vars) => {
                    let at = at.member("vars");
                    reader.open_fields(vars, &at)?;
                    reader.expression(vars, &at, Credentials::Refused)?
                }
                None => Expression::Plain(serde_json::json!({})),
            };
            Some(SeedSource::Template { name: name.to_owned(), vars })
        }
        (Some(_), Some(_)) => {
            reader.problem(node, at, "a seed file must have `template` or `content`, not both");
            None
        }
        (None, None) => {
            reader.problem(node, at, "a seed file requires `template` or `content`");
            None
        }
    };
    let place = reader.problems.place(at, node.position);
    let (key, path) = path?;
    Some(SeedFile { key, path, slot: slot?, source: source?, place })
}

/// The slots for seed files: those a manifest declares, and the scratch space.
fn seedable() -> impl Iterator<Item = Slot> {
    Slot::ALL.into_iter().filter(|slot| slot.is_declarable() || *slot == Slot::Tmp)
}

/// Whether it is a template name: `[A-Za-z0-9][A-Za-z0-9._-]{0,127}`.
fn is_template_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    text.len() <= MAX_NAME
        && bytes.next().is_some_and(|byte| byte.is_ascii_alphanumeric())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

pub(super) fn persistence(reader: &mut Reader<'_>, node: &Node, at: &At<'_>) -> Vec<String> {
    let Some(fields) = reader.fields(node, at, &["paths"]) else { return Vec::new() };
    let Some(node) = fields.get("paths") else { return Vec::new() };
    let at = at.member("paths");
    let mut paths = Vec::new();
    for (at, item) in reader.items(node, &at) {
        if let Some(path) = reader.literal(item, &at, MAX_PATH) {
            reader.relative_path(item, &at, path);
            paths.push(path.to_owned());
        }
    }
    paths
}

pub(super) fn working_files(reader: &mut Reader<'_>, node: &Node, at: &At<'_>) -> Vec<WorkingFile> {
    let mut files: Vec<WorkingFile> = Vec::new();
    for (at, item) in reader.items(node, at) {
        let Some(file) = working_file(reader, item, &at) else { continue };
        if files.iter().any(|other| other.slug == file.slug) {
            let message = format_args!("{} is already the slug of another working file", quoted(&file.slug));
            reader.problem(item, &at.member("slug"), message);
        }
        files.push(file);
    }
    files
}

fn working_file(reader: &mut Reader<'_>, node: &Node, at: &At<'_>) -> Option<WorkingFile> {
    let fields = reader.fields(node, at, &["slug", "path", "format", "syncDirection", "source"])?;
    let slug = reader.name(&fields, at, "slug", MAX_NAME);
    let path = reader.name(&fields, at, "path", MAX_PATH);
    if let (Some(path), Some(node)) = (path, fields.get("path")) {
        reader.relative_path(node, &at.member("path"), below_workspace(path));
    }
    let format = reader.required_choice(&fields, at, "format");
    let sync_direction = reader.required_choice(&fields, at, "syncDirection");
    let source = reader.required(&fields, at, "source").and_then(|node| {
        let at = at.member("source");
        let fields = reader.fields(node, &at, &["kind", "ref"])?;
        let kind = reader.name(&fields, &at, "kind", MAX_NAME);
        let reference = match fields.get("ref") {
            Some(node) if matches!(node.tree, Tree::Object(_)) => {
                reader.expression(node, &at.member("ref"), Credentials::Refused)
            }
            Some(node) => {
                reader.open_fields(node, &at.member("ref"));
                None
            }
            None => Some(Expression::Plain(serde_json::json!({}))),
        };
        Some((kind?.to_owned(), reference?))
    });
    let place = reader.problems.place(&at.member("path"), node.position);
    let (source_kind, source_ref) = source?;
    Some(WorkingFile {
        slug: slug?.to_owned(),
        path: path?.to_owned(),
        format: format?,
        sync_direction: sync_direction?,
        source_kind,
        source_ref,
        place,
    })
}

/// The path of a working file may be written as the agent sees it.
pub(in crate::manifest) fn below_workspace(path: &str) -> &str {
    path.strip_prefix(WORKSPACE).and_then(|rest| rest.strip_prefix('/')).unwrap_or(path)
}
