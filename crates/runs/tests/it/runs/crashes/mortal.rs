//! A store whose process dies at a commit.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ports::PortFuture;
use ports::runs::prelude::*;
use ports::runs::{Commit, CommitFuture, RunStore};
use ports::wrapper::Wrapper;
use runs::Runs;
use storage::sqlite::SqliteRuns;
use tokio::sync::watch;

use super::super::{Setup, keep_time, on};

/// When a process dies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Death {
    /// The number of the commit, starting at one.
    pub(super) at: usize,
    /// Whether that commit is made. It is not acknowledged in either case.
    pub(super) made: bool,
}

/// A SQLite store that answers no commit after its process has died.
#[derive(Debug)]
pub(super) struct Mortal {
    store: SqliteRuns,
    death: Option<Death>,
    commits: Mutex<usize>,
    died: watch::Sender<bool>,
}

impl Mortal {
    fn open(folder: &Path, death: Option<Death>) -> Self {
        Self {
            store: SqliteRuns::open(&folder.join("runs.sqlite3")).unwrap(),
            death,
            commits: Mutex::default(),
            died: watch::Sender::new(false),
        }
    }
}

impl Wrapper for Mortal {
    fn wrapped(&self) -> &dyn RunStore {
        &self.store
    }

    fn commit_wrapped(&self, commit: Commit) -> CommitFuture {
        let number = {
            let mut commits = self.commits.lock().unwrap();
            *commits += 1;
            *commits
        };
        match self.death {
            Some(death) if number >= death.at => {
                if number == death.at && death.made {
                    // A commit that the store refuses counts as lost.
                    let _ = self.store.commit(commit).wait();
                }
                self.died.send_replace(true);
                // The acknowledgement never comes.
                PortFuture::boxed(std::future::pending())
            }
            _ => self.store.commit(commit),
        }
    }
}

/// One process of a host: it recovers and works, until the work is done or the process dies. Returns its number of commits. Everything in
/// memory is gone afterwards.
pub(super) fn live(
    folder: &Path,
    death: Option<Death>,
    setup: Setup,
    work: impl AsyncFnOnce(&Runs, &dyn RunStore),
) -> usize {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let store = Arc::new(Mortal::open(folder, death));
    let runs = on(Arc::clone(&store) as Arc<dyn RunStore>, setup);
    runtime.block_on(async {
        let mut died = store.died.subscribe();
        let worked = async {
            runs.engine().recover().await.unwrap();
            keep_time(&runs);
            let deliverer = runs.clone();
            tokio::spawn(async move { deliverer.webhooks().keep_delivering().await });
            work(&runs, &*store).await;
        };
        tokio::select! {
            biased;
            _ = died.wait_for(|died| *died) => {}
            worked = tokio::time::timeout(Duration::from_secs(30), worked) => {
                worked.expect("what was under way comes to an end");
            }
        }
    });
    drop(runtime);
    drop(runs);
    *store.commits.lock().unwrap()
}
