//! What was attached to a session.
//!
//! A file system has each name once, uploads do not: folders below that of the session keep equal
//! names apart, and are not part of what the agent sees. The order of uploads is that of the paths.

use std::collections::BTreeSet;

use unicode_normalization::UnicodeNormalization as _;

use super::limits::{ATTACHMENTS, Count};
use super::walk::{Found, Walk, What};
use super::{key, put, shelf};
use crate::resolve::{Content, Sink};
use crate::rooted::Dir;
use crate::{Code, Error};

/// The longest name that common file systems have.
const MAX_NAME_BYTES: usize = 255;

/// Every attachment of a session under its own name. A session without a folder has none.
pub(super) fn of_session(root: &Dir, session: &str, sink: &mut dyn Sink) -> Result<(), Error> {
    let path = key::path("session", session, || format!("attachments/{session}"))?;
    let Some(folder) = shelf::folder_if_any(root, &path)? else {
        return Ok(());
    };
    let mut count = Count::of(ATTACHMENTS);
    let mut names = Names::default();
    let hidden = |path: &str| path.rsplit('/').next().is_some_and(|name| name.starts_with('.'));
    let walk = Walk { label: &path, code: Code::ResolveBadResponse, links: false, skip: &hidden };
    walk.run(&folder, &mut |found| {
        let Found { path, what: What::File { file, .. } } = found else { return Ok(()) };
        count.add(1)?;
        let name = names.give(path.rsplit('/').next().unwrap_or(&path));
        // What a stranger attached is never a program.
        Ok(put(sink, name, false, Content::File(file))?)
    })
}

/// The names that are given so far.
#[derive(Debug, Default)]
struct Names {
    /// As a file system sees them that folds case and composes characters, so that a workspace can be
    /// moved to one.
    given: BTreeSet<String>,
}

impl Names {
    /// The name itself, or the first ` (2)`, ` (3)` … that is free.
    fn give(&mut self, name: &str) -> String {
        if self.given.insert(folded(name)) {
            return name.to_owned();
        }
        let (stem, extension) = match name.rfind('.') {
            Some(dot) if dot > 0 => name.split_at(dot),
            _ => (name, ""),
        };
        let mut number = 2_u32;
        loop {
            let suffix = format!(" ({number}){extension}");
            let room = MAX_NAME_BYTES.saturating_sub(suffix.len());
            let name = format!("{}{suffix}", &stem[..stem.floor_char_boundary(room)]);
            if self.given.insert(folded(&name)) {
                return name;
            }
            number += 1;
        }
    }
}

fn folded(name: &str) -> String {
    name.nfc().flat_map(char::to_lowercase).nfc().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_are_numbered_before_the_extension() {
        let long = format!("{}.txt", "é".repeat(125));
        let long_second = format!("{} (2).txt", "é".repeat(123));
        #[rustfmt::skip]
        let cases = [
            ("a.txt",      "a.txt"),
            ("a.txt",      "a (2).txt"),
            ("A.TXT",      "A (3).TXT"),
            ("a (2).txt",  "a (2) (2).txt"),
            (".env",       ".env"),
            (".env",       ".env (2)"),
            ("b",          "b"),
            ("b",          "b (2)"),
            ("c.tar.gz",   "c.tar.gz"),
            ("c.tar.gz",   "c.tar (2).gz"),
            ("\u{e9}",     "\u{e9}"),
            ("e\u{301}",   "e\u{301} (2)"),
            (&long,        &long),
            (&long,        &long_second),
        ];
        let mut names = Names::default();
        for (name, expected) in cases {
            let given = names.give(name);
            assert_eq!(given, expected, "{name}");
            assert!(given.len() <= MAX_NAME_BYTES);
        }
    }
}
