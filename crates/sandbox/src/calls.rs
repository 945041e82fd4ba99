//! Host calls as seen by the module.

use canon::json;
use serde_json::Value;
use wasmtime::{Caller, Engine, Linker, Val};

use crate::abi::{Pair, Span};
use crate::imports::{CallKind, HostCall};
use crate::state::{State, Stop};
use crate::{Breach, Fault, HostCallResult, HostCalls, InterruptAnswer, LogLevel, Status, guest};

/// The maximum length of a channel or variable name, in bytes.
const NAME_BYTES: usize = 1024;

/// The maximum length of a log message, in bytes.
const MESSAGE_BYTES: usize = 8 << 10;

/// The base fuel cost of a host call; each byte moved costs one more unit. This bounds the host's work by the module's
/// fuel.
const CALL_FUEL: u64 = 100;

/// The maximum number of random bytes per call.
const RANDOM_BYTES: u32 = 64 << 10;

pub(crate) fn link(engine: &Engine, calls: &[HostCall]) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    for call in calls {
        let theirs = call.clone();
        linker.func_new("openwop", &call.name, call.ty.clone(), move |mut caller, params, results| {
            dispatch(&mut caller, &theirs, params, results)
        })?;
    }
    Ok(linker)
}

fn dispatch(
    caller: &mut Caller<'_, State>,
    call: &HostCall,
    params: &[Val],
    results: &mut [Val],
) -> Result<(), wasmtime::Error> {
    caller.data_mut().enter_call().map_err(Stop::from)?;
    charge(caller, CALL_FUEL)?;
    // The signature was checked, so the parameter exists.
    let number = |index: usize| params.get(index).and_then(Val::i32).unwrap_or_default();
    let span = |index: usize| Span::of_two(number(index), number(index + 1));
    match call.kind {
        CallKind::ChannelRead(pair) => {
            let found = named(caller, call, span(0), HostCalls::channel_read)?;
            put_pair(caller, pair, found, results)
        }
        CallKind::VariableGet(pair) => {
            let found = named(caller, call, span(0), HostCalls::variable_get)?;
            put_pair(caller, pair, found, results)
        }
        CallKind::ChannelWrite => {
            let status = set(caller, call, span(0), span(2), HostCalls::channel_write)?;
            put(results, Val::I32(status))
        }
        CallKind::VariableSet => {
            let status = set(caller, call, span(0), span(2), HostCalls::variable_set)?;
            put(results, Val::I32(status))
        }
        CallKind::Interrupt(pair) => {
            let answer = interrupt(caller, call, span(0))?;
            put_pair(caller, pair, answer, results)
        }
        CallKind::Log => log(caller, number(0), span(1)),
        CallKind::NowMs => {
            let millis = now_ms(caller, call)?;
            put(results, Val::I64(millis))
        }
        CallKind::Random => random(caller, span(0)),
        CallKind::Other(pair) => {
            let argument = read(caller, span(0), "an argument of a host call")?;
            let answer = match parse(&argument) {
                Some(value) => other(caller, call, &argument, value)?,
                None => {
                    return Err(Stop::from(Fault::misbehaved(
                        "an argument of a host call is not valid JSON",
                    ))
                    .into());
                }
            };
            put_pair(caller, pair, Some(answer), results)
        }
        CallKind::OtherNumber => {
            let argument = number(0);
            let answer = other(caller, call, &argument.to_le_bytes(), argument.into())?;
            let answer = answer.as_i64().and_then(|answer| i32::try_from(answer).ok());
            let reason = || format!("`{}` returned a value that is not a 32-bit number", call.name);
            let answer = answer.ok_or_else(|| Stop::from(Fault::Host { reason: reason() }))?;
            put(results, Val::I32(answer))
        }
    }
}

/// A reading call: takes a name, returns a value or nothing.
fn named(
    caller: &mut Caller<'_, State>,
    call: &HostCall,
    name: Span,
    ask: impl FnOnce(&mut dyn HostCalls, &str) -> Option<Value>,
) -> Result<Option<Value>, wasmtime::Error> {
    let bytes = read(caller, name, "a name")?;
    let Some(name) = name_of(&bytes) else { return Ok(None) };
    let answer = caller.data_mut().answer(&call.name, &[&bytes], |host| {
        Ok(ask(host, name).map_or(HostCallResult::Nothing, HostCallResult::Value))
    })?;
    value_of(caller, answer)
}

/// A writing call: takes a name and a value, returns a status.
fn set(
    caller: &mut Caller<'_, State>,
    call: &HostCall,
    name: Span,
    value: Span,
    ask: impl FnOnce(&mut dyn HostCalls, &str, Value) -> Status,
) -> Result<i32, wasmtime::Error> {
    let name = read(caller, name, "a name")?;
    let value = read(caller, value, "a value")?;
    caller.data_mut().enter_write(name.len() + value.len()).map_err(Stop::from)?;
    let (Some(text), Some(parsed)) = (name_of(&name), parse(&value)) else {
        return Ok(Status::ValidationError.as_i32());
    };
    let answer = caller.data_mut().answer(&call.name, &[&name, &value], |host| {
        Ok(HostCallResult::Status(ask(host, text, parsed).as_i32()))
    })?;
    match answer {
        HostCallResult::Status(status) => Ok(status),
        _ => Err(wrong_answer(caller)),
    }
}

