//! The self-description of a module.

use wasmtime::{Engine, Instance, Store};

use crate::abi::{ABI_VERSION, Span};
use crate::guest::{self, PairFunc};
use crate::run;
use crate::state::{State, Stop};
use crate::ticker::Ticker;
use crate::{Breach, DenyAll, Entry, Fault, Invocation, Limits, Module};

/// The maximum number of nodes of a pack, and the maximum length of a name.
const NODES: i32 = 1_000;
const NAME_BYTES: u32 = 256;

/// The fuel limit of a self-description. It runs once when a pack is loaded, so fuel limits it rather than time.
const FUEL: u64 = 20_000_000;

/// The self-description of a pack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pack {
    pub name: String,
    /// Its node types, by index.
    pub node_ids: Vec<String>,
}

pub(crate) fn pack(engine: &Engine, ticker: &Ticker, module: &Module) -> Result<Pack, Fault> {
    if let Some(known) = module.0.pack.get() {
        return known.clone();
    }
    let found = ask(engine, ticker, module);
    // A slow machine is not the module's fault.
    if matches!(found, Err(Fault::Breach(Breach::Time { .. }) | Fault::Host { .. })) {
        return found;
    }
    module.0.pack.get_or_init(|| found).clone()
}

fn ask(engine: &Engine, ticker: &Ticker, module: &Module) -> Result<Pack, Fault> {
    let mut invocation = Invocation::new(Entry::Invoke);
    invocation.limits = Limits { fuel: Some(FUEL), host_calls: 0, ..Limits::DEFAULT };
    let mut store = run::store(engine, &invocation, Box::new(DenyAll));
    let running = ticker.running();
    let found = describe(&mut store, module).map_err(|error| match run::stop_of(&store, module, error) {
        Stop::Fault(fault) => fault,
        Stop::Suspended(_) => Fault::misbehaved("it suspends during its self-description"),
    });
    drop(running);
    found
}

fn describe(store: &mut Store<State>, module: &Module) -> Result<Pack, wasmtime::Error> {
    let broken = |reason: String| Stop::from(Fault::bad_module(reason));
    let pairs = &module.0.pairs;
    let instance = run::instantiate(store, module)?;
    let Ok(version) = instance.get_typed_func::<(), i32>(&mut *store, "openwop_abi_version") else {
        return Err(broken("it does not export `openwop_abi_version`".to_owned()).into());
    };
    let declared = version.call(&mut *store, ())?;
    if declared != ABI_VERSION {
        return Err(Stop::from(Fault::UnsupportedAbi { declared, supported: ABI_VERSION }).into());
    }
    if let Some(problem) = &module.0.pack_problem {
        return Err(broken(problem.clone()).into());
    }
    let name: PairFunc<()> = PairFunc::of(instance, store, "openwop_pack_name", pairs.pack_name)?;
    let span = name.call(store, ())?;
    let name = text(store, instance, span, "the pack name")?;
    let count =
        instance.get_typed_func::<(), i32>(&mut *store, "openwop_node_count")?.call(&mut *store, ())?;
    if !(0..=NODES).contains(&count) {
        return Err(broken(format!("it declares {count} nodes; the limit is {NODES}")).into());
    }
    let id_at: PairFunc<i32> = PairFunc::of(instance, store, "openwop_node_id_at", pairs.node_id_at)?;
    let mut node_ids = Vec::new();
    for index in 0..count {
        let span = id_at.call(store, index)?;
        node_ids.push(text(store, instance, span, "a node type")?);
    }
    Ok(Pack { name, node_ids })
}

/// A short text from the module, which is then freed.
fn text(
    store: &mut Store<State>,
    instance: Instance,
    span: Span,
    what: &str,
) -> Result<String, wasmtime::Error> {
    if span.len == 0 || span.len > NAME_BYTES {
        let reason = format!("{what} is {} bytes; allowed are 1 to {NAME_BYTES}", span.len);
        return Err(Stop::from(Fault::bad_module(reason)).into());
    }
    let bytes = guest::read(store, span, what).map_err(Stop::from)?;
    let text = String::from_utf8(bytes)
        .map_err(|_| Stop::from(Fault::bad_module(format!("{what} is not UTF-8"))))?;
    let free = instance.get_typed_func::<(i32, i32), ()>(&mut *store, "openwop_free")?;
    free.call(&mut *store, (span.ptr.cast_signed(), span.len.cast_signed()))?;
    Ok(text)
}
