//! A store that stops working at a chosen point, like a killed process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ports::PortFuture;
use ports::runs::prelude::*;
use ports::runs::{Commit, CommitFuture, RunStore};
use ports::wrapper::Wrapper;
use storage::sqlite::SqliteRuns;
use tokio::sync::Notify;

/// Counts the points that a process passes, and stops it at one of them.
#[derive(Debug)]
pub(super) struct Fuse {
    at: usize,
    passed: AtomicUsize,
    armed: AtomicBool,
    blown: AtomicBool,
    news: Notify,
}

impl Fuse {
    pub(super) fn at(at: usize) -> Arc<Self> {
        Arc::new(Self {
            at,
            passed: AtomicUsize::new(0),
            armed: AtomicBool::new(false),
            blown: AtomicBool::new(false),
            news: Notify::new(),
        })
    }

    pub(super) fn arm(&self) {
        self.armed.store(true, Ordering::SeqCst);
    }

    /// Whether the process is still alive at this point.
    pub(super) fn pass(&self) -> bool {
        if !self.armed.load(Ordering::SeqCst) {
            return true;
        }
        if self.passed.fetch_add(1, Ordering::SeqCst) == self.at {
            self.blown.store(true, Ordering::SeqCst);
            self.news.notify_waiters();
        }
        !self.is_blown()
    }

    pub(super) fn is_blown(&self) -> bool {
        self.blown.load(Ordering::SeqCst)
    }

    /// Waits until the process is stopped.
    pub(super) async fn blown(&self) {
        let news = self.news.notified();
        tokio::pin!(news);
        news.as_mut().enable();
        if !self.is_blown() {
            news.await;
        }
    }
}

/// Commits pass the fuse twice: before they happen, and before they are acknowledged.
#[derive(Debug)]
pub(super) struct DyingStore {
    pub(super) inner: Arc<SqliteRuns>,
    pub(super) fuse: Arc<Fuse>,
}

impl Wrapper for DyingStore {
    fn wrapped(&self) -> &dyn RunStore {
        &*self.inner
    }

    fn commit_wrapped(&self, commit: Commit) -> CommitFuture {
        // The result of a process that is gone never comes.
        if !self.fuse.pass() {
            return PortFuture::boxed(std::future::pending());
        }
        let (fuse, committed) = (Arc::clone(&self.fuse), self.inner.commit(commit));
        PortFuture::boxed(async move {
            let result = committed.await;
            if !fuse.pass() {
                std::future::pending::<()>().await;
            }
            result
        })
    }
}
