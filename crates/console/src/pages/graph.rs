//! The graph of a run, on a page of its own, and in parts where it is large.

use std::sync::Arc;

use host::runs::Refusal;
use maud::{Markup, html};

use super::run::View;
use super::run_list::RUN;
use crate::call::Call;
use crate::graph::Drawing;
use crate::page::{Answer, Page};
use crate::parts;

/// The graph, or the node that was chosen in it.
pub(crate) async fn show(call: Arc<Call>) -> Result<Answer, Refusal> {
    let view = View::read(&call)?;
    let run_id = view.run.run_id.as_str();
    // The nodes of a picture are links to `?node=…`: short, and good on this page and on that of the run.
    if let (Some(node), Some(run)) = (call.query.text("node"), call.link(RUN, &[("runId", run_id)])) {
        return Ok(Answer::See(format!("{run}{}#node", parts::query(&[("node", node)]))));
    }
    let body = match Drawing::new(view.graph()) {
        Ok(drawing) => {
            let wanted = call.query.text("part").and_then(|part| part.parse::<usize>().ok());
            let part = wanted.and_then(|part| part.checked_sub(1)).filter(|part| *part < drawing.parts());
            let part = part.unwrap_or_else(|| drawing.lively_part());
            html! { (choice(&drawing, part)) (drawing.draw(part)) (call.live("graph-states", &drawing.states(part))) }
        }
        Err(notice) => notice,
    };
    let page = Page::new("Graph", body).beside(parts::status(&view.run.status));
    Ok(page.below(run_id, call.link(RUN, &[("runId", run_id)])).awake(view.wake()).into())
}

/// The parts there are, where there is more than one.
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
