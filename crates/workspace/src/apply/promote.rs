//! Executes the steps of a promotion in order, and undoes them in reverse.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Read as _, Seek as _, SeekFrom, Write as _};

use super::moves::{Done, Move};
use super::state;
use crate::rooted::Dir;
use crate::{Code, Error};

/// The name of the list of steps in a staging folder: one JSON line each.
pub(super) const FILE_NAME: &str = "moves.jsonl";

/// The longest step with its line feed: three paths of at most 4,096 bytes, six bytes per escaped
/// byte.
const MAX_LINE: u64 = 128 * 1024;

/// Writes the list of steps.
#[derive(Debug)]
pub(super) struct Planner<'a> {
    staging: &'a Dir,
    output: BufWriter<File>,
    parked: u64,
}

impl<'a> Planner<'a> {
    pub(super) fn new(staging: &'a Dir) -> Result<Self, Error> {
        let io = state::failed("write", FILE_NAME);
        staging.make_dir("parked", 0o700).map_err(&io)?;
        let file = staging.create_file(FILE_NAME, 0o600).map_err(io)?;
        Ok(Self { staging, output: BufWriter::new(file), parked: 0 })
    }

    /// A name in the staging folder for a displaced entry.
    pub(super) fn parking_place(&mut self) -> String {
        self.parked += 1;
        format!("parked/{}", self.parked)
    }

    pub(super) fn push(&mut self, step: &Move) -> Result<(), Error> {
        self.output.write_all(&state::json(step)).map_err(state::failed("write", FILE_NAME))
    }

    /// Syncs the list; nothing may be moved before that.
    pub(super) fn finish(self) -> Result<(), Error> {
        let io = state::failed("write", FILE_NAME);
        let file = self.output.into_inner().map_err(|error| io(error.into_error()))?;
        self.staging.sync_file(&file).map_err(&io)?;
        self.staging.sync().map_err(io)
    }
}

/// Executes all steps. Returns the targets of skipped steps.
pub(super) fn promote(root: &Dir, staging: &Dir) -> Result<Vec<String>, Error> {
    let mut given_up = Vec::new();
    let mut parents = BTreeSet::new();
    let mut steps = Steps::open(staging)?;
    while let Some(step) = steps.next()? {
        if step.take(root)? == Done::GivenUp {
            given_up.push(step.target().to_owned());
        }
        // Only parents of slots: the root, and the folder that slots share.
        if let Some((parent, _)) = step.target().rsplit_once('/').filter(|(parent, _)| !parent.contains('/'))
        {
            parents.insert(parent.to_owned());
        }
    }
    for parent in parents {
        if let Ok(directory) = root.open_dir(&parent) {
            directory.sync().map_err(state::failed("sync", parent))?;
        }
    }
    root.sync().map_err(state::failed("sync", ""))?;
    Ok(given_up)
}

/// Undoes all steps, last first. Steps that were not executed have no effect.
pub(super) fn undo(root: &Dir, staging: &Dir) -> Result<(), Error> {
    let mut steps = Steps::open(staging)?;
    let mut starts = Vec::new();
    loop {
        starts.push(steps.at);
        if steps.next()?.is_none() {
            break;
        }
    }
    let mut failures = Vec::new();
    for start in starts.into_iter().rev() {
        steps.seek(start)?;
        if let Some(step) = steps.next()?
            && let Err(error) = step.undo(root)
        {
            failures.push(error);
        }
    }
    match Error::first_of(failures) {
        Some(error) => {
            Err(Error::new(Code::ApplyRollbackFailed, "the workspace could not be restored")
                .caused_by([error]))
        }
        None => Ok(()),
    }
}

/// Reads the list of steps.
struct Steps {
    input: BufReader<File>,
    at: u64,
}

impl Steps {
    fn open(staging: &Dir) -> Result<Self, Error> {
        let file = staging.open_file(FILE_NAME).map_err(state::failed("read", FILE_NAME))?;
        Ok(Self { input: BufReader::new(file), at: 0 })
    }

    fn seek(&mut self, to: u64) -> Result<(), Error> {
        self.at = to;
        self.input.seek(SeekFrom::Start(to)).map_err(state::failed("read", FILE_NAME))?;
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Move>, Error> {
        let mut line = Vec::new();
        let read = (&mut self.input).take(MAX_LINE).read_until(b'\n', &mut line);
        self.at += read.map_err(state::failed("read", FILE_NAME))? as u64;
        if line.is_empty() {
            return Ok(None);
        }
        serde_json::from_slice(&line).map(Some).map_err(|error| state::damaged(FILE_NAME, &error.to_string()))
    }
}
