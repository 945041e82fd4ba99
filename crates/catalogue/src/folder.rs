//! The workflow files of one folder.
//!
//! A folder is scanned on every call, because an author who saves a file expects the next call to see it. Expensive work
//! is only repeated after changes. A file is read if its name, time, length or identity changed, or if it was modified
//! too recently to tell. It is parsed if its bytes changed.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use canon::digest::Digest;
use guide::record::WorkflowHash;
use guide::workflow::compile::Bindings;
use guide::workflow::ids::{self, SourceOrigin};
use guide::workflow::problem::{Problem, ProblemCode};
use guide::workflow::source::{self, Format, MAX_SOURCE_BYTES, Source, is_script_name};
use serde_json::Value;

use super::{compiled, read};

/// The maximum number of workflow files that are read per folder.
pub(super) const MAX_FILES: usize = 1000;
/// The maximum size of all workflow files that are read per folder, in bytes.
pub(super) const MAX_BYTES: u64 = 32 << 20;
/// The maximum number of directory entries that are examined per folder.
const MAX_NAMES: usize = 20_000;
/// The maximum number of cached folders.
const MAX_FOLDERS: usize = 64;
/// The file for bindings in a project's folder. It is not a workflow.
pub(super) const BINDINGS_FILE: &str = "bindings.json";

/// File systems store times with a limited resolution. A file that is read this soon after it was written may change
/// again without a new modification time, so its stamp cannot be trusted yet.
const SETTLED: Duration = Duration::from_secs(3);

/// The workflow files of a folder.
#[derive(Debug, Default)]
pub(super) struct Folder {
    /// The files, sorted by name.
    pub(super) files: Vec<Arc<File>>,
    /// Messages about files that were left out.
    pub(super) notes: Vec<String>,
}

/// A file that may be a workflow.
#[derive(Debug)]
pub(super) struct File {
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) content: Content,
    /// The digest of its bytes, if it could be read.
    pub(super) digest: Option<Digest>,
}

#[derive(Debug)]
pub(super) enum Content {
    /// A valid workflow source.
    Workflow(Box<Parsed>),
    /// An invalid workflow source.
    Broken { workflow_id: Option<String>, problems: Vec<Problem> },
    /// A file of another kind, which the catalogue ignores.
    Elsewhere,
}

#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) source: Source,
    /// The digest of the file.
    pub(super) digest: Digest,
    /// Suggested ids: the preferred one, and a fallback if that is taken.
    pub(super) suggestions: [String; 2],
    checked: OnceLock<Result<WorkflowHash, Arc<Vec<Problem>>>>,
}

impl Parsed {
    /// Compiles without bindings. Returns the hash, or the problems.
    pub(super) fn check(&self) -> Result<WorkflowHash, Arc<Vec<Problem>>> {
        self.checked
            .get_or_init(|| {
                compiled::compile(self.digest, &self.source, &Bindings::default())
                    .map(|compiled| compiled.workflow.hash())
            })
            .clone()
    }
}

impl File {
    /// The id in the file.
    pub(super) fn workflow_id(&self) -> Option<&str> {
        match &self.content {
            Content::Workflow(parsed) => Some(&parsed.source.id),
            Content::Broken { workflow_id, .. } => workflow_id.as_deref(),
            Content::Elsewhere => None,
        }
    }
}

/// A cache of folders.
#[derive(Debug, Default)]
pub(super) struct Folders(Mutex<HashMap<(PathBuf, SourceOrigin), HashMap<String, Remembered>>>);

#[derive(Debug, Clone)]
struct Remembered {
    stamp: Stamp,
    /// Whether a further change would change the stamp.
    settled: bool,
    file: Arc<File>,
}

/// File metadata that changes with the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    modified: (i64, i64),
    changed: (i64, i64),
    length: u64,
    identity: (u64, u64),
}

impl Stamp {
    fn of(metadata: &fs::Metadata) -> Self {
        Self {
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            length: metadata.len(),
            identity: (metadata.dev(), metadata.ino()),
        }
    }

    /// Whether the last change was clearly before `now`. A time in the future never counts.
    fn settled(&self, now: SystemTime) -> bool {
        let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let last = self.modified.max(self.changed).0;
        u64::try_from(last).is_ok_and(|last| Duration::from_secs(last) + SETTLED < now)
    }
}

