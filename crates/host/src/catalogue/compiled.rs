//! Compiled workflows, kept by what they were compiled from.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use canon::digest::Digest;
use guide::workflow::compile::{self, Bindings, PassNote};
use guide::workflow::pinned::PinnedWorkflow;
use guide::workflow::problem::Problem;
use guide::workflow::source::Source;

/// How many compiled workflows are kept. A chat uses a few; the bound is for one that walks through all.
const MAX_KEPT: usize = 128;

/// What compiling gave.
#[derive(Debug)]
pub(super) struct Compiled {
    pub(super) workflow: Arc<PinnedWorkflow>,
    pub(super) passes: Arc<Vec<PassNote>>,
}

type Key = (Digest, BTreeMap<String, String>);
type Outcome = Result<Arc<Compiled>, Arc<Vec<Problem>>>;

// One for the process: the same bytes compile to the same workflow whichever catalogue asks.
static KEPT: LazyLock<Mutex<HashMap<Key, Outcome>>> = LazyLock::new(Mutex::default);

/// Compiles a source, or remembers having done so. `digest` is that of the file it was read from.
pub(super) fn compile(digest: Digest, source: &Source, bindings: &Bindings) -> Outcome {
    let key = (digest, bindings.0.clone());
    if let Some(outcome) = KEPT.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
        return outcome.clone();
    }
    // Not under the lock: two that compile the same thing waste a millisecond, and nobody waits.
    let outcome = match compile::compile(source, bindings) {
        Ok(compiled) => Ok(Arc::new(Compiled {
            workflow: Arc::new(PinnedWorkflow::new(compiled.workflow)),
            passes: Arc::new(compiled.explanation),
        })),
        Err(problems) => Err(Arc::new(problems)),
    };
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if kept.len() >= MAX_KEPT {
        kept.clear();
    }
    kept.insert(key, outcome.clone());
    outcome
}
