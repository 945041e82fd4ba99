//! Traces of real runs: exported when they end, computed from the log.

use flow::trace::TraceParent;
use runs::create::Creation;
use runs::{Direct, EndedRuns};
use serde_json::json;

use super::{Host, Setup, begin, caller, to_the_end};
use crate::runs::requests::new_run;

#[tokio::test]
async fn nothing_is_exported_unless_traces_are_enabled() {
    let host = Host::start().await;
    assert!(!host.runs.traces().are_enabled());
    begin(&host.runs, "chain").await;
    assert_eq!(host.runs.traces().lost(), 0);
}

#[tokio::test]
async fn a_trace_starts_with_the_caller_and_includes_children() {
    let (ended_runs, mut ended) = EndedRuns::queue();
    let host = Host::with(Setup { ended_runs: Some(ended_runs), ..Setup::default() }).await;
    assert!(host.runs.traces().are_enabled());
    let caller_span = TraceParent::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").unwrap();
    let creation = Creation { trace: Some(caller_span), ..Creation::default() };
    let request = json!({"workflowId": "patient"});
    let created =
        host.runs.commands().create(&caller("acme"), new_run(&request), creation, Direct).await.unwrap();
    let run_id = created.run_id;
    to_the_end(&host.runs, &run_id).await;
    // The child ends first, and is exported first.
    let child = ended.next().await.unwrap();
    assert_eq!(ended.next().await.unwrap(), run_id);
    let (child, parent) =
        (host.runs.traces().of(&child).await.unwrap(), host.runs.traces().of(&run_id).await.unwrap());
    assert_eq!(parent[0].parent_id, Some(caller_span.span_id));
    let node = parent.iter().find(|span| span.name == "openwop.node.core.subWorkflow").unwrap();
    assert_eq!(child[0].parent_id, Some(node.span_id));
    assert!(parent.iter().chain(&child).all(|span| span.trace_id == caller_span.trace_id));
}
