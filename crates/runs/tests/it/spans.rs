//! Spans contain the ids of the unit of work, and no data of callers or workflows.

use serde_json::json;

use crate::recorded_spans::Spans;
use crate::runs::{Host, caller, create, to_the_end};

#[tokio::test]
async fn advancing_a_run_and_its_effects_are_spans() {
    let spans = Spans::of("runs");
    let _default = tracing::subscriber::set_default(spans.clone());
    let host = Host::start().await;
    let request = json!({"workflowId": "conformance-secret", "inputs": {"note": "in-the-input"}});
    let run_id = create(&host.runs, &caller("acme"), &request).await;
    to_the_end(&host.runs, &run_id).await;
    let run = format!("run.id=\"{run_id}\"");
    spans.find("run.effect", &[&run, "node.id=\"resolve\"", "effect.id=\"", "attempt=0"]);
    // The first events are those of the creation; the result of the effect follows.
    let advance = spans.find("run.advance", &[&run, "attempt=1"]);
    assert!(advance.contains("run.seq=") && !advance.contains("run.seq=0"), "{advance}");
    spans.assert_silent_about("in-the-input");
    spans.assert_silent_about("canary");
}
