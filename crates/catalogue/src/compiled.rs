//! A cache of compiled workflows, by their inputs.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use canon::digest::Digest;
use guide::workflow::compile::{self, Bindings, PassNote};
use guide::workflow::pinned::PinnedWorkflow;
use guide::workflow::problem::Problem;
use guide::workflow::source::Source;

/// The maximum number of cached workflows. A chat uses a few; the limit applies to callers that list all of them.
const MAX_KEPT: usize = 128;

#[derive(Debug)]
pub(super) struct Compiled {
    pub(super) workflow: Arc<PinnedWorkflow>,
    pub(super) passes: Arc<Vec<PassNote>>,
}

type Key = (Digest, BTreeMap<String, String>);
type CompileResult = Result<Arc<Compiled>, Arc<Vec<Problem>>>;

// One cache for the process, because the same bytes compile to the same workflow in every catalogue.
static KEPT: LazyLock<Mutex<HashMap<Key, CompileResult>>> = LazyLock::new(Mutex::default);

/// Compiles a source, or returns the cached result. `digest` is that of the source file.
pub(super) fn compile(digest: Digest, source: &Source, bindings: &Bindings) -> CompileResult {
    let key = (digest, bindings.0.clone());
    if let Some(outcome) = KEPT.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
        return outcome.clone();
    }
    // Compile without holding the lock. Two concurrent compilations waste a millisecond, but no caller waits.
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
