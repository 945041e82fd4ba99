use axum::body::BodyDataStream;
use futures_util::StreamExt as _;
use serde_json::{Value, json};

use crate::support::{KEY, OTHER, Page, READER, Site, workflow};

/// A workflow that waits for an approval.
pub(crate) fn waiting(id: &str) -> Value {
    workflow(
        id,
        &[("ask", "core.approvalGate", json!({"title": "Say hello?"})), ("end", "core.noop", json!({}))],
    )
}

fn quick(id: &str) -> Value {
    workflow(id, &[("one", "core.noop", json!({})), ("two", "core.noop", json!({}))])
}

fn failing(id: &str) -> Value {
    workflow(id, &[("one", "core.fail", json!({"message": "it broke"}))])
}

#[tokio::test]
async fn an_empty_console_shows_how_to_start() {
    let site = Site::open().await;
    let browser = site.signed_in(KEY).await;
    let home = browser.get("/").await;
    home.shows(&["No runs yet", "interlock run", "<h1>Overview</h1>", "Skip to content"]);
    browser.get("/runs").await.shows(&["No runs yet", "/v1/runs"]);
    browser.get("/approvals").await.shows(&["No pending approvals"]);
    browser.get("/diagnostics").await.shows(&["No problems", "interlock.text"]);
}

#[tokio::test]
async fn the_overview_shows_waiting_failed_and_finished_runs() {
    let site = Site::open().await;
    let waits = site.run(&waiting("asks"), json!({})).await;
    site.run(&failing("breaks"), json!({})).await;
    site.run(&quick("works"), json!({})).await;
    let page = site.signed_in(KEY).await.get("/").await;
    let link = format!("href=\"/console/approvals/{waits}\"");
    page.shows(&[
        "Say hello?",
        "it broke",
        "works",
        "waiting approval",
        &link,
        "<time datetime=\"",
        "title=\"",
    ]);
}

fn rows(page: &Page) -> usize {
    page.text.matches("<th scope=\"row\">").count()
}

#[tokio::test]
async fn runs_are_filtered_and_paged() {
    let site = Site::open().await;
    for place in 0..55 {
        site.run(&quick(if place % 2 == 0 { "even" } else { "odd" }), json!({})).await;
    }
    site.run(&failing("breaks"), json!({})).await;
    let browser = site.signed_in(KEY).await;
    let first = browser.get("/runs").await;
    assert_eq!(rows(&first), 50);
    assert!(first.text.len() < LARGEST);
    let next = first.text.split("href=\"?before=").nth(1).unwrap().split('"').next().unwrap();
    assert_eq!(rows(&browser.get(&format!("/runs?before={next}")).await), 6);
    assert_eq!(rows(&browser.get("/runs?status=failed").await), 1);
    assert_eq!(rows(&browser.get("/runs?workflow=odd").await), 27);
    browser.get("/runs?status=paused").await.shows(&["No runs match these filters", "Clear"]);
    browser.get("/runs?status=nonsense&before=x").await.shows(&["<table>"]);
}

#[tokio::test]
async fn a_run_page_shows_graph_timeline_and_values() {
    let site = Site::open().await;
    let run = site.run(&quick("works"), json!({"text": "given"})).await;
    let page = site.signed_in(KEY).await.get(&format!("/runs/{run}")).await;
    page.shows(&["<svg", "class=\"node good\"", "Timeline", "class=\"bar good\"", "given", "completed"]);
    page.shows(&["Fork", "Compare"]);
    page.hides(&["Cancel run", "data-live"]);
    assert!(page.text.len() < LARGEST);
}

