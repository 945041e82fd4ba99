//! Installing a pack of a thousand files, beside `tar -x` and one sync of the file system.
//!
//! `cargo bench -p packs --bench install` prints the medians and their ratio, with `-- --short` after fewer rounds, and ends with 1 when
//! installing takes more than one and a half times as long. `BENCH_DIR` names a directory on another disk.
//!
//! Both unpack the same archive into a new folder of the same disk, and both end when everything is on it: `tar` with one `syncfs` behind
//! it, installing with what it does by itself. Beside that, installing reads the manifest, digests the archive and every file, judges
//! the pack, and moves it into its place in one step.
#![expect(clippy::print_stdout, reason = "a benchmark is read by people")]
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on has failed")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use canon::time::Timestamp;
use packs::archive::Limits;
use packs::install::{HostFacts, Install, InstalledPacks};
use packs::path::EntryPath;
use packs::trust::TrustPolicy;

const FILES: usize = 1000;
const ROUNDS: usize = 31;
const SHORT: usize = 9;
const BOUND: f64 = 1.5;

fn main() -> ExitCode {
    // `cargo test` only checks that it builds.
    if std::env::args().any(|argument| argument == "--test" || argument == "--list") {
        return ExitCode::SUCCESS;
    }
    let rounds = if std::env::args().any(|argument| argument == "--short") { SHORT } else { ROUNDS };
    let archive = archive();
    let disk = std::env::var_os("BENCH_DIR").unwrap_or_else(|| env!("CARGO_TARGET_TMPDIR").into());
    let folder = tempfile::tempdir_in(disk).unwrap();
    let packed = folder.path().join("pack.tgz");
    std::fs::write(&packed, &archive).unwrap();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        // In turns, so that both meet the same machine.
        theirs.push(untar(&packed, &folder.path().join(format!("tar-{round}"))));
        ours.push(install(&archive, &folder.path().join(format!("packs-{round}"))));
    }
    let (ours, theirs) = (median(ours), median(theirs));
    let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
    println!("{FILES} files, {} bytes packed, median of {rounds}", archive.len());
    println!("  tar -x and syncfs  {theirs:>10.2?}");
    println!("  install            {ours:>10.2?}   {ratio:.2} of tar and syncfs, at most {BOUND}");
    if ratio > BOUND {
        println!("\nBroken: install.");
        return ExitCode::FAILURE;
    }
    println!("\nEvery limit holds.");
    ExitCode::SUCCESS
}

/// A thousand files of about two kilobytes, in fifty folders.
fn archive() -> Vec<u8> {
    let manifest = br#"{"name":"vendor.acme.many","version":"1.0.0","engines":{"openwop":"*"},"nodes":[{"typeId":"acme.x","version":"1","category":"data","role":"r"}],"runtime":{"language":"wasm","entry":"f/0/0.js"}}"#;
    let contents: Vec<Vec<u8>> =
        (0..FILES).map(|n| format!("export const value = {n};\n").repeat(n % 160 + 1).into_bytes()).collect();
    let mut files = BTreeMap::from([(EntryPath::parse("pack.json").unwrap(), (manifest.as_slice(), false))]);
    for (n, content) in contents.iter().enumerate() {
        let path = EntryPath::parse(&format!("f/{}/{n}.js", n / 20)).unwrap();
        files.insert(path, (content.as_slice(), false));
    }
    packs::archive::write(&files).unwrap()
}

fn install(archive: &[u8], root: &Path) -> Duration {
    let policy = TrustPolicy::open();
    let host = HostFacts::everything([]);
    let installed = InstalledPacks::open(root).unwrap();
    let request = Install {
        archive,
        expected: None,
        policy: &policy,
        host: &host,
        limits: Limits::DEFAULT,
        now: Timestamp(0),
    };
    let start = Instant::now();
    let pack = installed.install(&request).unwrap();
    let took = start.elapsed();
    assert_eq!(pack.record.files.len(), FILES + 1);
    took
}

fn untar(archive: &Path, root: &Path) -> Duration {
    std::fs::create_dir(root).unwrap();
    let start = Instant::now();
    let status = Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(root).status().unwrap();
    assert!(status.success());
    rustix::fs::syncfs(std::fs::File::open(root).unwrap()).unwrap();
    start.elapsed()
}

fn median(mut durations: Vec<Duration>) -> Duration {
    durations.sort_unstable();
    durations[durations.len() / 2]
}
