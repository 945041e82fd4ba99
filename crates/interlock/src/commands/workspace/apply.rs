//! `interlock workspace apply` and `restore`.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use system::{Clock as _, SystemClock};
use workspace::apply::{
    AgentUser, Applier, ApplyReport, ApplyRequest, LeaseScope, Restore, RwPolicy, Status, Step, Verify,
};
use workspace::plan::ValidPlan;
use workspace::resolve::Resolver;
use workspace::snapshot::Snapshot;

use super::{library, scope_in_words, word};
use crate::arguments::{self, VerifyLevel, WorkspaceApply, WorkspaceRestore, WorkspaceTarget};
use crate::failure::{ExitStatus, Failure};
use crate::input;
use crate::output::{self, Cell, DIM, GOOD, HEADING, Layout, Table, WARNING, clean};
use crate::progress::Progress;

/// How many paths of a list are shown; JSON has all.
const SHOWN: usize = 20;

struct ApplyOptions<'a> {
    snapshot: Option<&'a Path>,
    verify: Verify,
    rw_policy: RwPolicy,
}

pub(super) fn run(arguments: &WorkspaceApply) -> Result<ExitStatus, Failure> {
    let verify = match arguments.verify {
        VerifyLevel::None => Verify::None,
        VerifyLevel::Stat => Verify::Stat,
        VerifyLevel::Hash => Verify::Hash,
    };
    let rw_policy = match arguments.rw {
        arguments::RwPolicy::Preserve => RwPolicy::Preserve,
        arguments::RwPolicy::Reset => RwPolicy::Reset,
    };
    apply(&arguments.target, &ApplyOptions { snapshot: arguments.snapshot.as_deref(), verify, rw_policy })
}

pub(super) fn restore(arguments: &WorkspaceRestore) -> Result<ExitStatus, Failure> {
    let manner = ApplyOptions {
        snapshot: Some(&arguments.snapshot),
        verify: Verify::default(),
        rw_policy: RwPolicy::default(),
    };
    apply(&arguments.target, &manner)
}

fn apply(target: &WorkspaceTarget, manner: &ApplyOptions<'_>) -> Result<ExitStatus, Failure> {
    let raw = input::json(input::source(&target.plan))?;
    // Validate everything possible before creating the root.
    let mut plan = ValidPlan::check(&raw, None, false)?;
    let library = library(&target.library)?;
    let snapshot = manner.snapshot.map(open_snapshot).transpose()?;

    let applier = open_root(&target.root)?;
    if applier.folds_case()? {
        plan = ValidPlan::check(&raw, None, true)?;
    }
    drop(raw);
    let library = library.with_scratch(&target.root.join(applier.scratch()?));
    let resolver: Arc<dyn Resolver> = Arc::new(library);
    let scope = LeaseScope::of(&plan, target.turn);
    let holder = scope_in_words(&scope);
    let request = ApplyRequest {
        rw_policy: manner.rw_policy,
        verify: manner.verify,
        agent_user: match target.agent_user {
            arguments::AgentUser::Same => AgentUser::Same,
            arguments::AgentUser::Other => AgentUser::Other,
        },
        restore: snapshot.as_ref().map(|snapshot| snapshot as &dyn Restore),
        ..ApplyRequest::new(&plan, &scope, &holder)
    };
    let progress = Bar(Mutex::new(Progress::over(plan.entries().len(), "fetching mounts")));
    let done = applier.apply(&request, &resolver, SystemClock.now_ms(), &progress);
    drop(progress);
    let report = done?;
    if target.answering.json {
        output::json(&report, Layout::Compact)?;
    } else {
        output::text(&words(&report, &target.root))?;
    }
    Ok(ExitStatus::Success)
}

/// Opens a root, and creates it if only its last component is missing.
fn open_root(path: &Path) -> Result<Applier, Failure> {
    match std::fs::create_dir(path) {
        Ok(()) => {}
        // A link to a directory is allowed: the path to the root is the caller's choice.
        Err(_) if path.is_dir() => {}
        Err(cause) => return Err(Failure::unwritable(Some(path), cause)),
    }
    Ok(Applier::new(path)?)
}

fn open_snapshot(path: &Path) -> Result<Snapshot, Failure> {
    std::fs::metadata(path).map_err(|cause| Failure::unreadable(Some(path), cause))?;
    Ok(Snapshot::open(path)?)
}

/// The progress bar of an apply, updated from several threads.
struct Bar(Mutex<Progress>);

impl workspace::apply::Progress for Bar {
    fn step(&self, step: Step) {
        let mut progress = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match step {
            Step::Resolved { mounts, .. } => progress.at(mounts),
            Step::Promoting => progress.says("installing files"),
        }
    }
}

fn words(report: &ApplyReport, root: &Path) -> String {
    let what = match report.status {
        Status::Applied => "applied",
        Status::Cached => "already applied",
        Status::Repaired => "repaired",
    };
    let mut out = format!(
        "{GOOD}{what}{GOOD:#}: {} (generation {}, {}, {} ms)\n\n",
        root.display(),
        report.generation,
        word(&report.lease_reason),
        report.duration_ms
    );
    let mut table = Table::new(&["slot", "mode", "files", "bytes", "how"]);
    for slot in &report.slots {
        table.row([
            Cell::from(slot.path.as_str()),
            slot.mode.as_str().into(),
            slot.files.to_string().into(),
            slot.bytes.to_string().into(),
            word(&slot.promote).into(),
        ]);
    }
    let _ = write!(out, "{table}");
    let kept = report.preserved.iter().map(|kept| format!("{} ({})", kept.path, word(&kept.why)));
    list(&mut out, "kept (modified by the agent)", kept, report.preserved_unlisted);
    let covered = report.shadowed.iter().map(|covered| format!("{} (by {})", covered.path, covered.by));
    list(&mut out, "shadowed by another mount", covered, report.shadowed_unlisted);
    let pinned = report.pinned.iter().map(|pinned| format!("{} is {}", pinned.mount_key, pinned.revision));
    list(&mut out, "revisions", pinned, 0);
    for warning in &report.warnings {
        let _ = writeln!(out, "\n{WARNING}warning{WARNING:#}: {}", clean(warning));
    }
    out
}

fn list(out: &mut String, title: &str, lines: impl ExactSizeIterator<Item = String>, unlisted: u64) {
    let count = lines.len() as u64 + unlisted;
    if count == 0 {
        return;
    }
    let _ = writeln!(out, "\n{HEADING}{title}{HEADING:#}");
    for line in lines.take(SHOWN) {
        let _ = writeln!(out, "  {}", clean(&line));
    }
    if count > SHOWN as u64 {
        let _ = writeln!(out, "  {DIM}and {} more; --json lists them{DIM:#}", count - SHOWN as u64);
    }
}
