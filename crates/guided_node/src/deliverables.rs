//! The agent's deliverables: the files in the slot for deliverables, if the manifest declares one.

use std::io::Read as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use canon::digest::Digest;
use flow::engine::Deliverable;
use serde_json::{Value, json};
use workspace::rooted::{Dir, Kind};
use workspace::slot::Slot;
use workspace::{Code, Error};

use super::{Trouble, equip, failure};

/// The maximum number of files that become artifacts of a run.
pub const MAX_DELIVERABLES: usize = 200;
/// The maximum size of one file, in bytes.
pub const MAX_DELIVERABLE_BYTES: u64 = 1 << 20;
/// The maximum size of all files, in bytes.
pub const MAX_DELIVERED_BYTES: u64 = 8 << 20;
/// The maximum nesting depth of folders.
const MAX_DEPTH: usize = 32;
/// The maximum number of directory entries that are examined.
const MAX_NAMES: usize = 10_000;
/// The maximum number of omitted files that are listed.
const MAX_OMITTED: usize = 100;

/// The deliverables by path, and the omitted files with the reasons.
pub(super) fn collect(root: &Path) -> Result<(Vec<Deliverable>, Vec<Value>), Trouble> {
    let found = Dir::open_root(root)
        .map_err(|error| Error::new(Code::ApplyIo, format!("the workspace cannot be opened: {error}")))
        .and_then(|root| read(&root));
    found.map_err(|error| failure::of_workspace(&error))
}

fn read(root: &Dir) -> Result<(Vec<Deliverable>, Vec<Value>), Error> {
    let mut shelf = Shelf::default();
    if equip::takes_deliverables(root)? {
        let failed = |error: std::io::Error| {
            Error::new(Code::ApplyIo, format!("the deliverables cannot be read: {error}"))
        };
        // If the agent removed the folder, there are no deliverables.
        match root.open_dir(Slot::Deliverables.relative()) {
            Ok(slot) => shelf.walk(&slot).map_err(failed)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Ok((shelf.taken, shelf.omitted))
}

#[derive(Default)]
struct Shelf {
    taken: Vec<Deliverable>,
    omitted: Vec<Value>,
    bytes: u64,
    names: usize,
}

impl Shelf {
    /// Walks the slot in the order of paths. Links are not followed: each folder is opened relative to its parent.
    fn walk(&mut self, slot: &Dir) -> std::io::Result<()> {
        let mut open = vec![(slot.clone(), String::new(), 0)];
        while let Some((dir, above, depth)) = open.pop() {
            let mut names = dir.names()?;
            names.sort_by(|left, right| left.0.cmp(&right.0));
            let mut below = Vec::new();
            for (name, _) in names {
                self.names += 1;
                let Some(text) = name.0.to_str() else {
                    self.omit(&format!("{above}{}", name.0.display()), "its name is not UTF-8");
                    continue;
                };
                let path = format!("{above}{text}");
                if self.names > MAX_NAMES {
                    self.omit(&path, &format!("only {MAX_NAMES} names are read"));
                    return Ok(());
                }
                match dir.stat(text)?.map(|stat| stat.kind) {
                    Some(Kind::File) => self.take(&dir, text, path)?,
                    Some(Kind::Dir) if depth < MAX_DEPTH => {
                        below.push((dir.open_dir(text)?, format!("{path}/"), depth + 1));
                    }
                    Some(Kind::Dir) => {
                        self.omit(&path, &format!("folders are nested at most {MAX_DEPTH} levels deep"));
                    }
                    Some(Kind::Link | Kind::Other) => self.omit(&path, "only regular files are passed on"),
                    None => {}
                }
            }
            open.extend(below.into_iter().rev());
        }
        self.taken.sort_by(|left, right| left.path.cmp(&right.path));
        Ok(())
    }

    fn take(&mut self, dir: &Dir, name: &str, path: String) -> std::io::Result<()> {
        if self.taken.len() >= MAX_DELIVERABLES {
            self.omit(&path, &format!("a node passes on at most {MAX_DELIVERABLES} files"));
            return Ok(());
        }
        let mut bytes = Vec::new();
        dir.open_file(name)?.take(MAX_DELIVERABLE_BYTES + 1).read_to_end(&mut bytes)?;
        let size = bytes.len() as u64;
        if size > MAX_DELIVERABLE_BYTES {
            self.omit(&path, &format!("a file is at most {MAX_DELIVERABLE_BYTES} bytes"));
            return Ok(());
        }
        if self.bytes + size > MAX_DELIVERED_BYTES {
            self.omit(&path, &format!("all files together are at most {MAX_DELIVERED_BYTES} bytes"));
            return Ok(());
        }
        self.bytes += size;
        let sha256 = Digest::of_bytes(&bytes).to_string();
        let mut data = json!({"path": path, "bytes": size, "sha256": sha256});
        match String::from_utf8(bytes) {
            Ok(text) => data["text"] = text.into(),
            Err(error) => data["base64"] = STANDARD.encode(error.as_bytes()).into(),
        }
        self.taken.push(Deliverable { path, bytes: size, sha256, data });
        Ok(())
    }

    fn omit(&mut self, path: &str, reason: &str) {
        if self.omitted.len() < MAX_OMITTED {
            let path = canon::budget::truncate(path, 1024);
            self.omitted.push(json!({"path": path, "reason": reason}));
        }
    }
}

/// Decodes content that was stored as base64.
pub(super) fn decode(text: &str) -> Result<Vec<u8>, base64::DecodeError> {
    STANDARD.decode(text)
}
