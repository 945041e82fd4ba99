//! The console: server-rendered pages for operators and approvers.
//!
//! The composition kernel decides which pages, sidebar items, surfaces and renderers exist; a page
//! is a function from a read model to markup. Pages are rendered on the server and work without
//! scripts; a small script keeps the live regions up to date.
//!
//! ```text
//!  request ─► door: assets, sign-in, cookie ─► composed routes ─► scopes, CSRF ─► provider of the handle ─► layout
//!                                                   ▲                                   │
//!                     built-ins + modules + policy ─┘                                   └─► `host`, with the caller's rights
//! ```
//!
//! # A new page
//! One file in `pages` with a function from a [`PageRequest`] to a [`Page`], and one line in `builtins`.
//!
//! # Invariants
//! * Every page is below `/console`. Routes come from the composition. Only `sign-in`, `sign-out` and `assets/`
//!   are fixed, so that no policy can lock all users out.
//! * All reads and actions go through `host` with the scopes of the signed-in key, which is looked
//!   up on each request.
//! * All user and agent content is untrusted: escaped by its type, or sanitised Markdown.
//! * A form that changes something carries the CSRF token of its session.
#![forbid(unsafe_code)]

mod assets;
mod bidi;
mod builtins;
mod call;
mod composed;
mod console;
mod dispatch;
mod frames;
mod graph;
mod layout;
mod live;
mod mount;
mod page;
mod pages;
mod parts;
mod provider;
mod setting;
mod sign_in;
mod status;

pub use self::call::PageRequest;
pub use self::console::{Console, HostInfo, Options};
pub use self::frames::plugin_frames;
pub use self::mount::BASE;
pub use self::page::{Page, PageResponse, Wake};
pub use self::setting::{Desired, Setting, SettingValue};
pub use self::sign_in::SignInLinks;
