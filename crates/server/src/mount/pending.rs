//! Calls that wait for their run, so that a client can take one back.
//!
//! A client takes back a request by its id, and only within the session in which it was sent: ids are small numbers, and two clients
//! with one key use the same ones. Sessions are names that this host gives out and does not keep; whoever sends none can still hang up.
//! Every call that waits has a place, so there are no more of them here than places.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use super::pending_requests::Client;

/// Whose call, in which session, under which id.
type Key = (Arc<Client>, String);

/// The calls that wait.
#[derive(Debug, Default)]
pub(crate) struct Pending(Arc<Mutex<HashMap<Key, Arc<Notify>>>>);

/// A call that waits. It leaves when it is dropped.
#[derive(Debug)]
pub(super) struct Waits {
    key: Option<Key>,
    all: Arc<Mutex<HashMap<Key, Arc<Notify>>>>,
    cancelled: Arc<Notify>,
}

impl Pending {
    /// A call begins to wait. One without a session, or with the id of another that waits, cannot be taken back.
    pub(super) fn enter(&self, client: &Arc<Client>, id: &str) -> Waits {
        let cancelled = Arc::new(Notify::new());
        let key = (Arc::clone(client), id.to_owned());
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = !client.session.is_empty() && !all.contains_key(&key);
        if is_new {
            all.insert(key.clone(), Arc::clone(&cancelled));
        }
        Waits { key: is_new.then_some(key), all: Arc::clone(&self.0), cancelled }
    }

    /// Takes a call back.
    pub(super) fn cancel(&self, client: &Arc<Client>, id: &str) {
        let key = (Arc::clone(client), id.to_owned());
        if let Some(cancelled) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            cancelled.notify_one();
        }
    }
}

impl Waits {
    /// Comes back when the call was taken back.
    pub(super) async fn cancelled(&self) {
        self.cancelled.notified().await;
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        if let Some(key) = &self.key {
            self.all.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
        }
    }
}
