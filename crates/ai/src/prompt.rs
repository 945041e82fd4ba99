//! Prompts: templates with variables, their sources, and the text sent to a model.
//!
//! [`resolve()`] selects the template for a node from several layers. [`compose()`] inserts values twice: into the text
//! for the model, and into a redacted text for people. [`assemble()`] does both for all prompts of a node.

use crate::wire_enum::wire_enum;

pub mod assemble;
pub mod compose;
pub mod conformance;
pub mod library;
pub mod reference;
pub mod resolve;
pub mod template;
mod version;

pub use assemble::{Assembled, Assembly, assemble};
pub use compose::{Binding, Bindings, Composed, Observability, compose};
pub use library::{Library, LookupError};
pub use reference::PromptRef;
pub use resolve::{Layer, Layers, Resolution, Slot, resolve};
pub use template::Template;

wire_enum! {
    /// The purpose of a prompt.
    pub enum PromptKind {
        System => "system",
        User => "user",
        FewShot => "few-shot",
        /// The format of the reply.
        SchemaHint => "schema-hint",
    }
}
