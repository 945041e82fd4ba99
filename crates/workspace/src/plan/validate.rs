//! Validates a plan.
//!
//! A plan is a file that may come from anywhere. [`ValidPlan::check`] checks all of it before
//! anything is fetched, and reports all problems at once.
//!
//! Unknown members are ignored. They are not applied, so they are not in the
//! [digest](ValidPlan::digest) either: two plans with the same digest give the same workspace.

mod conflicts;
mod digest;
mod grants;
pub mod path;
mod source_reader;

use std::collections::hash_map::{self, HashMap};
use std::fmt;

use canon::budget;
use canon::json;
use serde_json::Value;

use self::source_reader::SourceReader;
use super::{Source, SourceKind};
use crate::slot::{Mode, Slot};
use crate::{Code, Error};

/// The most entries of a plan. More is probably a mistake.
pub const MAX_ENTRIES: usize = 20_000;

/// The largest literal, decoded. Larger data belongs in an artifact.
pub const MAX_LITERAL_BYTES: usize = 4 << 20;

/// The longest mount key. It is in the index next to each file of the mount.
pub const MAX_MOUNT_KEY_BYTES: usize = 4096;

/// A granted slot with its access mode. It exists after an apply even if nothing is mounted in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Grant {
    pub slot: Slot,
    pub mode: Mode,
}

/// A valid mount: its path is safe, its mode allowed, its source complete.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidEntry {
    /// The name of the mount; unique in its plan.
    pub mount_key: String,
    pub slot: Slot,
    /// The path within the slot; empty for a file slot, and for a tree at the top of a slot.
    pub rel_path: String,
    pub mode: Mode,
    pub source: Source,
}

/// A plan that can be applied. Only [`ValidPlan::check`] creates one.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidPlan {
    apply_id: String,
    digest: String,
    entries: Vec<ValidEntry>,
    grants: Vec<Grant>,
}

impl ValidPlan {
    /// Validates a plan and collects all problems.
    ///
    /// `grants` are the granted slots by path; by default they are read from the plan's
    /// `rendered-agents-md` source. Two kinds of slots are granted in addition: those that the
    /// platform fills, and those that contain an entry without a grant (such as a seed file).
    /// `fold_case` makes names that differ only in case a conflict, for case-insensitive file
    /// systems.
    ///
    /// # Errors
    /// The first problem in plan order, with the others as causes. Within an entry the order is
    /// slot, mode, source, path, key, conflict; problems of the plan and of `grants` come before
    /// those of entries.
    pub fn check(plan: &Value, grants: Option<&[(String, Mode)]>, fold_case: bool) -> Result<Self, Error> {
        // Everything below is recursive.
        if !json::within_depth(plan, json::MAX_DEPTH) {
            let seen = json::depth_of(plan) as u64;
            return Err(Error::limit("levels of nesting in a plan", json::MAX_DEPTH as u64, seen));
        }
        let Some(entries) = plan.get("entries").and_then(Value::as_array) else {
            return Err(shape("/entries", "a plan must be an object with a list `entries`"));
        };
        if entries.len() > MAX_ENTRIES {
            return Err(Error::limit("entries of a plan", MAX_ENTRIES as u64, entries.len() as u64));
        }
        let mut problems = Problems::default();
        let apply_id = plan.get("applyId").and_then(Value::as_str).filter(|id| is_apply_id(id));
        if apply_id.is_none() {
            let message = "`applyId` must be 64 lower-case hexadecimal digits";
            problems.of_plan.push(shape("/applyId", message));
        }
        let drafts = read_entries(entries, &mut problems);
        let grants = grants::settle(grants, &drafts, &mut problems);
        conflicts::find(&drafts, fold_case, &mut problems);

        let entries: Option<Vec<ValidEntry>> = drafts.into_iter().map(Draft::finish).collect();
        match (problems.into_error(), apply_id, entries) {
            (None, Some(apply_id), Some(entries)) => {
                let digest = digest::of(&entries, &grants);
                Ok(Self { apply_id: apply_id.to_owned(), digest, entries, grants })
            }
            (first, ..) => Err(first.expect("an incomplete part has a problem")),
        }
    }

    /// The identity of the request.
    pub fn apply_id(&self) -> &str {
        &self.apply_id
    }

