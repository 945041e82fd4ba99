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
    /// At which of its commits, from one.
    pub(super) at: usize,
    /// Whether that commit is made. Either way nobody hears of it.
    pub(super) made: bool,
}

/// A store that is SQLite's until its process dies, and answers no commit after that.
#[derive(Debug)]
pub(super) struct Mortal {
    store: SqliteRuns,
    death: Option<Death>,
    commits: Mutex<usize>,
    died: watch::Sender<bool>,
    unheard: Mutex<Unheard>,
}

/// Those who wait for an acknowledgement that never comes. They are kept, because dropping them would be an answer.
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
                    // One that the store refuses is as good as lost.
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

/// One life of a host: it recovers what is there and works, until the work is done or the process dies. Says how many commits that
/// were. Whatever was in memory or under way is gone afterwards.
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
