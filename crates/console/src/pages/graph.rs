//! The graph of a run, on a page of its own.

use std::sync::Arc;

use host::runs::Refusal;
use maud::html;

use super::run::View;
use super::run_list::RUN;
use crate::call::Call;
use crate::graph;
use crate::page::{Answer, Page};
use crate::parts;

pub(crate) async fn show(call: Arc<Call>) -> Result<Answer, Refusal> {
    let view = View::read(&call)?;
    let graph = view.graph(&call);
    let body = html! { (graph::draw(&graph)) (call.live("graph-states", &graph::states(&graph))) };
    let run_id = view.run.run_id.as_str();
    let page = Page::new("Graph", body).beside(parts::status(&view.run.status));
    Ok(page.below(run_id, call.link(RUN, &[("runId", run_id)])).awake(view.wake()).into())
}
