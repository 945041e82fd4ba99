//! Channels: reducers, which combine a write with the current value, and access rules.

mod view;

use std::collections::BTreeMap;

use canon::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::definition::channel::Reducer;
use crate::definition::{Channel, Definition, Node};
use crate::failure::FailureCode;
use crate::state::RunError;

pub use self::view::ChannelView;

/// The maximum number of entries of a channel without a `maxSize`. The limit exists because the state of a run is kept in memory.
pub const MAX_ENTRIES: usize = 100_000;

/// The current value of a channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChannelState {
    pub value: Value,
    /// When each entry was written, if the value is a list.
    times: Vec<Timestamp>,
}

/// The rules by which a write is combined with the current value.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    pub reducer: &'a Reducer,
    /// The maximum number of entries.
    pub max_size: Option<u64>,
    /// The lifetime of an entry, in milliseconds.
    pub ttl_ms: Option<u64>,
}

impl<'a> Rules<'a> {
    /// The rules of a declared channel.
    pub fn of(channel: &'a Channel) -> Self {
        Self { reducer: &channel.reducer, max_size: channel.max_size, ttl_ms: channel.ttl_ms }
    }
}

impl ChannelState {
    /// A channel without writes.
    pub fn of_default(value: Value) -> Self {
        Self { value, times: Vec::new() }
    }

    /// Combines a write with the current value.
    pub fn write(current: Option<Self>, write: &Value, at: Timestamp, rules: &Rules<'_>) -> Self {
        let mut state = current.unwrap_or_else(|| Self::of_default(Value::Null));
        match rules.reducer {
            // A value that is not a list has no times. Times that an earlier reducer left would expire the new value.
            Reducer::Replace | Reducer::Vendor(_) => state = Self::of_default(write.clone()),
            Reducer::Counter => state = Self::of_default(sum(&state.value, write)),
            Reducer::Merge => {
                let mut members = match state.value {
                    Value::Object(members) => members,
                    _ => Map::new(),
                };
                if let Value::Object(write) = write {
                    members.extend(write.clone());
                }
                state = Self::of_default(Value::Object(members));
            }
            Reducer::Message => {
                let is_same = |item: &Value| item.get("messageId") == write.get("messageId");
                let exists = write.get("messageId").is_some() && state.items().iter().any(is_same);
                if !exists {
                    state.push(write.clone(), at);
                }
            }
            Reducer::Append => {
                state.expire(rules.ttl_ms, at);
                state.push(write.clone(), at);
                let most = rules.max_size.and_then(|most| usize::try_from(most).ok()).unwrap_or(MAX_ENTRIES);
                state.drop_first(state.items().len().saturating_sub(most));
            }
            Reducer::Votes => {
                state.expire(rules.ttl_ms, at);
                let voter = write.get("userId").or_else(|| write.get("voter"));
                let same = |item: &Value| {
                    voter.is_some() && item.get("userId").or_else(|| item.get("voter")) == voter
                };
                if let Some(index) = state.items().iter().position(same) {
                    state.remove(index);
                }
                state.push(write.clone(), at);
            }
            Reducer::Feedback => {
                state.expire(rules.ttl_ms, at);
                let iteration = state.items().len() + 1;
                let entry = match write {
                    Value::Object(entry) => entry.clone(),
                    text => Map::from_iter([("feedback".to_owned(), text.clone())]),
                };
                let mut entry = entry;
                entry.entry("timestamp").or_insert_with(|| at.to_rfc3339().into());
                entry.entry("iteration").or_insert_with(|| iteration.into());
                state.push(Value::Object(entry), at);
            }
        }
        state
    }

    /// Drops the entries that have expired by `now`.
    pub fn expire(&mut self, ttl_ms: Option<u64>, now: Timestamp) {
        let Some(ttl) = ttl_ms else { return };
        let old = self.times.iter().take_while(|written| now.since(**written) > ttl).count();
        self.drop_first(old);
    }