    /// The digest of the applied content: SHA-256 of the canonical JSON of `{entries, slots}`, 64
    /// hexadecimal digits.
    ///
    /// `entries` are the valid plan's [entries](Self::entries) with their known members, and
    /// `slots` are the [grants](Self::grants) as `{mount, mode}`.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The mounts in plan order, without duplicates.
    pub fn entries(&self) -> &[ValidEntry] {
        &self.entries
    }

    /// The granted slots, in table order.
    pub fn grants(&self) -> &[Grant] {
        &self.grants
    }
}

/// The problems, in report order.
#[derive(Debug, Default)]
struct Problems {
    of_plan: Vec<Error>,
    of_entries: Vec<(usize, Stage, Error)>,
}

/// The order of problems within one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Slot,
    Mode,
    Source,
    Path,
    Key,
    Conflict,
}

impl Problems {
    fn add(&mut self, entry: usize, stage: Stage, problem: Error) {
        self.of_entries.push((entry, stage, problem.detail("entry", entry)));
    }

    fn into_error(mut self) -> Option<Error> {
        self.of_entries.sort_by_key(|(entry, stage, _)| (*entry, *stage));
        Error::first_of(
            self.of_plan.into_iter().chain(self.of_entries.into_iter().map(|(.., problem)| problem)),
        )
    }
}

/// A partially read entry. Missing parts have recorded problems.
#[derive(Debug)]
struct Draft<'a> {
    /// Its index in the plan.
    index: usize,
    raw: &'a Value,
    mount_key: Option<&'a str>,
    slot: Option<Slot>,
    mode: Option<Mode>,
    /// Only a safe path.
    rel_path: Option<&'a str>,
    kind: Option<SourceKind>,
    source: Option<Source>,
}

impl Draft<'_> {
    fn finish(self) -> Option<ValidEntry> {
        Some(ValidEntry {
            mount_key: self.mount_key?.to_owned(),
            slot: self.slot?,
            rel_path: self.rel_path?.to_owned(),
            mode: self.mode?,
            source: self.source?,
        })
    }

    /// Whether both are equal in all known members.
    fn says_the_same_as(&self, other: &Self) -> bool {
        let known = |draft: &Self| Some((draft.mount_key?, draft.slot?, draft.rel_path?, draft.mode?));
        known(self).is_some()
            && known(self) == known(other)
            && self.source.is_some()
            && self.source == other.source
    }
}

/// Reads every entry; duplicates are skipped.
fn read_entries<'a>(entries: &'a [Value], problems: &mut Problems) -> Vec<Draft<'a>> {
    let mut drafts: Vec<Draft<'a>> = Vec::with_capacity(entries.len());
    // From a key to the first draft with it.
    let mut by_key: HashMap<&'a str, usize> = HashMap::with_capacity(entries.len());
    let mut sources = SourceReader::default();
    for (index, raw) in entries.iter().enumerate() {
        let mount_key = raw.get("mountKey").and_then(Value::as_str);
        let first = mount_key.and_then(|key| by_key.get(key)).map(|place| &drafts[*place]);
        if first.is_some_and(|first| first.raw == raw) {
            continue;
        }
        let noted = problems.of_entries.len();
        let draft = read_entry(index, raw, &mut sources, problems);
        if let Some(first) = first {
            if draft.says_the_same_as(first) {
                problems.of_entries.truncate(noted);
                continue;
            }
            problems.add(index, Stage::Key, duplicate_key(mount_key.unwrap_or_default(), first.index));
        }
        if let Some(hash_map::Entry::Vacant(place)) = draft.mount_key.map(|key| by_key.entry(key)) {
            place.insert(drafts.len());
        }
        drafts.push(draft);
    }
    drafts
}

fn read_entry<'a>(
    index: usize,
    raw: &'a Value,
    sources: &mut SourceReader,
    problems: &mut Problems,
) -> Draft<'a> {
    let slot = match read_slot(raw.get("slot")) {
        Ok(slot) => Some(slot),
        Err(problem) => {
            problems.add(index, Stage::Slot, problem);
            None
        }
    };
    let mode = match read_mode(raw.get("mode"), slot) {
        Ok(mode) => Some(mode),
        Err(problem) => {
            problems.add(index, Stage::Mode, problem);
            None
        }
    };
    let (kind, source) = match sources.read(raw.get("source")) {
        Ok(source) => (Some(source.kind()), Some(source)),
        Err((kind, problem)) => {
            problems.add(index, Stage::Source, problem);
            (kind, None)
        }
    };
    let rel_path = match read_path(raw.get("relPath"), slot, kind) {
        Ok(rel_path) => Some(rel_path),
        Err(problem) => {
            problems.add(index, Stage::Path, problem);
            None
        }
    };
    let mount_key = match read_key(index, raw.get("mountKey")) {
        Ok(key) => Some(key),
        Err(problem) => {
            problems.add(index, Stage::Key, problem);
            None
        }
    };
    Draft { index, raw, mount_key, slot, mode, rel_path, kind, source }
}

