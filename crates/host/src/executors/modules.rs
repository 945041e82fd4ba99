//! Nodes that packs bring, as WebAssembly.
//!
//! A module has no effect of its own: what it may ask of the host is to read what the node was given, to set variables and write to
//! channels, to log, the time and random bytes that follow from the run. So a call that is made again gives the same, or nobody ever saw
//! the first. What it wrote is recorded when it completes or waits, and not at all when it fails.
//!
//! A module that waits for somebody ends, and is run again from its beginning once there is an answer. What it was given before is kept
//! with the record of its first run, so that it finds the same again up to the place where it asked. A fork takes that record over.

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
use sandbox::{Entry, Fault, Grants, Invocation, Journal, Limits, Module, Outcome, Sandbox, Seed};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use self::calls::Calls;
use super::installed::Unserved;
use super::{Asked, Performed, not_served};

/// The nodes of our own that workflows for tests may name, and the packs that they would come from.
const EXAMPLES: [(&str, &str); 2] = [
    ("vendor.openwop.rust-hello.greet", "vendor.openwop.rust-hello@1.0.0"),
    ("vendor.openwop.misbehaving.memory-bomb", "vendor.openwop.misbehaving@1.0.0"),
];

/// A type of node that a pack brings.
#[derive(Clone, Debug)]
pub struct ModuleType {
    /// The pack, as `name@version`.
    pub pack: String,
    /// The compiled module.
    pub module: Module,
    /// What the module may ask of the host.
    pub grants: Grants,
    /// What a call may use.
    pub limits: Limits,
}

/// The types of nodes that packs bring.
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
    /// These types, run in that sandbox.
    pub fn new(sandbox: Sandbox, types: BTreeMap<String, ModuleType>) -> Self {
        Self { sandbox, types: Arc::new(types), refused: RefusedTypes::NONE, unserved: Arc::default() }
    }

    /// The same, and the types that packs name and that are not served, with those of the packs of which nothing is.
    #[must_use]
    pub fn refusing(self, refused: BTreeMap<String, RefusedType>, unserved: &[Unserved]) -> Self {
        Self { refused: refused.into_iter().collect(), unserved: unserved.into(), ..self }
    }

    /// The same, and nodes of our own that try the sandbox: one that greets, and one that wants more memory than there is. For tests.
    ///
    /// # Errors
    /// When a module cannot be compiled here.
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

    /// Their names.
    pub fn types(&self) -> PackTypes {
        PackTypes::These(Arc::new(self.types.keys().cloned().collect()))
    }

    /// The types that packs name and that are not served.
    pub fn refused(&self) -> RefusedTypes {
        self.refused.clone()
    }

    /// The packs of which nothing is served.
    pub fn unserved(&self) -> &[Unserved] {
        &self.unserved
    }

    /// The packs that they come from.
    pub fn packs(&self) -> BTreeSet<&str> {
        self.types.values().map(|kind| kind.pack.as_str()).collect()
    }

    /// Runs the node of a pack, on a thread that may take its time.
    pub(super) async fn perform(&self, asked: Asked<'_>) -> Performed {
        let Some(kind) = self.types.get(&asked.call.type_id).cloned() else {
            return Performed::plain(Err(not_served(&asked.call.type_id)));
        };
        let (beginning, answer) = Beginning::of(asked);
        let (sandbox, invocation) = (self.sandbox.clone(), invocation(&kind, asked, &beginning));
        let calls = Calls::new(asked, answer);
        let called = tokio::task::spawn_blocking(move || sandbox.invoke(&kind.module, &invocation, calls));
        match called.await {
            Ok((report, calls)) => performed(asked.node_id, report, calls, beginning),
            Err(_) => {
                let message = "the thread of the module ended before the module did";
                Performed::plain(Err(RunError::of(FailureCode::NodeFailed, message)))
            }
        }
    }
}

/// What a run of a module begins with, as it is kept while somebody is waited for.
#[derive(Debug, Deserialize, Serialize)]
struct Beginning {
    inputs: Value,
    /// The context of its request. It names the run that it began in, which its random bytes follow from too: a module that is run again
    /// in a fork has to do there what it did in the source. Records of earlier versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    context: Option<Value>,
    /// The answer to what it asked by ending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resume: Option<Value>,
    /// What it was told up to the place where it asked by a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    journal: Option<Journal>,
}

