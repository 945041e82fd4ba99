//! What this host can run: its limits, its capabilities, and the executors of nodes.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use executors::Executors;
use flow::definition::Capabilities;
use flow::engine::Limits;

/// What this host can run.
pub struct Features {
    limits: Limits,
    capabilities: Capabilities,
    executors: Option<Executors>,
    withheld: Mutex<BTreeSet<&'static str>>,
}

impl Features {
    pub(crate) fn new(limits: Limits, capabilities: Capabilities, executors: Option<Executors>) -> Self {
        Self { limits, capabilities, executors, withheld: Mutex::default() }
    }

    /// The limits of every run.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The capabilities that this host serves.
    pub fn capabilities(&self) -> Capabilities {
        let own = &self.capabilities;
        let served = self.executors().map_or_else(|| own.clone(), |executors| executors.widen(own));
        self.withheld().into_iter().fold(served, Capabilities::without)
    }

    /// The discovery flags that are withheld. For tests.
    pub fn withheld(&self) -> BTreeSet<&'static str> {
        self.withheld.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stops serving the features of these discovery flags. Registered workflows stay. For tests.
    pub fn withhold(&self, flags: BTreeSet<&'static str>) {
        *self.withheld.lock().unwrap_or_else(PoisonError::into_inner) = flags;
    }

    /// The executors of nodes.
    pub fn executors(&self) -> Option<&Executors> {
        self.executors.as_ref()
    }

    /// The model providers that callers may choose from.
    pub(crate) fn providers(&self) -> Vec<&str> {
        let models = self.executors().and_then(Executors::models);
        models.map(|models| models.choosable().collect()).unwrap_or_default()
    }
}
