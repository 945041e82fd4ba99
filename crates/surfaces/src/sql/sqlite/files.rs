//! File paths and open connections.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest as _, Sha256};

use super::run::Connected;
use crate::call::Tenant;

/// Holds one connection. The lock gives exclusive access to the file.
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

    pub(super) fn path(&self, tenant: &Tenant, datasource: &str) -> PathBuf {
        self.directory.join(encoded(tenant.as_str())).join(format!("{}.sqlite3", encoded(datasource)))
    }

    /// The slot of the file, and the least recently used idle slots above the limit. Dropping those closes their files,
    /// which takes time.
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

/// Encodes a name as a path component: unique, also on case-insensitive file systems.
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
        // Names are never encoded like this: `=s` is not a byte escape.
        text = format!("=sha256-{}", canon::encoding::hex(&Sha256::digest(name.as_bytes())));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_names_are_unique() {
        let names =
            ["acme", "Acme", "a:b", "a.b", "a=b", "a_b", "a/b", "..", &"A".repeat(128), &"B".repeat(128), ""];
        let parts: std::collections::BTreeSet<String> =
            names.iter().map(|name| encoded(name).to_lowercase()).collect();
        assert_eq!(parts.len(), names.len());
        assert!(parts.iter().all(|part| part.len() <= 200 && !part.contains(['/', '.'])), "{parts:?}");
    }

    #[test]
    fn limits_open_files() {
        let files = Files::new(PathBuf::from("/nowhere"), 2);
        let tenant = |name: &str| Tenant::new(name).unwrap();
        let (held, _) = files.slot(&tenant("a"), "d");
        for name in ["b", "c", "d"] {
            drop(files.slot(&tenant(name), "d"));
        }
        let open = files.open.lock().unwrap();
        assert_eq!(open.slots.len(), 2);
        assert!(open.slots.contains_key(&(tenant("a"), "d".to_owned())), "slots in use stay open");
        assert!(Arc::ptr_eq(&open.slots[&(tenant("a"), "d".to_owned())].0, &held));
    }
}
