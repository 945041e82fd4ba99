//! Limits of modules and invocations.

use std::time::Duration;

/// Limits of one invocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Linear memory and tables together, in bytes.
    pub memory_bytes: u64,
    /// Fuel units, roughly one per instruction; `None` is unlimited. Deterministic for the same module and results.
    pub fuel: Option<u64>,
    /// Wall-clock time from the start of the invocation.
    pub wall_clock: Duration,
    /// The size of a request.
    pub request_bytes: usize,
    /// The size of a result, and of a host call argument.
    pub response_bytes: usize,
    /// The number of host calls.
    pub host_calls: usize,
    /// The size of the journal.
    pub journal_bytes: usize,
    /// The number of channel and variable writes, including refused ones: the host keeps them until the module ends.
    pub writes: usize,
    /// The total size of written names and values.
    pub write_bytes: usize,
    /// The total size of messages passed to [`HostCalls::log`](crate::HostCalls::log).
    pub log_bytes: usize,
}

impl Limits {
    /// The protocol's defaults, 128 MiB and 30 seconds, and our own for the rest.
    pub const DEFAULT: Self = Self {
        memory_bytes: 128 << 20,
        fuel: None,
        wall_clock: Duration::from_secs(30),
        request_bytes: 8 << 20,
        response_bytes: 4 << 20,
        host_calls: 10_000,
        journal_bytes: 4 << 20,
        writes: 1_000,
        write_bytes: 4 << 20,
        log_bytes: 64 << 10,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Limits of a module. The counts are checked before compilation, because a small module can take very long to compile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModuleLimits {
    /// The module.
    pub bytes: usize,
    pub types: u32,
    /// Parameters, or results, of one type.
    pub values_per_type: u32,
    pub imports: u32,
    /// Functions with a body.
    pub functions: u32,
    /// One function body.
    pub function_bytes: usize,
    /// All function bodies.
    pub code_bytes: usize,
    /// Branches and calls of one function: blocks, their ends, jumps and jump-table targets; calls, and instructions
    /// that become calls.
    pub pieces_per_function: u32,
    /// Branches and calls of all functions.
    pub pieces: u32,
    /// The sum over all functions of the squared number of branches times the parameters and local variables. Where
    /// branches join, the compiler may have to merge every variable from each of them.
    pub joined_values: u64,
    pub locals_per_function: u32,
    pub locals: u32,
    pub tables: u32,
    pub globals: u32,
    pub exports: u32,
    pub elements: u32,
    pub data: u32,
}

impl ModuleLimits {
    /// Several times what real nodes need.
    pub const DEFAULT: Self = Self {
        bytes: 8 << 20,
        types: 5_000,
        values_per_type: 32,
        imports: 64,
        functions: 20_000,
        function_bytes: 128 << 10,
        code_bytes: 4 << 20,
        pieces_per_function: 10_000,
        pieces: 200_000,
        joined_values: 5_000_000_000,
        locals_per_function: 5_000,
        locals: 500_000,
        tables: 4,
        globals: 2_000,
        exports: 2_000,
        elements: 2_000,
        data: 10_000,
    };
}

impl Default for ModuleLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
