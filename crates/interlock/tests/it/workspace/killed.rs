//! Concurrent and killed processes.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use serde_json::Value;

use super::site::Site;
use crate::program::{interlock, text};

/// Enough files that an apply takes a while.
const PAGES: usize = 2_000;

/// A library whose handbook has many pages that contain `word`.
fn large_library(site: &Site, word: &str) -> PathBuf {
    let library = if site.path("library").exists() { site.path("library") } else { site.copied_library() };
    let folder = library.join("kb/handbook");
    let mut body = String::new();
    while body.len() < 4_000 {
        writeln!(body, "{word} {word} {word} {word}").unwrap();
    }
    for page in 0..PAGES {
        fs::write(folder.join(format!("page-{page}.md")), format!("# {word} {page}\n{body}")).unwrap();
    }
    library
}

fn spawn(site: &Site, library: &Path) -> Child {
    let mut arguments = site.apply_arguments(&site.path("plan.json"), library);
    // The library changed under the same plan, so the applied plan must be verified.
    arguments.extend(["--rw", "reset", "--json"].map(str::to_owned));
    interlock(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The distinct first words of the pages.
fn words(site: &Site) -> Vec<String> {
    let folder = site.root().join("references/kb/handbook");
    let mut words: Vec<String> = (0..PAGES)
        .filter_map(|page| fs::read_to_string(folder.join(format!("page-{page}.md"))).ok())
        .map(|text| text.split(' ').nth(1).unwrap_or_default().to_owned())
        .collect();
    words.sort();
    words.dedup();
    words
}

#[test]
fn a_killed_apply_is_recovered_by_the_next() {
    let site = Site::new();
    site.plan();
    let library = large_library(&site, "old");
    assert!(spawn(&site, &library).wait().unwrap().success());
    assert_eq!(words(&site), ["old"]);

    let state = site.root().join(".interlock");
    // Killed when this condition holds: while files arrive, after many arrived, while slots are
    // promoted.
    let moments: [&dyn Fn() -> bool; 3] = [
        &|| fs::read_dir(state.join("staging")).is_ok_and(|mut names| names.next().is_some()),
        &|| count_files(&state.join("staging")) > PAGES / 2,
        &|| state.join("journal.json").exists() || state.join("journal").exists(),
    ];
    for (number, moment) in moments.into_iter().enumerate() {
        let word = format!("new{number}");
        let library = large_library(&site, &word);
        let before = words(&site);
        let mut child = spawn(&site, &library);
        while child.try_wait().unwrap().is_none() && !moment() {
            std::thread::yield_now();
        }
        // If it finished first, there is nothing to recover.
        let _ = child.kill();
        child.wait().unwrap();
        let seen = words(&site);
        assert!(seen == before || seen == [word.clone()], "a slot is either old or new: {seen:?}");

        let output = spawn(&site, &library).wait_with_output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stdout));
        assert_eq!(words(&site), [word]);
        assert_eq!(site.drift(0)["verdict"], "clean");
        let left = |folder: &str| count_files(&state.join(folder));
        assert_eq!((left("staging"), left("trash")), (0, 0), "no leftovers");
    }
}

fn count_files(folder: &Path) -> usize {
    let mut count = 0;
    let mut waiting = vec![folder.to_owned()];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => waiting.push(entry.path()),
                _ => count += 1,
            }
        }
    }
    count
}

/// case 46
#[test]
fn concurrent_applies_of_one_plan_do_the_work_once() {
    let site = Site::new();
    site.plan();
    let library = large_library(&site, "one");
    let arguments = {
        let mut arguments = site.apply_arguments(&site.path("plan.json"), &library);
        arguments.push("--json".to_owned());
        arguments
    };
    let start = || {
        interlock(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let reports: Vec<Value> = [start(), start(), start()]
        .map(|child| child.wait_with_output().unwrap())
        .iter()
        .map(|output| {
            assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
            serde_json::from_slice(&output.stdout).unwrap()
        })
        .collect();
    let applied: Vec<&Value> = reports.iter().filter(|report| report["status"] == "applied").collect();
    assert!(!applied.is_empty());
    for report in &reports {
        // Callers in time get the same report; later callers find the plan applied.
        let joined = report == applied[0];
        let late = report["status"] == "cached" && report["upstreamCalls"] == 0;
        assert!(joined || late, "{report}");
        assert_eq!(report["generation"], 1);
    }
    assert_eq!(words(&site), ["one"]);
    assert_eq!(site.drift(0)["verdict"], "clean");
}

#[test]
fn drift_and_agent_writes_work_during_an_apply() {
    let site = Site::new();
    site.plan();
    let library = large_library(&site, "first");
    assert!(spawn(&site, &library).wait().unwrap().success());
    let arguments = site.apply_arguments(&site.path("plan.json"), &large_library(&site, "second"));
    // A page was modified, so that there is something to repair.
    let page = site.root().join("references/kb/handbook/page-7.md");
    super::make_writable(&page);
    fs::write(&page, "tampered").unwrap();
    let mut child = interlock(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut written = 0;
    while child.try_wait().unwrap().is_none() {
        fs::write(site.root().join(format!("deliverables/draft-{written}.md")), "draft").unwrap();
        written += 1;
        let root = site.root();
        let report = site.run_with(&["workspace", "drift", "--root", root.to_str().unwrap(), "--json"], b"");
        assert!(matches!(report.status.code(), Some(0 | 1)), "{}", text(&report.stdout));
    }
    assert!(child.wait().unwrap().success());
    for number in 0..written {
        assert!(
            site.root().join(format!("deliverables/draft-{number}.md")).exists(),
            "draft {number} is kept"
        );
    }
    assert_ne!(fs::read_to_string(page).unwrap(), "tampered");
}
