//! `interlock backup`.
//!
//! ```text
//!   .DIR.partial-<pid>/  ◄── the runs, as they are at one moment
//!                        ◄── of each tenant the sessions, and then what they refer to, while collections are kept out
//!                        ◄── the rest: keys, settings, pages, workspaces
//!   every session of the copy is read; everything is synced; one rename makes it DIR
//! ```
//!
//! The order makes the copy consistent without stopping the server. A run refers to a session only
//! after the session exists, so runs are copied first. A session refers to segments, snapshots,
//! workflows and artifacts only after they are durable, so manifests are copied before them. None
//! of these files ever changes, and garbage collection is blocked meanwhile.

mod tree;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use canon::error::Envelope;
use serde_json::json;
use storage::disk::RealDisk;
use storage::files::SessionFiles;

use self::tree::{Copied, Tree};
use crate::arguments::{Backup, Globals};
use crate::commands::serve::open_store;
use crate::failure::{CommandErrorCode, ExitStatus, Failure};
use crate::output::{self, Layout};
use crate::progress::Waiting;
use crate::settings::Settings;

/// How often a session is copied again because it changed during the copy.
const ATTEMPTS: usize = 4;
const ANCHORS: &str = "keys/audit-checkpoints.json";
/// The database, copied by SQLite.
const RUNS: &str = "runs.sqlite3";

/// Copies the data directory. The target appears only when it is complete.
pub(crate) fn run(arguments: &Backup, globals: &Globals) -> Result<ExitStatus, Failure> {
    let settings = Settings::load(globals)?;
    let from = &settings.data_dir.value;
    let to = std::path::absolute(&arguments.dir).map_err(unwritable(&arguments.dir))?;
    refuse_nonsense(from, &to)?;
    let partial = partial_of(&to);
    let waiting = Waiting::on("copying the data directory");
    let done = copy(&settings, &partial).and_then(|report| {
        std::fs::rename(&partial, &to).map_err(unwritable(&to))?;
        sync_parent(&to).map_err(unwritable(&to))?;
        Ok(report)
    });
    drop(waiting);
    let report = done.inspect_err(|_| {
        // Best effort: a leftover folder has a name that shows what it is.
        let _ = std::fs::remove_dir_all(&partial);
    })?;
    let Report { copied, sessions, damaged } = &report;
    if arguments.answering.json {
        let printed = json!({
            "dir": to.display().to_string(), "files": copied.files, "bytes": copied.bytes,
            "sessions": sessions, "damagedSessions": damaged, "skipped": copied.skipped,
            "runsCopied": settings.database_url.value.is_none(),
        });
        output::json(&printed, Layout::Compact)?;
    } else {
        let mut words =
            format!("{} ({} files, {} bytes, {sessions} sessions)", to.display(), copied.files, copied.bytes);
        if settings.database_url.value.is_some() {
            words +=
                "\n  Runs are in PostgreSQL and were not copied; back up that database with its own tools.";
        }
        for id in damaged {
            words += &format!(
                "\n  {id} is damaged in the original too; run `interlock session verify` for details"
            );
        }
        for name in &copied.skipped {
            words += &format!("\n  {} was skipped: not a file or folder", output::clean(name));
        }
        output::text(&words)?;
    }
    Ok(ExitStatus::Success)
}

struct Report {
    copied: Copied,
    /// The number of copied sessions of all tenants.
    sessions: usize,
    /// Sessions that are damaged in the original.
    damaged: Vec<String>,
}

/// A copy never overwrites anything and is never inside the data directory.
fn refuse_nonsense(from: &Path, to: &Path) -> Result<(), Failure> {
    let taken = match std::fs::read_dir(to) {
        Ok(mut names) => names.next().is_some(),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    };
    if taken {
        let message = format!("{} already exists", to.display());
        return Err(Envelope::new(CommandErrorCode::OutputExists, message)
            .suggest("Use another folder. A backup never overwrites existing files.")
            .into());
    }
    let inside = |path: &Path| {
        let known = path.ancestors().find_map(|above| above.canonicalize().ok());
        known.is_some_and(|known| from.canonicalize().is_ok_and(|from| known.starts_with(from)))
    };
    if inside(to) {
        let message = format!("{} is inside the data directory", to.display());
        return Err(Envelope::new(CommandErrorCode::OutputExists, message)
            .suggest("Use a folder outside it, preferably on another disk.")
            .into());
    }
    Ok(())
}

