//! What the host answers.

use std::any::Any;

use serde_json::Value;

/// The answers of the host to the calls of one invocation.
///
/// A method is called only if the module was granted the call of that name. What it answers is written to the journal;
/// on a replay it is not called for what the journal already answers. It runs on the thread of the module and counts
/// towards its wall clock, but nothing can interrupt it: it should not wait for long.
///
/// Every method refuses unless it is overridden.
#[expect(unused_variables, reason = "the names of the parameters are documentation")]
pub trait HostCalls: Any {
    /// `openwop_channel_read`: the value in a channel, if there is one that the node may read.
    fn channel_read(&mut self, name: &str) -> Option<Value> {
        None
    }

    /// `openwop_channel_write`.
    fn channel_write(&mut self, name: &str, value: Value) -> Status {
        Status::ChannelAccessDenied
    }

    /// `openwop_variable_get`: the value of a variable of the run, if it has one.
    fn variable_get(&mut self, key: &str) -> Option<Value> {
        None
    }

    /// `openwop_variable_set`.
    fn variable_set(&mut self, key: &str, value: Value) -> Status {
        Status::CapabilityBreach
    }

    /// `openwop_interrupt`: the node wants to wait for somebody.
    fn interrupt(&mut self, payload: &Value) -> InterruptAnswer {
        InterruptAnswer::Refuse
    }

    /// `openwop_now_ms`: milliseconds since 1970. `None` ends the module as not granted.
    fn now_ms(&mut self) -> Option<i64> {
        None
    }

    /// Any other granted call, as `fetch`. `None` ends the module as not granted: a name in a list of grants is not yet
    /// a host that can do it.
    fn call(&mut self, name: &str, argument: Value) -> Option<Value> {
        None
    }

    /// `openwop_log`. Long messages arrive shortened, and beyond the limit they no longer arrive. A replay is silent as long
    /// as the journal answers; what was said after its last answer is said again.
    fn log(&mut self, level: LogLevel, message: &str) {}
}

/// Refuses everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct DenyAll;

impl HostCalls for DenyAll {}

/// What becomes of an interrupt.
#[derive(Clone, Debug, PartialEq)]
pub enum InterruptAnswer {
    /// It was answered: the module goes on with this.
    Resume(Value),
    /// It has to be asked: the invocation ends as suspended, and is started again with its journal once there is an
    /// answer.
    Suspend,
    /// Nobody will ask: the module gets nothing and goes on.
    Refuse,
}

/// What a writing call answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Done.
    Ok,
    /// The node may not touch that channel.
    ChannelAccessDenied,
    /// The value does not fit what the channel holds.
    ChannelSchemaBreakingChange,
    /// The channel belongs to another engine.
    ChannelCrossEngineWriteForbidden,
    /// The name or the value is not acceptable.
    ValidationError,
    /// There is no such thing.
    NotFound,
    /// The node may not do that.
    CapabilityBreach,
    /// The host failed.
    HostError,
}

impl Status {
    /// Every status.
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

    /// The number that the module gets.
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

/// How loud a message of a module is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// 0.
    Trace,
    /// 1.
    Debug,
    /// 2.
    Info,
    /// 3.
    Warn,
    /// 4, and whatever else a module says.
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
