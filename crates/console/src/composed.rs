//! The composition of built-ins, modules and policy.
//!
//! Composed once per set of scopes, because the status of a module depends on them, and again when
//! a file has changed. If the composition fails, the console shows the reasons and serves only the
//! built-ins.

mod files;
mod finding;
mod lint;
mod module;
mod plugins;
mod redact;
mod shell;

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use ::plugins::{PluginPack, Plugins};
use composition::declare::Workspace;
use composition::{ComposeOutcome, Input, compose};
use runs::{Caller, Scope};
use serde_json::{Value, json};

use self::files::{Sources, Stamp};
pub(crate) use self::finding::Finding;
pub(crate) use self::plugins::ARTIFACT_VIEWER;
pub(crate) use self::shell::{Handle, Item, Module, Shell, Surface};
use crate::builtins;

/// How many sets of scopes are cached.
const MAX_SHELLS: usize = 64;

/// Composes the console and caches the result.
pub(crate) struct Composer {
    directory: PathBuf,
    plugins: Option<Arc<Plugins>>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    stamp: Option<(Stamp, u64)>,
    sources: Arc<Sources>,
    shells: HashMap<BTreeSet<Scope>, Arc<Shell>>,
}

impl Composer {
    pub(crate) fn new(directory: PathBuf, plugins: Option<Arc<Plugins>>) -> Self {
        Self { directory, plugins, known: Mutex::default() }
    }

    /// The contents of the files and packs.
    fn sources(&self, stamp: &Stamp, packs: &[PluginPack]) -> Sources {
        let mut sources = Sources::read(&self.directory, stamp);
        if let Some(plugins) = &self.plugins {
            sources.modules.extend(plugins::modules(plugins, packs));
        }
        sources
    }

    fn packs(&self) -> (u64, Arc<[PluginPack]>) {
        self.plugins.as_ref().map(|plugins| plugins.packs()).unwrap_or_default()
    }

    /// Where modules and policy are read from.
    pub(crate) fn directory(&self) -> &std::path::Path {
        &self.directory
    }

    /// Explains why a key is shown to a caller or not. Uses the input as configured, even if it
    /// does not compose.
    pub(crate) fn explain(&self, caller: &Caller, key: &str) -> String {
        let sources = self.sources(&Stamp::take(&self.directory), &self.packs().1);
        let scopes: BTreeSet<Scope> = caller.scopes.iter().copied().collect();
        let mut findings = Vec::new();
        let modules: Vec<Value> =
            sources.modules.iter().map(|module| module::resolved(module, &scopes, &mut findings)).collect();
        match input(&modules, sources.policy.as_ref()) {
            Some(input) => composition::explain(&input, key).to_string(),
            None => "The modules or the policy are nested too deeply to be read.".to_owned(),
        }
    }

    /// The composition for a caller. Checks the files each time and reads them only if they
    /// changed.
    pub(crate) fn shell(&self, caller: &Caller) -> Arc<Shell> {
        let (generation, packs) = self.packs();
        let stamp = (Stamp::take(&self.directory), generation);
        let scopes: BTreeSet<Scope> = caller.scopes.iter().copied().collect();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.stamp.as_ref() != Some(&stamp) {
            *known = Known {
                sources: Arc::new(self.sources(&stamp.0, &packs)),
                stamp: Some(stamp),
                shells: HashMap::new(),
            };
        }
        if let Some(shell) = known.shells.get(&scopes) {
            return Arc::clone(shell);
        }
        if known.shells.len() >= MAX_SHELLS {
            known.shells.clear();
        }
        let shell = Arc::new(composed(&known.sources, &scopes));
        known.shells.insert(scopes, Arc::clone(&shell));
        shell
    }
}