#[tokio::test]
async fn a_run_is_paused_resumed_cancelled_and_forked_with_forms() {
    let site = Site::open().await;
    let run = site.run(&waiting("w"), json!({})).await;
    let browser = site.signed_in(KEY).await;
    let path = format!("/console/runs/{run}");
    let page = browser.get(&path).await;
    page.shows(&["Pause", "Cancel run", "data-live"]);
    let paused = browser.submit(&page, &format!("{path}/pause"), &[]).await;
    assert_eq!(paused.header("location"), format!("{path}?done=paused"));
    browser.get(&format!("{path}?done=paused")).await.shows(&["The run was paused.", "Resume"]);
    assert_eq!(browser.submit(&page, &format!("{path}/resume"), &[]).await.status, 303);
    let forked = browser.submit(&page, &format!("{path}/fork"), &[("from", "1"), ("mode", "branch")]).await;
    assert_eq!(forked.status, 303, "{}", forked.text);
    let fork = forked.header("location").split('?').next().unwrap();
    assert_ne!(fork, path);
    browser.get(fork).await.shows(&["Forked from", &run]);
    browser
        .get(&format!("{path}/diff?with={}", &fork["/console/runs/".len()..]))
        .await
        .shows(&["A is", "B is"]);
    let cancelled = browser.submit(&page, &format!("{path}/cancel"), &[("reason", "no longer needed")]).await;
    assert_eq!(cancelled.header("location"), format!("{path}?done=cancelled"));
    browser.get(&path).await.hides(&["Cancel run"]);
    browser.get(&format!("{path}?done=%3Cscript%3E")).await.hides(&["<script>"]);
}

#[tokio::test]
async fn events_are_paged_and_shown_whole() {
    let site = Site::open().await;
    let run = site.run(&quick("works"), json!({})).await;
    let browser = site.signed_in(KEY).await;
    browser.get(&format!("/runs/{run}/events")).await.shows(&[
        "run.started",
        "run.completed",
        "node.completed",
    ]);
    browser.get(&format!("/runs/{run}/events?event=0")).await.shows(&["Event 0", "run."]);
    assert_eq!(browser.get(&format!("/runs/{run}/events?event=99999")).await.status, 404);
    assert_eq!(browser.get(&format!("/runs/{run}/events?from=99999")).await.status, 200);
}

#[tokio::test]
async fn tenants_do_not_see_each_other() {
    let site = Site::open().await;
    let run = site.run(&waiting("secretive"), json!({})).await;
    let other = site.signed_in(OTHER).await;
    for path in ["", "/events", "/graph", "/diff?with=x", "/artifact?id=x"] {
        let page = other.get(&format!("/runs/{run}{path}")).await;
        assert_eq!(page.status, 404, "{path}");
        page.hides(&["secretive", "Say hello?"]);
    }
    assert_eq!(other.get(&format!("/approvals/{run}")).await.status, 404);
    for path in ["/", "/runs", "/approvals"] {
        other.get(path).await.hides(&["secretive", &run]);
    }
    let page = other.get("/runs").await;
    assert_eq!(other.submit(&page, &format!("/runs/{run}/cancel"), &[]).await.status, 404);
    let answer = other.submit(&page, &format!("/approvals/{run}/answer"), &[("node", "ask")]).await;
    assert_eq!(answer.status, 404);
}

#[tokio::test]
async fn a_read_only_key_sees_no_buttons_that_would_fail() {
    let site = Site::open().await;
    let run = site.run(&waiting("w"), json!({})).await;
    let reader = site.signed_in(READER).await;
    let page = reader.get(&format!("/runs/{run}")).await;
    page.shows(&["Say hello?", "View"]);
    page.hides(&["Pause", "Cancel", "Fork", "Resume", ">PageResponse<"]);
    let question = reader.get(&format!("/approvals/{run}")).await;
    question.shows(&["Say hello?", "approvals:respond"]);
    question.hides(&["Approve", "Reject"]);
    for path in [
        "runs/{run}/cancel",
        "runs/{run}/pause",
        "runs/{run}/resume",
        "runs/{run}/fork",
        "approvals/{run}/answer",
    ] {
        let path = format!("/{}", path.replace("{run}", &run));
        assert_eq!(reader.submit(&page, &path, &[("node", "ask")]).await.status, 403, "{path}");
    }
}

async fn message(stream: &mut BodyDataStream) -> Option<String> {
    stream.next().await.map(|bytes| String::from_utf8(bytes.unwrap().to_vec()).unwrap())
}

