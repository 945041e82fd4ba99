//! Sessions that runs wait for, and whether anything happened to them.
//!
//! A session may be advanced by any process that shares the data directory. Those of this process say so; for the others, the
//! manifest of each session is looked at now and then, which costs one call of the system and reads nothing.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flow::id::{NodeId, RunId, Tenant};
use guide::record::SessionId;
use storage::disk::Stat;

use super::GuidedNodes;

/// How often sessions are looked at when little is to be looked at.
const SHORTEST_PAUSE: Duration = Duration::from_millis(250);
/// The part of the time that looking may take: one in this many.
const SHARE: u32 = 10;

/// A node that waits for a session.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Waiter {
    pub(crate) run_id: RunId,
    pub(crate) node_id: NodeId,
}

#[derive(Default)]
pub(super) struct Watched(Mutex<BTreeMap<String, Entry>>);

struct Entry {
    tenant: Tenant,
    waiters: BTreeSet<Waiter>,
    /// What the manifest was like when the session was last looked into.
    seen: Option<Stat>,
}

impl Watched {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl GuidedNodes {
    /// Watches a session for a node from now on, and looks into it once in any case.
    pub(crate) fn watch(&self, tenant: &Tenant, session: &str, waiter: Waiter) {
        let mut watched = self.inner.watched.lock();
        let entry = watched.entry(session.to_owned()).or_insert_with(|| Entry {
            tenant: tenant.to_owned(),
            waiters: BTreeSet::new(),
            seen: None,
        });
        entry.seen = None;
        entry.waiters.insert(waiter);
        drop(watched);
        self.inner.news.notify_one();
    }

    /// Watches a session for a node no more.
    pub(crate) fn forget(&self, session: &str, run_id: &RunId, node_id: &NodeId) {
        let mut watched = self.inner.watched.lock();
        if let Some(entry) = watched.get_mut(session) {
            entry.waiters.retain(|waiter| waiter.run_id != *run_id || waiter.node_id != *node_id);
            if entry.waiters.is_empty() {
                watched.remove(session);
            }
        }
    }

    /// The nodes that wait for a session.
    pub(crate) fn waiters(&self, session: &str) -> Vec<Waiter> {
        let watched = self.inner.watched.lock();
        watched.get(session).map(|entry| entry.waiters.iter().cloned().collect()).unwrap_or_default()
    }

    /// Looks into a session again at the next opportunity, whether anything happens to it or not.
    pub(crate) fn look_again(&self, session: &str) {
        if let Some(entry) = self.inner.watched.lock().get_mut(session) {
            entry.seen = None;
        }
    }

    /// The sessions to which something happened since they were last asked for here, with their tenants.
    pub(crate) fn changed(&self) -> Vec<(String, Tenant)> {
        let all: Vec<(String, Tenant, Option<Stat>)> = {
            let watched = self.inner.watched.lock();
            watched.iter().map(|(id, entry)| (id.clone(), entry.tenant.clone(), entry.seen)).collect()
        };
        let mut changed = Vec::new();
        for (session, tenant, seen) in all {
            // What cannot be looked at is looked into, and what is wrong with it is told there.
            let stat = SessionId::parse(&session).ok().and_then(|id| {
                let guided = self.guided(&tenant).ok()?;
                guided.files().manifest_stat(&id).ok()?
            });
            if seen.is_some() && stat == seen {
                continue;
            }
            if let Some(entry) = self.inner.watched.lock().get_mut(&session) {
                entry.seen = stat;
            }
            changed.push((session, tenant));
        }
        changed
    }

    /// Waits until somebody in this process advances a session, or it is time to look at what others did. `took` is how long the
    /// last look took.
    pub(crate) async fn news(&self, took: Duration) {
        let pause = (took * SHARE).max(SHORTEST_PAUSE);
        // Where nothing is waited for there is nothing to look at, until somebody waits.
        if self.inner.watched.lock().is_empty() {
            self.inner.news.notified().await;
            return;
        }
        tokio::select! {
            () = self.inner.news.notified() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}
