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

/// The paths of a `use` statement, with its braces expanded.
fn expanded(statement: &str) -> Vec<String> {
    let Some((before, rest)) = statement.split_once('{') else { return vec![statement.trim().to_owned()] };
    let inside = rest.rsplit_once('}').unwrap().0;
    let parts = inside.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(|part| format!("{}{part}", before.trim())).collect()
}

/// The paths that a file uses from the root of the crate. `depth` is how many modules the file is below the root.
fn used(text: &str, depth: usize) -> Vec<String> {
    let root = "super::".repeat(depth);
    let statements = text.split(';').filter_map(|part| {
        let at = part.rfind("use ")?;
        let is_statement = part[..at].trim_end().is_empty() || part[..at].ends_with(['\n', ' ', ')']);
        is_statement.then(|| part[at + 4..].replace('\n', " "))
    });
    let paths = statements.flat_map(|statement| expanded(&statement));
    let of_root = |path: String| {
        let rest = path.strip_prefix("crate::").or_else(|| path.strip_prefix(root.as_str()))?;
        // A test module names its parent in the same way.
        (!rest.starts_with("super::") && rest != "*").then(|| rest.to_owned())
    };
    paths.filter_map(of_root).collect()
}

/// What the root of the crate exports again, by name, with the module that it comes from.
fn exported() -> HashMap<String, String> {
    let text = fs::read_to_string(sources().join("lib.rs")).unwrap();
    let mut exported = HashMap::new();
    for statement in text.split(';').filter_map(|part| Some(part.split_once("use self::")?.1.to_owned())) {
        for path in expanded(&statement.replace('\n', " ")) {
            let module = path.split("::").next().unwrap().to_owned();
            let last = path.rsplit("::").next().unwrap();
            let name = last.rsplit(" as ").next().unwrap();
            exported.insert(name.to_owned(), module);
        }
    }
    exported
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
        for path in used(&fs::read_to_string(&file).unwrap(), parts.len()) {
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
