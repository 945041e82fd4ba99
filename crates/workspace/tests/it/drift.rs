//! Drift reports.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, FileTimes};
use std::num::NonZeroUsize;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use rustix::fs::FlockOperation;
use workspace::Code;
use workspace::drift::{
    self, Baseline, Disrepair, Kind, Level, MAX_LISTED, Options, Refresh, Report, Severity, Verdict,
};
use workspace::index::{self, Header, Line, LineKind, Reader, Writer, compare_paths};
use workspace::plan::Grant;
use workspace::rooted::Dir;
use workspace::slot::{Mode, Slot};

/// When the test files were written, in seconds: long before their index.
const OLD: i64 = 1_700_000_000;

const INDEXED: i64 = OLD + 1_000;

/// The time of the scan.
const NOW: i64 = INDEXED + 1_000;

const NANOSECONDS: i64 = 1_000_000_000;

struct Workspace {
    root: tempfile::TempDir,
    baseline: Baseline,
}

impl Workspace {
    /// A workspace with a read-only and a read-write slot, and a platform file.
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let grant = |slot, mode| Grant { slot, mode };
        let grants = vec![
            grant(Slot::AgentsMd, Mode::ReadOnly),
            grant(Slot::SkillBundles, Mode::ReadOnly),
            grant(Slot::References, Mode::ReadOnly),
            grant(Slot::Deliverables, Mode::ReadWrite),
        ];
        let this = Self { root, baseline: Baseline { index: index::FILE_NAME.into(), grants } };
        fs::create_dir(this.path(".interlock")).unwrap();
        this.write("AGENTS.md", "# You", 0o444);
        for slot in [".opencode/skills", "references", "deliverables"] {
            fs::create_dir_all(this.path(slot)).unwrap();
        }
        this
    }

    /// A workspace with a few indexed files.
    fn small() -> Self {
        let this = Self::new();
        for slot in ["references", "deliverables"] {
            let mode = if slot == "references" { 0o444 } else { 0o644 };
            for name in ["a.md", "kb/b.md", "kb/deep/c.md", "kb.md"] {
                this.write(&format!("{slot}/{name}"), "page", mode);
            }
            symlink("kb/b.md", this.path(&format!("{slot}/link"))).unwrap();
        }
        this.write("deliverables/seed.md", "seed", 0o444);
        this.index();
        this
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    fn write(&self, path: &str, text: &str, mode: u32) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let _ = fs::remove_file(&path);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        self.touch(&path, OLD);
    }

    fn touch(&self, path: impl AsRef<Path>, seconds: i64) {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.unsigned_abs());
        let file = File::open(self.root.path().join(path)).unwrap();
        file.set_times(FileTimes::new().set_modified(time)).unwrap();
    }

    /// Changes bytes without changing other metadata. Repeated until the file system has assigned
    /// another ctime, so that the test does not depend on the disk's clock.
    fn forge(&self, path: &str, text: &str) {
        let path = self.path(path);
        let before = fs::metadata(&path).unwrap();
        assert_eq!(before.len(), text.len() as u64);
        loop {
            overwrite(&path, text);
            File::open(&path)
                .unwrap()
                .set_times(FileTimes::new().set_modified(before.modified().unwrap()))
                .unwrap();
            let after = fs::metadata(&path).unwrap();
            assert_eq!((before.mtime(), before.ino()), (after.mtime(), after.ino()));
            if (before.ctime(), before.ctime_nsec()) != (after.ctime(), after.ctime_nsec()) {
                break;
            }
        }
    }

    fn index(&self) {
        self.index_with(|_| {});
    }

    /// Writes an index of the current files, as an apply does.
    fn index_with(&self, alter: impl Fn(&mut Line)) {
        let mut lines = Vec::new();
        for grant in &self.baseline.grants {
            self.gather(grant.slot.relative(), &mut lines);
        }
        lines.sort_by(|left, right| compare_paths(left.path.as_bytes(), right.path.as_bytes()));
        lines.iter_mut().for_each(alter);
        self.write_index(&lines);
    }

    fn write_index(&self, lines: &[Line]) {
        let file = File::create(self.index_path()).unwrap();
        let header = Header { apply_id: "a".repeat(64), generation: 7, written_at_ns: INDEXED * NANOSECONDS };
        let mut writer = Writer::new(file, &header).unwrap();
        lines.iter().for_each(|line| writer.push(line).unwrap());
        writer.finish().unwrap();
    }

    fn gather(&self, path: &str, lines: &mut Vec<Line>) {
        let Ok(stat) = fs::symlink_metadata(self.path(path)) else { return };
        let mut line = Line::directory(path, None, stat.mode() & 0o7777);
        if stat.is_dir() {
            for entry in fs::read_dir(self.path(path)).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                self.gather(&format!("{path}/{name}"), lines);
            }
        } else {
            line.mount_key = Some(format!("mount:{path}"));
            line.mtime_ns = stat.mtime() * NANOSECONDS + stat.mtime_nsec();
            line.ctime_ns = stat.ctime() * NANOSECONDS + stat.ctime_nsec();
            line.ino = stat.ino();
            if stat.is_symlink() {
                let target = fs::read_link(self.path(path)).unwrap().into_os_string().into_string().unwrap();
                line.kind = LineKind::Link;
                line.blake3 = blake3::hash(target.as_bytes()).to_hex().to_string();
                line.target = Some(target);
            } else {
                line.kind = LineKind::File;
                line.size = stat.len();
                line.blake3 = blake3::hash(&fs::read(self.path(path)).unwrap()).to_hex().to_string();
            }
        }
        lines.push(line);
    }

    fn index_path(&self) -> PathBuf {
        self.path(".interlock").join(index::FILE_NAME)
    }

    fn lines(&self) -> Vec<Line> {
        Reader::new(File::open(self.index_path()).unwrap()).unwrap().collect::<Result<_, _>>().unwrap()
    }

    fn dir(&self) -> Dir {
        Dir::open_root(self.root.path()).unwrap()
    }

    fn try_scan(&self, level: Level, options: Options) -> Result<Report, workspace::Error> {
        drift::scan(&self.dir(), &self.baseline, level, NOW * NANOSECONDS, options)
    }

    fn scan(&self, level: Level) -> Report {
        self.try_scan(level, Options::default()).unwrap()
    }
}