impl Beginning {
    /// What this run begins with, and the answer to the first thing that it asks by a call and that its journal does not answer.
    fn of(asked: Asked<'_>) -> (Self, Option<Value>) {
        let call = asked.call;
        let anew = |resume| {
            // A node without ports is given what the run has.
            let inputs = if call.inputs.is_empty() { calls::readable(asked) } else { call.inputs.clone() };
            Self { inputs: Value::Object(inputs), context: None, resume, journal: None }
        };
        let (beginning, answer) = match &call.resumption {
            None => (anew(None), None),
            Some(Resumption { value, .. }) => {
                let kept = asked.kept.and_then(|kept| Self::deserialize(kept).ok());
                match kept {
                    Some(kept) if kept.journal.is_some() => (kept, Some(value.clone())),
                    Some(kept) => (Self { resume: Some(value.clone()), ..kept }, None),
                    // Nothing is left of what it did before: the module is told, whichever way it asks.
                    None => (anew(Some(value.clone())), Some(value.clone())),
                }
            }
        };
        let context = beginning.context.unwrap_or_else(|| context(asked));
        (Self { context: Some(context), ..beginning }, answer)
    }

    /// The run that the module began in.
    fn run_id<'a>(&'a self, asked: Asked<'a>) -> &'a str {
        let began = self.context.as_ref().and_then(|context| context.get("runId")?.as_str());
        began.unwrap_or(asked.run_id.as_str())
    }
}

fn context(asked: Asked<'_>) -> Value {
    let call = asked.call;
    json!({
        "runId": asked.run_id, "nodeId": asked.node_id, "tenantId": asked.tenant, "attempt": call.attempt,
        "configurable": call.configurable, "agent": call.agent, "config": call.config,
    })
}

fn invocation(kind: &ModuleType, asked: Asked<'_>, beginning: &Beginning) -> Invocation {
    let mut invocation = Invocation::new(Entry::Node(asked.call.type_id.clone()));
    invocation.context = beginning.context.clone().unwrap_or_default();
    invocation.inputs = beginning.inputs.clone();
    invocation.resume = beginning.resume.clone();
    invocation.recorded = beginning.journal.clone().unwrap_or_default();
    invocation.grants = kind.grants.clone();
    invocation.limits = kind.limits;
    invocation.seed = Seed {
        run_id: beginning.run_id(asked).to_owned(),
        node_id: asked.node_id.to_string(),
        attempt: u64::from(asked.call.attempt),
    };
    invocation
}

fn performed(node_id: &NodeId, report: sandbox::Report, calls: Calls, beginning: Beginning) -> Performed {
    let Calls { mut told, waits, .. } = calls;
    let outcome = match report.result {
        Ok(Outcome::Completed { output }) => Ok(output),
        Ok(Outcome::Failed { code, message, details }) => {
            forget_writes(&mut told);
            let error = RunError::new(code, message);
            Err(match details {
                Some(details) => error.with(details),
                None => error,
            })
        }
        Ok(Outcome::Suspended { interrupt }) => {
            let asked = interrupt.as_object().cloned().unwrap_or_default();
            told.push(Report::Ask(asked).into());
            let kept = Beginning { journal: waits.then_some(report.journal), ..beginning };
            serde_json::to_value(kept).map_err(|error| {
                RunError::of(
                    FailureCode::NodeFailed,
                    format!("what the module was told cannot be kept: {error}"),
                )
            })
        }
        Err(fault) => {
            forget_writes(&mut told);
            told.extend(breached(node_id, &fault));
            Err(RunError::new(fault.code().as_str(), fault.to_string()).with(Value::Object(fault.details())))
        }
    };
    Performed { told, outcome }
}

/// What a module that failed had written does not stay.
fn forget_writes(told: &mut Vec<Reported>) {
    told.retain(|told| !matches!(told.report, Report::SetVariable { .. } | Report::WriteChannel { .. }));
}

/// The event of a limit that was met.
fn breached(node_id: &NodeId, fault: &Fault) -> Option<Reported> {
    let breach = fault.breach()?;
    Some(Reported::event(CapBreached {
        kind: breach.kind().into(),
        limit: breach.limit(),
        node_id: Some(node_id.clone()),
        observed: breach.observed(),
    }))
}
