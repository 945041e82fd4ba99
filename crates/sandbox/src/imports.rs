//! Judges what a module wants from outside, before there is an instance of it.

use canon::budget;
use wasmtime::{ExternType, FuncType, MemoryType};

use crate::abi::{self, Pair};
use crate::{EscapeKind, Fault};

/// The calls of the ABI, as modules import them from `openwop`.
pub(crate) const CORE: &[&str] = &[
    "openwop_channel_read",
    "openwop_channel_write",
    "openwop_variable_get",
    "openwop_variable_set",
    "openwop_interrupt",
    "openwop_log",
    "openwop_now_ms",
    "openwop_random",
];

/// How much of a name of an import is repeated in an error.
const NAME_BYTES: usize = 200;

/// What a module imports, once that is known to be harmless.
#[derive(Debug)]
pub(crate) struct Imports {
    /// Host calls, each once, in the order of the module.
    pub(crate) calls: Vec<Call>,
    /// The memory that the host has to give it.
    pub(crate) memory: Option<MemoryType>,
}

/// One host call.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) kind: CallKind,
    pub(crate) ty: FuncType,
}

/// What a host call does, and how it looks where that is the choice of the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallKind {
    ChannelRead(Pair),
    ChannelWrite,
    VariableGet(Pair),
    VariableSet,
    Interrupt(Pair),
    Log,
    NowMs,
    Random,
    /// A call of this host with JSON in and out.
    Other(Pair),
    /// A call of this host with at most one number in, and one out.
    OtherNumber,
}

pub(crate) fn judge(module: &wasmtime::Module) -> Result<Imports, Fault> {
    // Escapes first: a module that reaches outside is that, whatever else is wrong with it.
    for import in module.imports() {
        let memory = (import.module(), import.name()) == ("env", "memory") && import.ty().memory().is_some();
        if import.module() != "openwop" && !memory {
            let name = format!("{}.{}", import.module(), import.name());
            return Err(Fault::Escape { kind: escape_kind(import.name()), import: shorten(&name) });
        }
    }
    let mut imports = Imports { calls: Vec::new(), memory: None };
    for import in module.imports() {
        match import.ty() {
            ExternType::Memory(ty) => imports.memory = Some(ty),
            ExternType::Func(ty) => {
                let Some(kind) = kind_of(import.name(), &ty) else {
                    let name = shorten(import.name());
                    return Err(Fault::bad_module(format!(
                        "it imports `{name}` with another signature than it has"
                    )));
                };
                match imports.calls.iter().find(|call| call.name == import.name()) {
                    None => imports.calls.push(Call { name: import.name().to_owned(), kind, ty }),
                    Some(other) if other.kind == kind && other.ty.params().len() == ty.params().len() => {}
                    Some(_) => {
                        let name = shorten(import.name());
                        return Err(Fault::bad_module(format!("it imports `{name}` with two signatures")));
                    }
                }
            }
            _ => {
                let name = shorten(import.name());
                return Err(Fault::bad_module(format!(
                    "it imports `openwop.{name}` as something that is no function"
                )));
            }
        }
    }
    Ok(imports)
}

fn kind_of(name: &str, ty: &FuncType) -> Option<CallKind> {
    let (params, results) = (abi::letters(ty.params()), abi::letters(ty.results()));
    let pair = if params == "ii" { abi::pair_of(ty) } else { None };
    let exactly =
        |kind, wanted: (&str, &str)| (wanted == (params.as_str(), results.as_str())).then_some(kind);
    match name {
        "openwop_channel_read" => pair.map(CallKind::ChannelRead),
        "openwop_channel_write" => exactly(CallKind::ChannelWrite, ("iiii", "i")),
        "openwop_variable_get" => pair.map(CallKind::VariableGet),
        "openwop_variable_set" => exactly(CallKind::VariableSet, ("iiii", "i")),
        "openwop_interrupt" => pair.map(CallKind::Interrupt),
        "openwop_log" => exactly(CallKind::Log, ("iii", "")),
        "openwop_now_ms" => exactly(CallKind::NowMs, ("", "I")),
        "openwop_random" => exactly(CallKind::Random, ("ii", "")),
        _ => pair
            .map(CallKind::Other)
            .or_else(|| exactly(CallKind::OtherNumber, ("i", "i")))
            .or_else(|| exactly(CallKind::OtherNumber, ("", "i"))),
    }
}

/// By the name alone, because that is what tells a reader what the module was after.
fn escape_kind(name: &str) -> EscapeKind {
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    if starts(&["fd_", "path_"]) {
        EscapeKind::Files
    } else if starts(&["environ_"]) {
        EscapeKind::Environment
    } else if starts(&["sock_"]) {
        EscapeKind::Network
    } else {
        // `proc_`, `sched_`, anything with `fork` or `exec`, and all that has no kind of its own.
        EscapeKind::Process
    }
}

pub(crate) fn shorten(name: &str) -> String {
    budget::truncate(name, NAME_BYTES).into_owned()
}