/// Composes the sources for a set of scopes.
pub(crate) fn composed(sources: &Sources, scopes: &BTreeSet<Scope>) -> Shell {
    let mut findings = sources.findings.clone();
    let modules: Vec<Value> =
        sources.modules.iter().map(|module| module::resolved(module, scopes, &mut findings)).collect();
    if sources.policy_unreadable {
        // An unreadable policy may contain rules that hide things, so show only the built-ins.
        return alone(findings, &modules);
    }
    let mut policy = sources.policy.clone();
    let mut postponed = Vec::new();
    // At most two rounds: the second without the operations whose targets are not active for this
    // caller.
    for _ in 0..2 {
        let Some(input) = input(&modules, policy.as_ref()) else { break };
        let outcome = compose(&input);
        if let Some(composition) = &outcome.composition {
            findings.extend(postponed);
            let mut shell = Shell::new(composition, &outcome.policy_effects);
            findings.extend(lint::shell(&shell));
            shell.findings = findings;
            shell.inactive = module::inactive_routes(&modules, &shell);
            return shell;
        }
        let Some(inactive) = inactive_operations(&outcome) else {
            findings.extend(outcome.diagnostics.iter().map(Finding::of));
            return alone(findings, &modules);
        };
        postponed = inactive.iter().map(|id| Finding::postponed(id)).collect();
        policy = policy.map(|policy| without(policy, &inactive));
        if sources.policy.is_none() {
            break;
        }
    }
    alone(findings, &modules)
}

/// Only the built-ins, with the reason.
fn alone(mut findings: Vec<Finding>, modules: &[Value]) -> Shell {
    let input = input(&[], None).expect("the built-ins nest a few levels");
    let outcome = compose(&input);
    let mut shell = match &outcome.composition {
        Some(composition) => Shell::new(composition, &outcome.policy_effects),
        None => {
            findings.extend(outcome.diagnostics.iter().map(Finding::of));
            Shell::default()
        }
    };
    shell.is_alone = true;
    shell.modules = modules.iter().filter_map(Module::left_out).collect();
    shell.findings = findings;
    shell
}

fn input(modules: &[Value], policy: Option<&Value>) -> Option<Input> {
    let workspace = builtins::declared().into_iter().fold(Workspace::new(), Workspace::builtin);
    let mut value = serde_json::to_value(&workspace).ok()?;
    value["modules"] = modules.into();
    value["policy"] = with_defaults(policy);
    Input::from_value(value).ok()
}

/// The default sidebar order as operations, followed by the operator's. Defaults for targets that
/// the operator moves, hides or replaces are left out, so that the two cannot conflict.
fn with_defaults(policy: Option<&Value>) -> Value {
    let empty = json!({"policySchemaVersion": composition::VERSION, "operations": []});
    let mut policy = policy.cloned().unwrap_or(empty);
    let Some(operations) = policy.get_mut("operations").and_then(Value::as_array_mut) else { return policy };
    let touched: BTreeSet<String> = operations
        .iter()
        .filter_map(|operation| Some(operation.get("target")?.as_str()?.to_owned()))
        .collect();
    let ours: Vec<String> =
        builtins::sidebar_order().into_iter().filter(|key| !touched.contains(key)).collect();
    let after = ours.windows(2).enumerate().map(|(place, pair)| {
        let id = format!("interlock-sidebar-{place}");
        json!({"id": id, "kind": "reorder", "target": pair[1], "position": "after", "anchor": pair[0]})
    });
    operations.extend(after);
    policy
}

/// The operations that failed only because their targets are not active now; `None` if anything
/// else is wrong too.
fn inactive_operations(outcome: &ComposeOutcome<'_>) -> Option<BTreeSet<String>> {
    let mut ids = BTreeSet::new();
    for diagnostic in &outcome.diagnostics {
        let details = serde_json::to_value(diagnostic.details()).ok()?;
        let reason = details.get("reason")?.as_str()?;
        if !matches!(reason, "inactive-target" | "inactive-use") {
            return None;
        }
        ids.insert(details.get("policyId")?.as_str()?.to_owned());
    }
    (!ids.is_empty()).then_some(ids)
}

fn without(mut policy: Value, ids: &BTreeSet<String>) -> Value {
    if let Some(operations) = policy.get_mut("operations").and_then(Value::as_array_mut) {
        let is_kept = |operation: &Value| {
            operation.get("id").and_then(Value::as_str).is_none_or(|id| !ids.contains(id))
        };
        operations.retain(is_kept);
    }
    policy
}

#[cfg(test)]
mod tests;
