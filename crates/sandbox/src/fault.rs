//! Faults: how a module ends without a result.

use serde_json::{Map, Value, json};

/// Why there is no result.
///
/// The message is for people; programs use [`Fault::code`] and [`Fault::details`]. Messages contain no host memory, and
/// text from the module is bounded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The module exceeded a limit.
    #[error(transparent)]
    Breach(#[from] Breach),
    /// The module imports something outside the host interface.
    #[error("the module imports `{import}`, which reaches outside the sandbox")]
    Escape {
        kind: EscapeKind,
        /// `module.name` of the import.
        import: String,
    },
    /// The module imports a host call that was not granted or does not exist.
    #[error("the module imports the host call `{name}`, which was not granted")]
    CapabilityDenied { name: String },
    /// The bytes are not a supported module.
    #[error("unsupported module: {reason}")]
    BadModule { reason: String },
    /// The compilation took too long.
    #[error("the module was not compiled within {limit_ms} ms; retry later, or use a smaller module")]
    CompileTimeout { limit_ms: u64 },
    /// The module has an unsupported ABI version.
    #[error("the module declares ABI version {declared}; this host supports {supported}")]
    UnsupportedAbi { declared: i32, supported: i32 },
    #[error("the module has no node type `{type_id}`")]
    UnknownNode { type_id: String },
    #[error("the module trapped: {reason}")]
    Trapped { reason: String },
    /// The module violated the ABI, for example with a pointer outside its memory or a result that is not JSON.
    #[error("the module violated the ABI: {reason}")]
    Misbehaved { reason: String },
    /// The module made other host calls than recorded in the journal.
    #[error("the module diverged from its journal at call {index}: {reason}")]
    Diverged {
        /// The zero-based position in the journal.
        index: usize,
        reason: String,
    },
    /// The request exceeds the size limit.
    #[error("the request is {bytes} bytes; the limit is {limit}")]
    RequestTooLarge { bytes: usize, limit: usize },
    /// The caller ended the invocation through its [`Kill`](crate::Kill).
    #[error("the invocation was killed")]
    Killed,
    /// A host failure, independent of the module.
    #[error("the sandbox could not run the module: {reason}")]
    Host { reason: String },
}

/// An exceeded limit. The run fails after a `cap.breached` event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Breach {
    #[error("the memory limit is {limit} bytes; the module requested {}", wanted(*requested))]
    Memory {
        limit: u64,
        /// The requested size, if known.
        requested: Option<u64>,
    },
    #[error("the time limit is {limit_ms} ms; the module was stopped after {elapsed_ms} ms")]
    Time { limit_ms: u64, elapsed_ms: u64 },
    #[error("the module exhausted its fuel limit of {limit} units")]
    Fuel { limit: u64 },
}

fn wanted(requested: Option<u64>) -> String {
    requested.map_or_else(|| "more".to_owned(), |bytes| format!("{bytes} bytes"))
}

impl Breach {
    /// The `kind` of the `cap.breached` event.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Memory { .. } => "wasm-memory",
            Self::Time { .. } => "wasm-execution-time",
            Self::Fuel { .. } => "wasm-fuel",
        }
    }

    /// The `limit` of the `cap.breached` event.
    pub const fn limit(&self) -> u64 {
        match self {
            Self::Memory { limit, .. } | Self::Fuel { limit } => *limit,
            Self::Time { limit_ms, .. } => *limit_ms,
        }
    }

    /// The `observed` value of the `cap.breached` event: always above the limit, which itself is allowed.
    pub fn observed(&self) -> u64 {
        let over = self.limit().saturating_add(1);
        match self {
            Self::Memory { requested, .. } => requested.map_or(over, |requested| requested.max(over)),
            Self::Time { elapsed_ms, .. } => (*elapsed_ms).max(over),
            Self::Fuel { .. } => over,
        }
    }
}

/// What an import would reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EscapeKind {
    Files,
    Environment,
    Network,
    /// Processes, and anything without its own kind.
    Process,
}

impl EscapeKind {
    pub const ALL: &'static [Self] = &[Self::Files, Self::Environment, Self::Network, Self::Process];

    /// The spelling in `details.escapeKind`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Files => "host-fs-escape",
            Self::Environment => "host-env-leak",
            Self::Network => "network-escape",
            Self::Process => "host-process-escape",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultCode {
    MemoryExceeded,
    Timeout,
    /// `sandbox_fuel_exhausted`; not defined by the protocol.
    FuelExhausted,
    EscapeAttempt,
    CapabilityDenied,
    BadModule,
    CompileTimeout,
    UnsupportedAbiVersion,
    UnknownNode,
    Trap,
    AbiViolation,
    ReplayDiverged,
    RequestTooLarge,
    Killed,
    HostError,
}

impl FaultCode {
    pub const ALL: &'static [Self] = &[
        Self::MemoryExceeded,
        Self::Timeout,
        Self::FuelExhausted,
        Self::EscapeAttempt,
        Self::CapabilityDenied,
        Self::BadModule,
        Self::CompileTimeout,
        Self::UnsupportedAbiVersion,
        Self::UnknownNode,
        Self::Trap,
        Self::AbiViolation,
        Self::ReplayDiverged,
        Self::RequestTooLarge,
        Self::Killed,
        Self::HostError,
    ];

