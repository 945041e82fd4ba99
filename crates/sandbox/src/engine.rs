//! The sandbox: one engine, one clock, one cache.

use std::sync::Arc;
use std::time::Duration;

use canon::digest::Digest;
use wasmtime::{Config, Engine, OptLevel, WasmFeatures};

use crate::cache::Cache;
use crate::compiler::Compiler;
use crate::module::host_fault;
use crate::ticker::Ticker;
use crate::{Fault, HostCalls, Invocation, Module, ModuleLimits, Pack, Report, pack, run, scan};

/// How deep the calls of a module may go, in bytes of stack. It runs on the thread of the caller, which should have four
/// times that; threads of a runtime have.
const STACK_BYTES: usize = 512 << 10;

/// How a sandbox is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How large modules may be.
    pub module_limits: ModuleLimits,
    /// How much compiled code is kept.
    pub cache_bytes: usize,
    /// How long anybody waits for a module to be compiled, and as long again for other modules before it.
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

/// Compiles and runs modules. Cheap to clone; the clones share the compiled modules.
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
    /// A sandbox with the default options.
    pub fn new() -> Result<Self, Fault> {
        Self::with(&Options::default())
    }

    /// A sandbox.
    pub fn with(options: &Options) -> Result<Self, Fault> {
        let engine = Engine::new(&config()).map_err(|error| host_fault(&error))?;
        let ticker =
            Ticker::start(engine.clone()).map_err(|error| Fault::Host { reason: error.to_string() })?;
        let cache = Cache::new(options.cache_bytes);
        let (limits, compiler) = (options.module_limits, Compiler::new(options.compile_limit));
        Ok(Self(Arc::new(Shared { engine, ticker, cache, limits, compiler })))
    }

    /// A module from its bytes: compiled now, or earlier from the same bytes.
    ///
    /// Whatever reaches outside is refused here, as [`Fault::Escape`]. Which host calls it may have is not decided here,
    /// but by the grants of each invocation.
    ///
    /// It returns within the limits of the [`Options`]. A module that takes longer is compiled to the end all the same, and is there
    /// when it is asked for again.
    ///
    /// A module that is there already costs the digest of its bytes, which is much for a large one: who runs it often keeps
    /// it.
    pub fn compile(&self, bytes: &[u8]) -> Result<Module, Fault> {
        scan::size(bytes, &self.0.limits)?;
        let digest = Digest::of_bytes(bytes);
        if let Some(module) = self.0.cache.get(&digest) {
            return Ok(module);
        }
        scan::scan(bytes, &self.0.limits)?;
        // One at a time: the compiler takes all cores for one module, and memory for each that it is given. Those who bring the same one
        // find it.
        let (shared, bytes) = (Arc::clone(&self.0), bytes.to_vec());
        let work = move || {
            let compiled = wasmtime::Module::from_binary(&shared.engine, &bytes)
                .map_err(|error| Fault::bad_module(canon::budget::truncate(&format!("{error:#}"), 500)))?;
            Ok(shared.cache.put(Module::new(&compiled, digest)?))
        };
        self.0.compiler.compile(|| self.0.cache.get(&digest), work)
    }

    /// What a module says that it is: its version, its name and its nodes. Asked once, in an instance that can call
    /// nothing.
    pub fn pack(&self, module: &Module) -> Result<Pack, Fault> {
        pack::pack(&self.0.engine, &self.0.ticker, module)
    }

    /// Runs a module on this thread, in a fresh instance, and gives the host back.
    ///
    /// It returns when the module has answered or was ended; the wall clock of the limits bounds that, except for the
    /// time that the methods of `host` take.
    pub fn invoke<H: HostCalls>(&self, module: &Module, invocation: &Invocation, host: H) -> (Report, H) {
        run::run(&self.0.engine, &self.0.ticker, module, invocation, host)
    }

    /// How many modules were given to the compiler so far.
    pub fn compiled(&self) -> u64 {
        self.0.compiler.compiled()
    }

    /// How many compiled modules are kept.
    pub fn cached(&self) -> usize {
        self.0.cache.len()
    }
}

impl std::fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sandbox").field("cached", &self.cached()).finish_non_exhaustive()
    }
}

/// What modules may be written in: the parts of WebAssembly that every compiler emits and that mean the same everywhere.
const FEATURES: WasmFeatures = WasmFeatures::MUTABLE_GLOBAL
    .union(WasmFeatures::SATURATING_FLOAT_TO_INT)
    .union(WasmFeatures::SIGN_EXTENSION)
    .union(WasmFeatures::REFERENCE_TYPES)
    .union(WasmFeatures::MULTI_VALUE)
    .union(WasmFeatures::BULK_MEMORY)
    .union(WasmFeatures::SIMD)
    .union(WasmFeatures::FLOATS)
    .union(WasmFeatures::EXTENDED_CONST)
    // Without these two the engine knows no references at all; they do not let a module make garbage.
    .union(WasmFeatures::GC_TYPES);

fn config() -> Config {
    let mut config = Config::new();
    config
        .wasm_features(WasmFeatures::all().difference(FEATURES), false)
        .wasm_features(FEATURES, true)
        .consume_fuel(true)
        .epoch_interruption(true)
        // The bits of a NaN are the one thing that differs from machine to machine.
        .cranelift_nan_canonicalization(true)
        .cranelift_opt_level(OptLevel::Speed)
        .max_wasm_stack(STACK_BYTES)
        // Nobody sees the backtrace of a module, and it would cost time on every trap.
        .wasm_backtrace_max_frames(None);
    config
}
