//! Which file belongs to whom, and which are open.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest as _, Sha256};

use super::run::Connected;
use crate::call::Tenant;

/// A place for one connection. Whoever holds it has the file to itself.
type Slot = Arc<tokio::sync::Mutex<Option<Connected>>>;

pub(super) struct Files {
    directory: PathBuf,
    most: usize,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    slots: HashMap<(Tenant, String), (Slot, u64)>,
    uses: u64,
}

impl Files {
    pub(super) fn new(directory: PathBuf, most: usize) -> Self {
        Self { directory, most: most.max(1), open: Mutex::default() }
    }

    /// Where the file is.
    pub(super) fn path(&self, tenant: &Tenant, datasource: &str) -> PathBuf {
        self.directory.join(encoded(tenant.as_str())).join(format!("{}.sqlite3", encoded(datasource)))
    }

    /// The place of the file's connection, and places that are in nobody's use and too many: those first that were not used for the
    /// longest. Whoever drops them closes their files, which takes a while.
    pub(super) fn slot(&self, tenant: &Tenant, datasource: &str) -> (Slot, Vec<Slot>) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.uses += 1;
        let uses = open.uses;
        let key = (tenant.clone(), datasource.to_owned());
        if let Some((slot, used)) = open.slots.get_mut(&key) {
            *used = uses;
            return (Arc::clone(slot), Vec::new());
        }
        let mut spare = Vec::new();
        while open.slots.len() >= self.most {
            let unused = open.slots.iter().filter(|(_, (slot, _))| Arc::strong_count(slot) == 1);
            let Some(oldest) = unused.min_by_key(|(_, (_, used))| *used).map(|(key, _)| key.clone()) else {
                break;
            };
            spare.extend(open.slots.remove(&oldest).map(|(slot, _)| slot));
        }
        let slot = Slot::default();
        open.slots.insert(key, (Arc::clone(&slot), uses));
        (slot, spare)
    }
}

/// A name as one part of a path: different names give different parts, on file systems that do not know capital letters too.
fn encoded(name: &str) -> String {
    const LONGEST: usize = 200;
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_' {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "={byte:02x}");
        }
    }
    if text.len() > LONGEST {
        // No name is encoded so: `=s` is no byte.
        text = format!("=sha256-{}", canon::encoding::hex(&Sha256::digest(name.as_bytes())));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_parts_of_a_path_that_nobody_else_has() {
        let names =
            ["acme", "Acme", "a:b", "a.b", "a=b", "a_b", "a/b", "..", &"A".repeat(128), &"B".repeat(128), ""];
        let parts: std::collections::BTreeSet<String> =
            names.iter().map(|name| encoded(name).to_lowercase()).collect();
        assert_eq!(parts.len(), names.len());
        assert!(parts.iter().all(|part| part.len() <= 200 && !part.contains(['/', '.'])), "{parts:?}");
    }

    #[test]
    fn no_more_files_stay_open_than_may() {
        let files = Files::new(PathBuf::from("/nowhere"), 2);
        let tenant = |name: &str| Tenant::new(name).unwrap();
        let (held, _) = files.slot(&tenant("a"), "d");
        for name in ["b", "c", "d"] {
            drop(files.slot(&tenant(name), "d"));
        }
        let open = files.open.lock().unwrap();
        assert_eq!(open.slots.len(), 2);
        assert!(open.slots.contains_key(&(tenant("a"), "d".to_owned())), "what is used stays");
        assert!(Arc::ptr_eq(&open.slots[&(tenant("a"), "d".to_owned())].0, &held));
    }
}
