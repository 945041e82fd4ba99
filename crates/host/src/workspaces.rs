//! The workspaces that runs gave to agents, to look at: who has one, what was put there, and whether it still is.
//!
//! `workspaces/<run>/<node>/` in the data directory is the root of each. Names come from a request, so nothing is opened but below
//! the handle of the folder, and no link is followed.

use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use workspace::apply::{Lease, LeaseState};
use workspace::drift::{self, Level, Options, Refresh, Report};
use workspace::index::{Line, LineKind, Reader};
use workspace::rooted::{self, Dir, Kind};
use workspace::slot::STATE_DIR;

/// How many folders of runs are looked at.
const MAX_RUNS: usize = 20_000;
/// How many runs are asked about, whether somebody may see them, for one list.
const MAX_ASKED: usize = 2_000;
/// How many workspaces of one run are listed.
const MAX_NODES: usize = 100;
/// How many lines of an index are read.
const MAX_LINES: usize = 5_000;
/// How many paths of a plan are shown.
const MAX_SHOWN: usize = 250;
/// Up to so many files a page looks for drift unasked.
const LOOKED_AT_UNASKED: u64 = 1_000;
/// Up to so many files it looks when it is asked to.
const LOOKED_AT_MOST: u64 = 100_000;
/// How many drifts are shown.
const MAX_DRIFTS: usize = 60;

/// The workspaces of a data directory.
#[derive(Clone, Debug)]
pub struct Workspaces {
    folder: PathBuf,
}

/// Some of the workspaces there are.
#[derive(Debug)]
pub struct WorkspaceList {
    /// The workspaces, those of the run that was touched last first.
    pub workspaces: Vec<WorkspaceLine>,
    /// How many runs come before.
    pub first: usize,
    /// Whether there are more behind these.
    pub has_more: bool,
    /// Whether there are more folders than are looked at.
    pub is_cut: bool,
}

/// A workspace in a list.
#[derive(Debug)]
pub struct WorkspaceLine {
    pub run_id: String,
    /// The node of the run.
    pub node_id: String,
    /// Its lease, with what that is now; nothing where nothing was applied, or what is wrong with it.
    pub lease: Result<Option<(Lease, LeaseState)>, workspace::Error>,
}

/// A workspace as a page shows it.
#[derive(Debug)]
pub struct WorkspaceLook {
    /// The run and the node, and the lease.
    pub line: WorkspaceLine,
    pub root: PathBuf,
    /// What the plan put where, by slot.
    pub slots: Vec<SlotLook>,
    /// How many further paths are not shown.
    pub unshown: u64,
    /// What is wrong with the index.
    pub index_problem: Option<workspace::Error>,
    /// Whether it still is what was applied.
    pub drift: DriftLook,
}

/// A slot, and what the plan put there.
#[derive(Clone, Debug, PartialEq)]
pub struct SlotLook {
    /// Where, such as `/workspace/inputs`.
    pub path: String,
    /// What the agent may do there.
    pub mode: workspace::slot::Mode,
    /// How many files it has.
    pub files: u64,
    pub bytes: u64,
    /// The first of its paths, in order.
    pub lines: Vec<PlacedLine>,
}

/// One path of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedLine {
    /// Its last name.
    pub name: String,
    /// How far it is below its slot, from 0.
    pub depth: usize,
    pub kind: LineKind,
    /// How many bytes.
    pub size: u64,
    /// The mount that put it there.
    pub mount_key: Option<String>,
}

/// What is known of drift.
#[derive(Debug)]
pub enum DriftLook {
    /// Nothing was applied, so there is nothing to compare with.
    NothingApplied,
    /// There is too much to look at unasked: so many files.
    OnRequest(u64),
    /// There is too much to look at for a page: so many files, or more.
    TooMuch(u64),
    /// It was looked at, as closely as the file system knows. Only the worst sixty drifts are listed; the counts are of all.
    Looked(Box<Report>),
    /// It cannot be looked at.
    Failed(workspace::Error),
}

