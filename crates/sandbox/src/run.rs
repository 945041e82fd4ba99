//! One run of a module, from request to result.

use std::any::Any;

use serde_json::{Map, Value};
use wasmtime::{Engine, Extern, Instance, Memory, MemoryType, Store, Trap, UpdateDeadline};

use crate::abi::ABI_VERSION;
use crate::guest::{self, PairFunc};
use crate::module::{InvokeShape, Link, host_fault};
use crate::state::{State, Stop};
use crate::ticker::Ticker;
use crate::{Breach, Entry, Fault, HostCalls, Invocation, Journal, Module, NodeOutcome, pack, response};

/// The size of a memory page.
const PAGE: u64 = 64 << 10;

/// The report of an invocation.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    pub result: Result<NodeOutcome, Fault>,
    /// All host call results, including replayed ones. Another run with it is identical.
    pub journal: Journal,
    pub usage: Usage,
    /// The number of dropped log messages.
    pub logs_dropped: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub fuel: u64,
    /// The peak memory, in bytes.
    pub memory_bytes: u64,
}

pub(crate) fn run<H: HostCalls>(
    engine: &Engine,
    ticker: &Ticker,
    module: &Module,
    invocation: &Invocation,
    host: H,
) -> (Report, H) {
    let plan = match plan(engine, ticker, module, invocation) {
        Ok(plan) => plan,
        Err(fault) => {
            let (journal, usage) = (Journal::default(), Usage::default());
            return (Report { result: Err(fault), journal, usage, logs_dropped: 0 }, host);
        }
    };
    let mut store = store(engine, invocation, Box::new(host));
    let running = ticker.running();
    let result = execute(&mut store, module, &plan)
        .map_err(|error| stop_of(&store, module, error))
        .and_then(|outcome| store.data().check_followed().map(|()| outcome).map_err(Stop::from));
    drop(running);
    let fuel = store.get_fuel().unwrap_or_default();
    let usage = Usage {
        fuel: invocation.limits.fuel.unwrap_or(u64::MAX).saturating_sub(fuel),
        memory_bytes: store.data().limiter.peak(),
    };
    let state = store.into_data();
    let result = match result {
        Ok(outcome) => Ok(outcome),
        Err(Stop::Suspended(interrupt)) => Ok(NodeOutcome::Suspended { interrupt }),
        Err(Stop::Fault(fault)) => Err(fault),
    };
    let report = Report { result, journal: state.journal, usage, logs_dropped: state.logs_dropped };
    let host: Box<dyn Any> = state.host;
    (report, *host.downcast().expect("the returned host has the type that was passed in"))
}

/// What is called, with which arguments.
pub(crate) enum Plan {
    Node { index: i32, request: Vec<u8> },
    Json { request: Vec<u8> },
    Number { argument: Option<i32> },
}

/// Everything that can be decided without an instance.
fn plan(engine: &Engine, ticker: &Ticker, module: &Module, invocation: &Invocation) -> Result<Plan, Fault> {
    if let Some(name) = module.calls().find(|name| !invocation.grants.allows(name)) {
        return Err(Fault::CapabilityDenied { name: crate::imports::shorten(name) });
    }
    let plan = match (&invocation.entry, module.0.invoke) {
        (Entry::Invoke, None) => return Err(Fault::bad_module("it does not export `invoke`")),
        (Entry::Invoke, Some(InvokeShape::Json(_))) => Plan::Json { request: text_of(&invocation.inputs)? },
        (Entry::Invoke, Some(InvokeShape::Number { parameter })) => {
            let argument = invocation.inputs.as_i64().and_then(|number| i32::try_from(number).ok());
            Plan::Number { argument: parameter.then(|| argument.unwrap_or_default()) }
        }
        (Entry::Node(type_id), _) => {
            let pack = pack::pack(engine, ticker, module)?;
            let index = pack.node_ids.iter().position(|id| id == type_id);
            let index = index.and_then(|index| i32::try_from(index).ok());
            let index =
                index.ok_or_else(|| Fault::UnknownNode { type_id: crate::imports::shorten(type_id) })?;
            Plan::Node { index, request: request(invocation)? }
        }
    };
    match &plan {
        Plan::Node { request, .. } | Plan::Json { request }
            if request.len() > invocation.limits.request_bytes =>
        {
            Err(Fault::RequestTooLarge { bytes: request.len(), limit: invocation.limits.request_bytes })
        }
        _ => Ok(plan),
    }
}

fn request(invocation: &Invocation) -> Result<Vec<u8>, Fault> {
    let mut request = Map::new();
    request.insert("abiVersion".to_owned(), ABI_VERSION.into());
    request.insert("nodeContext".to_owned(), invocation.context.clone());
    request.insert("inputs".to_owned(), invocation.inputs.clone());
    if let Some(resume) = &invocation.resume {
        request.insert("resume".to_owned(), resume.clone());
    }
    text_of(&Value::Object(request))
}

fn text_of(value: &Value) -> Result<Vec<u8>, Fault> {
    serde_json::to_vec(value).map_err(|error| Fault::Host { reason: error.to_string() })
}

