//! Traces: the log of a run as OpenTelemetry spans.

use std::collections::BTreeSet;

use flow::event::Event;
use flow::id::{NodeId, RunId};
use flow::run::{Fork, ForkMode};
use flow::trace::{Attribute, MAX_SPANS, Span, SpanStatus, TraceParent, spans};
use serde_json::{Value, json};

use crate::driver::{START, World, workflow};

/// A trace as text: each span below its parent, with its times and its status.
fn picture(spans: &[Span]) -> Vec<String> {
    fn below(spans: &[Span], parent: Option<u64>, depth: usize, lines: &mut Vec<String>) {
        for span in spans.iter().filter(|span| span.parent_id == parent) {
            let time = (span.start.since(START), span.end.since(START));
            let outcome = match &span.outcome {
                SpanStatus::Ok => "ok",
                SpanStatus::Failed(code) => code,
                SpanStatus::Unset => "-",
            };
            lines.push(format!("{}{} {}..{} {outcome}", "  ".repeat(depth), span.name, time.0, time.1));
            below(spans, Some(span.span_id), depth + 1, lines);
        }
    }
    let mut lines = Vec::new();
    below(spans, spans.first().and_then(|run| run.parent_id), 0, &mut lines);
    lines
}

fn attribute<'s>(span: &'s Span, name: &str) -> Option<&'s Attribute> {
    span.attributes.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
}

fn text(text: &str) -> Attribute {
    Attribute::Text(text.to_owned())
}

fn traced(world: &World, run_id: &str) -> Vec<Span> {
    let run = &world.runs[run_id];
    spans(&run.genesis, None, &run.events)
}

#[test]
fn a_run_its_nodes_and_its_interrupts_are_spans() {
    let gate = json!({"title": "May we?", "actions": ["accept", "reject"]});
    let document = workflow(
        "w",
        &[("wait", "core.delay", json!({"ms": 100})), ("gate", "core.approvalGate", gate)],
        &[("wait", "gate")],
    );
    let mut world = World::new(&[document]);
    world.create("w");
    world.pass(100);
    world.pass(50);
    world.resolve("gate", json!({"action": "accept"})).unwrap();
    let spans = traced(&world, "r");
    assert_eq!(
        picture(&spans),
        [
            "openwop.run 0..150 ok",
            "  openwop.node.core.delay 0..100 ok",
            "  openwop.node.core.approvalGate 100..150 ok",
            "    openwop.interrupt 100..150 -",
        ]
    );
    for span in &spans {
        assert_eq!(attribute(span, "openwop.run_id"), Some(&text("r")), "{}", span.name);
        assert_eq!(attribute(span, "openwop.workflow_id"), Some(&text("w")), "{}", span.name);
        assert_eq!(span.trace_id, spans[0].trace_id);
    }
    assert_eq!(attribute(&spans[1], "openwop.node_id"), Some(&text("wait")));
    assert_eq!(attribute(&spans[1], "openwop.node_attempt"), Some(&Attribute::Integer(0)));
    let question = spans.iter().find(|span| span.name == "openwop.interrupt").unwrap();
    assert_eq!(attribute(question, "openwop.interrupt_kind"), Some(&text("approval")));
    assert_eq!(spans[0].moments.len(), world.run().events.len(), "the log is in the span of the run");
    let ids: BTreeSet<u64> = spans.iter().map(|span| span.span_id).collect();
    assert_eq!(ids.len(), spans.len(), "every span has an id of its own");
}

#[test]
fn each_attempt_and_each_iteration_is_a_span_and_failures_have_their_code() {
    let mut document = workflow("w", &[("effect", "core.conformance.side-effect", json!({}))], &[]);
    document["nodes"][0]["settings"] = json!({"maxRetries": 1});
    let mut world = World::new(&[document]);
    let broken = || Err(flow::state::RunError::new("broken", "it broke"));
    world.outcomes.insert(NodeId::new("effect"), [broken(), broken()].into());
    world.create("w");
    world.pass(60_000);
    let spans = traced(&world, "r");
    let attempts: Vec<_> = spans
        .iter()
        .filter(|span| span.name == "openwop.node.core.conformance.side-effect")
        .map(|span| (attribute(span, "openwop.node_attempt").cloned(), span.outcome.clone()))
        .collect();
    let failed = || SpanStatus::Failed("broken".into());
    assert_eq!(attempts, [(Some(Attribute::Integer(0)), failed()), (Some(Attribute::Integer(1)), failed())]);
    assert_eq!(spans[0].outcome, failed());
}

