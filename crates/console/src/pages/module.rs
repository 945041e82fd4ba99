//! Pages and panels that a module describes, without code of its own.

use std::sync::Arc;

use flow::id::WorkflowId;
use flow::run::RunStatus;
use flow::store::RunFilter;
use host::runs::Refusal;
use maud::{Markup, html};
use serde_json::Value;

use super::run_list;
use crate::call::Call;
use crate::page::{Answer, Page, Wake};
use crate::parts;

/// How many runs are on a page.
const PAGE: usize = 50;

/// A page of Markdown.
pub(crate) async fn text(call: Arc<Call>) -> Result<Answer, Refusal> {
    Ok(Page::new(title(&call), panel(&call, call.data(), &Value::Null)).into())
}

/// A panel of Markdown.
pub(crate) fn panel(_: &Call, data: &Value, _: &Value) -> Markup {
    let text = data.get("text").and_then(Value::as_str).unwrap_or_default();
    html! { div.markdown { (parts::markdown(text)) } }
}

/// A page of the runs of one workflow, state or tag.
pub(crate) async fn runs(call: Arc<Call>) -> Result<Answer, Refusal> {
    let data = call.data();
    let named = |name: &str| data.get(name).and_then(Value::as_str).map(str::to_owned);
    let filter = RunFilter {
        status: named("status").as_deref().and_then(RunStatus::parse),
        workflow_id: named("workflowId").map(WorkflowId::new),
        tag: named("tag"),
        waiting: false,
        before: call.query.number("before"),
    };
    let (found, next) = run_list::read(&call, &filter, PAGE)?;
    let older = next.map(|next| call.query.with("before", Some(&next.to_string())));
    let list = if found.is_empty() {
        parts::empty("No such run yet.", &html! { p { "Runs appear here as they begin." } })
    } else {
        run_list::table(&call, &found)
    };
    let body = html! { (call.live("runs", &list)) (parts::more(older.as_deref(), "Older runs")) };
    Ok(Page::new(title(&call), body).awake(Wake::Runs).into())
}

/// What the route is called.
fn title(call: &Call) -> String {
    let route = call.shell.find(&call.path).and_then(|(route, _)| route.label.clone());
    route.unwrap_or_else(|| call.handle.owner_id.clone())
}
