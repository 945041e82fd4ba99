//! The channels of a run as the effect of one node sees them.
//!
//! The host executes the effect of a node while the run continues. The effect gets a copy of the channels when it starts. It reads from
//! this copy, and sees its own writes in it. When it ends, its writes are recorded: the reducers combine them with the channels as they are then.

use std::collections::BTreeMap;

use canon::time::Timestamp;
use serde_json::Value;

use super::{ChannelState, Rules, allowed, check_value};
use crate::definition::{Channel, Definition, Node};
use crate::engine::bounds;
use crate::failure::FailureCode;
use crate::state::RunError;

/// The declared channels of a workflow, as one node sees them.
#[derive(Clone, Debug, Default)]
pub struct ChannelView {
    at: Timestamp,
    channels: BTreeMap<String, VisibleChannel>,
}

#[derive(Clone, Debug)]
struct VisibleChannel {
    channel: Channel,
    /// The current value. Absent also if the node may neither read nor write.
    state: Option<ChannelState>,
    reads: bool,
    writes: bool,
}

impl PartialEq for ChannelView {
    /// Compares states and permissions. The declarations are the same for every node of a run.
    fn eq(&self, other: &Self) -> bool {
        let compared = |view: &Self| -> Vec<_> {
            let channels = view.channels.iter();
            channels
                .map(|(name, channel)| (name.clone(), channel.state.clone(), channel.reads, channel.writes))
                .collect()
        };
        self.at == other.at && compared(self) == compared(other)
    }
}

impl ChannelView {
    /// The channels as a node sees them at `at`.
    pub(crate) fn of(
        definition: &Definition,
        states: &BTreeMap<String, ChannelState>,
        node: &Node,
        at: Timestamp,
    ) -> Self {
        let visible = |(name, channel): (&String, &Channel)| {
            let reads = allowed(channel.readers.as_deref(), node);
            let writes = allowed(channel.writers.as_deref(), node);
            let state = if reads || writes { states.get(name).cloned() } else { None };
            (name.clone(), VisibleChannel { channel: channel.clone(), state, reads, writes })
        };
        Self { at, channels: definition.channels.iter().map(visible).collect() }
    }

    /// Whether the workflow declares a channel of that name. If so, a write to the name is a write to the channel, not to a variable.
    pub fn declares(&self, name: &str) -> bool {
        self.channels.contains_key(name)
    }

    /// Whether the workflow declares a channel of that name that the node may not read.
    pub fn hides(&self, name: &str) -> bool {
        self.channels.get(name).is_some_and(|found| !found.reads)
    }

    /// The value of a channel. `None` if it has no value, the node may not read it, or the workflow does not declare it.
    pub fn read(&self, name: &str) -> Option<Value> {
        let visible = self.channels.get(name).filter(|channel| channel.reads)?;
        let mut state = visible.state.clone()?;
        state.expire(visible.channel.ttl_ms, self.at);
        Some(state.value)
    }

    /// Writes to a channel. Later reads of this view see the write.
    ///
    /// # Errors
    /// `channel_access_denied` if the node may not write to the channel or the workflow does not declare it; `validation_error` if the
    /// channel does not accept the value. A failed write changes nothing.
    pub fn write(&mut self, name: &str, write: &Value) -> Result<(), RunError> {
        let Some(visible) = self.channels.get_mut(name).filter(|channel| channel.writes) else {
            let message = format!("the node is not listed in the `writers` of channel `{name}`");
            return Err(RunError::of(FailureCode::ChannelAccessDenied, message));
        };
        bounds::check_value("a write to a channel", write)?;
        check_value(name, &visible.channel, write, visible.state.as_ref(), self.at)?;
        let rules = Rules::of(&visible.channel);
        visible.state = Some(ChannelState::write(visible.state.take(), write, self.at, &rules));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::definition::channel::Reducer;

    fn channel(reducer: Reducer) -> Channel {
        Channel {
            reducer,
            default: None,
            max_size: None,
            ttl_ms: None,
            schema_version: 1,
            compatible_with: Vec::new(),
            schema: None,
            readers: None,
            writers: None,
            sensitive: false,
        }
    }

    fn view(name: &str, channel: Channel, reads: bool, writes: bool) -> ChannelView {
        let visible = VisibleChannel { channel, state: None, reads, writes };
        ChannelView { at: Timestamp(10), channels: BTreeMap::from([(name.to_owned(), visible)]) }
    }

    #[test]
    fn reads_see_earlier_writes_combined_by_the_reducer() {
        let rows = [
            (Reducer::Append, json!([1, 2])),
            (Reducer::Counter, json!(3)),
            (Reducer::Replace, json!(2)),
            (Reducer::Vendor("vendor.acme.last".to_owned()), json!(2)),
        ];
        for (reducer, after) in rows {
            let mut view = view("c", channel(reducer.clone()), true, true);
            assert_eq!(view.read("c"), None);
            for write in [1, 2] {
                view.write("c", &json!(write)).unwrap();
            }
            assert_eq!(view.read("c"), Some(after), "{reducer:?}");
        }
    }

    #[test]
    fn a_refused_write_changes_nothing() {
        let code = |result: Result<(), RunError>| result.unwrap_err().code;
        let mut counter = view("c", channel(Reducer::Counter), true, true);
        counter.write("c", &json!(1)).unwrap();
        assert_eq!(code(counter.write("c", &json!("one"))), "validation_error");
        let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
        let mut last = view("c", channel(Reducer::Replace), true, true);
        assert_eq!(code(last.write("c", &deep)), "validation_error");
        assert_eq!((counter.read("c"), last.read("c")), (Some(json!(1)), None));
        assert_eq!(code(counter.write("other", &json!(1))), "channel_access_denied");
    }

    #[test]
    fn read_and_write_access_are_independent() {
        let mut reader = view("c", channel(Reducer::Append), true, false);
        assert_eq!(reader.write("c", &json!(1)).unwrap_err().code, "channel_access_denied");
        assert!(reader.declares("c") && !reader.hides("c"));
        let mut writer = view("c", channel(Reducer::Append), false, true);
        writer.write("c", &json!(1)).unwrap();
        assert_eq!(writer.read("c"), None);
        assert!(writer.hides("c") && !writer.hides("other"));
    }

    #[test]
    fn expired_entries_are_not_read() {
        let mut aged = channel(Reducer::Append);
        aged.ttl_ms = Some(5);
        let mut view = view("c", aged, true, true);
        view.write("c", &json!("old")).unwrap();
        view.at = Timestamp(20);
        assert_eq!(view.read("c"), Some(json!([])));
    }
}
