//! The operator's files: modules and policy.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use canon::json::{self, Limits};
use serde_json::Value;

use super::Finding;

pub(super) const MAX_MODULES: usize = 64;
pub(super) const MAX_BYTES: u64 = 1 << 20;

/// Identifies a state of the files, to detect changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stamp(Vec<(PathBuf, FileStamp)>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct FileStamp {
    size: u64,
    inode: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// Reads the metadata of the files, not their contents.
    pub(super) fn take(directory: &Path) -> Self {
        let mut paths = vec![directory.join("policy.json")];
        let entries = fs::read_dir(directory.join("modules")).into_iter().flatten().flatten();
        paths.extend(
            entries
                .map(|entry| entry.path())
                .filter(|path| path.extension().is_some_and(|found| found == "json")),
        );
        paths.sort();
        let stamps = paths.into_iter().filter_map(|path| {
            let found = fs::metadata(&path).ok()?;
            let stamp = FileStamp {
                size: found.len(),
                inode: found.ino(),
                modified: (found.mtime(), found.mtime_nsec()),
                changed: (found.ctime(), found.ctime_nsec()),
            };
            Some((path, stamp))
        });
        Self(stamps.collect())
    }
}

/// The contents of the files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    /// The modules by file name.
    pub(super) modules: Vec<ModuleFile>,
    pub(super) policy: Option<Value>,
    /// Whether a policy file exists but cannot be read.
    pub(super) policy_unreadable: bool,
    /// Problems with the files themselves.
    pub(super) findings: Vec<Finding>,
}

#[derive(Clone, Debug)]
pub(super) struct ModuleFile {
    /// The file name without its extension.
    pub(super) name: String,
    /// The content, or why it could not be read.
    pub(super) content: Result<Value, String>,
}

impl Sources {
    pub(super) fn read(directory: &Path, stamp: &Stamp) -> Self {
        let mut sources = Self::default();
        let policy = directory.join("policy.json");
        for (path, stamp) in &stamp.0 {
            let content = read(path, stamp.size);
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if let Err(reason) = &content {
                sources.findings.push(Finding::unreadable(&name, reason));
            }
            if *path == policy {
                match content {
                    Ok(value) => sources.policy = Some(value),
                    Err(_) => sources.policy_unreadable = true,
                }
            } else if sources.modules.len() < MAX_MODULES {
                let name = name.trim_end_matches(".json").to_owned();
                sources.modules.push(ModuleFile { name, content });
            } else {
                let reason = format!("too many modules; only the first {MAX_MODULES} are loaded");
                sources.findings.push(Finding::unreadable(&name, &reason));
            }
        }
        sources
    }

    #[cfg(test)]
    pub(super) fn of(modules: &[(&str, Value)], policy: Option<Value>) -> Self {
        let modules = modules
            .iter()
            .map(|(name, value)| ModuleFile { name: (*name).to_owned(), content: Ok(value.clone()) });
        Self { modules: modules.collect(), policy, ..Self::default() }
    }
}

fn read(path: &Path, size: u64) -> Result<Value, String> {
    if size > MAX_BYTES {
        return Err(format!("the file is {size} bytes; the limit is {MAX_BYTES} bytes"));
    }
    let bytes = fs::read(path).map_err(|cause| cause.to_string())?;
    json::read(&bytes, &Limits::default()).map_err(|error| error.to_string())
}
