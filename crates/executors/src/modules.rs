//! Nodes of packs, as WebAssembly modules.
//!
//! A module has no external effects. Its host calls read inputs, set variables, write to channels, log, and return the time and random bytes,
//! which are derived from the run. A repeated call therefore has the same result, or the first one had no visible effect. The writes of a module
//! are recorded when it completes or waits, and dropped when it fails.
//!
//! A module that waits for an interrupt ends, and is run again from its start when the answer arrives. The results of its host calls are stored
//! with the record of its first run, so that it reaches the same point again. Forks copy this record.

mod calls;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use flow::definition::{PackTypes, RefusedType, RefusedTypes};
use flow::engine::{Report, Reported, Resumption};
use flow::event::data::run::CapBreached;
use flow::failure::FailureCode;
use flow::id::NodeId;
use flow::state::RunError;
use sandbox::{Entry, Fault, Grants, Invocation, Journal, Limits, Module, NodeOutcome, Sandbox, Seed};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use self::calls::Calls;
use super::installed::Unserved;
use super::{NodeRequest, Performed, not_served};

/// The example nodes that test workflows may use, and their packs.
const EXAMPLES: [(&str, &str); 2] = [
    ("vendor.openwop.rust-hello.greet", "vendor.openwop.rust-hello@1.0.0"),
    ("vendor.openwop.misbehaving.memory-bomb", "vendor.openwop.misbehaving@1.0.0"),
];

/// A node type of a pack.
#[derive(Clone, Debug)]
pub struct ModuleType {
    /// The pack, as `name@version`.
    pub pack: String,
    pub module: Module,
    /// The host calls that the module may use.
    pub grants: Grants,
    /// The limits of a call.
    pub limits: Limits,
}

/// The node types of packs.
#[derive(Clone)]
pub struct Modules {
    sandbox: Sandbox,
    types: Arc<BTreeMap<String, ModuleType>>,
    refused: RefusedTypes,
    unserved: Arc<[Unserved]>,
}

impl fmt::Debug for Modules {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Modules").field("types", &self.types.keys()).finish_non_exhaustive()
    }
}

impl Modules {
    /// The types, run in this sandbox.
    pub fn new(sandbox: Sandbox, types: BTreeMap<String, ModuleType>) -> Self {
        Self { sandbox, types: Arc::new(types), refused: RefusedTypes::NONE, unserved: Arc::default() }
    }

    /// Adds the types of packs that cannot be used, and the packs without any usable type.
    #[must_use]
    pub fn refusing(self, refused: BTreeMap<String, RefusedType>, unserved: &[Unserved]) -> Self {
        Self { refused: refused.into_iter().collect(), unserved: unserved.into(), ..self }
    }

    /// Adds example nodes that test the sandbox: one that greets, and one that exceeds the memory limit. For tests.
    ///
    /// # Errors
    /// A module cannot be compiled.
    pub fn with_examples(self) -> Result<Self, Fault> {
        let mut types = (*self.types).clone();
        for (type_id, pack) in EXAMPLES {
            let Some(example) = sandbox::conformance::module(type_id) else { continue };
            let module = self.sandbox.compile(example.bytes)?;
            let grants = example.calls.iter().copied().collect();
            let kind = ModuleType { pack: pack.to_owned(), module, grants, limits: Limits::DEFAULT };
            types.entry(type_id.to_owned()).or_insert(kind);
        }
        Ok(Self { types: Arc::new(types), ..self })
    }

    /// The names of the types.
    pub fn types(&self) -> PackTypes {
        PackTypes::These(Arc::new(self.types.keys().cloned().collect()))
    }

    /// The types of packs that cannot be used.
    pub fn refused(&self) -> RefusedTypes {
        self.refused.clone()
    }

    /// The packs without any usable type.
    pub fn unserved(&self) -> &[Unserved] {
        &self.unserved
    }

    /// The packs of the types.
    pub fn packs(&self) -> BTreeSet<&str> {
        self.types.values().map(|kind| kind.pack.as_str()).collect()
    }

    /// Runs a node of a pack, on a blocking thread.
    pub(super) async fn perform(&self, asked: NodeRequest<'_>) -> Performed {
        let Some(kind) = self.types.get(&asked.call.type_id).cloned() else {
            return Performed::plain(Err(not_served(&asked.call.type_id)));
        };
        let (start, answer) = Start::of(asked);
        let (sandbox, invocation) = (self.sandbox.clone(), invocation(&kind, asked, &start));
        let calls = Calls::new(asked, answer);
        let called = tokio::task::spawn_blocking(move || sandbox.invoke(&kind.module, &invocation, calls));
        match called.await {
            Ok((report, calls)) => performed(asked.node_id, report, calls, start),
            Err(_) => {
                let message = "the thread of the module ended unexpectedly";
                Performed::plain(Err(RunError::of(FailureCode::NodeFailed, message)))
            }
        }
    }
}