/// The drifts of a report in short form.
fn short(report: &Report) -> Vec<(&str, Kind, Severity)> {
    report.drifts.iter().map(|drift| (drift.path.as_str(), drift.kind, drift.severity)).collect()
}

#[test]
fn an_untouched_workspace_is_clean() {
    let workspace = Workspace::small();
    for level in [Level::Stat, Level::Hash] {
        let report = workspace.scan(level);
        assert_eq!((short(&report), report.verdict), (vec![], Verdict::Clean));
        let scanned = report.scanned;
        assert_eq!((scanned.files, scanned.dirs, scanned.bytes), (12, 7, 8 * 4 + 4 + 5));
        assert_eq!(scanned.hashed, if level == Level::Hash { 10 } else { 0 });
        assert_eq!((report.generation, report.apply_id.len(), report.truncated), (7, 64, false));
    }
}

/// Case 50, with the other rows and columns of the table.
#[test]
fn each_change_has_its_kind_and_its_severity() {
    use Kind::{Extra, Missing, ModeChanged, Modified, SymlinkChanged, TypeChanged, UnsafeSymlink};
    use Severity::{Critical, Info, Warning};
    /// A name, the path below a slot, the change, and each drift with its severities in both kinds
    /// of slots.
    type Case = (&'static str, &'static str, fn(&Path), &'static [(Kind, Severity, Severity)]);
    let cases: &[Case] = &[
        ("delete", "a.md", |path| fs::remove_file(path).unwrap(), &[(Missing, Critical, Info)]),
        ("add", "new.md", |path| fs::write(path, "new").unwrap(), &[(Extra, Critical, Info)]),
        ("add a directory", "new", |path| fs::create_dir(path).unwrap(), &[(Extra, Critical, Info)]),
        ("edit", "a.md", |path| overwrite(path, "edit"), &[(Modified, Critical, Info)]),
        ("lengthen", "a.md", |path| overwrite(path, "longer"), &[(Modified, Critical, Info)]),
        ("chmod", "a.md", |path| chmod(path, 0o755), &[(ModeChanged, Warning, Info)]),
        ("setuid", "a.md", |path| chmod(path, 0o4444), &[(ModeChanged, Warning, Info)]),
        ("chmod a directory", "kb", |path| chmod(path, 0o700), &[(ModeChanged, Warning, Info)]),
        (
            "edit and chmod",
            "a.md",
            |path| {
                overwrite(path, "edit");
                chmod(path, 0o600);
            },
            &[(Modified, Critical, Info), (ModeChanged, Warning, Info)],
        ),
        (
            "a directory for a file",
            "a.md",
            |path| {
                fs::remove_file(path).unwrap();
                fs::create_dir(path).unwrap();
            },
            &[(TypeChanged, Critical, Warning)],
        ),
        ("a socket for a file", "a.md", |path| socket(path), &[(TypeChanged, Critical, Warning)]),
        (
            "a link inside for a file",
            "a.md",
            |path| relink(path, "kb/b.md"),
            &[(TypeChanged, Critical, Warning)],
        ),
        (
            "a link outside for a file",
            "a.md",
            |path| relink(path, "/etc/passwd"),
            &[(TypeChanged, Critical, Warning), (UnsafeSymlink, Critical, Critical)],
        ),
        ("relink inside", "link", |path| relink(path, "a.md"), &[(SymlinkChanged, Critical, Info)]),
        (
            "relink outside",
            "link",
            |path| relink(path, "../AGENTS.md"),
            &[(SymlinkChanged, Critical, Info), (UnsafeSymlink, Critical, Critical)],
        ),
        (
            "relink through another link",
            "link",
            |path| relink(path, "kb/x/../../.."),
            &[(SymlinkChanged, Critical, Info), (UnsafeSymlink, Critical, Critical)],
        ),
        ("add a link inside", "kb/deep/new", |path| relink(path, "../../a.md"), &[(Extra, Critical, Info)]),
        (
            "add a link outside",
            "kb/new",
            |path| relink(path, "../../tmp"),
            &[(Extra, Critical, Info), (UnsafeSymlink, Critical, Critical)],
        ),
        ("a pipe without a writer", "new", |path| pipe(path), &[(Extra, Critical, Info)]),
    ];
    for (name, path, change, expected) in cases {
        for level in [Level::Stat, Level::Hash] {
            for (slot, read_only) in [("references", true), ("deliverables", false)] {
                let workspace = Workspace::small();
                let path = format!("{slot}/{path}");
                change(&workspace.path(&path));
                let report = workspace.scan(level);
                let expected: Vec<_> = expected
                    .iter()
                    .map(|(kind, ro, rw)| (path.as_str(), *kind, if read_only { *ro } else { *rw }))
                    .collect();
                assert_eq!(short(&report), expected, "{name} at {level:?}");
                let worst = expected.iter().map(|(.., severity)| *severity).max().unwrap();
                let verdict = if worst == Critical { Verdict::Critical } else { Verdict::Dirty };
                assert_eq!(report.verdict, verdict, "{name}");
                // A second scan gives the same result: a refresh hides nothing.
                assert_eq!(short(&workspace.scan(Level::Stat)), expected, "{name} at {level:?}, again");
            }
        }
    }
}

/// Writes to a read-only file, as its owner can.
fn overwrite(path: &Path, text: &str) {
    let mode = fs::metadata(path).unwrap().mode() & 0o7777;
    chmod(path, mode | 0o200);
    fs::write(path, text).unwrap();
    chmod(path, mode);
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn relink(path: &Path, target: &str) {
    let _ = fs::remove_file(path);
    symlink(target, path).unwrap();
}

fn socket(path: &Path) {
    let _ = fs::remove_file(path);
    // Socket paths must be short, so it is created elsewhere.
    let made = tempfile::tempdir_in(path.parent().unwrap().parent().unwrap().join(".interlock")).unwrap();
    drop(std::os::unix::net::UnixListener::bind(made.path().join("s")).unwrap());
    fs::rename(made.path().join("s"), path).unwrap();
}

fn pipe(path: &Path) {
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn four_kinds_of_change_are_reported_by_path() {
    // Case 50.
    let workspace = Workspace::small();
    fs::remove_file(workspace.path("references/kb/b.md")).unwrap();
    fs::write(workspace.path("references/b.md"), "new").unwrap();
    overwrite(&workspace.path("references/kb.md"), "edit");
    chmod(&workspace.path("references/a.md"), 0o644);
    let report = workspace.scan(Level::Stat);
    let expected = [
        ("references/a.md", Kind::ModeChanged, Severity::Warning),
        ("references/b.md", Kind::Extra, Severity::Critical),
        ("references/kb/b.md", Kind::Missing, Severity::Critical),
        ("references/kb.md", Kind::Modified, Severity::Critical),
    ];
    assert_eq!(short(&report), expected);
    assert_eq!((report.counts.critical, report.counts.warning, report.counts.info), (3, 1, 0));
    assert_eq!(report.verdict, Verdict::Critical);
    let modified = serde_json::to_value(&report.drifts[3]).unwrap();
    assert_eq!(
        modified,
        serde_json::json!({
            "path": "references/kb.md",
            "mountKey": "mount:references/kb.md",
            "kind": "modified",
            "severity": "critical",
            "expected": {"size": 4, "blake3": blake3::hash(b"page").to_hex().as_str()},
            "actual": {"size": 4, "blake3": blake3::hash(b"edit").to_hex().as_str()},
        }),
    );
}

#[test]
fn a_changed_read_only_file_in_a_writable_slot_is_a_warning() {
    let workspace = Workspace::small();
    workspace.forge("deliverables/seed.md", "edit");
    let report = workspace.scan(Level::Stat);
    assert_eq!(short(&report), [("deliverables/seed.md", Kind::Modified, Severity::Warning)]);
    assert_eq!(report.verdict, Verdict::Dirty);
}

#[test]
fn a_touched_file_is_not_drift_and_is_hashed_once() {
    // Case 51, first half.
    let workspace = Workspace::small();
    workspace.touch("references/a.md", OLD + 5);
    workspace.touch("deliverables/kb/b.md", OLD + 5);
    let hashed = [2, 0].map(|expected| {
        let report = workspace.scan(Level::Stat);
        assert_eq!(report.verdict, Verdict::Clean);
        assert_eq!(report.scanned.hashed, expected);
    });
    assert_eq!(hashed.len(), 2);
    assert_eq!(fs::read_dir(workspace.path(".interlock")).unwrap().count(), 2, "the index and the lock");
}

#[test]
fn a_forged_file_is_found_by_its_ctime() {
    // Case 51, second half.
    let workspace = Workspace::small();
    workspace.forge("references/a.md", "edit");
    let report = workspace.scan(Level::Stat);
    assert_eq!(short(&report), [("references/a.md", Kind::Modified, Severity::Critical)]);
    assert_eq!(report.scanned.hashed, 1);
}

#[test]
fn fresh_files_are_read_until_they_are_not_fresh() {
    let workspace = Workspace::small();
    let cases =
        [("kb.md", INDEXED - 3), ("a.md", INDEXED - 2), ("kb/b.md", INDEXED), ("kb/deep/c.md", INDEXED + 9)];
    for (name, mtime) in cases {
        workspace.touch(format!("references/{name}"), mtime);
    }
    workspace.index();
    for hashed in [3, 0] {
        let report = workspace.scan(Level::Stat);
        assert_eq!((report.verdict, report.scanned.hashed), (Verdict::Clean, hashed));
    }
}

#[test]
fn files_fresh_at_scan_time_stay_fresh() {
    let workspace = Workspace::small();
    workspace.touch("references/a.md", NOW - 1);
    workspace.index();
    let before = fs::read(workspace.index_path()).unwrap();
    for _ in 0..2 {
        assert_eq!(workspace.scan(Level::Stat).scanned.hashed, 1);
    }
    assert_eq!(fs::read(workspace.index_path()).unwrap(), before, "and the index is not written for nothing");
}

#[test]
fn a_forged_shared_file_is_still_found_after_an_index_refresh() {
    // The ctime of such a file is meaningless, so only its freshness reveals the change.
    let workspace = Workspace::small();
    for name in ["references/a.md", "references/kb.md"] {
        workspace.touch(name, INDEXED);
    }
    workspace.index_with(|line| line.linked = line.kind == LineKind::File);
    workspace.forge("references/a.md", "edit");
    for _ in 0..3 {
        let report = workspace.scan(Level::Stat);
        assert_eq!(short(&report), [("references/a.md", Kind::Modified, Severity::Critical)]);
    }
    assert_eq!(workspace.scan(Level::Stat).scanned.hashed, 1, "the other one is known by now");
}

#[test]
fn a_change_found_by_hashing_is_later_found_by_stat() {
    let workspace = Workspace::small();
    workspace.index_with(|line| line.linked = line.kind == LineKind::File);
    workspace.forge("references/a.md", "edit");
    assert_eq!(workspace.scan(Level::Stat).verdict, Verdict::Clean, "nothing gives it away");
    let expected = [("references/a.md", Kind::Modified, Severity::Critical)];
    assert_eq!(short(&workspace.scan(Level::Hash)), expected);
    assert_eq!(short(&workspace.scan(Level::Stat)), expected);
}

#[test]
fn another_link_to_a_shared_file_is_not_drift() {
    let workspace = Workspace::small();
    workspace.index_with(|line| line.linked = line.kind == LineKind::File);
    let ctime = |path: &Path| fs::metadata(path).map(|stat| (stat.ctime(), stat.ctime_nsec())).unwrap();
    let path = workspace.path("references/a.md");
    let before = ctime(&path);
    let other = workspace.path(".interlock/other");
    while ctime(&path) == before {
        fs::hard_link(&path, &other).unwrap();
        fs::remove_file(&other).unwrap();
    }
    let report = workspace.scan(Level::Stat);
    assert_eq!((report.verdict, report.scanned.hashed), (Verdict::Clean, 0));
    // A copy in its place has another inode.
    fs::copy(&path, &other).unwrap();
    fs::rename(&other, &path).unwrap();
    workspace.touch(&path, OLD);
    for hashed in [1, 0] {
        let report = workspace.scan(Level::Stat);
        assert_eq!((report.verdict, report.scanned.hashed), (Verdict::Clean, hashed));
    }
    let line = workspace.lines().into_iter().find(|line| line.path == "references/a.md").unwrap();
    assert!(!line.linked, "its ctime means something now");
}

#[test]
fn an_index_is_not_refreshed_while_the_lock_is_held() {
    let workspace = Workspace::small();
    workspace.touch("references/a.md", OLD + 5);
    let before = fs::read(workspace.index_path()).unwrap();
    let lock = File::create(workspace.path(".interlock/lock")).unwrap();
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
    let scan = |refresh| workspace.try_scan(Level::Stat, Options { refresh, threads: None }).unwrap();
    for refresh in [Refresh::IfFree, Refresh::Never] {
        assert_eq!(scan(refresh).verdict, Verdict::Clean);
        assert_eq!(fs::read(workspace.index_path()).unwrap(), before);
        assert_eq!(fs::read_dir(workspace.path(".interlock")).unwrap().count(), 2, "nothing is left behind");
    }
    assert_eq!(scan(Refresh::LockHeld).scanned.hashed, 1);
    assert_eq!(scan(Refresh::Never).scanned.hashed, 0);
}

#[test]
fn a_refreshed_index_differs_only_in_metadata() {
    let workspace = Workspace::small();
    let before = workspace.lines();
    workspace.touch("references/a.md", OLD + 5);
    workspace.scan(Level::Stat);
    let after = workspace.lines();
    let differing: Vec<&str> =
        before.iter().zip(&after).filter(|(old, new)| old != new).map(|(old, _)| old.path.as_str()).collect();
    assert_eq!(differing, ["references/a.md"]);
    let bare =
        |line: &Line| (line.path.clone(), line.mode, line.size, line.blake3.clone(), line.mount_key.clone());
    assert_eq!(before.iter().map(bare).collect::<Vec<_>>(), after.iter().map(bare).collect::<Vec<_>>());
}

#[test]
fn names_next_to_the_slots_are_reported_but_not_entered() {
    let workspace = Workspace::small();
    for path in [
        ".interlock/cas/aa/file",
        ".opencode/runtime.jsonc",
        ".opencode/plugin/x.js",
        "notes/a/b",
        "inputs/not-granted",
        "tmp/kept-from-before",
        "repos/kept-from-before",
    ] {
        workspace.write(path, "x", 0o644);
    }
    let expected = [
        (".opencode/plugin", Kind::Extra, Severity::Warning),
        ("inputs", Kind::Extra, Severity::Warning),
        ("notes", Kind::Extra, Severity::Warning),
    ];
    assert_eq!(short(&workspace.scan(Level::Stat)), expected);
}

#[test]
fn a_link_in_place_of_a_slot_or_its_parent_is_critical() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("canary"), "here").unwrap();
    for (replaced, unsafe_) in
        [("deliverables", "deliverables"), (".opencode", ".opencode"), ("AGENTS.md", "AGENTS.md")]
    {
        let workspace = Workspace::small();
        fs::rename(workspace.path(replaced), workspace.path(".interlock/away")).unwrap();
        symlink(outside.path(), workspace.path(replaced)).unwrap();
        let report = workspace.scan(Level::Hash);
        assert_eq!(report.verdict, Verdict::Critical);
        assert!(short(&report).contains(&(unsafe_, Kind::UnsafeSymlink, Severity::Critical)), "{report:?}");
        assert!(!report.drifts.iter().any(|drift| drift.path.contains("canary")), "it is not followed");
    }
}

#[test]
fn many_new_files_do_not_hide_critical_drift() {
    let workspace = Workspace::small();
    let extra = MAX_LISTED + 50;
    for n in 0..extra {
        File::create(workspace.path(&format!("deliverables/new-{n:05}"))).unwrap();
    }
    fs::remove_file(workspace.path("references/kb.md")).unwrap();
    let report = workspace.scan(Level::Stat);
    assert_eq!((report.drifts.len(), report.truncated), (MAX_LISTED, true));
    assert_eq!((report.counts.info, report.counts.critical), (extra as u64, 1));
    assert_eq!(report.drifts[MAX_LISTED - 1].path, "references/kb.md");
    let sorted = report
        .drifts
        .is_sorted_by(|left, right| compare_paths(left.path.as_bytes(), right.path.as_bytes()).is_le());
    assert!(sorted);
}

#[test]
fn very_deep_directories_do_not_stop_a_scan() {
    let workspace = Workspace::small();
    let mut dir = workspace.dir().open_dir("deliverables").unwrap();
    for _ in 0..600 {
        dir.make_dir("d", 0o755).unwrap();
        dir = dir.open_dir("d").unwrap();
    }
    let report = workspace.scan(Level::Stat);
    assert_eq!(report.verdict, Verdict::Dirty);
    let last = report.drifts.iter().filter(|drift| drift.kind == Kind::Unreadable).collect::<Vec<_>>();
    assert_eq!(last.len(), 1);
    assert!(last[0].actual.as_ref().unwrap().error.as_ref().unwrap().contains("256 directories"));
    fs::remove_dir_all(workspace.path("deliverables")).unwrap();
}

#[test]
fn entries_below_an_unreadable_directory_are_not_reported_missing() {
    let workspace = Workspace::small();
    chmod(&workspace.path("references/kb"), 0o000);
    // A privileged user sees only another mode.
    let readable = fs::read_dir(workspace.path("references/kb")).is_ok();
    let kind = if readable { Kind::ModeChanged } else { Kind::Unreadable };
    let severity = if readable { Severity::Warning } else { Severity::Critical };
    assert_eq!(short(&workspace.scan(Level::Stat)), [("references/kb", kind, severity)]);
    chmod(&workspace.path("references/kb"), 0o755);
}

/// Other systems reject such names.
#[cfg(target_os = "linux")]
#[test]
fn names_that_are_not_utf8_are_reported_with_replacements() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    let workspace = Workspace::small();
    let name = OsStr::from_bytes(b"b\xff\n.md");
    fs::write(workspace.path("references").join(name), "x").unwrap();
    assert_eq!(
        short(&workspace.scan(Level::Hash)),
        [("references/b\u{fffd}\n.md", Kind::Extra, Severity::Critical)]
    );
}

