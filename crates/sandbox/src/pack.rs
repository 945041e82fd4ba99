//! What a module says that it is.

use wasmtime::{Engine, Instance, Store};

use crate::abi::{ABI_VERSION, Span};
use crate::guest::{self, PairFunc};
use crate::run;
use crate::state::{State, Stop};
use crate::ticker::Ticker;
use crate::{Breach, DenyAll, Entry, Fault, Invocation, Limits, Module};

/// How many nodes a pack may have, and how long a name in it may be.
const NODES: i32 = 1_000;
const NAME_BYTES: u32 = 256;

/// What saying so may cost. It happens once, when a pack is loaded, so the fuel decides and not the clock.
const FUEL: u64 = 20_000_000;

/// A pack, as its module describes itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pack {
    /// The name of the pack.
    pub name: String,
    /// The types of its nodes, by index.
    pub node_ids: Vec<String>,
}

pub(crate) fn pack(engine: &Engine, ticker: &Ticker, module: &Module) -> Result<Pack, Fault> {
    if let Some(known) = module.0.pack.get() {
        return known.clone();
    }
    let found = ask(engine, ticker, module);
    // That the machine was slow says nothing about the module.
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
        Stop::Suspended(_) => Fault::misbehaved("it suspends while it says what it is"),
    });
    drop(running);
    found
}

fn describe(store: &mut Store<State>, module: &Module) -> Result<Pack, wasmtime::Error> {
    let broken = |reason: String| Stop::from(Fault::bad_module(reason));
    let pairs = &module.0.pairs;
    let instance = run::instantiate(store, module)?;
    let Ok(version) = instance.get_typed_func::<(), i32>(&mut *store, "openwop_abi_version") else {
        return Err(broken("it exports no `openwop_abi_version`".to_owned()).into());
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
    let name = text(store, instance, span, "the name of the pack")?;
    let count =
        instance.get_typed_func::<(), i32>(&mut *store, "openwop_node_count")?.call(&mut *store, ())?;
    if !(0..=NODES).contains(&count) {
        return Err(
            broken(format!("it says that it has {count} nodes, and at most {NODES} are allowed")).into()
        );
    }
    let id_at: PairFunc<i32> = PairFunc::of(instance, store, "openwop_node_id_at", pairs.node_id_at)?;
    let mut node_ids = Vec::new();
    for index in 0..count {
        let span = id_at.call(store, index)?;
        node_ids.push(text(store, instance, span, "the type of a node")?);
    }
    Ok(Pack { name, node_ids })
}

/// A short text that the module gave, which is given back to it.
fn text(
    store: &mut Store<State>,
    instance: Instance,
    span: Span,
    what: &str,
) -> Result<String, wasmtime::Error> {
    if span.len == 0 || span.len > NAME_BYTES {
        let reason = format!("{what} has {} bytes, and 1 to {NAME_BYTES} are allowed", span.len);
        return Err(Stop::from(Fault::bad_module(reason)).into());
    }
    let bytes = guest::read(store, span, what).map_err(Stop::from)?;
    let text =
        String::from_utf8(bytes).map_err(|_| Stop::from(Fault::bad_module(format!("{what} is no text"))))?;
    let free = instance.get_typed_func::<(i32, i32), ()>(&mut *store, "openwop_free")?;
    free.call(&mut *store, (span.ptr.cast_signed(), span.len.cast_signed()))?;
    Ok(text)
}