fn read_slot(value: Option<&Value>) -> Result<Slot, Error> {
    let Some(path) = value.and_then(Value::as_str) else {
        return Err(Error::new(Code::PlanUnknownSlot, "the entry has no string `slot`"));
    };
    Slot::from_path(path).ok_or_else(|| unknown_slot(path))
}

fn unknown_slot(path: &str) -> Error {
    let path = quoted(path);
    Error::new(Code::PlanUnknownSlot, format!("unknown slot {path:?}")).detail("slot", path)
}

fn read_mode(value: Option<&Value>, slot: Option<Slot>) -> Result<Mode, Error> {
    let mode = match value.and_then(Value::as_str) {
        Some("read-only") => Mode::ReadOnly,
        Some("read-write") => Mode::ReadWrite,
        _ => {
            let message = "the `mode` of an entry must be `read-only` or `read-write`";
            return Err(Error::new(Code::PlanModeNotAllowed, message));
        }
    };
    match slot {
        Some(slot) if !slot.allows(mode) => Err(not_writable(slot)),
        _ => Ok(mode),
    }
}

fn not_writable(slot: Slot) -> Error {
    let message = format!("the slot `{slot}` is always read-only");
    Error::new(Code::PlanModeNotAllowed, message).detail("slot", slot.path())
}

/// The path of an entry in its slot. A file slot has only one path, which is empty.
fn read_path(value: Option<&Value>, slot: Option<Slot>, kind: Option<SourceKind>) -> Result<&str, Error> {
    let Some(rel_path) = value.and_then(Value::as_str) else {
        return Err(Error::new(Code::PlanUnsafePath, "the entry has no string `relPath`"));
    };
    let refusal = |why: &dyn fmt::Display| {
        let shown = quoted(rel_path);
        Error::new(Code::PlanUnsafePath, format!("{shown:?} {why}")).detail("relPath", shown)
    };
    let is_tree = kind.is_some_and(SourceKind::is_tree);
    match slot {
        Some(slot) if slot.is_file() && (is_tree || !rel_path.is_empty()) => Err(refusal(&format!(
            "is not valid in the slot `{slot}`, which is a single file and requires an empty `relPath`"
        ))),
        // Without a slot or kind, an empty path cannot be judged; their own problems are reported.
        None if rel_path.is_empty() => Ok(rel_path),
        Some(slot) if rel_path.is_empty() && (slot.is_file() || is_tree || kind.is_none()) => Ok(rel_path),
        _ => path::check(rel_path).map(|()| rel_path).map_err(|unsafe_path| refusal(&unsafe_path)),
    }
}

fn read_key(index: usize, value: Option<&Value>) -> Result<&str, Error> {
    match value.and_then(Value::as_str) {
        None | Some("") => {
            let message = "an entry must have a non-empty string `mountKey`";
            Err(shape(&format!("/entries/{index}/mountKey"), message))
        }
        Some(key) if key.len() > MAX_MOUNT_KEY_BYTES => {
            Err(Error::limit("bytes of a mount key", MAX_MOUNT_KEY_BYTES as u64, key.len() as u64))
        }
        Some(key) => Ok(key),
    }
}

fn duplicate_key(key: &str, first: usize) -> Error {
    let key = quoted(key);
    let message = format!("the mount key {key:?} is already used by entry {first}, which differs");
    Error::new(Code::PlanDuplicateMountKey, message).detail("mountKey", key).detail("first", first)
}

/// A document that is not a plan.
fn shape(pointer: &str, message: &str) -> Error {
    Error::new(Code::ValidationError, format!("{message} (at {pointer})")).detail("pointer", pointer)
}

/// Names from a plan, truncated for a message.
fn quoted(text: &str) -> String {
    budget::truncate(text, 120).into_owned()
}

/// Whether it is a valid apply id. It becomes a folder name, so nothing else is accepted.
fn is_apply_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
