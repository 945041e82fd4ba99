//! Calls that wait for their run, so that a client can cancel one.
//!
//! A client cancels a request by its id, and only within its session: ids are small numbers, and two clients
//! with the same key use the same ones. Session names are issued by this host and not stored. A client
//! without a session can still disconnect. The number of waiting calls is limited, so this table is too.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use super::pending_requests::Client;

/// The client with its session, and the id of the request.
type Key = (Arc<Client>, String);

#[derive(Debug, Default)]
pub(crate) struct PendingCalls(Arc<Mutex<HashMap<Key, Arc<Notify>>>>);

/// A waiting call. It is removed when dropped.
#[derive(Debug)]
pub(super) struct PendingCall {
    key: Option<Key>,
    all: Arc<Mutex<HashMap<Key, Arc<Notify>>>>,
    cancelled: Arc<Notify>,
}

impl PendingCalls {
    /// Adds a waiting call. A call without a session, or with the id of another waiting call, cannot be
    /// cancelled.
    pub(super) fn enter(&self, client: &Arc<Client>, id: &str) -> PendingCall {
        let cancelled = Arc::new(Notify::new());
        let key = (Arc::clone(client), id.to_owned());
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = !client.session.is_empty() && !all.contains_key(&key);
        if is_new {
            all.insert(key.clone(), Arc::clone(&cancelled));
        }
        PendingCall { key: is_new.then_some(key), all: Arc::clone(&self.0), cancelled }
    }

    pub(super) fn cancel(&self, client: &Arc<Client>, id: &str) {
        let key = (Arc::clone(client), id.to_owned());
        if let Some(cancelled) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            cancelled.notify_one();
        }
    }
}

impl PendingCall {
    /// PendingCall until the call is cancelled.
    pub(super) async fn cancelled(&self) {
        self.cancelled.notified().await;
    }
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        if let Some(key) = &self.key {
            self.all.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
        }
    }
}