#[tokio::test]
async fn a_live_page_sends_changes_and_survives_reconnects() {
    let site = Site::open().await;
    let run = site.run(&waiting("w"), json!({})).await;
    let browser = site.signed_in(KEY).await;
    let path = format!("/console/runs/{run}");
    let mut stream = browser.follow(&path, None).await;
    let first = message(&mut stream).await.unwrap();
    for piece in ["event: regions", "id=\"run-state\"", "waiting approval"] {
        assert!(first.contains(piece), "{piece} is not in {first}");
    }
    let page = browser.get(&path).await;
    browser.submit(&page, &format!("{path}/cancel"), &[]).await;
    while !message(&mut stream).await.unwrap().contains("cancelled") {}
    // A reader that reconnects gets the changes that it missed.
    let id = first.lines().find_map(|line| line.strip_prefix("id: ")).unwrap();
    let mut resumed = browser.follow(&path, Some(id)).await;
    assert!(message(&mut resumed).await.unwrap().contains("cancelled"));
    assert_eq!(message(&mut resumed).await, None, "the run has ended");
}

#[tokio::test]
async fn a_large_graph_has_a_separate_page_in_bounded_parts() {
    let site = Site::open().await;
    let names: Vec<String> = (0..1000).map(|place| format!("step-{place}")).collect();
    let mut nodes: Vec<(&str, &str, Value)> =
        names.iter().map(|name| (name.as_str(), "core.noop", json!({}))).collect();
    nodes[999] = ("ask", "core.approvalGate", json!({"title": "Say hello?"}));
    let run = site.run(&workflow("large", &nodes), json!({})).await;
    let browser = site.signed_in(KEY).await;
    let page = browser.get(&format!("/runs/{run}")).await;
    page.shows(&["The graph has 1000 nodes", &format!("/runs/{run}/graph")]);
    assert!(page.text.len() < LARGEST, "{}", page.text.len());
    // The first part shown is the one that waits; the others are links.
    let graph = browser.get(&format!("/runs/{run}/graph")).await;
    graph.shows(&["id=\"n999\" class=\"node wait\"", "Parts of the graph", "href=\"?part=1\""]);
    let parts = graph.text.matches("href=\"?part=").count();
    let mut drawn = 0;
    for part in 1..=parts {
        let page = browser.get(&format!("/runs/{run}/graph?part={part}")).await;
        assert!(page.text.len() < LARGEST, "part {part} has {} bytes", page.text.len());
        drawn += page.text.matches("<rect/>").count();
    }
    assert_eq!(drawn, 1000);
    for beyond in ["0", "99999", "x", "-1"] {
        let page = browser.get(&format!("/runs/{run}/graph?part={beyond}")).await;
        page.shows(&["id=\"n999\""]);
    }
    // A node in the picture links to the node.
    graph.shows(&["href=\"?node=step-998#node\""]);
    let chosen = browser.get(&format!("/runs/{run}/graph?node=step-998")).await;
    assert_eq!(
        (chosen.status, chosen.header("location")),
        (303, &*format!("/console/runs/{run}?node=step-998#node"))
    );
}

/// The largest page, in bytes.
const LARGEST: usize = 100_000;

#[tokio::test]
async fn run_pages_have_bounded_size() {
    let site = Site::open().await;
    // Escaped text is up to six times longer.
    let (long, name) = ("\"<&>".repeat(8_000), "\"".repeat(90));
    let names: Vec<String> = (0..118).map(|place| format!("{name}{place}")).collect();
    let mut nodes: Vec<(&str, &str, Value)> =
        names.iter().map(|name| (name.as_str(), "core.noop", json!({}))).collect();
    let data =
        json!({"title": long[..400], "description": long, "artifactData": {"text": long, "more": long}});
    nodes.push(("ask", "core.approvalGate", data));
    let mut definition = workflow("heavy", &nodes);
    let variables =
        (0..40).map(|place| json!({"name": format!("v{place}"), "type": "string", "defaultValue": long}));
    definition["variables"] = variables.collect();
    let run = site.run(&definition, json!({})).await;
    let other = site.run(&definition, json!({})).await;
    let browser = site.signed_in(KEY).await;
    for path in [
        "/runs/{run}",
        "/runs/{run}?node=ask",
        "/runs/{run}/graph",
        "/runs/{run}/events",
        "/runs/{run}/events?from=50",
        "/runs/{run}/events?event=0",
        "/runs/{run}/diff?with={other}",
        "/approvals/{run}",
        "/workflows/runs/heavy",
        "/approvals",
        "/runs",
        "/",
    ] {
        let page = browser.get(&path.replace("{run}", &run).replace("{other}", &other)).await;
        assert_eq!(page.status, 200, "{path}");
        assert!(page.text.len() < LARGEST, "{path} has {} bytes", page.text.len());
    }
}
