//! The services of the crate depend on each other in one direction.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The modules of the crate. Each may use only those before it.
const ORDER: [&str; 21] = [
    "caller",
    "refusal",
    "rates",
    "mcp_clients",
    "features",
    "compute_pool",
    "records",
    "audit",
    "keys",
    "definitions",
    "states",
    "interrupt_tokens",
    "connections",
    "webhooks",
    "traces",
    "queries",
    "artifacts",
    "annotations",
    "retention",
    "engine",
    "commands",
];

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn files_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_below(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// The paths that a file imports, with braces expanded.
fn imported(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap();
    let (mut lines, mut paths) = (text.lines(), Vec::new());
    while let Some(line) = lines.next() {
        let words = ["use ", "pub use ", "pub(crate) use "];
        let Some(start) = words.iter().find_map(|word| line.trim_start().strip_prefix(word)) else {
            continue;
        };
        let mut statement = start.to_owned();
        while !statement.ends_with(';') {
            statement.push_str(lines.next().unwrap().trim());
        }
        let statement = statement.trim_end_matches(';');
        match statement.split_once('{') {
            None => paths.push(statement.to_owned()),
            Some((before, inside)) => {
                let inside = inside.strip_suffix('}').unwrap();
                let parts = inside.split(',').map(str::trim).filter(|part| !part.is_empty());
                paths.extend(parts.map(|part| format!("{before}{part}")));
            }
        }
    }
    paths
}

/// The paths that a file imports from the root of the crate. `depth` is how many modules the file is below the root.
fn of_root(file: &Path, depth: usize) -> Vec<String> {
    let root = "super::".repeat(depth);
    let rest = |path: &String| {
        let rest = path.strip_prefix("crate::").or_else(|| path.strip_prefix(root.as_str()))?;
        // A test module names its parent in the same way.
        (!rest.starts_with("super::") && rest != "*").then(|| rest.to_owned())
    };
    imported(file).iter().filter_map(rest).collect()
}

/// What the root of the crate exports again, by name, with the module that it comes from.
fn exported() -> HashMap<String, String> {
    let paths = imported(&sources().join("lib.rs"));
    let paths = paths.iter().filter_map(|path| path.strip_prefix("self::"));
    let named = paths.map(|path| {
        let last = path.rsplit("::").next().unwrap();
        (last.rsplit(" as ").next().unwrap().to_owned(), path.split("::").next().unwrap().to_owned())
    });
    named.collect()
}

#[test]
fn a_service_uses_only_services_before_it() {
    let exported = exported();
    assert_eq!(exported["Following"], "states", "what the root exports again is known");
    let place = |module: &str| ORDER.iter().position(|known| *known == module);
    let (mut files, mut wrong, mut uses) = (Vec::new(), Vec::new(), 0);
    files_below(&sources(), &mut files);
    for file in files {
        let relative = file.strip_prefix(sources()).unwrap().with_extension("");
        let parts: Vec<_> = relative.iter().map(|part| part.to_str().unwrap()).collect();
        if parts == ["lib"] {
            continue;
        }
        let own = place(parts[0]).unwrap_or_else(|| panic!("{} has no place in the order", parts[0]));
        for path in of_root(&file, parts.len()) {
            let first = path.split("::").next().unwrap();
            let module = exported.get(first).map_or(first, String::as_str);
            uses += 1;
            match place(module) {
                Some(other) if other > own => wrong.push(format!("{} uses {path}", relative.display())),
                Some(_) => {}
                // The secrets of tokens belong to no service.
                None => assert_eq!(module, "TokenSecrets", "{} uses {path}", relative.display()),
            }
        }
    }
    assert!(uses > 100, "the sources were read: {uses}");
    assert!(wrong.is_empty(), "{wrong:#?}");
}
