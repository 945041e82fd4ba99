//! A drift scan takes at most 1.5 times as long as `find` printing the same facts or, reading all
//! bytes, 1.3 times as long as `sha256sum` with two processes.
//!
//! Both sides of a ratio are measured in turns in the same run, and the fastest turn of each counts, so that a busy
//! machine moves both or neither. The first scan is not measured: it reads the fresh files, and refreshes the index. Ends with
//! 1 if a limit is broken. `cargo bench -p workspace --bench drift`; a number makes that many files.
#![expect(clippy::print_stdout, reason = "the table is what this program is for")]

use std::fs::{self, File, FileTimes};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant, SystemTime};

use workspace::drift::{self, Baseline, Level, Options, Verdict};
use workspace::index::{self, Header, Line, LineKind, Writer};
use workspace::plan::Grant;
use workspace::rooted::Dir;
use workspace::slot::{Mode, Slot};

/// The number and size of files, a hundred per directory.
const FILES: usize = 100_000;
const BYTES: usize = 4096;
const PER_DIRECTORY: usize = 100;

const TURNS: usize = 5;

/// The limits relative to the other program.
const MOST_PER_FIND: f64 = 1.5;
const MOST_PER_SHA256SUM: f64 = 1.3;

const FIND: &str = r"find . -printf '%p %s %m %T@ %C@ %i\n' > /dev/null";
const SHA256SUM: &str = "find . -type f -print0 | xargs -0 -P2 -n 500 sha256sum > /dev/null";

fn main() -> ExitCode {
    let files = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(FILES);
    let root = tempfile::tempdir().expect("a temporary directory");
    make(root.path(), files);
    let dir = Dir::open_root(root.path()).expect("the directory just made");
    let grants = vec![Grant { slot: Slot::References, mode: Mode::ReadOnly }];
    let baseline = Baseline { index: index::FILE_NAME.into(), grants };
    let scan = |level| {
        let report = drift::scan(&dir, &baseline, level, now_ns(), Options::default()).expect("a scan");
        assert_eq!(report.verdict, Verdict::Clean);
        report
    };
    let first = scan(Level::Stat);
    println!("first scan, all files fresh: {} ms, {} hashed", first.duration_ms, first.scanned.hashed);
    let mut broken = false;
    println!("{:<6} {:>10} {:>10} {:>7} {:>6}", "level", "scan", "other", "ratio", "most");
    for (level, name, other, most) in
        [(Level::Stat, "stat", FIND, MOST_PER_FIND), (Level::Hash, "hash", SHA256SUM, MOST_PER_SHA256SUM)]
    {
        let mut fastest = [Duration::MAX; 2];
        for _ in 0..TURNS {
            let began = Instant::now();
            let report = scan(level);
            fastest[0] = fastest[0].min(began.elapsed());
            assert_eq!(report.scanned.files, files as u64);
            assert_eq!(report.scanned.hashed, if level == Level::Hash { files as u64 } else { 0 });
            let began = Instant::now();
            run(other, &root.path().join("references"));
            fastest[1] = fastest[1].min(began.elapsed());
        }
        let [scan, other] = fastest.map(|time| time.as_secs_f64() * 1000.0);
        let ratio = scan / other;
        println!("{name:<6} {scan:>7.1} ms {other:>7.1} ms {ratio:>7.2} {most:>6}");
        broken |= ratio > most;
    }
    println!("memory: {} KiB at most, in the whole run", peak_kib());
    if broken { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Creates the tree and its index.
fn make(root: &Path, files: usize) {
    fs::create_dir_all(root.join(".interlock")).expect("the state folder");
    fs::create_dir_all(root.join("references")).expect("the slot");
    let old = SystemTime::now() - Duration::from_secs(60);
    let header = Header { apply_id: "0".repeat(64), generation: 1, written_at_ns: ns(old) };
    let index = File::create(root.join(".interlock").join(index::FILE_NAME)).expect("the index");
    let mut writer = Writer::new(index, &header).expect("the header");
    writer.push(&Line::directory("references", None, 0o755)).expect("a line");
    for directory in 0..files.div_ceil(PER_DIRECTORY) {
        let directory_path = format!("references/directory-{directory:06}");
        fs::create_dir(root.join(&directory_path)).expect("a directory");
        writer.push(&Line::directory(&directory_path, None, 0o755)).expect("a line");
        for number in 0..PER_DIRECTORY.min(files - directory * PER_DIRECTORY) {
            let path = format!("{directory_path}/file-{number:03}.md");
            let bytes = format!("{path} ").repeat(BYTES);
            let bytes = &bytes.as_bytes()[..BYTES];
            fs::write(root.join(&path), bytes).expect("a file");
            let file = File::open(root.join(&path)).expect("the file just made");
            file.set_times(FileTimes::new().set_modified(old)).expect("its time");
            let stat = file.metadata().expect("its metadata");
            let line = Line {
                path,
                mount_key: Some("references:kb:handbook".into()),
                kind: LineKind::File,
                size: stat.len(),
                mode: stat.mode() & 0o7777,
                blake3: blake3::hash(bytes).to_hex().to_string(),
                mtime_ns: stat.mtime() * 1_000_000_000 + stat.mtime_nsec(),
                ctime_ns: stat.ctime() * 1_000_000_000 + stat.ctime_nsec(),
                ino: stat.ino(),
                linked: false,
                target: None,
            };
            writer.push(&line).expect("a line");
        }
    }
    writer.finish().expect("the end");
    fs::set_permissions(root.join("references"), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("the mode that the index has");
}

fn run(command: &str, directory: &Path) {
    let status =
        Command::new("sh").args(["-c", command]).current_dir(directory).stdin(Stdio::null()).status();
    assert!(status.expect("a shell").success(), "{command}");
}

fn now_ns() -> i64 {
    ns(SystemTime::now())
}

fn ns(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).expect("a time after 1970");
    i64::try_from(since.as_nanos()).expect("a time before 2262")
}

/// The peak memory of this process, if the system reports it.
fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