#[test]
fn a_damaged_index_is_an_error() {
    let workspace = Workspace::small();
    let whole = fs::read(workspace.index_path()).unwrap();
    for cut in [0, 10, whole.len() / 2, whole.len() - 1] {
        fs::write(workspace.index_path(), &whole[..cut]).unwrap();
        let error = workspace.try_scan(Level::Stat, Options::default()).unwrap_err();
        assert_eq!(error.code(), Code::ApplyIo);
        assert!(error.message().contains("apply the plan again"), "{error}");
    }
    fs::remove_file(workspace.index_path()).unwrap();
    let error = workspace.try_scan(Level::Stat, Options::default()).unwrap_err();
    assert_eq!(error.code(), Code::LeaseNotFound);
}

#[test]
fn drift_during_an_apply_is_not_reported() {
    let workspace = Workspace::small();
    fs::remove_file(workspace.path("references/a.md")).unwrap();
    let code = || workspace.try_scan(Level::Stat, Options::default()).map_err(|error| error.code());
    fs::write(workspace.path(".interlock/journal.json"), "{}").unwrap();
    assert!(code().is_ok(), "the journal of a crash");
    let lock = File::create(workspace.path(".interlock/lock")).unwrap();
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
    assert_eq!(code().unwrap_err(), Code::LeaseHeld, "an apply at work");
    fs::remove_file(workspace.path(".interlock/journal.json")).unwrap();
    assert!(code().is_ok(), "an apply that has not moved anything yet");
}