/// A store that enforces the limits.
pub(crate) fn store(engine: &Engine, invocation: &Invocation, host: Box<dyn HostCalls>) -> Store<State> {
    let mut store = Store::new(engine, State::new(invocation, host));
    store.limiter(|state| &mut state.limiter);
    store.set_fuel(invocation.limits.fuel.unwrap_or(u64::MAX)).expect("the engine counts fuel");
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(|store| {
        store.data().check_time().map_err(Stop::from)?;
        Ok(UpdateDeadline::Continue(1))
    });
    store
}

/// A fresh instance.
pub(crate) fn instantiate(store: &mut Store<State>, module: &Module) -> Result<Instance, wasmtime::Error> {
    store.data().check_time().map_err(Stop::from)?;
    let mut given = None;
    let instance = match &module.0.link {
        Link::Ready(pre) => pre.instantiate(&mut *store)?,
        Link::WantsMemory { linker, module: compiled } => {
            let memory = memory_for(store, module)?;
            let mut linker = linker.clone();
            linker.define(&mut *store, "env", "memory", Extern::Memory(memory))?;
            given = Some(memory);
            linker.instantiate(&mut *store, compiled)?
        }
    };
    let memory = instance.get_memory(&mut *store, "memory").or(given);
    let alloc = instance.get_typed_func(&mut *store, "openwop_alloc").ok();
    let state = store.data_mut();
    (state.memory, state.alloc, state.ready) = (memory, alloc, true);
    Ok(instance)
}

/// The memory for a module that imports it: the requested minimum, within the limit.
fn memory_for(store: &mut Store<State>, module: &Module) -> Result<Memory, wasmtime::Error> {
    let wanted = module.0.imports.memory.as_ref();
    let minimum = wanted.map_or(0, MemoryType::minimum);
    let limit = store.data().limits.memory_bytes;
    let most = wanted.and_then(MemoryType::maximum).unwrap_or(u64::MAX).min(limit / PAGE).min(1 << 16);
    if minimum > most {
        let requested = Some(minimum.saturating_mul(PAGE));
        return Err(Stop::from(Fault::from(Breach::Memory { limit, requested })).into());
    }
    // Growth beyond the declared maximum fails inside the module; growth beyond the limit ends it. The maximum is
    // therefore the declared one, and the limiter decides.
    let maximum = wanted.and_then(MemoryType::maximum).map(|_| most);
    let bounds = |pages: u64| u32::try_from(pages).unwrap_or(1 << 16);
    Memory::new(&mut *store, MemoryType::new(bounds(minimum), maximum.map(bounds)))
}

fn execute(store: &mut Store<State>, module: &Module, plan: &Plan) -> Result<NodeOutcome, wasmtime::Error> {
    let instance = instantiate(store, module)?;
    match plan {
        Plan::Node { index, request } => {
            let invoke: PairFunc<(i32, i32, i32)> =
                PairFunc::of(instance, store, "openwop_node_invoke", module.0.pairs.node_invoke)?;
            let free = instance.get_typed_func::<(i32, i32), ()>(&mut *store, "openwop_free")?;
            let given = guest::give(store, request)?;
            let answer = invoke.call(store, (*index, given.ptr.cast_signed(), given.len.cast_signed()))?;
            let bytes = guest::read(store, answer, "its result").map_err(Stop::from)?;
            // The instance is dropped, but a module may rely on `openwop_free`.
            for span in [answer, given] {
                free.call(&mut *store, (span.ptr.cast_signed(), span.len.cast_signed()))?;
            }
            Ok(response::outcome(&bytes).map_err(Stop::from)?)
        }
        Plan::Json { request } => {
            let Some(InvokeShape::Json(pair)) = module.0.invoke else {
                return Err(Stop::from(Fault::bad_module("its `invoke` does not take JSON")).into());
            };
            let invoke: PairFunc<(i32, i32)> = PairFunc::of(instance, store, "invoke", pair)?;
            let given = guest::give(store, request)?;
            let answer = invoke.call(store, (given.ptr.cast_signed(), given.len.cast_signed()))?;
            let bytes = guest::read(store, answer, "its result").map_err(Stop::from)?;
            Ok(NodeOutcome::Completed { output: response::parse(&bytes).map_err(Stop::from)? })
        }
        Plan::Number { argument } => {
            let output = match argument {
                Some(argument) => {
                    instance.get_typed_func::<i32, i32>(&mut *store, "invoke")?.call(store, *argument)?
                }
                None => instance.get_typed_func::<(), i32>(&mut *store, "invoke")?.call(store, ())?,
            };
            Ok(NodeOutcome::Completed { output: output.into() })
        }
    }
}

/// Converts an engine error.
pub(crate) fn stop_of(store: &Store<State>, module: &Module, error: wasmtime::Error) -> Stop {
    let error = match error.downcast::<Stop>() {
        Ok(stop) => return stop,
        Err(error) => error,
    };
    let limits = &store.data().limits;
    let fault = match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => Breach::Fuel { limit: limits.fuel.unwrap_or(u64::MAX) }.into(),
        // The host's memory is all that such a module may use, so an access outside exceeds the limit.
        Some(Trap::MemoryOutOfBounds) if module.0.imports.memory.is_some() => {
            Breach::Memory { limit: limits.memory_bytes, requested: None }.into()
        }
        Some(trap) => Fault::Trapped { reason: trap.to_string() },
        None => host_fault(&error),
    };
    fault.into()
}
