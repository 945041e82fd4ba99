//! The host side of host calls.

use std::any::Any;

use serde_json::Value;

/// Implements the host calls of one invocation.
///
/// A method is called only if the module was granted that call. Results are recorded in the journal; on replay a method
/// is not called if the journal has the result. Methods run on the module's thread and count towards its time limit,
/// but cannot be interrupted: they should not block.
///
/// By default every method refuses.
#[expect(unused_variables, reason = "parameter names are documentation")]
pub trait HostCalls: Any {
    /// `openwop_channel_read`: the value of a channel that the node may read.
    fn channel_read(&mut self, name: &str) -> Option<Value> {
        None
    }

    /// `openwop_channel_write`.
    fn channel_write(&mut self, name: &str, value: Value) -> Status {
        Status::ChannelAccessDenied
    }

    /// `openwop_variable_get`: the value of a run variable.
    fn variable_get(&mut self, key: &str) -> Option<Value> {
        None
    }

    /// `openwop_variable_set`.
    fn variable_set(&mut self, key: &str, value: Value) -> Status {
        Status::CapabilityBreach
    }

    /// `openwop_interrupt`: the node wants to wait for a person.
    fn interrupt(&mut self, payload: &Value) -> InterruptAnswer {
        InterruptAnswer::Refuse
    }

    /// `openwop_now_ms`: milliseconds since 1970. `None` fails the module as not granted.
    fn now_ms(&mut self) -> Option<i64> {
        None
    }

    /// Any other granted call, such as `fetch`. `None` fails the module as not granted: a grant does not mean that the
    /// host implements the call.
    fn call(&mut self, name: &str, argument: Value) -> Option<Value> {
        None
    }

    /// `openwop_log`. Long messages are shortened, and messages above the limit are dropped. A replay does not log
    /// while the journal has results.
    fn log(&mut self, level: LogLevel, message: &str) {}
}

#[derive(Clone, Copy, Debug, Default)]
pub struct DenyAll;

impl HostCalls for DenyAll {}

/// The result of an interrupt.
#[derive(Clone, Debug, PartialEq)]
pub enum InterruptAnswer {
    /// It was answered: the module continues with this value.
    Resume(Value),
    /// The invocation ends as suspended, and is started again with its journal when there is an answer.
    Suspend,
    /// The module gets nothing and continues.
    Refuse,
}

/// The result of a writing call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Ok,
    /// The node must not access the channel.
    ChannelAccessDenied,
    /// The value does not match the channel's schema.
    ChannelSchemaBreakingChange,
    /// The channel belongs to another engine.
    ChannelCrossEngineWriteForbidden,
    /// The name or value is invalid.
    ValidationError,
    NotFound,
    /// The node is not allowed to do this.
    CapabilityBreach,
    HostError,
}

impl Status {
    pub const ALL: &'static [Self] = &[
        Self::Ok,
        Self::ChannelAccessDenied,
        Self::ChannelSchemaBreakingChange,
        Self::ChannelCrossEngineWriteForbidden,
        Self::ValidationError,
        Self::NotFound,
        Self::CapabilityBreach,
        Self::HostError,
    ];

    /// The ABI number.
    pub const fn as_i32(self) -> i32 {
        match self {
            Self::Ok => 0,
            Self::ChannelAccessDenied => 1,
            Self::ChannelSchemaBreakingChange => 2,
            Self::ChannelCrossEngineWriteForbidden => 3,
            Self::ValidationError => 10,
            Self::NotFound => 11,
            Self::CapabilityBreach => 20,
            Self::HostError => 99,
        }
    }
}

/// The level of a log message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    Trace,
    Debug,
    Info,
    Warn,
    /// 4, and any other value.
    Error,
}

impl LogLevel {
    pub(crate) const fn of(level: i32) -> Self {
        match level {
            0 => Self::Trace,
            1 => Self::Debug,
            2 => Self::Info,
            3 => Self::Warn,
            _ => Self::Error,
        }
    }
}