    /// The wire code.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MemoryExceeded => "sandbox_memory_exceeded",
            Self::Timeout => "sandbox_timeout",
            Self::FuelExhausted => "sandbox_fuel_exhausted",
            Self::EscapeAttempt => "sandbox_escape_attempt",
            Self::CapabilityDenied => "sandbox_capability_denied",
            Self::BadModule => "sandbox_bad_module",
            Self::CompileTimeout => "sandbox_compile_timeout",
            Self::UnsupportedAbiVersion => "unsupported_abi_version",
            Self::UnknownNode => "sandbox_unknown_node",
            Self::Trap => "sandbox_trap",
            Self::AbiViolation => "sandbox_abi_violation",
            Self::ReplayDiverged => "sandbox_replay_diverged",
            Self::RequestTooLarge => "sandbox_request_too_large",
            Self::Killed => "sandbox_killed",
            Self::HostError => "sandbox_host_error",
        }
    }
}

impl Fault {
    pub const fn code(&self) -> FaultCode {
        match self {
            Self::Breach(Breach::Memory { .. }) => FaultCode::MemoryExceeded,
            Self::Breach(Breach::Time { .. }) => FaultCode::Timeout,
            Self::Breach(Breach::Fuel { .. }) => FaultCode::FuelExhausted,
            Self::Escape { .. } => FaultCode::EscapeAttempt,
            Self::CapabilityDenied { .. } => FaultCode::CapabilityDenied,
            Self::BadModule { .. } => FaultCode::BadModule,
            Self::CompileTimeout { .. } => FaultCode::CompileTimeout,
            Self::UnsupportedAbi { .. } => FaultCode::UnsupportedAbiVersion,
            Self::UnknownNode { .. } => FaultCode::UnknownNode,
            Self::Trapped { .. } => FaultCode::Trap,
            Self::Misbehaved { .. } => FaultCode::AbiViolation,
            Self::Diverged { .. } => FaultCode::ReplayDiverged,
            Self::RequestTooLarge { .. } => FaultCode::RequestTooLarge,
            Self::Killed => FaultCode::Killed,
            Self::Host { .. } => FaultCode::HostError,
        }
    }

    /// The exceeded limit, if any.
    pub const fn breach(&self) -> Option<&Breach> {
        match self {
            Self::Breach(breach) => Some(breach),
            _ => None,
        }
    }

    /// The details required by the protocol, with the message as `message`.
    pub fn details(&self) -> Map<String, Value> {
        let mut details = Map::new();
        let mut put = |key: &str, value: Value| drop(details.insert(key.to_owned(), value));
        put("message", self.to_string().into());
        match self {
            Self::Breach(breach) => {
                put("kind", breach.kind().into());
                put("limit", breach.limit().into());
                put("observed", breach.observed().into());
                if let Breach::Memory { requested: Some(bytes), .. } = breach {
                    put("requestedBytes", (*bytes).into());
                }
            }
            Self::Escape { kind, import } => {
                put("escapeKind", kind.as_str().into());
                put("import", import.as_str().into());
            }
            Self::CapabilityDenied { name } => put("requestedCapability", name.as_str().into()),
            Self::UnsupportedAbi { declared, supported } => {
                put("declared", (*declared).into());
                put("supported", json!([supported]));
            }
            Self::CompileTimeout { limit_ms } => put("limitMs", (*limit_ms).into()),
            Self::UnknownNode { type_id } => put("typeId", type_id.as_str().into()),
            Self::Diverged { index, .. } => put("index", (*index).into()),
            Self::RequestTooLarge { bytes, limit } => {
                put("bytes", (*bytes).into());
                put("limit", (*limit).into());
            }
            Self::BadModule { .. }
            | Self::Trapped { .. }
            | Self::Misbehaved { .. }
            | Self::Killed
            | Self::Host { .. } => {}
        }
        details
    }

    pub(crate) fn bad_module(reason: impl Into<String>) -> Self {
        Self::BadModule { reason: reason.into() }
    }

    pub(crate) fn misbehaved(reason: impl Into<String>) -> Self {
        Self::Misbehaved { reason: reason.into() }
    }
}
