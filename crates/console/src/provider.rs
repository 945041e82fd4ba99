//! Who renders a handle.
//!
//! The kernel names what is shown by opaque handles. A pack is a set of providers for the handles of some owners: one pack for
//! the built-ins, one for the modules. A handle of an owner has exactly one provider or none, and then a panel says so where it
//! would have been.

use std::pin::Pin;
use std::sync::Arc;

use host::runs::{Refusal, Scope};
use maud::Markup;
use serde_json::Value;

use crate::builtins;
use crate::call::Call;
use crate::page::Answer;
use crate::pages;

/// What comes of a call.
pub(crate) type Answered = Pin<Box<dyn Future<Output = Result<Answer, Refusal>> + Send>>;

/// A function from a call to an answer.
pub(crate) type Handler = fn(Arc<Call>) -> Answered;

/// Draws a part of a page: what the handle carries, and the value that is to be shown.
pub(crate) type Panel = fn(&Call, &Value, &Value) -> Markup;

/// What a handle stands for.
#[derive(Clone, Copy)]
pub(crate) enum Provider {
    /// A page, or an action, with the rights that it needs.
    Route { needs: &'static [Scope], get: Option<Handler>, post: Option<Handler> },
    /// A part of one.
    Panel(Panel),
}

/// The provider of a handle of an owner.
pub(crate) fn of(owner_id: &str, kind: &str, id: &str) -> Option<Provider> {
    if owner_id.starts_with(builtins::OWNER_PREFIX) { builtins::provider(kind, id) } else { module(kind, id) }
}

/// What modules may use: they bring no code, so these are the things that a description is enough for.
fn module(kind: &str, id: &str) -> Option<Provider> {
    const READ: &[Scope] = &[Scope::RunsRead];
    let route = |needs, get| Some(Provider::Route { needs, get: Some(get), post: None });
    match (kind, id) {
        ("page", "interlock.text") => route(&[], |call| Box::pin(pages::module::text(call))),
        ("page", "interlock.runs") => route(READ, |call| Box::pin(pages::module::runs(call))),
        ("page", "interlock.plugin") => route(&[], |call| Box::pin(pages::plugin::show(call))),
        ("panel", "interlock.plugin") => Some(Provider::Panel(pages::plugin::panel)),
        ("panel", "interlock.text") => Some(Provider::Panel(pages::module::panel)),
        _ => None,
    }
}

/// The handles that modules may use, for those who write one.
pub(crate) const FOR_MODULES: [(&str, &str, &str); 3] = [
    ("page", "interlock.text", "a page of Markdown, from `data.text`"),
    ("page", "interlock.runs", "a page of runs, by `data.workflowId`, `data.status` or `data.tag`"),
    ("panel", "interlock.text", "a panel of Markdown, for surfaces and fallbacks, from `data.text`"),
];
