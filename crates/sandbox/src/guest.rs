//! Validated access to a module's memory.

use wasmtime::{AsContext, AsContextMut, TypedFunc};

use crate::Fault;
use crate::abi::{Pair, Span};
use crate::state::{State, Stop};

/// Reads the bytes of a span after checking bounds and size.
pub(crate) fn read(store: &impl AsContext<Data = State>, span: Span, what: &str) -> Result<Vec<u8>, Fault> {
    let store = store.as_context();
    let limit = store.data().limits.response_bytes;
    if span.len as usize > limit {
        return Err(Fault::misbehaved(format!("{what} is {} bytes; the limit is {limit}", span.len)));
    }
    let memory = store.data().memory.ok_or_else(|| Fault::misbehaved("it has no memory"))?;
    let start = span.ptr as usize;
    let end = start.checked_add(span.len as usize).ok_or_else(|| outside(what))?;
    memory.data(store).get(start..end).map(<[u8]>::to_vec).ok_or_else(|| outside(what))
}

/// The writable bytes of a span.
pub(crate) fn write(
    store: &mut impl AsContextMut<Data = State>,
    span: Span,
    bytes: &[u8],
) -> Result<(), Fault> {
    const WHAT: &str = "a buffer";
    let mut store = store.as_context_mut();
    let memory = store.data().memory.ok_or_else(|| Fault::misbehaved("it has no memory"))?;
    let start = span.ptr as usize;
    let end = start.checked_add(bytes.len()).ok_or_else(|| outside(WHAT))?;
    memory.data_mut(&mut store).get_mut(start..end).ok_or_else(|| outside(WHAT))?.copy_from_slice(bytes);
    Ok(())
}

/// Allocates memory in the module and copies the bytes there.
pub(crate) fn give(
    store: &mut impl AsContextMut<Data = State>,
    bytes: &[u8],
) -> Result<Span, wasmtime::Error> {
    let broken = |reason: &str| Stop::from(Fault::misbehaved(reason));
    let mut store = store.as_context_mut();
    let alloc = store.data().alloc.clone().ok_or_else(|| broken("it does not export `openwop_alloc`"))?;
    let len = u32::try_from(bytes.len()).map_err(|_| broken("more bytes than its memory can hold"))?;
    store.data_mut().allocating = true;
    let given = alloc.call(&mut store, len.cast_signed());
    store.data_mut().allocating = false;
    let span = Span { ptr: given?.cast_unsigned(), len };
    if span.ptr == 0 {
        return Err(broken("`openwop_alloc` returned no memory").into());
    }
    write(&mut store, span, bytes).map_err(Stop::from)?;
    Ok(span)
}

fn outside(what: &str) -> Fault {
    Fault::misbehaved(format!("{what} is not inside its memory"))
}

/// An export that returns a pair.
pub(crate) enum PairFunc<P> {
    Two(TypedFunc<P, (i32, i32)>),
    Packed(TypedFunc<P, i64>),
}

impl<P: wasmtime::WasmParams> PairFunc<P> {
    pub(crate) fn of(
        instance: wasmtime::Instance,
        store: &mut impl AsContextMut<Data = State>,
        name: &str,
        pair: Pair,
    ) -> Result<Self, wasmtime::Error> {
        Ok(match pair {
            Pair::Two => Self::Two(instance.get_typed_func(store, name)?),
            Pair::Packed => Self::Packed(instance.get_typed_func(store, name)?),
        })
    }

    pub(crate) fn call(
        &self,
        store: &mut impl AsContextMut<Data = State>,
        params: P,
    ) -> Result<Span, wasmtime::Error> {
        match self {
            Self::Two(func) => func.call(store, params).map(|(ptr, len)| Span::of_two(ptr, len)),
            Self::Packed(func) => func.call(store, params).map(Span::of_packed),
        }
    }
}
