//! The one HTTP client of the product: webhooks, models, MCP servers, trace collectors, registries.
//!
//! # Addresses
//! Whoever names an address could name one that only this machine can reach. An address is therefore checked twice: its
//! text when it is given ([`Client::check`]), and what its name resolves to when a connection is opened. Every address of
//! the name has to be within [`Reach`], and the connection goes to one of the checked numbers: nothing resolves the name a
//! second time. Redirects are never followed.
//!
//! # Pool
//! Connections are kept alive and reused. The key of the pool is scheme, host and port as [`Target`] normalises them, and
//! each client has a pool of its own, so a connection is only ever reused for the origin it was checked for, under the reach
//! it was checked with. A name that starts to resolve to a private address meanwhile is refused at the next connect; until
//! then its requests keep going to the public address that was checked. Idle connections are closed after
//! [`IDLE_TIMEOUT`], which bounds that time for an origin that is not busy.
//!
//! # Retries
//! A request is sent at most once. Only if a pooled connection turns out to be closed before the first byte of the request
//! was written is the request moved to another connection. [`CallError`] says after which failures callers may try again.

pub mod address;
mod call;
mod client;
mod connect;
mod error;
mod names;
mod proxy;
mod reply;
mod stream;
mod target;
mod tls;

pub use self::call::{Call, Limits};
pub use self::client::{Client, IDLE_TIMEOUT, MAX_HEAD_BYTES, MAX_IDLE_PER_ORIGIN};
pub use self::connect::{CONNECT_TIMEOUT, ConnectError};
pub use self::error::CallError;
pub use self::names::{Found, Names, SystemNames};
pub use self::reply::Reply;
pub use self::target::{MAX_URL_BYTES, Reach, Target, TargetError};
