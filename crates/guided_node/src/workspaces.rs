//! The workspaces that runs created for agents, for display: their owners, their planned contents, and drift.
//!
//! The root of each is `workspaces/<run>/<node>/` in the data directory. Names come from requests, so everything is opened relative to the
//! handle of that directory, without following links.

use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use workspace::apply::{Lease, LeaseState};
use workspace::drift::{self, Level, Options, Refresh, Report};
use workspace::index::{Line, LineKind, Reader};
use workspace::rooted::{self, Dir, Kind};
use workspace::slot::STATE_DIR;

/// The maximum number of run folders that are read.
const MAX_RUNS: usize = 20_000;
/// The maximum number of runs whose visibility is checked for one list.
const MAX_CHECKED: usize = 2_000;
/// The maximum number of listed workspaces of one run.
const MAX_NODES: usize = 100;
/// The maximum number of index lines that are read.
const MAX_LINES: usize = 5_000;
/// The maximum number of displayed paths.
const MAX_SHOWN: usize = 250;
/// The maximum number of files for an automatic drift check.
const MAX_FILES_AUTOMATIC: u64 = 1_000;
/// The maximum number of files for a requested drift check.
const MAX_FILES_REQUESTED: u64 = 100_000;
/// The maximum number of displayed drifts.
const MAX_DRIFTS: usize = 60;

/// The workspaces of a data directory.
#[derive(Clone, Debug)]
pub struct Workspaces {
    folder: PathBuf,
}

/// A page of workspaces.
#[derive(Debug)]
pub struct WorkspaceList {
    /// The workspaces, most recently changed runs first.
    pub workspaces: Vec<WorkspaceLine>,
    /// The number of runs before this page.
    pub first: usize,
    /// Whether there are more after this page.
    pub has_more: bool,
    /// Whether there are more folders than are read.
    pub is_cut: bool,
}

#[derive(Debug)]
pub struct WorkspaceLine {
    pub run_id: String,
    /// The node of the run.
    pub node_id: String,
    /// Its lease and the current state of it; `None` if nothing was applied.
    pub lease: Result<Option<(Lease, LeaseState)>, workspace::Error>,
}

/// A workspace for display.
#[derive(Debug)]
pub struct WorkspaceLook {
    /// The run, the node, and the lease.
    pub line: WorkspaceLine,
    pub root: PathBuf,
    /// The planned contents by slot.
    pub slots: Vec<SlotLook>,
    /// The number of further paths.
    pub unshown: u64,
    /// The problem of the index, if it has one.
    pub index_problem: Option<workspace::Error>,
    /// Whether the contents are still as applied.
    pub drift: DriftLook,
}

/// A slot and its planned contents.
#[derive(Clone, Debug, PartialEq)]
pub struct SlotLook {
    /// The path, for example `/workspace/inputs`.
    pub path: String,
    /// The permissions of the agent.
    pub mode: workspace::slot::Mode,
    /// The number of files.
    pub files: u64,
    pub bytes: u64,
    /// Its first paths, sorted.
    pub lines: Vec<PlacedLine>,
}

/// A path of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedLine {
    /// The last component.
    pub name: String,
    /// The depth below the slot, starting at 0.
    pub depth: usize,
    pub kind: LineKind,
    /// The size in bytes.
    pub size: u64,
    /// The mount that provides it.
    pub mount_key: Option<String>,
}

/// The result of a drift check.
#[derive(Debug)]
pub enum DriftLook {
    /// Nothing was applied, so there is nothing to compare.
    NothingApplied,
    /// Too many files for an automatic check. Contains their number.
    OnRequest(u64),
    /// Too many files for any check of a page. Contains their minimum number.
    TooMuch(u64),
    /// The workspace was checked by file metadata. Only the worst 60 drifts are listed; the counts include all.
    Looked(Box<Report>),
    /// The check failed.
    Failed(workspace::Error),
}

