//! The console: pages that people look at.
//!
//! Which pages, sidebar items, surfaces and renderers there are comes out of the composition kernel; a page is a function from a
//! read model to markup. Everything is rendered here, arrives complete and works without script; a small script of our own
//! keeps what is marked as live up to date.
//!
//! ```text
//!  request ─► door: assets, sign-in, cookie ─► composed routes ─► scopes, CSRF ─► provider of the handle ─► layout
//!                                                   ▲                                   │
//!                     built-ins + modules + policy ─┘                                   └─► `host`, with the caller's rights
//! ```
//!
//! # A new page
//! One file in `pages`, with a function from a [`Call`] to a [`Page`], and one line in `builtins`.
//!
//! # Invariants
//! * There is no table of routes: a path is looked up in what was composed. Only the way in, `/sign-in`, `/sign-out` and
//!   `/assets/`, stands before it, so that no policy can lock everybody out.
//! * Everything is read and done through `host` with the rights of the key that signed in, which is looked up anew each time.
//! * Whatever somebody wrote is text: escaped by its type, or Markdown that was sanitised.
//! * A request that changes something has the token of its session in its form.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod assets;
mod builtins;
mod call;
mod composed;
mod console;
mod dispatch;
mod door;
mod frames;
mod graph;
mod layout;
mod live;
mod page;
mod pages;
mod parts;
mod provider;
mod setting;
mod status;

pub use self::call::Call;
pub use self::console::{Console, Facts, Options};
pub use self::door::SignInLinks;
pub use self::frames::plugin_frames;
pub use self::page::{Answer, Page, Wake};
pub use self::setting::{Desired, Setting, Stated};