#[test]
fn the_parent_of_a_child_run_is_its_node_and_the_parent_of_a_run_is_its_caller() {
    let parent = workflow("w", &[("call", "core.subWorkflow", json!({"workflowId": "child"}))], &[]);
    let child = workflow("child", &[("work", "core.noop", json!({}))], &[]);
    let mut world = World::new(&[parent, child]);
    let caller = TraceParent::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").unwrap();
    let mut genesis = world.genesis("r", "w", json!({}), json!({}));
    genesis.trace = Some(caller);
    world.put(genesis);
    world.give("r", flow::engine::Input::Create).unwrap();
    let above = traced(&world, "r");
    assert_eq!((above[0].trace_id, above[0].parent_id), (caller.trace_id, Some(caller.span_id)));
    let node = above.iter().find(|span| span.name == "openwop.node.core.subWorkflow").unwrap();

    let child_id = &world.run().state.children[0].run_id;
    let mut genesis = (*world.runs[child_id].genesis).clone();
    let started = genesis.parent.clone().unwrap();
    genesis.trace = Some(flow::trace::of_child(
        &world.run().genesis,
        &started.node_id,
        started.iteration,
        started.attempt,
    ));
    let below = spans(&genesis, None, &world.runs[child_id].events);
    assert_eq!((below[0].trace_id, below[0].parent_id), (caller.trace_id, Some(node.span_id)));
    assert_eq!(attribute(&below[0], "openwop.parent.run_id"), Some(&text("r")));

    let unsampled = TraceParent { sampled: false, ..caller };
    genesis.trace = Some(unsampled);
    assert_eq!(
        spans(&genesis, None, &world.runs[child_id].events),
        [],
        "the caller does not sample the trace"
    );
}

#[test]
fn a_fork_has_its_own_spans_and_a_link_to_its_source() {
    let document =
        workflow("w", &[("a", "core.noop", json!({})), ("b", "core.noop", json!({}))], &[("a", "b")]);
    let mut world = World::new(&[document]);
    world.create("w");
    let run = world.run();
    let from =
        run.events.iter().position(|event| event.node_id.as_ref().map(NodeId::as_str) == Some("b")).unwrap();
    let mut genesis = (*run.genesis).clone();
    genesis.run_id = RunId::new("fork");
    genesis.fork = Some(Fork {
        source_run_id: RunId::new("r"),
        from_sequence: u64::try_from(from).unwrap(),
        mode: ForkMode::Replay,
    });
    let forked = spans(&genesis, Some(&run.genesis), &run.events);
    let source = traced(&world, "r");
    assert_eq!(forked[0].link, Some((source[0].trace_id, source[0].span_id)));
    assert_ne!(forked[0].trace_id, source[0].trace_id);
    let nodes: Vec<_> = forked[1..].iter().map(|span| attribute(span, "openwop.node_id").unwrap()).collect();
    assert_eq!(nodes, [&text("b")], "what was copied is in the trace of the source");
    assert_eq!(attribute(&forked[0], "openwop.replay.mode"), Some(&text("replay")));
}

#[test]
fn only_allowed_cost_attributes_are_in_a_trace() {
    let attrs = json!({
        "openwop.cost.usd": 0.25, "openwop.cost.tokens.input": 12, "openwop.cost.prompt": "CANARY", "other": "CANARY",
    });
    let document = workflow("w", &[("cost", "conformance.cost.emit", json!({"attrs": attrs}))], &[]);
    let mut world = World::new(&[document]);
    world.create_with("w", json!({"secret": "CANARY"}), json!({}));
    let spans = traced(&world, "r");
    assert_eq!(attribute(&spans[1], "openwop.cost.usd"), Some(&Attribute::Number(0.25)));
    assert_eq!(attribute(&spans[1], "openwop.cost.tokens.input"), Some(&Attribute::Integer(12)));
    assert!(!format!("{spans:?}").contains("CANARY"));
}

#[test]
fn the_trace_of_a_long_log_is_limited() {
    let document = workflow("w", &[("a", "core.noop", json!({}))], &[]);
    let mut world = World::new(&[document]);
    world.create("w");
    let run = world.run();
    let round: Vec<&Event> = run.events.iter().filter(|event| event.node_id.is_some()).collect();
    let mut events = vec![run.events[0].clone()];
    for _ in 0..MAX_SPANS + 5 {
        for event in &round {
            let sequence = u64::try_from(events.len()).unwrap();
            events.push(Event { sequence, ..(*event).clone() });
        }
    }
    let spans = spans(&run.genesis, None, &events);
    assert_eq!(spans.len(), MAX_SPANS);
    assert_eq!(attribute(&spans[0], "openwop.spans_left_out"), Some(&Attribute::Integer(6)));
    assert!(spans[0].moments_left_out > 0);
    let ids: BTreeSet<u64> = spans.iter().map(|span| span.span_id).collect();
    assert_eq!(ids.len(), spans.len());
}

#[test]
fn the_genesis_of_a_run_without_a_trace_does_not_mention_traces() {
    let document = workflow("w", &[("a", "core.noop", json!({}))], &[]);
    let world = World::new(&[document]);
    let genesis = world.genesis("r", "w", json!({}), json!({}));
    let record: Value = serde_json::to_value(genesis).unwrap();
    assert_eq!(record.get("trace"), None);
}
