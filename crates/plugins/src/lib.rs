//! User-interface plugins of packs, and the requests that they may make to this host.
//!
//! A plugin runs in a frame with its own origin and no access to the page around it. It can only send messages of the protocol
//! `ui-plugin/1`. The page passes each message to [`dispatch()`], with the permissions of the person who views the page.
//!
//! ```text
//!  plugin ─► page ─► parse: closed shape ─► allowed: its list ∩ ours ─► the method ─► artifacts, through a port
//!                        │ else ignored         │ else method_not_allowed
//! ```
//!
//! # Invariants
//! * A method that is not on both lists is refused without further processing.
//! * An error contains only a code of the closed list and a fixed sentence: nothing of a caller, a cause or a secret.
//! * A write without the current version changes nothing.
#![forbid(unsafe_code)]

pub mod artifacts;
pub mod canary;
pub mod dispatch;
pub mod frame;
pub mod installed;
pub mod message;

use serde_json::{Value, json};

pub use self::artifacts::RunArtifacts;
pub use self::canary::Canary;
pub use self::dispatch::{Allowed, Artifacts, Effect, PluginResponse, dispatch};
pub use self::installed::{Plugin, PluginPack, Plugins};
pub use self::message::{Malformed, Request};

/// The maximum size of the entry document of a plugin, in bytes.
pub const MAX_ENTRY_BYTES: usize = 1 << 20;

/// The discovery entry of a host that supports plugins.
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
