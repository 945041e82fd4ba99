//! Maps render handles to providers.
//!
//! The kernel refers to what is shown by opaque handles. Built-ins and modules each have a set of
//! providers for the handles of their owners. A handle has at most one provider; without one, an
//! error panel is shown in its place.

use std::pin::Pin;
use std::sync::Arc;

use maud::Markup;
use runs::{Refusal, Scope};
use serde_json::Value;

use crate::builtins;
use crate::call::PageRequest;
use crate::page::PageResponse;
use crate::pages;

pub(crate) type ResponseFuture = Pin<Box<dyn Future<Output = Result<PageResponse, Refusal>> + Send>>;

pub(crate) type Handler = fn(Arc<PageRequest>) -> ResponseFuture;

/// Draws a part of a page from the handle's data and the value to show.
pub(crate) type Panel = fn(&PageRequest, &Value, &Value) -> Markup;

#[derive(Clone, Copy)]
pub(crate) enum Provider {
    /// A page or action, with its required scopes.
    Route { needs: &'static [Scope], get: Option<Handler>, post: Option<Handler> },
    /// A part of a page.
    Panel(Panel),
}

/// The provider of an owner's handle.
pub(crate) fn find(owner_id: &str, kind: &str, id: &str) -> Option<Provider> {
    if owner_id.starts_with(builtins::OWNER_PREFIX) { builtins::provider(kind, id) } else { module(kind, id) }
}

/// Handles for modules. Modules have no code, so these need only a description.
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

/// The handles that modules can use, with documentation for their authors.
pub(crate) const FOR_MODULES: [(&str, &str, &str); 3] = [
    ("page", "interlock.text", "a page of Markdown, from `data.text`"),
    ("page", "interlock.runs", "a page of runs, by `data.workflowId`, `data.status` or `data.tag`"),
    ("panel", "interlock.text", "a panel of Markdown, for surfaces and fallbacks, from `data.text`"),
];
