//! Nodes that packs bring, as WebAssembly.
//!
//! A module has no effect of its own: what it may ask of the host is to read what the node was given, to set variables, to log, the time and
//! random bytes that follow from the run. So a call that is made again gives the same, or nobody ever saw the first.
//!
//! A module that waits for somebody ends, and is run again from its beginning once there is an answer. What it was given before is kept
//! with the record of its first run, so that it finds the same again up to the place where it asked.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use flow::definition::PackTypes;
use flow::engine::{Resumption, Told};
use flow::event::EventKind;
use flow::failure::FailureCode;
use flow::state::RunError;
use sandbox::{
    Entry, Fault, Grants, HostCalls, InterruptAnswer, Invocation, Journal, Limits, LogLevel, Module, Outcome,
    Report, Sandbox, Seed, Status,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Asked, Performed, not_served};

/// How many messages of one call are recorded.
const MAX_LOGS: usize = 100;

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
}

impl fmt::Debug for Modules {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Modules").field("types", &self.types.keys()).finish_non_exhaustive()
    }
}

impl Modules {
    /// These types, run in that sandbox.
    pub fn new(sandbox: Sandbox, types: BTreeMap<String, ModuleType>) -> Self {
        Self { sandbox, types: Arc::new(types) }
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
        let calls = Calls {
            variables: asked.call.variables.clone(),
            now_ms: i64::try_from(asked.now.0).unwrap_or(i64::MAX),
            told: Vec::new(),
            answer,
            waits: false,
        };
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
        // A node without ports is given what the run has.
        let inputs = if call.inputs.is_empty() { &call.variables } else { &call.inputs };
        let anew = |resume| Self { inputs: Value::Object(inputs.clone()), resume, journal: None };
        let Some(Resumption { value, .. }) = &call.resumption else { return (anew(None), None) };
        let kept = asked.kept.and_then(|kept| Self::deserialize(kept).ok());
        match kept {
            Some(kept) if kept.journal.is_some() => (kept, Some(value.clone())),
            Some(kept) => (Self { resume: Some(value.clone()), ..kept }, None),
            // A fork has the answers of its source and not its records: the module is told, whichever way it asks.
            None => (anew(Some(value.clone())), Some(value.clone())),
        }
    }
}

fn invocation(kind: &ModuleType, asked: Asked<'_>, beginning: &Beginning) -> Invocation {
    let call = asked.call;
    let mut invocation = Invocation::new(Entry::Node(call.type_id.clone()));
    invocation.context = json!({
        "runId": asked.run_id, "nodeId": asked.node_id, "tenantId": asked.tenant, "attempt": call.attempt,
        "configurable": call.configurable, "agent": call.agent, "config": call.config,
    });
    invocation.inputs = beginning.inputs.clone();
    invocation.resume = beginning.resume.clone();
    invocation.recorded = beginning.journal.clone().unwrap_or_default();
    invocation.grants = kind.grants.clone();
    invocation.limits = kind.limits;
    invocation.seed = Seed {
        run_id: asked.run_id.to_owned(),
        node_id: asked.node_id.to_owned(),
        attempt: u64::from(call.attempt),
    };
    invocation
}

/// What a module asks of the host, and what it is told.
struct Calls {
    variables: Map<String, Value>,
    now_ms: i64,
    told: Vec<Told>,
    /// What the next question is answered with.
    answer: Option<Value>,
    /// Whether it asked something that nobody has answered yet.
    waits: bool,
}

impl HostCalls for Calls {
    fn variable_get(&mut self, key: &str) -> Option<Value> {
        self.variables.get(key).cloned()
    }

    fn variable_set(&mut self, key: &str, value: Value) -> Status {
        self.variables.insert(key.to_owned(), value.clone());
        self.told.push(Told::new(EventKind::VariableChanged, json!({"name": key, "next": value})));
        Status::Ok
    }

    fn interrupt(&mut self, _payload: &Value) -> InterruptAnswer {
        match self.answer.take() {
            Some(answer) => InterruptAnswer::Resume(answer),
            None => {
                self.waits = true;
                InterruptAnswer::Suspend
            }
        }
    }

    fn now_ms(&mut self) -> Option<i64> {
        Some(self.now_ms)
    }

    fn log(&mut self, level: LogLevel, message: &str) {
        let logged = self.told.iter().filter(|told| told.kind == EventKind::LogAppended).count();
        if logged < MAX_LOGS {
            let level = match level {
                LogLevel::Trace | LogLevel::Debug => "debug",
                LogLevel::Info => "info",
                LogLevel::Warn => "warn",
                LogLevel::Error => "error",
            };
            self.told.push(Told::new(EventKind::LogAppended, json!({"level": level, "message": message})));
        }
    }
}

fn performed(node_id: &str, report: Report, calls: Calls, beginning: Beginning) -> Performed {
    let Calls { mut told, waits, .. } = calls;
    let outcome = match report.result {
        Ok(Outcome::Completed { output }) => Ok(output),
        Ok(Outcome::Failed { code, message, details }) => {
            let error = RunError::new(code, message);
            Err(match details {
                Some(details) => error.with(details),
                None => error,
            })
        }
        Ok(Outcome::Suspended { interrupt }) => {
            told.push(Told::new(EventKind::InterruptRequested, interrupt));
            let kept = Beginning { journal: waits.then_some(report.journal), ..beginning };
            serde_json::to_value(kept).map_err(|error| {
                RunError::of(
                    FailureCode::NodeFailed,
                    format!("what the module was told cannot be kept: {error}"),
                )
            })
        }
        Err(fault) => {
            // What a module that failed had set does not stay.
            told.retain(|told| told.kind != EventKind::VariableChanged);
            told.extend(breached(node_id, &fault));
            Err(RunError::new(fault.code().as_str(), fault.to_string()).with(Value::Object(fault.details())))
        }
    };
    Performed { told, outcome }
}

/// The event of a limit that was met.
fn breached(node_id: &str, fault: &Fault) -> Option<Told> {
    let breach = fault.breach()?;
    let payload = json!({
        "kind": breach.kind(), "limit": breach.limit(), "observed": breach.observed(), "nodeId": node_id,
    });
    Some(Told::new(EventKind::CapBreached, payload))
}