fn interrupt(
    caller: &mut Caller<'_, State>,
    call: &HostCall,
    payload: Span,
) -> Result<Option<Value>, wasmtime::Error> {
    let bytes = read(caller, payload, "the payload of an interrupt")?;
    let Some(payload) = parse(&bytes) else { return Ok(None) };
    let answer = caller.data_mut().answer(&call.name, &[&bytes], |host| match host.interrupt(&payload) {
        InterruptAnswer::Resume(value) => Ok(HostCallResult::Value(value)),
        InterruptAnswer::Refuse => Ok(HostCallResult::Nothing),
        InterruptAnswer::Suspend => Err(Stop::Suspended(payload.clone())),
    })?;
    value_of(caller, answer)
}

fn now_ms(caller: &mut Caller<'_, State>, call: &HostCall) -> Result<i64, wasmtime::Error> {
    let denied = || Stop::from(Fault::CapabilityDenied { name: call.name.clone() });
    let answer = caller
        .data_mut()
        .answer(&call.name, &[], |host| host.now_ms().map(HostCallResult::Millis).ok_or_else(denied))?;
    match answer {
        HostCallResult::Millis(millis) => Ok(millis),
        _ => Err(wrong_answer(caller)),
    }
}

fn other(
    caller: &mut Caller<'_, State>,
    call: &HostCall,
    bytes: &[u8],
    argument: Value,
) -> Result<Value, wasmtime::Error> {
    let denied = || Stop::from(Fault::CapabilityDenied { name: call.name.clone() });
    let answer = caller.data_mut().answer(&call.name, &[bytes], |host| {
        host.call(&call.name, argument).map(HostCallResult::Value).ok_or_else(denied)
    })?;
    value_of(caller, answer)?.ok_or_else(|| wrong_answer(caller))
}

fn random(caller: &mut Caller<'_, State>, span: Span) -> Result<(), wasmtime::Error> {
    if span.len > RANDOM_BYTES {
        let reason = format!("it requests {} random bytes; the limit is {RANDOM_BYTES}", span.len);
        return Err(Stop::from(Fault::misbehaved(reason)).into());
    }
    charge(caller, span.len.into())?;
    let mut bytes = vec![0; span.len as usize];
    caller.data_mut().random.fill(&mut bytes);
    Ok(guest::write(caller, span, &bytes).map_err(Stop::from)?)
}

fn log(caller: &mut Caller<'_, State>, level: i32, message: Span) -> Result<(), wasmtime::Error> {
    let bytes = read(caller, message, "a message")?;
    // The earlier run already logged this.
    if caller.data().is_replaying() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&bytes);
    let message = canon::budget::truncate(&message, MESSAGE_BYTES);
    let state = caller.data_mut();
    if state.may_log(message.len()) {
        state.host.log(LogLevel::of(level), &message);
    }
    Ok(())
}

fn read(caller: &mut Caller<'_, State>, span: Span, what: &str) -> Result<Vec<u8>, wasmtime::Error> {
    let bytes = guest::read(caller, span, what).map_err(Stop::from)?;
    charge(caller, bytes.len() as u64)?;
    Ok(bytes)
}

fn charge(caller: &mut Caller<'_, State>, cost: u64) -> Result<(), wasmtime::Error> {
    let fuel = caller.get_fuel()?;
    match fuel.checked_sub(cost) {
        Some(left) => caller.set_fuel(left),
        None => {
            let limit = caller.data().limits.fuel.unwrap_or(u64::MAX);
            Err(Stop::from(Fault::from(Breach::Fuel { limit })).into())
        }
    }
}

/// Writes a value to the module's memory and returns its pair, or an empty pair.
fn put_pair(
    caller: &mut Caller<'_, State>,
    pair: Pair,
    value: Option<Value>,
    results: &mut [Val],
) -> Result<(), wasmtime::Error> {
    let span = match value {
        None => Span::NOTHING,
        Some(value) => {
            let bytes = serde_json::to_vec(&value)?;
            charge(caller, bytes.len() as u64)?;
            guest::give(caller, &bytes)?
        }
    };
    match (pair, results) {
        (Pair::Two, [ptr, len]) => {
            (*ptr, *len) = (Val::I32(span.ptr.cast_signed()), Val::I32(span.len.cast_signed()));
            Ok(())
        }
        (Pair::Packed, results) => put(results, Val::I64(span.packed())),
        (Pair::Two, _) => Ok(()),
    }
}

fn put(results: &mut [Val], value: Val) -> Result<(), wasmtime::Error> {
    if let [result] = results {
        *result = value;
    }
    Ok(())
}

fn name_of(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok().filter(|name| !name.is_empty() && name.len() <= NAME_BYTES)
}

fn parse(bytes: &[u8]) -> Option<Value> {
    json::read(bytes, &json::Limits::DEFAULT).ok()
}

fn value_of(caller: &Caller<'_, State>, answer: HostCallResult) -> Result<Option<Value>, wasmtime::Error> {
    match answer {
        HostCallResult::Nothing => Ok(None),
        HostCallResult::Value(value) => Ok(Some(value)),
        HostCallResult::Status(_) | HostCallResult::Millis(_) => Err(wrong_answer(caller)),
    }
}

/// Only a forged journal can contain such an answer.
fn wrong_answer(caller: &Caller<'_, State>) -> wasmtime::Error {
    let index = caller.data().journal.len().saturating_sub(1);
    Stop::from(Fault::Diverged { index, reason: "the recorded answer does not match this call".to_owned() })
        .into()
}
