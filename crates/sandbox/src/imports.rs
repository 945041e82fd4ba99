//! Validates the imports of a module before instantiation.

use canon::budget;
use wasmtime::{ExternType, FuncType, MemoryType};

use crate::abi::{self, Pair};
use crate::{EscapeKind, Fault};

/// The ABI calls, imported from `openwop`.
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

/// The maximum length of an import name in an error.
const NAME_BYTES: usize = 200;

/// The validated imports of a module.
#[derive(Debug)]
pub(crate) struct Imports {
    /// Host calls without duplicates, in module order.
    pub(crate) calls: Vec<HostCall>,
    /// The memory that the host must provide.
    pub(crate) memory: Option<MemoryType>,
}

#[derive(Clone, Debug)]
pub(crate) struct HostCall {
    pub(crate) name: String,
    pub(crate) kind: CallKind,
    pub(crate) ty: FuncType,
}

/// What a host call does, and its signature variant.
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
    /// A host-specific call with JSON arguments and result.
    Other(Pair),
    /// A host-specific call with at most one number argument and a number result.
    OtherNumber,
}

pub(crate) fn judge(module: &wasmtime::Module) -> Result<Imports, Fault> {
    // Escapes are checked first: they take precedence over other problems.
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
                    return Err(Fault::bad_module(format!("it imports `{name}` with an invalid signature")));
                };
                match imports.calls.iter().find(|call| call.name == import.name()) {
                    None => imports.calls.push(HostCall { name: import.name().to_owned(), kind, ty }),
                    Some(other) if other.kind == kind && other.ty.params().len() == ty.params().len() => {}
                    Some(_) => {
                        let name = shorten(import.name());
                        return Err(Fault::bad_module(format!("it imports `{name}` with two signatures")));
                    }
                }
            }
            _ => {
                let name = shorten(import.name());
                return Err(Fault::bad_module(format!("`openwop.{name}` must be imported as a function")));
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

/// By name, which shows readers what the module attempted.
fn escape_kind(name: &str) -> EscapeKind {
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    if starts(&["fd_", "path_"]) {
        EscapeKind::Files
    } else if starts(&["environ_"]) {
        EscapeKind::Environment
    } else if starts(&["sock_"]) {
        EscapeKind::Network
    } else {
        // `proc_`, `sched_`, anything with `fork` or `exec`, and everything else.
        EscapeKind::Process
    }
}

pub(crate) fn shorten(name: &str) -> String {
    budget::truncate(name, NAME_BYTES).into_owned()
}
