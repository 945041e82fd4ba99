//! A store whose process dies at a commit.

use std::path::Path;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flow::store::{Commit, Done, RunStore};
use host::runs::Runs;
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
    unheard: Mutex<Unheard>,
}

/// The callbacks of commits that are never acknowledged. They are kept, because dropping them would be an answer.
#[derive(Default)]
struct Unheard(Vec<Done>);

impl std::fmt::Debug for Unheard {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Unheard").field(&self.0.len()).finish()
    }
}

impl Mortal {
    fn open(folder: &Path, death: Option<Death>) -> Self {
        Self {
            store: SqliteRuns::open(&folder.join("runs.sqlite3")).unwrap(),
            death,
            commits: Mutex::default(),
            died: watch::Sender::new(false),
            unheard: Mutex::default(),
        }
    }
}

impl RunStore for Mortal {
    fn commit(&self, commit: Commit, done: Done) {
        let number = {
            let mut commits = self.commits.lock().unwrap();
            *commits += 1;
            *commits
        };
        match self.death {
            Some(death) if number >= death.at => {
                if number == death.at && death.made {
                    let (sender, receiver) = channel();
                    self.store.commit(commit, Box::new(move |result| sender.send(result).unwrap()));
                    // A commit that the store refuses counts as lost.
                    let _ = receiver.recv().unwrap();
                }
                self.unheard.lock().unwrap().0.push(done);
                self.died.send_replace(true);
            }
            _ => self.store.commit(commit, done),
        }
    }

    crate::store::reads_of!(store);
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
            runs.recover().await.unwrap();
            keep_time(&runs);
            let deliverer = runs.clone();
            tokio::spawn(async move { deliverer.keep_delivering().await });
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
