//! How much a module may be and do.

use std::time::Duration;

/// What one invocation may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Linear memory and tables together, in bytes. What wants more ends as a breach.
    pub memory_bytes: u64,
    /// Units of fuel, roughly one per instruction; `None` is no limit. The same module with the same answers uses the
    /// same fuel on every machine.
    pub fuel: Option<u64>,
    /// Time on the clock, from the start of the invocation.
    pub wall_clock: Duration,
    /// The longest request that is handed to a module.
    pub request_bytes: usize,
    /// The longest answer that is taken from a module, and the longest argument of a host call.
    pub response_bytes: usize,
    /// How many host calls there may be.
    pub host_calls: usize,
    /// What the answers in the journal may weigh.
    pub journal_bytes: usize,
    /// How often channels and variables may be written, refused writes included: the host keeps them until the module ends.
    pub writes: usize,
    /// How many bytes of names and values that may be.
    pub write_bytes: usize,
    /// How many bytes of messages reach [`HostCalls::log`](crate::HostCalls::log).
    pub log_bytes: usize,
}

impl Limits {
    /// What the protocol names as defaults, 128 MiB and 30 seconds, and bounds of ours for the rest.
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

/// How large a module may be. The counts are checked before the compiler sees it, because a small module can ask for much
/// compiling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModuleLimits {
    /// The module itself.
    pub bytes: usize,
    /// Function types.
    pub types: u32,
    /// Parameters, or results, of one type.
    pub values_per_type: u32,
    /// Imports.
    pub imports: u32,
    /// Functions with a body.
    pub functions: u32,
    /// The body of one function.
    pub function_bytes: usize,
    /// The bodies of all functions.
    pub code_bytes: usize,
    /// Branches and calls of one function: blocks, their ends, jumps and the targets of tables of jumps; calls, and what becomes one.
    pub pieces_per_function: u32,
    /// Branches and calls of all functions.
    pub pieces: u32,
    /// The square of the branches of each function times its parameters and local variables, of all functions. Where branches meet,
    /// the compiler may have to bring every variable from each of them, and looks at all of them for each.
    pub joined_values: u64,
    /// Local variables of one function.
    pub locals_per_function: u32,
    /// Local variables of all functions.
    pub locals: u32,
    /// Tables.
    pub tables: u32,
    /// Globals.
    pub globals: u32,
    /// Exports.
    pub exports: u32,
    /// Element segments.
    pub elements: u32,
    /// Data segments.
    pub data: u32,
}

impl ModuleLimits {
    /// Several times what compilers make of real nodes.
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
