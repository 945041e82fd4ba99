//! From any plan to one that can be applied.
//!
//! A plan is a file: it was composed here, or somewhere else, or written by hand. [`ValidPlan::check`] looks at
//! all of it before anything is fetched, and reports everything that is wrong at once.
//!
//! Members that are not known are ignored. What is ignored is not applied, so it is not in the
//! [digest](ValidPlan::digest) either: two plans with one digest give one workspace.

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

/// The most entries of a plan. A workspace of more is a mistake of whoever declared it.
pub const MAX_ENTRIES: usize = 20_000;

/// The most bytes of a literal, decoded. What is larger belongs into an artifact.
pub const MAX_LITERAL_BYTES: usize = 4 << 20;

/// The longest name of a mount. It stands in the index beside each file of the mount.
pub const MAX_MOUNT_KEY_BYTES: usize = 4096;

/// A slot that the agent gets, with what it may do there. A granted slot exists after an apply
/// even when nothing is mounted in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Grant {
    /// Which slot.
    pub slot: Slot,
    /// What the agent may do there.
    pub mode: Mode,
}

/// A mount that was checked: its path is safe, its mode allowed, its source complete.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidEntry {
    /// The name of the mount; unique in its plan.
    pub mount_key: String,
    /// Which slot.
    pub slot: Slot,
    /// The path within the slot; empty for a file slot, and for a tree at the top of a slot.
    pub rel_path: String,
    /// What the agent may do with it.
    pub mode: Mode,
    /// Where the bytes come from.
    pub source: Source,
}

/// A plan that can be applied. There is no other way to make one than [`ValidPlan::check`].
#[derive(Clone, Debug, PartialEq)]
pub struct ValidPlan {
    apply_id: String,
    digest: String,
    entries: Vec<ValidEntry>,
    grants: Vec<Grant>,
}

impl ValidPlan {
    /// Checks a plan, and collects everything that is wrong with it.
    ///
    /// `grants` are the slots that the agent gets, by path; without them they are read from the plan's own
    /// `rendered-agents-md` source. Two kinds of slots are granted besides: those that the platform fills, and
    /// those that an entry stands in though nobody granted them (a seed file may). On a file system that folds
    /// case, `fold_case` makes names that differ only in case a conflict.
    ///
    /// # Errors
    /// The first problem in plan order, with the others as its causes. Within an entry the order is slot, mode,
    /// source, path, key, conflict; problems of the plan itself and of `grants` come before those of entries.
    pub fn check(plan: &Value, grants: Option<&[(String, Mode)]>, fold_case: bool) -> Result<Self, Error> {
        // Everything below recurses into the plan.
        if !json::within_depth(plan, json::MAX_DEPTH) {
            let seen = json::depth_of(plan) as u64;
            return Err(Error::limit("levels of nesting in a plan", json::MAX_DEPTH as u64, seen));
        }
        let Some(entries) = plan.get("entries").and_then(Value::as_array) else {
            return Err(shape("/entries", "a plan is an object with a list `entries`"));
        };
        if entries.len() > MAX_ENTRIES {
            return Err(Error::limit("entries of a plan", MAX_ENTRIES as u64, entries.len() as u64));
        }
        let mut problems = Problems::default();
        let apply_id = plan.get("applyId").and_then(Value::as_str).filter(|id| is_apply_id(id));
        if apply_id.is_none() {
            let message = "`applyId` of a plan is 64 hexadecimal digits, in lower case";
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
            (first, ..) => Err(first.expect("whatever is not complete has a problem")),
        }
    }

    /// The identity of the request.
    pub fn apply_id(&self) -> &str {
        &self.apply_id
    }

    /// The digest of what is applied: SHA-256 of the canonical JSON of `{entries, slots}`, 64 hexadecimal digits.
    ///
    /// `entries` are [those](Self::entries) of the valid plan in the members that are known, and `slots` are the
    /// [grants](Self::grants) as `{mount, mode}`.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// What is mounted, in plan order, equal entries once.
    pub fn entries(&self) -> &[ValidEntry] {
        &self.entries
    }

    /// The slots that the agent gets, in table order.
    pub fn grants(&self) -> &[Grant] {
        &self.grants
    }
}

/// What was found wrong, in the order in which it is to be told.
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

