//! What is asked of a module.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Map, Value};

use crate::{Journal, Limits, Seed, imports};

/// One run of a module.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// What is run.
    pub entry: Entry,
    /// `nodeContext` of the request: `runId`, `nodeId`, `tenantId`, `attempt`, `configurable`, `agent`.
    pub context: Value,
    /// `inputs` of the request; for [`Entry::Invoke`] the argument.
    pub inputs: Value,
    /// The value that a suspended node is resumed with; `resume` of the request if there is one.
    pub resume: Option<Value>,
    /// The host calls that the module may import.
    pub grants: Grants,
    /// What it may use.
    pub limits: Limits,
    /// What its random bytes come from.
    pub seed: Seed,
    /// The answers of an earlier run, which are given again before the host is asked.
    pub recorded: Journal,
    /// Ends it from outside.
    pub kill: Kill,
}

impl Invocation {
    /// An invocation with nothing granted, nothing given, and the default limits.
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

/// What is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The node of this type, by the ABI.
    Node(String),
    /// The export `invoke`, as the sandbox fixtures of the protocol have it.
    Invoke,
}

/// The host calls that a module may import, by the names of the imports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants(BTreeSet<String>);

impl Grants {
    /// Every call of the ABI.
    pub fn abi() -> Self {
        imports::CORE.iter().copied().collect()
    }

    /// Whether the call of this name is granted.
    pub fn allows(&self, name: &str) -> bool {
        self.0.contains(name)
    }
}

impl<S: Into<String>> FromIterator<S> for Grants {
    fn from_iter<I: IntoIterator<Item = S>>(names: I) -> Self {
        Self(names.into_iter().map(Into::into).collect())
    }
}

/// Ends an invocation from another thread.
#[derive(Clone, Debug, Default)]
pub struct Kill(Arc<AtomicBool>);

impl Kill {
    /// The module stops within a few milliseconds, or before it starts.
    pub fn kill(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether somebody asked for it.
    pub fn is_killed(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
