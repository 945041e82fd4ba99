//! The mark of a session that was salvaged from a damaged one.

use canon::{canonical, json};
use guide::bundle::Salvaged;
use guide::record::SessionId;
use ports::sessions::StoreError;
use serde_json::Value;

use super::{SessionFiles, layout};
use crate::disk::{self, DiskPath};

/// The version of the file format.
const VERSION: u64 = 1;
/// The maximum size of the file, in bytes: two strings with any escapes.
const BYTES: u64 = 16 << 10;

impl SessionFiles {
    /// Why a session is incomplete, if it was salvaged from a damaged one.
    ///
    /// # Errors
    /// [`StoreError::NewerFile`], [`StoreError::Damaged`], and disk errors.
    pub fn salvaged(&self, session: &SessionId) -> Result<Option<Salvaged>, StoreError> {
        let path = layout::salvaged(&layout::session(session));
        match disk::read(self.disk().as_ref(), &path, BYTES).map_err(StoreError::disk("read", &path))? {
            Some(bytes) => decode(&path, &bytes).map(Some),
            None => Ok(None),
        }
    }
}

/// The content of the file: canonical JSON on one line.
pub(super) fn encode(salvaged: &Salvaged) -> Vec<u8> {
    let mut value = serde_json::to_value(salvaged).expect("three texts, which always serialise");
    value["v"] = VERSION.into();
    let mut bytes = canonical::to_vec(&value).expect("three texts and a number have a canonical form");
    bytes.push(b'\n');
    bytes
}

fn decode(path: &DiskPath, bytes: &[u8]) -> Result<Salvaged, StoreError> {
    let damaged = |problem: String| StoreError::Damaged { path: path.to_string(), problem };
    let mut value =
        json::read(bytes, &json::Limits::default()).map_err(|error| damaged(error.to_string()))?;
    match value.as_object_mut().and_then(|members| members.remove("v")).as_ref().and_then(Value::as_u64) {
        Some(VERSION) => {}
        Some(found) if found > VERSION => {
            return Err(StoreError::NewerFile { path: path.to_string(), found, known: VERSION });
        }
        _ => return Err(damaged(format!("`v` should be a number from 1 to {VERSION}"))),
    }
    serde_json::from_value(value).map_err(|error| damaged(error.to_string()))
}