#[test]
fn a_repair_gets_the_drifted_mounts_and_slots() {
    let workspace = Workspace::small();
    let scan = || {
        let now = NOW * NANOSECONDS;
        drift::scan_read_only_slots(
            &workspace.dir(),
            &workspace.baseline,
            Level::Hash,
            now,
            Options::default(),
        )
    };
    fs::write(workspace.path("deliverables/a.md"), "the agent's").unwrap();
    assert_eq!(scan().unwrap(), Disrepair::default());
    overwrite(&workspace.path("references/a.md"), "not the agent's");
    fs::write(workspace.path(".opencode/skills/new"), "not the agent's").unwrap();
    let disrepair = scan().unwrap();
    assert_eq!(disrepair.mounts, BTreeSet::from(["mount:references/a.md".to_owned()]));
    assert_eq!(disrepair.slots, BTreeSet::from([Slot::References, Slot::SkillBundles]));
}

#[test]
fn a_scan_of_some_slots_does_not_verify_others() {
    let workspace = Workspace::small();
    for slot in ["references", "deliverables"] {
        workspace.touch(format!("{slot}/a.md"), INDEXED);
    }
    workspace.index_with(|line| line.linked = line.kind == LineKind::File);
    workspace.forge("deliverables/a.md", "edit");
    let now = NOW * NANOSECONDS;
    let options = Options { refresh: Refresh::LockHeld, threads: None };
    drift::scan_read_only_slots(&workspace.dir(), &workspace.baseline, Level::Stat, now, options).unwrap();
    let report = workspace.scan(Level::Stat);
    assert_eq!(report.scanned.hashed, 1, "the file of the other slot, and not that of this one");
    assert_eq!(short(&report), [("deliverables/a.md", Kind::Modified, Severity::Info)]);
}