    /// The number of entries.
    pub fn size(&self) -> usize {
        match &self.value {
            Value::Array(items) => items.len(),
            Value::Object(members) => members.len(),
            Value::Null => 0,
            _ => 1,
        }
    }

    /// Updates a copy that has entries of the form `{value, _ts}` after one write. The channel had `before` entries before the write.
    pub(crate) fn mirror(&self, copy: &mut Value, before: usize, reducer: &Reducer) {
        let (Value::Array(items), Some(written)) = (&self.value, self.times.last()) else {
            *copy = self.value.clone();
            return;
        };
        match (copy, items.last()) {
            // An append adds one entry and may drop some at the front. The other entries need no copy.
            (Value::Array(shown), Some(last)) if *reducer == Reducer::Append && shown.len() == before => {
                shown.drain(..(before + 1).saturating_sub(items.len()));
                shown.push(entry(last, *written));
            }
            (copy, _) => *copy = self.entries(),
        }
    }

    /// The entries with their times, in the form `{value, _ts}`.
    pub fn entries(&self) -> Value {
        let times = self.times.iter().copied().chain(std::iter::repeat(Timestamp(0)));
        self.items().iter().zip(times).map(|(value, time)| entry(value, time)).collect()
    }

    fn items(&self) -> &[Value] {
        self.value.as_array().map(Vec::as_slice).unwrap_or_default()
    }

    fn push(&mut self, item: Value, at: Timestamp) {
        match &mut self.value {
            Value::Array(items) => {
                // The entries of a default value have no times. They count as written at the first write.
                self.times.resize(items.len(), at);
                items.push(item);
            }
            other => *other = Value::Array(vec![item]),
        }
        self.times.push(at);
    }

    fn remove(&mut self, index: usize) {
        if let Value::Array(items) = &mut self.value {
            items.remove(index);
        }
        if index < self.times.len() {
            self.times.remove(index);
        }
    }

    fn drop_first(&mut self, count: usize) {
        if let Value::Array(items) = &mut self.value {
            items.drain(..count.min(items.len()));
        }
        self.times.drain(..count.min(self.times.len()));
    }
}

fn entry(value: &Value, written: Timestamp) -> Value {
    serde_json::json!({"value": value, "_ts": written.0})
}

fn sum(left: &Value, right: &Value) -> Value {
    if let (Some(left), Some(right)) = (left.as_i64().or(left.is_null().then_some(0)), right.as_i64())
        && let Some(sum) = left.checked_add(right)
    {
        return sum.into();
    }
    let sum = left.as_f64().unwrap_or(0.0) + right.as_f64().unwrap_or(0.0);
    serde_json::Number::from_f64(sum).map_or_else(|| left.clone(), Value::Number)
}

/// Validates a write, before it is recorded.
///
/// # Errors
/// `channel_access_denied`, `validation_error`
pub fn check_write(
    name: &str,
    channel: &Channel,
    node: &Node,
    write: &Value,
    current: Option<&ChannelState>,
    now: Timestamp,
) -> Result<(), RunError> {
    check_writer(name, channel, node)?;
    check_value(name, channel, write, current, now)
}

/// Checks that a node may write to a channel.
///
/// # Errors
/// `channel_access_denied`
pub fn check_writer(name: &str, channel: &Channel, node: &Node) -> Result<(), RunError> {
    if allowed(channel.writers.as_deref(), node) { Ok(()) } else { Err(denied(name, node, "writers")) }
}

/// Validates the written value, independent of the writer.
fn check_value(
    name: &str,
    channel: &Channel,
    write: &Value,
    current: Option<&ChannelState>,
    now: Timestamp,
) -> Result<(), RunError> {
    check_shape(name, channel, write)?;
    let most = channel.max_size.filter(|_| channel.reducer != Reducer::Append);
    if most.is_none() && channel.schema.is_none() {
        return Ok(());
    }
    let after = ChannelState::write(current.cloned(), write, now, &Rules::of(channel));
    check_size(name, channel, &after)?;
    check_schema(name, channel, &after)
}

