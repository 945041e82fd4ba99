//! Prompts: templates with variables, where they come from, and what a model is told in the end.
//!
//! [`resolve()`] asks one layer after another which template a node gets. [`compose()`] puts values into it, twice: as the
//! model reads it, and as people may, without secrets. [`assemble()`] does both for all prompts of a node.

use crate::words::words;

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

words! {
    /// What a prompt is for.
    pub enum PromptKind {
        /// How the model behaves.
        System => "system",
        /// What it is asked.
        User => "user",
        /// Examples.
        FewShot => "few-shot",
        /// What the reply looks like.
        SchemaHint => "schema-hint",
    }
}
