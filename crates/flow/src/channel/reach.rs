//! The channels of a run as the work of one node finds them.
//!
//! Work that the host does for a node goes on while the run does. So it is handed the channels as they are when it begins, reads them
//! there, and sees its own writes on top of them. What it wrote is recorded when it ends, through the reducers, on what is there then.

use std::collections::BTreeMap;

use canon::time::Timestamp;
use serde_json::Value;

use super::{ChannelState, Rules, allowed, check_value};
use crate::definition::{Channel, Definition, Node};
use crate::engine::bounds;
use crate::failure::FailureCode;
use crate::state::RunError;

/// The channels that a workflow declares, as one node finds them.
#[derive(Clone, Debug, Default)]
pub struct Reach {
    at: Timestamp,
    channels: BTreeMap<String, Found>,
}

#[derive(Clone, Debug)]
struct Found {
    channel: Channel,
    /// What is there. Absent too where the node may neither read nor write.
    state: Option<ChannelState>,
    reads: bool,
    writes: bool,
}

impl PartialEq for Reach {
    /// What is declared is the same for every node of a run, so what was found is compared.
    fn eq(&self, other: &Self) -> bool {
        let found = |reach: &Self| -> Vec<_> {
            let channels = reach.channels.iter();
            channels
                .map(|(name, found)| (name.clone(), found.state.clone(), found.reads, found.writes))
                .collect()
        };
        self.at == other.at && found(self) == found(other)
    }
}

impl Reach {
    /// What a node finds at a moment.
    pub(crate) fn of(
        definition: &Definition,
        states: &BTreeMap<String, ChannelState>,
        node: &Node,
        at: Timestamp,
    ) -> Self {
        let found = |(name, channel): (&String, &Channel)| {
            let reads = allowed(channel.readers.as_deref(), node);
            let writes = allowed(channel.writers.as_deref(), node);
            let state = if reads || writes { states.get(name).cloned() } else { None };
            (name.clone(), Found { channel: channel.clone(), state, reads, writes })
        };
        Self { at, channels: definition.channels.iter().map(found).collect() }
    }

    /// Whether the workflow declares a channel of that name: it is written as one then, and not as a variable.
    pub fn declares(&self, name: &str) -> bool {
        self.channels.contains_key(name)
    }

    /// Whether there is a channel of that name that the node may not read.
    pub fn hides(&self, name: &str) -> bool {
        self.channels.get(name).is_some_and(|found| !found.reads)
    }

    /// What is in a channel. Nothing where nothing is, where the node may not read, and where the workflow declares no such channel.
    pub fn read(&self, name: &str) -> Option<Value> {
        let found = self.channels.get(name).filter(|found| found.reads)?;
        let mut state = found.state.clone()?;
        state.expire(found.channel.ttl_ms, self.at);
        Some(state.value)
    }

    /// Writes to a channel, for those who read here.
    ///
    /// # Errors
    /// `channel_access_denied` where the node may not, or where the workflow declares no such channel; `validation_error` where the
    /// channel does not take the value. Nothing is written then.
    pub fn write(&mut self, name: &str, write: &Value) -> Result<(), RunError> {
        let Some(found) = self.channels.get_mut(name).filter(|found| found.writes) else {
            let message = format!("the node is not among the writers of channel `{name}`");
            return Err(RunError::of(FailureCode::ChannelAccessDenied, message));
        };
        bounds::check_value("a write to a channel", write)?;
        check_value(name, &found.channel, write, found.state.as_ref(), self.at)?;
        let rules = Rules::of(&found.channel);
        found.state = Some(ChannelState::write(found.state.take(), write, self.at, &rules));
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

    fn reach(name: &str, channel: Channel, reads: bool, writes: bool) -> Reach {
        let found = Found { channel, state: None, reads, writes };
        Reach { at: Timestamp(10), channels: BTreeMap::from([(name.to_owned(), found)]) }
    }

    #[test]
    fn reads_see_the_writes_before_them_as_the_reducer_combines_them() {
        let rows = [
            (Reducer::Append, json!([1, 2])),
            (Reducer::Counter, json!(3)),
            (Reducer::Replace, json!(2)),
            (Reducer::Vendor("vendor.acme.last".to_owned()), json!(2)),
        ];
        for (reducer, after) in rows {
            let mut reach = reach("c", channel(reducer.clone()), true, true);
            assert_eq!(reach.read("c"), None);
            for write in [1, 2] {
                reach.write("c", &json!(write)).unwrap();
            }
            assert_eq!(reach.read("c"), Some(after), "{reducer:?}");
        }
    }

    #[test]
    fn what_is_refused_is_not_written() {
        let code = |result: Result<(), RunError>| result.unwrap_err().code;
        let mut counter = reach("c", channel(Reducer::Counter), true, true);
        counter.write("c", &json!(1)).unwrap();
        assert_eq!(code(counter.write("c", &json!("one"))), "validation_error");
        let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
        let mut last = reach("c", channel(Reducer::Replace), true, true);
        assert_eq!(code(last.write("c", &deep)), "validation_error");
        assert_eq!((counter.read("c"), last.read("c")), (Some(json!(1)), None));
        assert_eq!(code(counter.write("other", &json!(1))), "channel_access_denied");
    }

    #[test]
    fn each_side_of_a_channel_is_closed_for_itself() {
        let mut reader = reach("c", channel(Reducer::Append), true, false);
        assert_eq!(reader.write("c", &json!(1)).unwrap_err().code, "channel_access_denied");
        assert!(reader.declares("c") && !reader.hides("c"));
        let mut writer = reach("c", channel(Reducer::Append), false, true);
        writer.write("c", &json!(1)).unwrap();
        assert_eq!(writer.read("c"), None);
        assert!(writer.hides("c") && !writer.hides("other"));
    }

    #[test]
    fn entries_that_are_too_old_are_not_read() {
        let mut aged = channel(Reducer::Append);
        aged.ttl_ms = Some(5);
        let mut reach = reach("c", aged, true, true);
        reach.write("c", &json!("old")).unwrap();
        reach.at = Timestamp(20);
        assert_eq!(reach.read("c"), Some(json!([])));
    }
}
