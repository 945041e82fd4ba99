//! Finds entries with conflicting paths in O(n log n).
//!
//! A file path is exclusive: nothing else may be at it or below it. Folders can share a path, nest,
//! and contain files; collisions inside them are found only when they are fetched.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashMap;

use super::{Draft, Problems, Stage, path, quoted};
use crate::slot::Slot;
use crate::{Code, Error};

/// An entry with a path.
struct Placed<'a> {
    slot: Slot,
    path: Cow<'a, str>,
    is_file: bool,
    index: usize,
    rel_path: &'a str,
}

/// A path with a file, on the way down to the current one.
struct Above<'p> {
    slot: Slot,
    path: &'p str,
    /// The files at the path.
    files: Vec<usize>,
    /// The first file at the path or above it.
    first_file: usize,
    /// The first entry below the path.
    first_below: Option<usize>,
    /// The first entry at the path.
    first_here: usize,
}

/// Records each entry that conflicts with an earlier entry, once, with the first such entry.
pub(super) fn find(drafts: &[Draft<'_>], fold_case: bool, problems: &mut Problems) {
    let mut placed: Vec<Placed<'_>> = drafts.iter().filter_map(|draft| place(draft, fold_case)).collect();
    placed.sort_by(|left, right| {
        let paths = || by_names(&left.path, &right.path);
        left.slot.cmp(&right.slot).then_with(paths).then(left.index.cmp(&right.index))
    });

    // For each entry, the index of the first earlier entry in conflict with it.
    let mut partners: Vec<(usize, usize)> = Vec::new();
    let mut note = |entry: usize, other: Option<usize>| {
        if let Some(other) = other.filter(|other| *other < entry) {
            partners.push((entry, other));
        }
    };
    let mut above: Vec<Above<'_>> = Vec::new();
    for group in placed.chunk_by(|left, right| left.slot == right.slot && left.path == right.path) {
        let Placed { slot, path, index: first_here, .. } = &group[0];
        while above.last().is_some_and(|file| file.slot != *slot || !is_below(path, file.path)) {
            leave(&mut above, &mut note);
        }
        let file_above = above.last().map(|file| file.first_file);
        let files: Vec<usize> = group.iter().filter(|entry| entry.is_file).map(|entry| entry.index).collect();
        for entry in group {
            let beside = if entry.is_file { Some(*first_here) } else { files.first().copied() };
            note(entry.index, beside.into_iter().chain(file_above).min());
        }
        if let Some(first) = files.first().copied() {
            let first_file = file_above.map_or(first, |above| above.min(first));
            above.push(Above {
                slot: *slot,
                path,
                files,
                first_file,
                first_below: None,
                first_here: *first_here,
            });
        } else if let Some(file) = above.last_mut() {
            file.saw_below(*first_here);
        }
    }
    while !above.is_empty() {
        leave(&mut above, &mut note);
    }

    if partners.is_empty() {
        return;
    }
    // An entry may conflict with one next to or above it and one below it: report the first.
    partners.sort_unstable();
    partners.dedup_by_key(|(entry, _)| *entry);
    let paths: HashMap<usize, &str> = placed.iter().map(|entry| (entry.index, entry.rel_path)).collect();
    for (entry, other) in partners {
        problems.add(entry, Stage::Conflict, conflict(paths[&entry], other, paths[&other]));
    }
}

impl Above<'_> {
    fn saw_below(&mut self, index: usize) {
        self.first_below = Some(self.first_below.map_or(index, |first| first.min(index)));
    }
}

/// Everything below the innermost file has been seen.
fn leave(above: &mut Vec<Above<'_>>, note: &mut impl FnMut(usize, Option<usize>)) {
    let Some(left) = above.pop() else { return };
    for file in left.files {
        note(file, left.first_below);
    }
    if let Some(outer) = above.last_mut() {
        outer.saw_below(left.first_here);
        if let Some(below) = left.first_below {
            outer.saw_below(below);
        }
    }
}

fn place<'a>(draft: &Draft<'a>, fold_case: bool) -> Option<Placed<'a>> {
    let (slot, rel_path, kind) = (draft.slot?, draft.rel_path?, draft.kind?);
    let path = if fold_case { Cow::Owned(path::folded(rel_path)) } else { Cow::Borrowed(rel_path) };
    Some(Placed { slot, path, is_file: !kind.is_tree(), index: draft.index, rel_path })
}

/// Compares paths by names: `a/b` follows directly after `a`, and `a.b` after everything in `a`. A
/// safe path has no NUL, so NUL can represent `/`.
fn by_names(left: &str, right: &str) -> Ordering {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    let weight = |byte: u8| if byte == b'/' { 0 } else { byte };
    match left.iter().zip(right).find(|(left, right)| left != right) {
        Some((left, right)) => weight(*left).cmp(&weight(*right)),
        None => left.len().cmp(&right.len()),
    }
}

/// Whether `path` is below `file`. The empty path is the slot itself, and everything is below it.
fn is_below(path: &str, file: &str) -> bool {
    match path.strip_prefix(file) {
        Some(rest) => file.is_empty() || rest.starts_with('/'),
        None => false,
    }
}

fn conflict(rel_path: &str, other: usize, other_path: &str) -> Error {
    let (path, other_path) = (quoted(rel_path), quoted(other_path));
    let message = if path == other_path {
        format!("{path:?} is already used by entry {other}")
    } else {
        format!("{path:?} conflicts with {other_path:?} of entry {other}")
    };
    Error::new(Code::PlanPathConflict, message).detail("relPath", path).detail("first", other)
}