/// Checks that the reducer can combine the value.
fn check_shape(name: &str, channel: &Channel, write: &Value) -> Result<(), RunError> {
    let expected = match channel.reducer {
        Reducer::Counter if !write.is_number() => "a number",
        Reducer::Merge if !write.is_object() => "an object",
        Reducer::Counter
        | Reducer::Merge
        | Reducer::Replace
        | Reducer::Append
        | Reducer::Votes
        | Reducer::Feedback
        | Reducer::Message
        | Reducer::Vendor(_) => return Ok(()),
    };
    Err(invalid(name, &format!("a write must be {expected}")))
}

fn check_size(name: &str, channel: &Channel, after: &ChannelState) -> Result<(), RunError> {
    let most = channel.max_size.filter(|_| channel.reducer != Reducer::Append);
    if most.is_some_and(|most| u64::try_from(after.size()).is_ok_and(|size| size > most)) {
        return Err(invalid(name, "full: `maxSize` is reached"));
    }
    Ok(())
}

fn check_schema(name: &str, channel: &Channel, after: &ChannelState) -> Result<(), RunError> {
    if channel.schema.as_ref().is_some_and(|schema| !schema.is_valid(&after.value)) {
        return Err(invalid(name, "the new value would not match its schema"));
    }
    Ok(())
}

/// Validates all writes of an ended effect of a node, before the first of them is recorded. Each of them was validated when it was made,
/// against the channel as it was then. This function validates the combined result against the current channel, once per channel.
///
/// # Errors
/// `channel_access_denied`, `validation_error`
pub(crate) fn check_writes<'a>(
    definition: &Definition,
    states: &BTreeMap<String, ChannelState>,
    node: &Node,
    writes: impl Iterator<Item = (&'a str, &'a Value)>,
    now: Timestamp,
) -> Result<(), RunError> {
    let mut after: BTreeMap<&str, ChannelState> = BTreeMap::new();
    for (name, write) in writes {
        let Some(channel) = definition.channels.get(name) else {
            return Err(denied(name, node, "writers"));
        };
        check_writer(name, channel, node)?;
        check_shape(name, channel, write)?;
        let current = after.remove(name).or_else(|| states.get(name).cloned());
        let state = ChannelState::write(current, write, now, &Rules::of(channel));
        check_size(name, channel, &state)?;
        after.insert(name, state);
    }
    after.iter().try_for_each(|(name, state)| check_schema(name, &definition.channels[*name], state))
}

/// Checks that a node may read a channel.
///
/// # Errors
/// `channel_access_denied`
pub fn check_read(name: &str, channel: &Channel, node: &Node) -> Result<(), RunError> {
    if allowed(channel.readers.as_deref(), node) { Ok(()) } else { Err(denied(name, node, "readers")) }
}

/// Whether a write that was made under a schema version is still readable.
pub fn is_readable(channel: &Channel, version: u64) -> bool {
    // Newer versions are assumed to be compatible with older ones.
    version >= channel.schema_version || channel.compatible_with.contains(&version)
}

fn allowed(list: Option<&[String]>, node: &Node) -> bool {
    let kind = node.type_id();
    let names = |entry: &String| match entry.strip_suffix('*') {
        Some(prefix) => kind.starts_with(prefix),
        None => node.id == **entry || *entry == kind,
    };
    list.is_none_or(|list| list.iter().any(names))
}

fn denied(name: &str, node: &Node, side: &str) -> RunError {
    let details = serde_json::json!({
        "channel": name,
        "requestedBy": {"nodeId": node.id, "typeId": node.type_id()},
        "allowed": side,
    });
    RunError::of(
        FailureCode::ChannelAccessDenied,
        format!("the node is not listed in the `{side}` of channel `{name}`"),
    )
    .with(details)
}

fn invalid(name: &str, message: &str) -> RunError {
    RunError::of(FailureCode::ValidationError, format!("channel `{name}`: {message}"))
}
