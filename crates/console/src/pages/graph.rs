//! The graph of a run on a separate page, split into parts if it is large.

use std::sync::Arc;

use maud::{Markup, html};
use runs::Refusal;

use super::run::View;
use super::run_list::RUN;
use crate::call::PageRequest;
use crate::graph::Drawing;
use crate::page::{Page, PageResponse};
use crate::parts;

/// The graph, or the selected node.
pub(crate) async fn show(call: Arc<PageRequest>) -> Result<PageResponse, Refusal> {
    let view = View::read(&call).await?;
    let run_id = view.run.run_id.as_str();
    // Node links are relative (`?node=…`): short, and valid on this page and on the run's page.
    if let (Some(node), Some(run)) = (call.query.text("node"), call.link(RUN, &[("runId", run_id)])) {
        return Ok(PageResponse::See(format!("{run}{}#node", parts::query(&[("node", node)]))));
    }
    let body = match Drawing::new(view.graph()) {
        Ok(drawing) => {
            let wanted = call.query.text("part").and_then(|part| part.parse::<usize>().ok());
            let part = wanted.and_then(|part| part.checked_sub(1)).filter(|part| *part < drawing.parts());
            let part = part.unwrap_or_else(|| drawing.first_active_part());
            html! { (choice(&drawing, part)) (drawing.draw(part)) (call.live("graph-states", &drawing.states(part))) }
        }
        Err(notice) => notice,
    };
    let page = Page::new("Graph", body).beside(parts::status(view.run.status.as_str()));
    Ok(page.below(run_id, call.link(RUN, &[("runId", run_id)])).awake(view.wake()).into())
}

/// Navigation between parts, if there is more than one.
fn choice(drawing: &Drawing, shown: usize) -> Markup {
    if drawing.parts() == 1 {
        return Markup::default();
    }
    html! {
        nav.tabs aria-label="Parts of the graph" {
            @for part in 0..drawing.parts() {
                @let (first, last) = drawing.range(part);
                a href={ "?part=" (part + 1) } aria-current=[(part == shown).then_some("page")] { (first) " to " (last) }
            }
        }
    }
}
