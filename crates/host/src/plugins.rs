//! Parts of a front end that packs bring, and what they may ask of this host.
//!
//! A plugin runs in a frame of an origin of its own, without anything of the page around it. All that it can do is to send messages
//! of `ui-plugin/1`; the page hands each to [`dispatch()`], with the rights of whoever looks at the page.
//!
//! ```text
//!  plugin ─► page ─► read: closed shape ─► allowed: its list ∩ ours ─► the method ─► artifacts, through a port
//!                        │ else nothing        │ else method_not_allowed
//! ```
//!
//! # Invariants
//! * A method that is not on both lists is never looked at further, whatever it is called.
//! * No error says more than a code of the closed list and a sentence of ours: nothing of a caller, a cause or a secret.
//! * A write that does not know what it replaces changes nothing.

pub mod artifacts;
pub mod canary;
pub mod dispatch;
pub mod frame;
pub mod installed;
pub mod message;

use serde_json::{Value, json};

pub use self::artifacts::RunArtifacts;
pub use self::canary::Canary;
pub use self::dispatch::{Allowed, Answer, ArtifactError, Artifacts, Effect, Held, dispatch};
pub use self::installed::{Plugin, PluginPack, Plugins};
pub use self::message::{Malformed, Request};

/// The largest entry of a plugin that is loaded, in bytes.
pub const MAX_ENTRY_BYTES: usize = 1 << 20;

/// What a host that has plugins says of them.
pub fn advertised() -> Value {
    json!({
        "supported": true,
        "isolation": "cross-origin-iframe",
        "surfaces": ["artifact-viewer", "route", "settings-panel"],
        "hostApi": dispatch::HOST_API.map(dispatch::spelt),
        "maxEntryBytes": MAX_ENTRY_BYTES,
    })
}

#[cfg(test)]
mod tests;
