//! `interlock backup`.
//!
//! ```text
//!   .DIR.partial-<pid>/  ◄── the runs, as they are at one moment
//!                        ◄── of each tenant the sessions, and then what they refer to, while collections are kept out
//!                        ◄── the rest: keys, settings, pages, workspaces
//!   every session of the copy is read; everything is synced; one rename makes it DIR
//! ```
//!
//! The order is what makes the copy whole without stopping anybody. A run knows a session only once it is there, so runs come
//! first; a session names segments, snapshots, workflows and artifacts only once they are durable, so manifests come before them.
//! Nothing of that is ever changed, and while collections are kept out nothing of it is deleted.

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
use crate::failure::{Answer, CommandErrorCode, Failure};
use crate::output::{self, Layout};
use crate::progress::Waiting;
use crate::settings::Settings;

/// How often a session is copied again that changed in an unlucky moment.
const ATTEMPTS: usize = 4;
/// The newest checkpoints of the audit logs.
const ANCHORS: &str = "keys/audit-checkpoints.json";
/// The database, which SQLite copies.
const RUNS: &str = "runs.sqlite3";

/// Copies the data directory into a folder that is there only when it is whole.
pub(crate) fn run(arguments: &Backup, globals: &Globals) -> Result<Answer, Failure> {
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
        // As far as possible: what is left has a name that says what it is.
        let _ = std::fs::remove_dir_all(&partial);
    })?;
    let Report { copied, sessions, damaged } = &report;
    if arguments.answering.json {
        let told = json!({
            "dir": to.display().to_string(), "files": copied.files, "bytes": copied.bytes,
            "sessions": sessions, "damagedSessions": damaged, "skipped": copied.skipped,
        });
        output::json(&told, Layout::Compact)?;
    } else {
        let mut words =
            format!("{} ({} files, {} bytes, {sessions} sessions)", to.display(), copied.files, copied.bytes);
        for id in damaged {
            words += &format!("\n  {id} is damaged, here as there; `interlock session verify` says more");
        }
        for name in &copied.skipped {
            words += &format!("\n  {} was left out: it is neither a file nor a folder", output::clean(name));
        }
        output::text(&words)?;
    }
    Ok(Answer::Yes)
}

struct Report {
    copied: Copied,
    /// How many sessions were copied, of all tenants.
    sessions: usize,
    /// Those that are damaged where they come from.
    damaged: Vec<String>,
}

/// A copy is never written over anything, and never into what is copied.
fn refuse_nonsense(from: &Path, to: &Path) -> Result<(), Failure> {
    let taken = match std::fs::read_dir(to) {
        Ok(mut names) => names.next().is_some(),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    };
    if taken {
        let message = format!("{} is there already", to.display());
        return Err(Envelope::new(CommandErrorCode::OutputExists, message)
            .suggest("Use another folder: a copy is never written over another.")
            .into());
    }
    let inside = |path: &Path| {
        let known = path.ancestors().find_map(|above| above.canonicalize().ok());
        known.is_some_and(|known| from.canonicalize().is_ok_and(|from| known.starts_with(from)))
    };
    if inside(to) {
        let message = format!("{} is in the data directory itself", to.display());
        return Err(Envelope::new(CommandErrorCode::OutputExists, message)
            .suggest("Use a folder elsewhere, best on another disk.")
            .into());
    }
    Ok(())
}

/// Beside the target, so that one rename is enough.
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
    // Before the database: the checkpoint that it names is then in the copy, however much is signed meanwhile.
    tree.file_first(Path::new(ANCHORS)).map_err(unwritable(partial))?;
    // A directory in which only agents were guided has none, and is given none.
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

/// One tenant: sessions first, then what they refer to, then the rest.
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
    // Opened only now: there is nothing that would be made by looking.
    let copies = open_files(&partial.join(root))?;
    report.sessions += sessions.len();
    for session in &sessions {
        let mut attempts = 1;
        while !copies.health(session).is_ok_and(|health| health.is_healthy()) {
            if attempts == ATTEMPTS || !files.health(session)?.is_healthy() {
                report.damaged.push(session.to_string());
                break;
            }
            // An append was cut off before, and was mended between two looks of ours.
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
