//! Runs untrusted WebAssembly nodes.
//!
//! A [`Sandbox`] compiles a module once and runs it any number of times, each time in a fresh instance. A module starts
//! without any access: no files, network, environment, processes or clock. It can make only the host calls in its
//! [`Grants`]. Every result comes from [`HostCalls`] and is recorded in a [`Journal`], so a second run with that
//! journal produces the same bytes.
//!
//! ```
//! use sandbox::{DenyAll, Entry, Invocation, NodeOutcome, Sandbox, conformance};
//! use serde_json::json;
//!
//! let sandbox = Sandbox::new()?;
//! let greet = conformance::module("vendor.openwop.rust-hello.greet").expect("an example module");
//! let module = sandbox.compile(greet.bytes)?;
//! let mut invocation = Invocation::new(greet.entry());
//! invocation.inputs = json!({"name": "Ada"});
//! invocation.grants = greet.calls.iter().copied().collect();
//!
//! let (report, _host) = sandbox.invoke(&module, &invocation, DenyAll);
//! assert_eq!(report.result?, NodeOutcome::Completed { output: json!({"greeting": "Hello, Ada!"}) });
//! # Ok::<(), sandbox::Fault>(())
//! ```
//!
//! # Invariants
//!
//! * A module cannot cause a panic, a hang or exceed its [`Limits`]; it only ends in a [`Fault`].
//! * Imports are validated before instantiation.
//! * Time and randomness are arguments: [`HostCalls::now_ms`] and [`Seed`]. The real clock is read only to stop a
//!   module that runs too long.
//! * Compiled code only comes from the compiler, so there is no unsafe code here.
#![forbid(unsafe_code)]

mod abi;
mod cache;
mod calls;
mod compiler;
pub mod conformance;
mod engine;
mod fault;
mod guest;
mod host;
mod imports;
mod invocation;
mod journal;
mod limits;
mod module;
mod nesting;
mod pack;
mod random;
mod response;
mod run;
mod scan;
mod state;
mod ticker;

pub use abi::ABI_VERSION;
pub use engine::{Options, Sandbox};
pub use fault::{Breach, EscapeKind, Fault, FaultCode};
pub use host::{DenyAll, HostCalls, InterruptAnswer, LogLevel, Status};
pub use invocation::{Entry, Grants, Invocation, Kill};
pub use journal::{HostCallResult, Journal, Record};
pub use limits::{Limits, ModuleLimits};
pub use module::Module;
pub use pack::Pack;
pub use random::Seed;
pub use response::NodeOutcome;
pub use run::{Report, Usage};
