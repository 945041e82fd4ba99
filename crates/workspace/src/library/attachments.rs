//! The attachments of a session.
//!
//! Uploads can have equal names, but files in a folder cannot: subfolders of the session's folder
//! separate them and are not visible to the agent. The order of uploads is the order of paths.

use std::collections::BTreeSet;

use unicode_normalization::UnicodeNormalization as _;

use super::limits::{ATTACHMENTS, Count};
use super::walk::{EntryKind, FolderWalk, WalkEntry};
use super::{files, key, put};
use crate::resolve::{Content, Sink};
use crate::rooted::Dir;
use crate::{Code, Error};

/// The longest name of common file systems.
const MAX_NAME_BYTES: usize = 255;

/// Every attachment of a session under its name. A session without a folder has none.
pub(super) fn of_session(root: &Dir, session: &str, sink: &mut dyn Sink) -> Result<(), Error> {
    let path = key::path("session", session, || format!("attachments/{session}"))?;
    let Some(folder) = files::folder_if_any(root, &path)? else {
        return Ok(());
    };
    let mut count = Count::of(ATTACHMENTS);
    let mut names = Names::default();
    let hidden = |path: &str| path.rsplit('/').next().is_some_and(|name| name.starts_with('.'));
    let walk = FolderWalk { label: &path, code: Code::ResolveBadResponse, links: false, skip: &hidden };
    walk.run(&folder, &mut |found| {
        let WalkEntry { path, what: EntryKind::File { file, .. } } = found else { return Ok(()) };
        count.add(1)?;
        let name = names.give(path.rsplit('/').next().unwrap_or(&path));
        // Uploaded files are never executable.
        Ok(put(sink, name, false, Content::File(file))?)
    })
}

/// The names used so far.
#[derive(Debug, Default)]
struct Names {
    /// Compared case-insensitively and with composed characters, so that a workspace can be moved
    /// to such a file system.
    given: BTreeSet<String>,
}

impl Names {
    /// The name, or the first free one of ` (2)`, ` (3)` …
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