/// Next to the target, so that a single rename completes the copy.
fn partial_of(to: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(to.file_name().unwrap_or_default());
    name.push(format!(".partial-{}", std::process::id()));
    to.with_file_name(name)
}

fn copy(settings: &Settings, partial: &Path) -> Result<Report, Failure> {
    let from = &settings.data_dir.value;
    if let Some(parent) = partial.parent() {
        std::fs::create_dir_all(parent).map_err(unwritable(parent))?;
    }
    let began = SystemTime::now();
    let mut tree = Tree::new(from, partial, began).map_err(unwritable(partial))?;
    // Copied before the database, so that the copy contains the checkpoint that the database names,
    // even if more is signed meanwhile.
    tree.file_first(Path::new(ANCHORS)).map_err(unwritable(partial))?;
    // A directory with only guided sessions has no run database, and gets none.
    if !matches!(from.join(RUNS).try_exists(), Ok(false)) {
        let target = partial.join(RUNS);
        let store = open_store(settings)?;
        store.back_up(&target, &|_, _| ()).map_err(|error| unwritable(&target)(io::Error::other(error)))?;
        tree.count(&target).map_err(unwritable(&target))?;
    }
    let mut report = Report { copied: Copied::default(), sessions: 0, damaged: Vec::new() };
    let mut roots = vec![PathBuf::new()];
    let tenants = tree.folders(Path::new("tenants")).map_err(unreadable(&from.join("tenants")))?;
    roots.extend(tenants.into_iter().map(|name| Path::new("tenants").join(name)));
    for root in &roots {
        copy_tenant(from, partial, root, &mut tree, &mut report)?;
    }
    report.copied = tree.finish().map_err(unwritable(partial))?;
    Ok(report)
}

/// One tenant: sessions first, then the data they refer to, then the rest.
fn copy_tenant(
    from: &Path,
    partial: &Path,
    root: &Path,
    tree: &mut Tree,
    report: &mut Report,
) -> Result<(), Failure> {
    let place = from.join(root);
    let files = open_files(&place)?;
    let _held = files.hold()?;
    let sessions = files.sessions()?;
    for session in &sessions {
        tree.session(&root.join("sessions").join(session.as_str())).map_err(unreadable(&place))?;
    }
    tree.rest(root).map_err(unreadable(&place))?;
    // Opened only now, because opening would create missing files.
    let copies = open_files(&partial.join(root))?;
    report.sessions += sessions.len();
    for session in &sessions {
        let mut attempts = 1;
        while !copies.health(session).is_ok_and(|health| health.is_healthy()) {
            if attempts == ATTEMPTS || !files.health(session)?.is_healthy() {
                report.damaged.push(session.to_string());
                break;
            }
            // An interrupted append was repaired between two reads.
            attempts += 1;
            tree.session(&root.join("sessions").join(session.as_str())).map_err(unreadable(&place))?;
            tree.rest(root).map_err(unreadable(&place))?;
        }
    }
    Ok(())
}

fn open_files(place: &Path) -> Result<SessionFiles, Failure> {
    Ok(SessionFiles::open(Arc::new(RealDisk::open(place).map_err(unreadable(place))?))?)
}

fn sync_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |parent| std::fs::File::open(parent)?.sync_all())
}

fn unwritable(path: &Path) -> impl Fn(io::Error) -> Failure + use<> {
    let name = path.display().to_string();
    move |cause| Failure::Unwritable { name: name.clone(), cause }
}

fn unreadable(path: &Path) -> impl Fn(io::Error) -> Failure + use<> {
    let name = path.display().to_string();
    move |cause| Failure::Unreadable { name: name.clone(), cause }
}
