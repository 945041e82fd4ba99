//! Spans contain the ids of the unit of work, and no data of callers or workflows.

use crate::guided::Desk;
use crate::recorded_spans::Spans;

#[test]
fn advancing_a_session_is_a_span() {
    let spans = Spans::of("guided");
    let _default = tracing::subscriber::set_default(spans.clone());
    let desk = Desk::new();
    let started = desk.start("project.triage", "in-the-goal");
    desk.advance(&started.continue_token.unwrap(), "in-the-notes");
    spans.find("session.advance", &["session.id=\"sess_", "node.id=\"node_"]);
    spans.assert_silent_about("in-the-goal");
    spans.assert_silent_about("in-the-notes");
}
