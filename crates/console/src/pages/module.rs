//! Pages and panels that a module declares without code.

use std::sync::Arc;

use flow::id::WorkflowId;
use flow::run::RunStatus;
use maud::{Markup, html};
use ports::runs::RunFilter;
use runs::Refusal;
use serde_json::Value;

use super::run_list;
use crate::call::PageRequest;
use crate::page::{Page, PageResponse, Wake};
use crate::parts;

const PAGE: usize = 50;

pub(crate) async fn text(call: Arc<PageRequest>) -> Result<PageResponse, Refusal> {
    Ok(Page::new(title(&call), panel(&call, call.data(), &Value::Null)).into())
}

pub(crate) fn panel(_: &PageRequest, data: &Value, _: &Value) -> Markup {
    let text = data.get("text").and_then(Value::as_str).unwrap_or_default();
    html! { div.markdown { (parts::markdown(text)) } }
}

/// The runs with one workflow, status or tag.
pub(crate) async fn runs(call: Arc<PageRequest>) -> Result<PageResponse, Refusal> {
    let data = call.data();
    let named = |name: &str| data.get(name).and_then(Value::as_str).map(str::to_owned);
    let filter = RunFilter {
        status: named("status").as_deref().and_then(RunStatus::parse),
        workflow_id: named("workflowId").map(WorkflowId::new),
        tag: named("tag"),
        waiting: false,
        after: run_list::cursor(&call),
    };
    let (found, next) = run_list::read(&call, &filter, PAGE).await?;
    let older = run_list::older(&call, next.as_ref());
    let list = if found.is_empty() {
        parts::empty("No runs yet.", &html! { p { "Matching runs appear here when they start." } })
    } else {
        run_list::table(&call, &found)
    };
    let body = html! { (call.live("runs", &list)) (parts::more(older.as_deref(), "Older runs")) };
    Ok(Page::new(title(&call), body).awake(Wake::Runs).into())
}

/// The label of the route.
fn title(call: &PageRequest) -> String {
    let route = call.shell.find(&call.path).and_then(|(route, _)| route.label.clone());
    route.unwrap_or_else(|| call.handle.owner_id.clone())
}
