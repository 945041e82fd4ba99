//! Runs WebAssembly nodes that nobody has to trust.
//!
//! A [`Sandbox`] compiles a module once and runs it as often as asked, each time in an instance that has never run
//! before. A module starts with nothing: no files, no network, no environment, no processes, no clock. What it may ask
//! of the host is what its [`Grants`] name, and every answer it gets comes through [`HostCalls`] and is written to a
//! [`Journal`], so that a second run with that journal gives the same bytes.
//!
//! ```
//! use sandbox::{DenyAll, Entry, Invocation, Outcome, Sandbox, conformance};
//! use serde_json::json;
//!
//! let sandbox = Sandbox::new()?;
//! let greet = conformance::module("vendor.openwop.rust-hello.greet").expect("a module of ours");
//! let module = sandbox.compile(greet.bytes)?;
//! let mut invocation = Invocation::new(greet.entry());
//! invocation.inputs = json!({"name": "Ada"});
//! invocation.grants = greet.calls.iter().copied().collect();
//!
//! let (report, _host) = sandbox.invoke(&module, &invocation, DenyAll);
//! assert_eq!(report.result?, Outcome::Completed { output: json!({"greeting": "Hello, Ada!"}) });
//! # Ok::<(), sandbox::Fault>(())
//! ```
//!
//! # Invariants
//! * Nothing a module does panics, hangs or outgrows its [`Limits`]; it only ends in a [`Fault`].
//! * What a module imports is judged before an instance of it exists.
//! * Time and randomness are passed in: the clock by [`HostCalls::now_ms`], randomness by a [`Seed`]. Real time is only
//!   read to end a module that runs too long.
//! * Compiled code is never read from anywhere but the compiler, so there is no unsafe code here.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

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
pub use journal::{Answer, Journal, Record};
pub use limits::{Limits, ModuleLimits};
pub use module::Module;
pub use pack::Pack;
pub use random::Seed;
pub use response::Outcome;
pub use run::{Report, Usage};