/// The inputs of a module run, stored while it waits for an interrupt.
#[derive(Debug, Deserialize, Serialize)]
struct Start {
    inputs: Value,
    /// The context of the request. It contains the id of the run in which the module started, from which its random bytes are derived, too: a
    /// module that runs again in a fork must do the same as in the source run. Records of earlier versions have no context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    context: Option<Value>,
    /// The answer to a question that the module asked by ending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resume: Option<Value>,
    /// The results of host calls up to a question that the module asked by a host call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    journal: Option<Journal>,
}

impl Start {
    /// The inputs of this run, and the answer to the first question by a host call that the journal does not answer.
    fn of(asked: NodeRequest<'_>) -> (Self, Option<Value>) {
        let call = asked.call;
        let anew = |resume| {
            // A node without ports gets all readable variables.
            let inputs = if call.inputs.is_empty() { calls::readable(asked) } else { call.inputs.clone() };
            Self { inputs: Value::Object(inputs), context: None, resume, journal: None }
        };
        let (start, answer) = match &call.resumption {
            None => (anew(None), None),
            Some(Resumption { value, .. }) => {
                let kept = asked.saved_state.and_then(|kept| Self::deserialize(kept).ok());
                match kept {
                    Some(kept) if kept.journal.is_some() => (kept, Some(value.clone())),
                    Some(kept) => (Self { resume: Some(value.clone()), ..kept }, None),
                    // The record is missing: the module gets the answer in both ways.
                    None => (anew(Some(value.clone())), Some(value.clone())),
                }
            }
        };
        let context = start.context.unwrap_or_else(|| context(asked));
        (Self { context: Some(context), ..start }, answer)
    }

    /// The id of the run in which the module started.
    fn run_id<'a>(&'a self, asked: NodeRequest<'a>) -> &'a str {
        let began = self.context.as_ref().and_then(|context| context.get("runId")?.as_str());
        began.unwrap_or(asked.run_id.as_str())
    }
}

fn context(asked: NodeRequest<'_>) -> Value {
    let call = asked.call;
    json!({
        "runId": asked.run_id, "nodeId": asked.node_id, "tenantId": asked.tenant, "attempt": call.attempt,
        "configurable": call.configurable, "agent": call.agent, "config": call.config,
    })
}

fn invocation(kind: &ModuleType, asked: NodeRequest<'_>, start: &Start) -> Invocation {
    let mut invocation = Invocation::new(Entry::Node(asked.call.type_id.clone()));
    invocation.context = start.context.clone().unwrap_or_default();
    invocation.inputs = start.inputs.clone();
    invocation.resume = start.resume.clone();
    invocation.recorded = start.journal.clone().unwrap_or_default();
    invocation.grants = kind.grants.clone();
    invocation.limits = kind.limits;
    invocation.seed = Seed {
        run_id: start.run_id(asked).to_owned(),
        node_id: asked.node_id.to_string(),
        attempt: u64::from(asked.call.attempt),
    };
    invocation
}

fn performed(node_id: &NodeId, report: sandbox::Report, calls: Calls, start: Start) -> Performed {
    let Calls { mut reports, waits, .. } = calls;
    let outcome = match report.result {
        Ok(NodeOutcome::Completed { output }) => Ok(output),
        Ok(NodeOutcome::Failed { code, message, details }) => {
            drop_writes(&mut reports);
            let error = RunError::new(code, message);
            Err(match details {
                Some(details) => error.with(details),
                None => error,
            })
        }
        Ok(NodeOutcome::Suspended { interrupt }) => {
            let asked = interrupt.as_object().cloned().unwrap_or_default();
            reports.push(Report::Ask(asked).into());
            let kept = Start { journal: waits.then_some(report.journal), ..start };
            serde_json::to_value(kept).map_err(|error| {
                RunError::of(
                    FailureCode::NodeFailed,
                    format!("the journal of the module cannot be stored: {error}"),
                )
            })
        }
        Err(fault) => {
            drop_writes(&mut reports);
            reports.extend(breached(node_id, &fault));
            Err(RunError::new(fault.code().as_str(), fault.to_string()).with(Value::Object(fault.details())))
        }
    };
    Performed { reports, outcome }
}

/// Drops the writes of a failed module.
fn drop_writes(reports: &mut Vec<Reported>) {
    reports.retain(|reported| {
        !matches!(reported.report, Report::SetVariable { .. } | Report::WriteChannel { .. })
    });
}

/// The event of an exceeded limit.
fn breached(node_id: &NodeId, fault: &Fault) -> Option<Reported> {
    let breach = fault.breach()?;
    Some(Reported::event(CapBreached {
        kind: breach.kind().into(),
        limit: breach.limit(),
        node_id: Some(node_id.clone()),
        observed: breach.observed(),
    }))
}
