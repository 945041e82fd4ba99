//! How a module ends other than by answering.

use serde_json::{Map, Value, json};

/// Why there is no answer.
///
/// The message is for people; programs use [`Fault::code`] and [`Fault::details`]. No message holds anything from the
/// memory of the host, and what comes from the module is bounded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The module wanted more than its limits give.
    #[error(transparent)]
    Breach(#[from] Breach),
    /// The module imports something that would reach around the host.
    #[error("the module imports `{import}`, which would reach outside the sandbox")]
    Escape {
        /// What it would reach.
        kind: EscapeKind,
        /// `module.name` of the import.
        import: String,
    },
    /// The module imports a host call that it was not granted, or that this host does not have.
    #[error("the module asks for the host call `{name}`, which it was not granted")]
    CapabilityDenied {
        /// The name of the host call.
        name: String,
    },
    /// The bytes are no module that could ever run here.
    #[error("not a module for this host: {reason}")]
    BadModule {
        /// What is wrong with it.
        reason: String,
    },
    /// The compiler was not done with the module, or with those before it, in time.
    #[error("the module was not compiled within {limit_ms} ms; ask again later, or bring a smaller one")]
    CompileTimeout {
        /// The limit in milliseconds.
        limit_ms: u64,
    },
    /// The module speaks another version of the ABI.
    #[error("the module declares ABI version {declared}; this host supports {supported}")]
    UnsupportedAbi {
        /// What `openwop_abi_version` gave.
        declared: i32,
        /// What this host supports.
        supported: i32,
    },
    /// The module has no node of that type.
    #[error("the module has no node `{type_id}`")]
    UnknownNode {
        /// What was asked for.
        type_id: String,
    },
    /// The module trapped.
    #[error("the module trapped: {reason}")]
    Trapped {
        /// Which trap it was.
        reason: String,
    },
    /// The module broke the ABI: a pointer outside its memory, an answer that is no JSON, and the like.
    #[error("the module broke the ABI: {reason}")]
    Misbehaved {
        /// What it did.
        reason: String,
    },
    /// The module asked the host for something else than it did when the journal was written.
    #[error("the module does not follow the journal of its earlier run at call {index}: {reason}")]
    Diverged {
        /// The position in the journal, from 0.
        index: usize,
        /// How it differs.
        reason: String,
    },
    /// The caller gave the module more than the limits let it receive.
    #[error("the request has {bytes} bytes, and at most {limit} are allowed")]
    RequestTooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// Somebody ended the invocation through its [`Kill`](crate::Kill).
    #[error("the invocation was ended from outside")]
    Killed,
    /// The host could not do its part, which says nothing about the module.
    #[error("the sandbox could not run the module: {reason}")]
    Host {
        /// What went wrong.
        reason: String,
    },
}

/// A limit that a module ran into. The run that it belongs to fails, after a `cap.breached` event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Breach {
    /// More memory than allowed.
    #[error("the module may use {limit} bytes of memory and wanted {}", wanted(*requested))]
    Memory {
        /// The limit in bytes.
        limit: u64,
        /// What it wanted, where that is known.
        requested: Option<u64>,
    },
    /// Longer than allowed, by the clock.
    #[error("the module may run for {limit_ms} ms and was ended after {elapsed_ms} ms")]
    Time {
        /// The limit in milliseconds.
        limit_ms: u64,
        /// How long it ran.
        elapsed_ms: u64,
    },
    /// More instructions than allowed.
    #[error("the module may use {limit} units of fuel and used them up")]
    Fuel {
        /// The limit.
        limit: u64,
    },
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

    /// The `observed` of the `cap.breached` event: always more than the limit, at which a module may still be.
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
    /// The file system of the host.
    Files,
    /// Its environment.
    Environment,
    /// The network.
    Network,
    /// Its processes, and all that has no kind of its own.
    Process,
}

impl EscapeKind {
    /// Every kind.
    pub const ALL: &'static [Self] = &[Self::Files, Self::Environment, Self::Network, Self::Process];

    /// As the protocol writes it in `details.escapeKind`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Files => "host-fs-escape",
            Self::Environment => "host-env-leak",
            Self::Network => "network-escape",
            Self::Process => "host-process-escape",
        }
    }
}

/// The codes that programs see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultCode {
    /// `sandbox_memory_exceeded`.
    MemoryExceeded,
    /// `sandbox_timeout`.
    Timeout,
    /// `sandbox_fuel_exhausted`: ours, the protocol names none.
    FuelExhausted,
    /// `sandbox_escape_attempt`.
    EscapeAttempt,
    /// `sandbox_capability_denied`.
    CapabilityDenied,
    /// `sandbox_bad_module`.
    BadModule,
    /// `sandbox_compile_timeout`.
    CompileTimeout,
    /// `unsupported_abi_version`.
    UnsupportedAbiVersion,
    /// `sandbox_unknown_node`.
    UnknownNode,
    /// `sandbox_trap`.
    Trap,
    /// `sandbox_abi_violation`.
    AbiViolation,
    /// `sandbox_replay_diverged`.
    ReplayDiverged,
    /// `sandbox_request_too_large`.
    RequestTooLarge,
    /// `sandbox_killed`.
    Killed,
    /// `sandbox_host_error`.
    HostError,
}

impl FaultCode {
    /// Every code.
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

    /// As it is written.
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
    /// What programs see.
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

    /// The limit that was breached, if that is what happened.
    pub const fn breach(&self) -> Option<&Breach> {
        match self {
            Self::Breach(breach) => Some(breach),
            _ => None,
        }
    }

    /// What the protocol wants beside the code, with the message as `message`.
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