/// An entry as far as it could be read. What is missing has its problem noted.
#[derive(Debug)]
struct Draft<'a> {
    /// Its place in the plan.
    index: usize,
    raw: &'a Value,
    mount_key: Option<&'a str>,
    slot: Option<Slot>,
    mode: Option<Mode>,
    /// Only a path that is safe.
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

    /// Whether both say the same, in the members that are known.
    fn says_the_same_as(&self, other: &Self) -> bool {
        let known = |draft: &Self| Some((draft.mount_key?, draft.slot?, draft.rel_path?, draft.mode?));
        known(self).is_some()
            && known(self) == known(other)
            && self.source.is_some()
            && self.source == other.source
    }
}

/// Reads every entry; one that says the same as an earlier one is left out.
fn read_entries<'a>(entries: &'a [Value], problems: &mut Problems) -> Vec<Draft<'a>> {
    let mut drafts: Vec<Draft<'a>> = Vec::with_capacity(entries.len());
    // From a key to the first draft that has it.
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
        return Err(Error::new(Code::PlanUnknownSlot, "the entry has no text `slot`"));
    };
    Slot::from_path(path).ok_or_else(|| unknown_slot(path))
}

fn unknown_slot(path: &str) -> Error {
    let path = quoted(path);
    Error::new(Code::PlanUnknownSlot, format!("there is no slot at {path:?}")).detail("slot", path)
}

fn read_mode(value: Option<&Value>, slot: Option<Slot>) -> Result<Mode, Error> {
    let mode = match value.and_then(Value::as_str) {
        Some("read-only") => Mode::ReadOnly,
        Some("read-write") => Mode::ReadWrite,
        _ => {
            let message = "the `mode` of an entry is `read-only` or `read-write`";
            return Err(Error::new(Code::PlanModeNotAllowed, message));
        }
    };
    match slot {
        Some(slot) if !slot.allows(mode) => Err(not_writable(slot)),
        _ => Ok(mode),
    }
}

fn not_writable(slot: Slot) -> Error {
    let message = format!("the slot `{slot}` is read-only for every agent");
    Error::new(Code::PlanModeNotAllowed, message).detail("slot", slot.path())
}

/// Where an entry stands in its slot. A slot that is a file has one place, and it has no name.
fn read_path(value: Option<&Value>, slot: Option<Slot>, kind: Option<SourceKind>) -> Result<&str, Error> {
    let Some(rel_path) = value.and_then(Value::as_str) else {
        return Err(Error::new(Code::PlanUnsafePath, "the entry has no text `relPath`"));
    };
    let refusal = |why: &dyn fmt::Display| {
        let shown = quoted(rel_path);
        Error::new(Code::PlanUnsafePath, format!("{shown:?} {why}")).detail("relPath", shown)
    };
    let is_tree = kind.is_some_and(SourceKind::is_tree);
    match slot {
        Some(slot) if slot.is_file() && (is_tree || !rel_path.is_empty()) => Err(refusal(&format!(
            "cannot be in the slot `{slot}`, which is one file and has an empty `relPath`"
        ))),
        // Without a slot or a kind nobody knows whether an empty path is right; their own problems are told.
        None if rel_path.is_empty() => Ok(rel_path),
        Some(slot) if rel_path.is_empty() && (slot.is_file() || is_tree || kind.is_none()) => Ok(rel_path),
        _ => path::check(rel_path).map(|()| rel_path).map_err(|unsafe_path| refusal(&unsafe_path)),
    }
}

fn read_key(index: usize, value: Option<&Value>) -> Result<&str, Error> {
    match value.and_then(Value::as_str) {
        None | Some("") => {
            let message = "an entry has a `mountKey`, a text that is not empty";
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
    let message = format!("the mount key {key:?} is that of entry {first} too, which says something else");
    Error::new(Code::PlanDuplicateMountKey, message).detail("mountKey", key).detail("first", first)
}

/// Something that is not even a plan.
fn shape(pointer: &str, message: &str) -> Error {
    Error::new(Code::ValidationError, format!("{message} (at {pointer})")).detail("pointer", pointer)
}

/// Names from a plan, cut to a length that a message can bear.
fn quoted(text: &str) -> String {
    budget::truncate(text, 120).into_owned()
}

/// The one spelling of an apply id. It becomes the name of a folder, so nothing else will do.
fn is_apply_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
