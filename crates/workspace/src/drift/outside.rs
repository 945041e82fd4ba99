//! Entries next to the slots.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::kind::{Kind, Location};
use super::report::{Collector, EntryFacts};
use crate::Error;
use crate::plan::Grant;
use crate::rooted::{self, Dir, Stat};
use crate::slot::{Mode, STATE_DIR, Slot};

/// The directory that contains several slots without being one.
const SHARED: &str = ".opencode";

/// A file of the worker pool, below [`SHARED`].
const RUNTIME: &str = "runtime.jsonc";

/// Reports unexpected names in the root and in the shared directory. They are not entered.
pub(super) fn look(root: &Dir, grants: &[Grant], collector: &mut Collector) -> Result<(), Error> {
    let failed = |doing: &str, path: &Path, error: std::io::Error| rooted::refusal(&error, doing, path);
    for (name, _) in root.names().map_err(|error| failed("list", Path::new("."), error))? {
        let path = Path::new(&name.0);
        let Some(stat) = root.stat(path).map_err(|error| failed("inspect", path, error))? else { continue };
        if path == Path::new(SHARED) {
            look_into_shared(root, &stat, grants, collector);
        } else if path != Path::new(STATE_DIR) && !is_expected(path, grants) {
            extra(path, &stat, collector);
        }
    }
    Ok(())
}

fn look_into_shared(root: &Dir, stat: &Stat, grants: &[Grant], collector: &mut Collector) {
    if stat.kind != rooted::Kind::Dir {
        let kind = if stat.kind == rooted::Kind::Link { Kind::UnsafeSymlink } else { Kind::TypeChanged };
        let expected = EntryFacts { what: Some("dir"), ..EntryFacts::default() };
        let facts = [Some(expected), Some(EntryFacts::stat_kind(stat))];
        collector.add(Location::Outside, SHARED.as_bytes(), None, kind, facts);
        return;
    }
    let names = match root.open_dir(SHARED).and_then(|dir| dir.names()) {
        Ok(names) => names,
        Err(error) => {
            let facts = [None, Some(EntryFacts::error(error.to_string()))];
            collector.add(Location::Outside, SHARED.as_bytes(), None, Kind::Unreadable, facts);
            return;
        }
    };
    for (name, _) in names {
        let path = Path::new(SHARED).join(&name.0);
        if name.0 != RUNTIME && !is_expected(&path, grants) {
            // An entry that is unreadable or gone has nothing more to report.
            if let Ok(Some(stat)) = root.stat(&path) {
                extra(&path, &stat, collector);
            }
        }
    }
}

/// Whether a slot is granted, or its content outlives the lease that granted it.
fn is_expected(path: &Path, grants: &[Grant]) -> bool {
    let slot = Slot::ALL.into_iter().find(|slot| Path::new(slot.relative()) == path);
    slot.is_some_and(|slot| slot.allows(Mode::ReadWrite) || grants.iter().any(|grant| grant.slot == slot))
}

fn extra(path: &Path, stat: &Stat, collector: &mut Collector) {
    let facts = [None, Some(EntryFacts::stat_kind(stat))];
    collector.add(Location::Outside, path.as_os_str().as_bytes(), None, Kind::Extra, facts);
}
