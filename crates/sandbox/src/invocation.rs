//! Invocations of a module.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Map, Value};

use crate::{Journal, Limits, Seed, imports};

/// One run of a module.
#[derive(Clone, Debug)]
pub struct Invocation {
    pub entry: Entry,
    /// `nodeContext` of the request: `runId`, `nodeId`, `tenantId`, `attempt`, `configurable`, `agent`.
    pub context: Value,
    /// `inputs` of the request; the argument for [`Entry::Invoke`].
    pub inputs: Value,
    /// The value with which a suspended node resumes; `resume` of the request.
    pub resume: Option<Value>,
    /// The allowed host calls.
    pub grants: Grants,
    pub limits: Limits,
    /// The seed of random bytes.
    pub seed: Seed,
    /// The journal of an earlier run, replayed before the host is called.
    pub recorded: Journal,
    /// Stops the invocation from another thread.
    pub kill: Kill,
}

impl Invocation {
    /// An invocation without grants and inputs, with default limits.
    pub fn new(entry: Entry) -> Self {
        Self {
            entry,
            context: Value::Object(Map::new()),
            inputs: Value::Object(Map::new()),
            resume: None,
            grants: Grants::default(),
            limits: Limits::DEFAULT,
            seed: Seed::default(),
            recorded: Journal::default(),
            kill: Kill::default(),
        }
    }
}

/// What to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The node of this type, by the ABI.
    Node(String),
    /// The export `invoke`, as in the protocol's sandbox fixtures.
    Invoke,
}

/// The allowed host calls, by import name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants(BTreeSet<String>);

impl Grants {
    /// All ABI calls.
    pub fn abi() -> Self {
        imports::CORE.iter().copied().collect()
    }

    pub fn allows(&self, name: &str) -> bool {
        self.0.contains(name)
    }
}

impl<S: Into<String>> FromIterator<S> for Grants {
    fn from_iter<I: IntoIterator<Item = S>>(names: I) -> Self {
        Self(names.into_iter().map(Into::into).collect())
    }
}

/// Stops an invocation from another thread.
#[derive(Clone, Debug, Default)]
pub struct Kill(Arc<AtomicBool>);

impl Kill {
    /// Stops the module within a few milliseconds, or before it starts.
    pub fn kill(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn is_killed(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