impl Folders {
    /// Reads the current content of a folder.
    ///
    /// # Errors
    /// The folder cannot be listed.
    pub(super) fn read(&self, folder: &Path, origin: SourceOrigin) -> io::Result<Folder> {
        let (names, mut notes) = names(folder)?;
        let key = (folder.to_path_buf(), origin);
        let mut remembered =
            self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&key).unwrap_or_default();
        let mut current = HashMap::with_capacity(names.len());
        let mut files = Vec::with_capacity(names.len());
        let mut bytes = 0;
        for (index, name) in names.iter().enumerate() {
            let path = folder.join(name);
            let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
            bytes += metadata.len().min(MAX_SOURCE_BYTES as u64);
            if bytes > MAX_BYTES {
                let left = names.len() - index;
                notes.push(format!(
                    "{}: the first {index} files are {MAX_BYTES} bytes, which is the limit of a folder; \
                     {left} files were ignored. Move some to another folder.",
                    folder.display()
                ));
                break;
            }
            let stamp = Stamp::of(&metadata);
            let known = match remembered.remove(name) {
                Some(known) if known.settled && known.stamp == stamp => known,
                earlier => Remembered {
                    stamp,
                    settled: stamp.settled(SystemTime::now()),
                    file: read_file(name, path, &metadata, origin, earlier.map(|known| known.file)),
                },
            };
            files.push(known.file.clone());
            current.insert(name.clone(), known);
        }
        let mut folders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if folders.len() >= MAX_FOLDERS {
            folders.clear();
        }
        folders.insert(key, current);
        Ok(Folder { files, notes })
    }
}

/// The names of possible workflow files, sorted, and messages about skipped names.
fn names(folder: &Path) -> io::Result<(Vec<String>, Vec<String>)> {
    let mut names = Vec::new();
    let mut notes = Vec::new();
    for (index, entry) in fs::read_dir(folder)?.enumerate() {
        if index == MAX_NAMES {
            notes.push(format!(
                "{}: it has more than {MAX_NAMES} files, and the rest was ignored. Keep workflows in a \
                 separate folder.",
                folder.display()
            ));
            break;
        }
        let name = entry?.file_name();
        let Some(name) = name.to_str() else { continue };
        // Editors store drafts and locks under names that begin with a dot.
        let is_other = name == BINDINGS_FILE || is_script_name(name);
        if !name.starts_with('.') && !is_other && Format::of_name(name).is_some() {
            names.push(name.to_owned());
        }
    }
    names.sort_unstable();
    if names.len() > MAX_FILES {
        notes.push(format!(
            "{}: it has {} workflow files; only the first {MAX_FILES} by name are read.",
            folder.display(),
            names.len()
        ));
        names.truncate(MAX_FILES);
    }
    Ok((names, notes))
}

/// Reads a file. `earlier` is the cached file, which is reused if the bytes are the same.
fn read_file(
    name: &str,
    path: PathBuf,
    metadata: &fs::Metadata,
    origin: SourceOrigin,
    earlier: Option<Arc<File>>,
) -> Arc<File> {
    let mut digest = None;
    let content = if metadata.is_dir() {
        Content::Elsewhere
    } else {
        match read::regular(&path, MAX_SOURCE_BYTES as u64) {
            Ok(bytes) => {
                digest = Some(Digest::of_bytes(&bytes));
                if let Some(same) = earlier.filter(|earlier| earlier.digest == digest) {
                    return same;
                }
                content(&bytes, Format::of_name(name).unwrap_or(Format::Json), origin)
            }
            Err(error) => {
                let (code, fix) = match error.kind() {
                    io::ErrorKind::FileTooLarge => (ProblemCode::TooLarge, "Split the workflow."),
                    io::ErrorKind::InvalidInput => {
                        (ProblemCode::Unreadable, "Put a copy of the file here: only regular files are read.")
                    }
                    _ => (ProblemCode::Unreadable, "Make the file readable, or remove it."),
                };
                Content::Broken {
                    workflow_id: None,
                    problems: vec![Problem::new("", code, error.to_string(), fix)],
                }
            }
        }
    };
    let content = match content {
        Content::Broken { workflow_id, problems } => {
            let file = path.display().to_string();
            let problems = problems.into_iter().map(|problem| problem.in_file(&file)).collect();
            Content::Broken { workflow_id, problems }
        }
        other => other,
    };
    Arc::new(File { name: name.to_owned(), path, content, digest })
}

/// Classifies bytes: a workflow, an invalid workflow, or a file of another kind.
fn content(bytes: &[u8], format: Format, origin: SourceOrigin) -> Content {
    let value = match source::read_value(bytes, format) {
        Ok(value) => value,
        Err(problem) => return Content::Broken { workflow_id: None, problems: vec![problem] },
    };
    let member = |name: &str| value.as_object().and_then(|members| members.get(name));
    let workflow_id =
        member("id").and_then(Value::as_str).filter(|id| id.chars().count() <= 64).map(str::to_owned);
    if member("steps").is_none() {
        if member("nodes").is_some() {
            return Content::Elsewhere;
        }
        let problem = Problem::new(
            "",
            ProblemCode::MissingMember,
            "it has no `steps`, so it is not a workflow",
            "Give it steps, or keep the file in another folder.",
        );
        return Content::Broken { workflow_id, problems: vec![problem] };
    }
    match source::parse_from(bytes, format, origin) {
        Ok(source) => Content::Workflow(Box::new(Parsed {
            suggestions: [false, true].map(|taken| ids::suggest(&source.id, origin, bytes, |_| taken)),
            source,
            digest: Digest::of_bytes(bytes),
            checked: OnceLock::new(),
        })),
        Err(problems) => Content::Broken { workflow_id, problems },
    }
}
