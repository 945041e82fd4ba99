//! Watches sessions that runs wait for.
//!
//! A session may be advanced by any process that shares the store. This process sends notifications. For other processes,
//! the revision of each session is polled, which does not read the session.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flow::id::{NodeId, RunId, Tenant};
use guide::record::SessionId;
use ports::sessions::Revision;

use super::GuidedNodes;

/// The minimum interval between two polls.
const SHORTEST_PAUSE: Duration = Duration::from_millis(250);
/// Polling may take at most one part in this many of the time.
const SHARE: u32 = 10;

/// A node that waits for a session.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Waiter {
    pub run_id: RunId,
    pub node_id: NodeId,
}

#[derive(Default)]
pub(super) struct Watched(Mutex<BTreeMap<String, Entry>>);

struct Entry {
    tenant: Tenant,
    waiters: BTreeSet<Waiter>,
    /// The revision of the session when it was last reported as changed.
    seen: Option<Revision>,
}

impl Watched {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl GuidedNodes {
    /// Watches a session for a node. The session is reported as changed at least once.
    pub fn watch(&self, tenant: &Tenant, session: &str, waiter: Waiter) {
        let mut watched = self.inner.watched.lock();
        let entry = watched.entry(session.to_owned()).or_insert_with(|| Entry {
            tenant: tenant.to_owned(),
            waiters: BTreeSet::new(),
            seen: None,
        });
        entry.seen = None;
        entry.waiters.insert(waiter);
        drop(watched);
        self.inner.options.tenants.advanced().notify_one();
    }

    /// Stops watching a session for a node.
    pub fn forget(&self, session: &str, run_id: &RunId, node_id: &NodeId) {
        let mut watched = self.inner.watched.lock();
        if let Some(entry) = watched.get_mut(session) {
            entry.waiters.retain(|waiter| waiter.run_id != *run_id || waiter.node_id != *node_id);
            if entry.waiters.is_empty() {
                watched.remove(session);
            }
        }
    }

    /// The nodes that wait for a session.
    pub fn waiters(&self, session: &str) -> Vec<Waiter> {
        let watched = self.inner.watched.lock();
        watched.get(session).map(|entry| entry.waiters.iter().cloned().collect()).unwrap_or_default()
    }

    /// Reports a session as changed at the next poll, even if its revision is the same.
    pub fn look_again(&self, session: &str) {
        if let Some(entry) = self.inner.watched.lock().get_mut(session) {
            entry.seen = None;
        }
    }

    /// The sessions that changed since they were last reported, with their tenants.
    pub async fn changed(&self) -> Vec<(String, Tenant)> {
        let mut by_tenant: BTreeMap<Tenant, Vec<(String, Option<Revision>)>> = BTreeMap::new();
        for (session, entry) in self.inner.watched.lock().iter() {
            by_tenant.entry(entry.tenant.clone()).or_default().push((session.clone(), entry.seen));
        }
        let mut changed = Vec::new();
        for (tenant, watched) in by_tenant {
            let revisions = self.revisions(&tenant, &watched).await;
            for ((session, seen), revision) in watched.into_iter().zip(revisions) {
                // A session whose revision cannot be read counts as changed. Reading the session then reports the error.
                if seen.is_some() && revision == seen {
                    continue;
                }
                if let Some(entry) = self.inner.watched.lock().get_mut(&session) {
                    entry.seen = revision;
                }
                changed.push((session, tenant.clone()));
            }
        }
        changed
    }

    /// The revisions of some sessions of a tenant. `None` for one that cannot be read.
    async fn revisions(
        &self,
        tenant: &Tenant,
        watched: &[(String, Option<Revision>)],
    ) -> Vec<Option<Revision>> {
        let ids: Vec<Option<SessionId>> =
            watched.iter().map(|(session, _)| SessionId::parse(session).ok()).collect();
        let valid: Vec<SessionId> = ids.iter().flatten().cloned().collect();
        let Ok(guided) = self.guided(tenant).await else { return vec![None; ids.len()] };
        let Ok(read) = guided.store().revisions(valid).await else { return vec![None; ids.len()] };
        let mut read = read.into_iter();
        ids.iter().map(|id| id.as_ref().and_then(|_| read.next().flatten())).collect()
    }

    /// Waits until this process advances a session, or until the next poll is due. `took` is the duration of the last
    /// poll.
    pub async fn news(&self, took: Duration) {
        let news = self.inner.options.tenants.advanced();
        let pause = (took * SHARE).max(SHORTEST_PAUSE);
        // Without watched sessions there is nothing to poll.
        if self.inner.watched.lock().is_empty() {
            news.notified().await;
            return;
        }
        tokio::select! {
            () = news.notified() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}
