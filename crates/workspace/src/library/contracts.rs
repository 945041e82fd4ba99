//! Deliverable specifications and earlier deliverables: a folder each.

use super::limits::{BUNDLE_BYTES, BUNDLE_FILES, Count, DEFINITION, FILES, Limit};
use super::walk::{EntryKind, FolderWalk, WalkEntry};
use super::{files, key, put, versions};
use crate::resolve::{Content, Sink};
use crate::rooted::Dir;
use crate::{Code, Error};

const SPECS: &str = "deliverable-specs";
const DELIVERABLES: &str = "deliverables";

/// The shown facts of a specification.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) title: Option<String>,
    pub(super) description: Option<String>,
}

/// All files of a specification.
pub(super) fn spec(root: &Dir, contract: &str, sink: &mut dyn Sink) -> Result<(), Error> {
    let path = newest(root, SPECS, "deliverable specification", contract)?;
    read_facts(root, &path)?;
    tree(root, &path, Some(BUNDLE_FILES), Some(BUNDLE_BYTES), sink)
}

/// All files of the latest set of deliverables.
pub(super) fn deliverables(root: &Dir, contract: &str, sink: &mut dyn Sink) -> Result<(), Error> {
    let path = newest(root, DELIVERABLES, "set of deliverables", contract)?;
    tree(root, &path, None, None, sink)
}

/// The facts of a specification; `None` if it does not exist.
pub(super) fn facts(root: &Dir, contract: &str) -> Result<Option<Facts>, Error> {
    match newest(root, SPECS, "deliverable specification", contract) {
        Ok(path) => read_facts(root, &path).map(Some),
        Err(error) if error.code() == Code::ResolveNotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn read_facts(root: &Dir, folder: &str) -> Result<Facts, Error> {
    let path = format!("{folder}/spec.json");
    let Some(text) = files::text_if_any(root, &path, DEFINITION)? else {
        return Err(files::bad(folder, "does not contain spec.json"));
    };
    let spec: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&text)
        .map_err(|error| files::bad(&path, &format!("is not a JSON object: {error}")))?;
    let text_of = |name: &str| {
        let text = spec.get(name).and_then(serde_json::Value::as_str).map(str::trim);
        text.filter(|text| !text.is_empty()).map(str::to_owned)
    };
    Ok(Facts { title: text_of("title"), description: text_of("description") })
}

/// The folder of a contract: `<key>` itself, otherwise the `<key>@<version>` with the highest
/// version. A key with a version names its folder.
fn newest(root: &Dir, shelf_name: &str, what: &str, contract: &str) -> Result<String, Error> {
    let path = key::path(what, contract, || format!("{shelf_name}/{contract}"))?;
    let (candidates, _) = versions::candidates(root, shelf_name, contract)?;
    let plain = candidates.iter().find(|candidate| candidate.version.is_none());
    match plain.or(candidates.last()) {
        Some(found) => Ok(found.path.clone()),
        None => Err(files::missing(root, &path)),
    }
}

fn tree(
    root: &Dir,
    path: &str,
    max_files: Option<Limit>,
    max_bytes: Option<Limit>,
    sink: &mut dyn Sink,
) -> Result<(), Error> {
    let folder = files::folder(root, path)?;
    let mut files = Count::of(max_files.unwrap_or(FILES));
    let mut bytes = max_bytes.map(Count::of);
    let walk = FolderWalk { label: path, code: Code::ResolveBadResponse, links: false, skip: &|_| false };
    walk.run(&folder, &mut |WalkEntry { path, what }| match what {
        EntryKind::File { file, size, executable } => {
            files.add(1)?;
            if let Some(bytes) = &mut bytes {
                bytes.add(size)?;
            }
            Ok(put(sink, path, executable, Content::File(file))?)
        }
        EntryKind::EmptyFolder => Ok(put(sink, path, false, Content::Directory)?),
        // Links are rejected by the walk.
        EntryKind::Link(_) => Ok(()),
    })
}
