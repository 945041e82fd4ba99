//! The sandbox: one engine, one ticker, one cache.

use std::sync::Arc;
use std::time::Duration;

use canon::digest::Digest;
use wasmtime::{Config, Engine, OptLevel, WasmFeatures};

use crate::cache::Cache;
use crate::compiler::Compiler;
use crate::module::host_fault;
use crate::ticker::Ticker;
use crate::{Fault, HostCalls, Invocation, Module, ModuleLimits, Pack, Report, pack, run, scan};

/// The stack size of a module, in bytes. It runs on the caller's thread, which should have four times that, as runtime
/// threads do.
const STACK_BYTES: usize = 512 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    pub module_limits: ModuleLimits,
    /// The size of the cache of compiled code, in bytes.
    pub cache_bytes: usize,
    /// How long a caller waits for a compilation, and the same again for other modules before it.
    pub compile_limit: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            module_limits: ModuleLimits::DEFAULT,
            cache_bytes: 64 << 20,
            compile_limit: Duration::from_secs(60),
        }
    }
}

/// Compiles and runs modules. Cheap to clone; clones share the compiled modules.
#[derive(Clone)]
pub struct Sandbox(Arc<Shared>);

struct Shared {
    engine: Engine,
    ticker: Ticker,
    cache: Cache,
    limits: ModuleLimits,
    compiler: Compiler,
}

impl Sandbox {
    /// A sandbox with default options.
    pub fn new() -> Result<Self, Fault> {
        Self::with(&Options::default())
    }

    pub fn with(options: &Options) -> Result<Self, Fault> {
        let engine = Engine::new(&config()).map_err(|error| host_fault(&error))?;
        let ticker =
            Ticker::start(engine.clone()).map_err(|error| Fault::Host { reason: error.to_string() })?;
        let cache = Cache::new(options.cache_bytes);
        let (limits, compiler) = (options.module_limits, Compiler::new(options.compile_limit));
        Ok(Self(Arc::new(Shared { engine, ticker, cache, limits, compiler })))
    }

    /// Compiles a module, or returns the cached one.
    ///
    /// Imports that reach outside are rejected as [`Fault::Escape`]. Host calls are checked later, against the grants
    /// of each invocation.
    ///
    /// It returns within the limits of [`Options`]. A compilation that takes longer continues, and its result is
    /// cached.
    ///
    /// A cache hit costs the digest of the bytes: keep the module if you run it often.
    pub fn compile(&self, bytes: &[u8]) -> Result<Module, Fault> {
        scan::size(bytes, &self.0.limits)?;
        let digest = Digest::of_bytes(bytes);
        if let Some(module) = self.0.cache.get(&digest) {
            return Ok(module);
        }
        scan::scan(bytes, &self.0.limits)?;
        // One at a time: the compiler uses all cores for one module. Concurrent callers with the same module share the
        // result.
        let (shared, bytes) = (Arc::clone(&self.0), bytes.to_vec());
        let work = move || {
            let compiled = wasmtime::Module::from_binary(&shared.engine, &bytes)
                .map_err(|error| Fault::bad_module(canon::budget::truncate(&format!("{error:#}"), 500)))?;
            Ok(shared.cache.put(Module::new(&compiled, digest)?))
        };
        self.0.compiler.compile(|| self.0.cache.get(&digest), work)
    }

    /// The self-description of a module: version, name and nodes. Read once, in an instance without host calls.
    pub fn pack(&self, module: &Module) -> Result<Pack, Fault> {
        pack::pack(&self.0.engine, &self.0.ticker, module)
    }

    /// Runs a module on this thread in a fresh instance, and returns the host.
    ///
    /// The wall-clock limit bounds the run, except for the time spent in methods of `host`.
    pub fn invoke<H: HostCalls>(&self, module: &Module, invocation: &Invocation, host: H) -> (Report, H) {
        run::run(&self.0.engine, &self.0.ticker, module, invocation, host)
    }

    /// The number of compilations so far.
    pub fn compiled(&self) -> u64 {
        self.0.compiler.compiled()
    }

    /// The number of cached modules.
    pub fn cached(&self) -> usize {
        self.0.cache.len()
    }
}

impl std::fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sandbox").field("cached", &self.cached()).finish_non_exhaustive()
    }
}

/// The enabled WebAssembly features: those that every compiler emits and that are deterministic.
const FEATURES: WasmFeatures = WasmFeatures::MUTABLE_GLOBAL
    .union(WasmFeatures::SATURATING_FLOAT_TO_INT)
    .union(WasmFeatures::SIGN_EXTENSION)
    .union(WasmFeatures::REFERENCE_TYPES)
    .union(WasmFeatures::MULTI_VALUE)
    .union(WasmFeatures::BULK_MEMORY)
    .union(WasmFeatures::SIMD)
    .union(WasmFeatures::FLOATS)
    .union(WasmFeatures::EXTENDED_CONST)
    // The engine needs these two for any references; they do not enable garbage collection.
    .union(WasmFeatures::GC_TYPES);

fn config() -> Config {
    let mut config = Config::new();
    config
        .wasm_features(WasmFeatures::all().difference(FEATURES), false)
        .wasm_features(FEATURES, true)
        .consume_fuel(true)
        .epoch_interruption(true)
        // NaN bits are the only machine-dependent result.
        .cranelift_nan_canonicalization(true)
        .cranelift_opt_level(OptLevel::Speed)
        .max_wasm_stack(STACK_BYTES)
        // Backtraces are not used and would cost time on every trap.
        .wasm_backtrace_max_frames(None);
    config
}