impl Workspaces {
    /// The workspaces below a folder, which may not exist.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// A page of workspaces of visible runs: `limit` runs, starting at `first`.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn list(
        &self,
        is_visible: &dyn Fn(&str) -> bool,
        (first, limit): (usize, usize),
        now_ms: u64,
    ) -> io::Result<WorkspaceList> {
        let mut list = WorkspaceList { workspaces: Vec::new(), first, has_more: false, is_cut: false };
        let Some(folder) = self.open()? else { return Ok(list) };
        let mut names = folder.names()?;
        list.is_cut = names.len() > MAX_RUNS;
        names.truncate(MAX_RUNS);
        let mut runs: Vec<(i128, String)> = names
            .into_iter()
            .filter_map(|(name, _)| {
                let stat = folder.stat(&name.0).ok()??;
                let name = name.0.into_string().ok()?;
                (stat.kind == Kind::Dir).then_some((stat.mtime_ns, name))
            })
            .collect();
        runs.sort_by(|left, right| right.0.cmp(&left.0).then_with(|| left.1.cmp(&right.1)));
        list.is_cut |= runs.len() > MAX_CHECKED;
        let mut visible =
            runs.iter().take(MAX_CHECKED).map(|(_, run)| run).filter(|run| is_visible(run)).skip(first);
        for run_id in visible.by_ref().take(limit) {
            let Ok(run) = folder.open_dir(run_id) else { continue };
            for (name, _) in run.names()?.into_iter().take(MAX_NODES) {
                let Some(node_id) = name.0.to_str() else { continue };
                let Ok(root) = run.open_dir(node_id) else { continue };
                list.workspaces.push(line(&root, run_id, node_id, now_ms));
            }
        }
        list.has_more = visible.next().is_some();
        Ok(list)
    }

    /// One workspace; `None` if it does not exist.
    ///
    /// The caller must have checked that the run is visible. `asked` says whether a drift check was requested.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn look(
        &self,
        run_id: &str,
        node_id: &str,
        asked: bool,
        now_ms: u64,
    ) -> io::Result<Option<WorkspaceLook>> {
        let is_name = |text: &str| !matches!(text, "" | "." | "..") && !text.contains('/');
        if !is_name(run_id) || !is_name(node_id) {
            return Ok(None);
        }
        let Some(folder) = self.open()? else { return Ok(None) };
        let opened = folder.open_dir(run_id).and_then(|run| run.open_dir(node_id));
        let root = match opened {
            Ok(root) => root,
            // A link or a file is not a workspace.
            Err(error) if error.kind() != io::ErrorKind::PermissionDenied => return Ok(None),
            Err(error) => return Err(error),
        };
        let line = line(&root, run_id, node_id, now_ms);
        let lease = line.lease.as_ref().ok().and_then(|lease| lease.as_ref()).map(|(lease, _)| lease);
        let (slots, unshown, index_problem) = match lease {
            Some(lease) => read_slots(&root, lease),
            None => (Vec::new(), 0, None),
        };
        let drift = match lease {
            Some(lease) => check_drift(&root, lease, asked, now_ms),
            None => DriftLook::NothingApplied,
        };
        let root = self.folder.join(run_id).join(node_id);
        Ok(Some(WorkspaceLook { line, root, slots, unshown, index_problem, drift }))
    }

    fn open(&self) -> io::Result<Option<Dir>> {
        match Dir::open_root(&self.folder) {
            Ok(folder) => Ok(Some(folder)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn line(root: &Dir, run_id: &str, node_id: &str, now_ms: u64) -> WorkspaceLine {
    let lease = Lease::read(root).map(|lease| {
        lease.map(|lease| {
            let state = lease.state_at(now_ms);
            (lease, state)
        })
    });
    WorkspaceLine { run_id: run_id.to_owned(), node_id: node_id.to_owned(), lease }
}

/// The planned contents from the index: the first paths of each slot, the number of further paths, and the problem of the index.
fn read_slots(root: &Dir, lease: &Lease) -> (Vec<SlotLook>, u64, Option<workspace::Error>) {
    let mut slots: Vec<SlotLook> = lease
        .slots
        .iter()
        .map(|slot| SlotLook {
            path: slot.path.clone(),
            mode: slot.mode,
            files: slot.files,
            bytes: slot.bytes,
            lines: Vec::new(),
        })
        .collect();
    let below: BTreeMap<String, usize> = lease
        .grants()
        .iter()
        .filter_map(|grant| {
            let index = slots.iter().position(|slot| slot.path == grant.slot.path())?;
            Some((grant.slot.relative().to_owned(), index))
        })
        .collect();
    let mut lines = 0;
    let mut shown = 0;
    let read = read_lines(root, lease, |line| {
        lines += 1;
        let found = below.iter().find_map(|(slot, index)| Some((*index, beneath(&line.path, slot)?)));
        if let Some((index, rest)) = found
            && shown < MAX_SHOWN
        {
            shown += 1;
            slots[index].lines.push(PlacedLine {
                name: rest.rsplit('/').next().unwrap_or(rest).to_owned(),
                depth: rest.matches('/').count(),
                kind: line.kind,
                size: line.size,
                mount_key: line.mount_key,
            });
        } else if found.is_none() {
            // The slot itself, or a directory above it.
            lines -= 1;
        }
    });
    // After the lines that were read, only files are counted, by the numbers in the lease.
    let files: u64 = lease.slots.iter().map(|slot| slot.files).sum();
    let unshown = files.max(lines).saturating_sub(shown as u64);
    (slots, unshown, read.err())
}

/// The part of a path below a slot.
fn beneath<'p>(path: &'p str, slot: &str) -> Option<&'p str> {
    path.strip_prefix(slot)?.strip_prefix('/').filter(|rest| !rest.is_empty())
}

fn read_lines(root: &Dir, lease: &Lease, mut each: impl FnMut(Line)) -> Result<(), workspace::Error> {
    let path = Path::new(STATE_DIR).join(&lease.index_ref);
    let file = root.open_file(&path).map_err(|error| rooted::refusal(&error, "open", &path))?;
    let mut reader = Reader::new(io::BufReader::new(file))?;
    for _ in 0..MAX_LINES {
        match reader.next_line()? {
            Some(line) => each(line),
            None => break,
        }
    }
    Ok(())
}

fn check_drift(root: &Dir, lease: &Lease, asked: bool, now_ms: u64) -> DriftLook {
    let most = if asked { MAX_FILES_REQUESTED } else { MAX_FILES_AUTOMATIC };
    let applied: u64 = lease.slots.iter().map(|slot| slot.files).sum();
    // The check also reads files that the agent wrote, whose number is not limited.
    let files = match count(root, lease, most) {
        Ok(found) => found.max(applied),
        Err(error) => return DriftLook::Failed(rooted::refusal(&error, "read", Path::new(""))),
    };
    if files > most {
        return if asked { DriftLook::TooMuch(files) } else { DriftLook::OnRequest(files) };
    }
    let now_ns = i64::try_from(now_ms).unwrap_or(i64::MAX).saturating_mul(1_000_000);
    // Viewing must not change the workspace, and must leave the other processors to runs.
    let options = Options { refresh: Refresh::Never, threads: NonZeroUsize::new(1) };
    match drift::scan(root, &lease.baseline(), Level::Stat, now_ns, options) {
        Ok(mut report) => {
            // The worst drifts come first, so the omitted ones are never worse.
            report.drifts.sort_by(|left, right| {
                right.severity.cmp(&left.severity).then_with(|| left.path.cmp(&right.path))
            });
            report.truncated |= report.drifts.len() > MAX_DRIFTS;
            report.drifts.truncate(MAX_DRIFTS);
            DriftLook::Looked(Box::new(report))
        }
        Err(error) => DriftLook::Failed(error),
    }
}

/// The number of names in the granted slots, at most `most + 1`.
fn count(root: &Dir, lease: &Lease, most: u64) -> io::Result<u64> {
    let mut count = 0;
    let mut open: Vec<Dir> = Vec::new();
    for grant in lease.grants() {
        match root.open_dir(grant.slot.relative()) {
            Ok(slot) => open.push(slot),
            // A slot that is a file, or that does not exist: the scan reports which.
            Err(_) => count += 1,
        }
    }
    while let Some(dir) = open.pop() {
        for (name, kind) in dir.names()? {
            count += 1;
            if count > most {
                return Ok(count);
            }
            let is_dir = match kind {
                Some(kind) => kind == Kind::Dir,
                None => dir.stat(&name.0)?.is_some_and(|stat| stat.kind == Kind::Dir),
            };
            if is_dir && let Ok(below) = dir.open_dir(&name.0) {
                open.push(below);
            }
        }
    }
    Ok(count)
}