impl Workspaces {
    /// The workspaces below a folder, which need not exist.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Some of the workspaces of runs that somebody may see: `limit` runs from the `first` on.
    ///
    /// # Errors
    /// When the folder cannot be read.
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
        list.is_cut |= runs.len() > MAX_ASKED;
        let mut visible =
            runs.iter().take(MAX_ASKED).map(|(_, run)| run).filter(|run| is_visible(run)).skip(first);
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

    /// One workspace; nothing where there is none.
    ///
    /// Whoever calls has made sure that the run may be seen. `asked` says whether somebody asked for drift to be looked for.
    ///
    /// # Errors
    /// When the folder cannot be read.
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
            // A link, a way out, a file: whatever it is, it is no workspace.
            Err(error) if error.kind() != io::ErrorKind::PermissionDenied => return Ok(None),
            Err(error) => return Err(error),
        };
        let line = line(&root, run_id, node_id, now_ms);
        let lease = line.lease.as_ref().ok().and_then(|lease| lease.as_ref()).map(|(lease, _)| lease);
        let (slots, unshown, index_problem) = match lease {
            Some(lease) => placed(&root, lease),
            None => (Vec::new(), 0, None),
        };
        let drift = match lease {
            Some(lease) => look_for_drift(&root, lease, asked, now_ms),
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

/// What the index says was put where, the first paths of each slot; how many more there are; what is wrong with it.
fn placed(root: &Dir, lease: &Lease) -> (Vec<SlotLook>, u64, Option<workspace::Error>) {
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
            let place = slots.iter().position(|slot| slot.path == grant.slot.path())?;
            Some((grant.slot.relative().to_owned(), place))
        })
        .collect();
    let mut lines = 0;
    let mut shown = 0;
    let read = read_lines(root, lease, |line| {
        lines += 1;
        let place = below.iter().find_map(|(slot, place)| Some((*place, beneath(&line.path, slot)?)));
        if let Some((place, rest)) = place
            && shown < MAX_SHOWN
        {
            shown += 1;
            slots[place].lines.push(PlacedLine {
                name: rest.rsplit('/').next().unwrap_or(rest).to_owned(),
                depth: rest.matches('/').count(),
                kind: line.kind,
                size: line.size,
                mount_key: line.mount_key,
            });
        } else if place.is_none() {
            // The slot itself, or a directory on the way to it.
            lines -= 1;
        }
    });
    // Beyond what was read only files are counted, as the lease has them.
    let files: u64 = lease.slots.iter().map(|slot| slot.files).sum();
    let unshown = files.max(lines).saturating_sub(shown as u64);
    (slots, unshown, read.err())
}

/// What is left of a path below a slot.
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

fn look_for_drift(root: &Dir, lease: &Lease, asked: bool, now_ms: u64) -> DriftLook {
    let most = if asked { LOOKED_AT_MOST } else { LOOKED_AT_UNASKED };
    let applied: u64 = lease.slots.iter().map(|slot| slot.files).sum();
    // What the agent wrote is walked too, and nothing else bounds it.
    let files = match count(root, lease, most) {
        Ok(found) => found.max(applied),
        Err(error) => return DriftLook::Failed(rooted::refusal(&error, "read", Path::new(""))),
    };
    if files > most {
        return if asked { DriftLook::TooMuch(files) } else { DriftLook::OnRequest(files) };
    }
    let now_ns = i64::try_from(now_ms).unwrap_or(i64::MAX).saturating_mul(1_000_000);
    // Somebody who looks changes nothing, and leaves the other processors to those who work.
    let options = Options { refresh: Refresh::Never, threads: NonZeroUsize::new(1) };
    match drift::scan(root, &lease.baseline(), Level::Stat, now_ns, options) {
        Ok(mut report) => {
            // The worst first, so that what is left out is never worse than what is shown.
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

/// How many names there are in the granted slots, as far as `most` and one more.
fn count(root: &Dir, lease: &Lease, most: u64) -> io::Result<u64> {
    let mut count = 0;
    let mut open: Vec<Dir> = Vec::new();
    for grant in lease.grants() {
        match root.open_dir(grant.slot.relative()) {
            Ok(slot) => open.push(slot),
            // A slot of one file, or one that is gone: the scan says which.
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
