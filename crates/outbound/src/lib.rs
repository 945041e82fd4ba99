//! The HTTP client of the product: webhooks, models, MCP servers, trace collectors, registries.
//!
//! # Addresses
//!
//! A caller-provided URL could name an address that only this machine can reach (SSRF). URLs are therefore checked
//! twice: their text when given ([`Client::check`]), and the resolved addresses when a connection is opened. Every
//! address of the name must be within [`Reach`], and the connection uses one of the checked addresses: nothing resolves
//! the name again. Redirects are never followed.
//!
//! # Pool
//!
//! Connections are kept alive and reused. The pool key is scheme, host and port as normalized by [`Target`], and each
//! client has its own pool, so a connection is only reused for the origin and reach that it was checked for. A name
//! that later resolves to a private address is rejected at the next connect; until then its requests go to the checked
//! public address. Idle connections are closed after [`IDLE_TIMEOUT`], which bounds that time for an idle origin.
//!
//! # Retries
//!
//! A request is sent at most once. Only if a pooled connection is closed before the first byte was written is the
//! request moved to another connection. [`CallError`] says after which failures callers may retry.

pub mod address;
mod call;
mod client;
mod connect;
mod error;
mod names;
mod network;
mod proxy;
mod reply;
mod stream;
mod target;
mod tls;

pub use self::call::{Call, Limits};
pub use self::client::{Client, IDLE_TIMEOUT, MAX_HEAD_BYTES, MAX_IDLE_PER_ORIGIN};
pub use self::connect::{CONNECT_TIMEOUT, ConnectError};
pub use self::error::CallError;
pub use self::names::{Lookup, Names, SystemNames};
pub use self::network::{Network, NetworkError};
pub use self::reply::Reply;
pub use self::target::{MAX_URL_BYTES, Reach, Target, TargetError};
