//! The documentation builds as a site: `docs/SUMMARY.md` lists every page, and every link leads somewhere.
//!
//! The pages of errors and failures are listed by [`the_navigation_lists_every_page_once`] when `UPDATE_DOCS=1` is set.
#![expect(clippy::disallowed_methods, reason = "the ban on files is for the kernel, not for its tests")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::documentation::{pages, repository};

/// The targets of the links in a text that lead to files.
fn links(text: &str) -> Vec<&str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|link| !link.starts_with("https://")).collect()
}

/// The lines of a page that are not in a code block.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut in_block = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        in_block ^= is_fence;
        !in_block && !is_fence
    })
}

/// The anchors of a page: explicit ones, and those that its headings get on the site and in repository browsers.
fn anchors(page: &str) -> BTreeSet<String> {
    let written = page.split("<a id=\"").skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned);
    let headings = prose(page).filter(|line| line.starts_with('#')).map(|line| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.collect::<String>().replace(' ', "-")
    });
    written.chain(headings).collect()
}

#[test]
fn every_link_of_the_documentation_has_a_target() {
    for (path, text) in pages() {
        for link in links(&text) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { path.clone() } else { path.with_file_name("").join(file) };
            assert!(target.exists(), "{path:?} links to {link}");
            if !anchor.is_empty() {
                let page = std::fs::read_to_string(&target).unwrap();
                assert!(anchors(&page).contains(anchor), "{path:?} links to {link}");
            }
        }
    }
}

/// A site has the files below `docs/` and nothing else. A folder has no page on it.
#[test]
fn no_link_of_a_page_leaves_the_site() {
    let docs = repository().join("docs").canonicalize().unwrap();
    for (path, text) in pages() {
        let path = path.canonicalize().unwrap();
        if !path.starts_with(&docs) {
            continue;
        }
        for link in links(&text) {
            let file = link.split('#').next().unwrap_or_default();
            if file.is_empty() {
                continue;
            }
            let target = path.with_file_name("").join(file).canonicalize();
            let target = target.unwrap_or_else(|error| panic!("{path:?} links to {link}: {error}"));
            assert!(target.starts_with(&docs), "{path:?} links to {link}, which is not part of the site");
            assert!(target.is_file(), "{path:?} links to the folder {link}");
        }
    }
}

/// The pages below a folder of `docs/`, with their names relative to `docs/`, sorted.
fn files(folder: &str) -> Vec<String> {
    let docs = repository().join("docs");
    let mut found: Vec<String> = pages()
        .into_iter()
        .filter_map(|(path, _)| {
            let name: &Path = path.strip_prefix(&docs).ok()?;
            Some(name.to_str().expect("names are UTF-8").to_owned())
        })
        .filter(|name| name.starts_with(folder) && name != "SUMMARY.md")
        .collect();
    found.sort();
    found
}

/// The navigation with a fresh list below the index of each folder of codes.
fn with_codes(summary: &str) -> String {
    let mut fresh = String::new();
    let mut in_codes = false;
    for line in summary.lines() {
        if in_codes && line.starts_with("  - ") {
            continue;
        }
        writeln!(fresh, "{line}").unwrap();
        let index = ["errors/", "failures/"]
            .into_iter()
            .find(|folder| line.contains(&format!("({folder}README.md)")));
        in_codes = index.is_some();
        for page in index.map(files).unwrap_or_default() {
            let name = page.rsplit('/').next().and_then(|name| name.strip_suffix(".md")).unwrap_or_default();
            if name != "README" {
                writeln!(fresh, "  - [{name}]({page})").unwrap();
            }
        }
    }
    fresh
}

#[test]
fn the_navigation_lists_every_page_once() {
    let path: PathBuf = repository().join("docs/SUMMARY.md");
    let mut summary = std::fs::read_to_string(&path).unwrap();
    if std::env::var_os("UPDATE_DOCS").is_some_and(|value| value == "1") {
        summary = with_codes(&summary);
        std::fs::write(&path, &summary).unwrap();
    }
    let mut listed: Vec<&str> = links(&summary).into_iter().filter(|link| !link.is_empty()).collect();
    listed.sort_unstable();
    let expected = files("");
    assert_eq!(
        listed, expected,
        "list each page of docs/ once in docs/SUMMARY.md, or run with UPDATE_DOCS=1"
    );
}