#[test]
fn a_scan_succeeds_during_concurrent_writes() {
    let workspace = Workspace::small();
    for n in 0..40 {
        workspace.write(&format!("deliverables/d{}/f{n}", n % 4), "text", 0o644);
    }
    workspace.index();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (workspace, stop) = (&workspace, &stop);
            scope.spawn(move || {
                let mut n = writer;
                while !stop.load(Ordering::Relaxed) {
                    n += 1;
                    let dir = workspace.path(&format!("deliverables/d{}", n % 4));
                    let _ = match n % 7 {
                        0 => fs::remove_dir_all(&dir),
                        1 => fs::create_dir_all(&dir),
                        2 => fs::write(&dir, "a file now"),
                        3 => fs::remove_file(&dir),
                        4 => symlink(".", &dir),
                        5 => fs::write(dir.join(format!("f{n}")), vec![b'x'; 1 << (n % 18)]),
                        _ => fs::rename(&dir, workspace.path("deliverables/moved")),
                    };
                }
            });
        }
        let reports: Vec<_> = (0..30)
            .map(|n| {
                let level = if n % 2 == 0 { Level::Stat } else { Level::Hash };
                // A refreshed index is synced, which is slow while others write.
                let refresh = if n % 10 == 0 { Refresh::IfFree } else { Refresh::Never };
                workspace.try_scan(level, Options { refresh, threads: None })
            })
            .collect();
        // No assertions before this point: a panic would wait for the writers, which wait for the
        // end.
        stop.store(true, Ordering::Relaxed);
        for report in reports {
            let report = report.unwrap();
            assert!(report.drifts.iter().all(|drift| drift.path.starts_with("deliverables/")), "{report:?}");
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_scan_finds_exactly_the_differences_with_any_number_of_threads(
        before in tree(), after in tree(), threads in 1_usize..5,
    ) {
        let workspace = Workspace::new();
        for (path, text) in &before {
            workspace.write(&format!("references/{path}"), text, 0o444);
        }
        workspace.index();
        fs::remove_dir_all(workspace.path("references")).unwrap();
        fs::create_dir(workspace.path("references")).unwrap();
        for (path, text) in &after {
            workspace.write(&format!("references/{path}"), text, 0o444);
        }
        let scan = |threads| {
            let options = Options { refresh: Refresh::Never, threads: NonZeroUsize::new(threads) };
            let report = workspace.try_scan(Level::Stat, options).unwrap();
            let seen: Vec<_> =
                report.drifts.iter().map(|drift| (drift.path.clone(), drift.kind)).collect();
            (seen, report.scanned)
        };
        let (seen, scanned) = scan(threads);
        prop_assert_eq!(scan(1), (seen.clone(), scanned));

        let (before, after) = (with_directories(&before), with_directories(&after));
        let mut expected = Vec::new();
        for path in before.keys().chain(after.keys()).collect::<BTreeSet<_>>() {
            let kind = match (before.get(path), after.get(path)) {
                (Some(_), None) => Kind::Missing,
                (None, Some(_)) => Kind::Extra,
                (Some(Some(_)), Some(None)) | (Some(None), Some(Some(_))) => Kind::TypeChanged,
                (Some(old), Some(new)) if old != new => Kind::Modified,
                _ => continue,
            };
            expected.push((format!("references/{path}"), kind));
        }
        expected.sort_by(|left, right| compare_paths(left.0.as_bytes(), right.0.as_bytes()));
        prop_assert_eq!(seen, expected);
    }
}

/// Files of which none is a directory of another.
fn tree() -> impl Strategy<Value = BTreeMap<String, String>> {
    proptest::collection::btree_map("[ab.](/[ab ]){0,2}", "[xy]{0,2}", 0..12).prop_map(|files| {
        let paths: Vec<String> = files.keys().cloned().collect();
        let is_dir = |path: &String| paths.iter().any(|other| other.starts_with(&format!("{path}/")));
        files.into_iter().filter(|(path, _)| !is_dir(path) && !path.starts_with('.')).collect()
    })
}

fn with_directories(files: &BTreeMap<String, String>) -> BTreeMap<String, Option<String>> {
    let mut all = BTreeMap::new();
    for (path, text) in files {
        all.insert(path.clone(), Some(text.clone()));
        for (at, _) in path.match_indices('/') {
            all.insert(path[..at].to_owned(), None);
        }
    }
    all
}
