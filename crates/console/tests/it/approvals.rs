//! Requests for approval and input, and their responses.

use serde_json::{Value, json};

use crate::support::{Browser, KEY, Page, Site, workflow};

/// A run that waits at one node, and a browser that shows its request.
async fn asked(type_id: &str, config: Value) -> (Site, String, Browser, Page) {
    let site = Site::open().await;
    let run = site
        .run(&workflow("w", &[("ask", type_id, config), ("end", "core.noop", json!({}))]), json!({}))
        .await;
    let browser = site.signed_in(KEY).await;
    let page = browser.get(&format!("/approvals/{run}")).await;
    assert_eq!(page.status, 200, "{}", page.text);
    (site, run, browser, page)
}

/// Submits a response to the request on a page.
async fn answered(browser: &Browser, page: &Page, run: &str, fields: &[(&str, &str)]) -> Page {
    let interrupt = page.field("interrupt").to_owned();
    let mut all = vec![("node", "ask"), ("interrupt", interrupt.as_str())];
    all.extend_from_slice(fields);
    browser.submit(page, &format!("/approvals/{run}/answer"), &all).await
}

/// The node's output, as the run's page shows it.
async fn outcome(browser: &Browser, run: &str) -> Page {
    browser.get(&format!("/runs/{run}?node=ask")).await
}

#[tokio::test]
async fn an_approval_shows_its_subject_and_is_accepted() {
    let config = json!({
        "title": "Publish?", "description": "Notes of **1.2**", "artifactData": {"notes": "shiny"},
        "actions": ["accept", "reject"],
    });
    let (_site, run, browser, page) = asked("core.approvalGate", config).await;
    page.shows(&["Publish?", "<strong>1.2</strong>", "shiny", "Approve", "Reject"]);
    page.hides(&["Request changes", "Edit and approve", "Override"]);
    browser.get("/approvals").await.shows(&["Publish?", &format!("/approvals/{run}")]);
    let fields = [("shape", "approval"), ("action", "accept"), ("reason", "fine")];
    let done = answered(&browser, &page, &run, &fields).await;
    assert_eq!(done.header("location"), format!("/console/runs/{run}?done=answered"));
    outcome(&browser, &run).await.shows(&["completed", "fine"]);
    browser.get("/approvals").await.hides(&["Publish?"]);
    let late = answered(&browser, &page, &run, &fields).await;
    assert_eq!(late.status, 409);
    late.shows(&["This request was already answered"]);
}

#[tokio::test]
async fn a_rejection_records_its_reason() {
    let (_site, run, browser, page) = asked("core.approvalGate", json!({"title": "Publish?"})).await;
    let fields = [("shape", "approval"), ("action", "reject"), ("reason", "the tests fail")];
    assert_eq!(answered(&browser, &page, &run, &fields).await.status, 303);
    browser.get(&format!("/runs/{run}")).await.shows(&["failed"]);
    browser.get(&format!("/runs/{run}/events")).await.shows(&["the tests fail"]);
}

#[tokio::test]
async fn a_gate_shows_the_actions_that_it_allows() {
    let config = json!({"title": "T", "artifactData": {"a": 1}, "actions": ["accept", "refine", "edit-accept", "ask"]});
    let (_site, run, browser, page) = asked("core.approvalGate", config).await;
    page.shows(&["Approve", "Request changes", "Edit and approve", ">Ask<"]);
    page.hides(&["value=\"reject\""]);
    let refused = answered(&browser, &page, &run, &[("shape", "approval"), ("action", "reject")]).await;
    assert_eq!(refused.status, 400, "the engine validates every form");
    let broken = answered(&browser, &page, &run, &[("shape", "edit"), ("edited", "{broken")]).await;
    assert_eq!(broken.status, 400);
    let done = answered(&browser, &page, &run, &[("shape", "edit"), ("edited", "{\"a\": 2}")]).await;
    assert_eq!(done.status, 303, "{}", done.text);
    outcome(&browser, &run).await.shows(&["editedArtifactData"]);
}

#[tokio::test]
async fn votes_are_counted_until_the_quorum() {
    let config = json!({"title": "Two?", "requiredApprovals": 2, "actions": ["accept", "reject"]});
    let (site, run, browser, page) = asked("core.approvalGate", config).await;
    page.shows(&["0 of 2"]);
    let fields = [("shape", "approval"), ("action", "accept")];
    let voted = answered(&browser, &page, &run, &fields).await;
    assert_eq!(voted.header("location"), format!("/console/runs/{run}?done=voted"));
    browser.get(&format!("/approvals/{run}")).await.shows(&["1 of 2", "full"]);
    let second = "ilk_live_000000000000000000000009";
    crate::support::put_key(&site.runs, second, "second", "default", runs::Scope::ALL.to_vec(), None).await;
    let other = site.signed_in(second).await;
    let page = other.get(&format!("/approvals/{run}")).await;
    let done = answered(&other, &page, &run, &fields).await;
    assert_eq!(done.header("location"), format!("/console/runs/{run}?done=answered"));
}

#[tokio::test]
async fn questions_are_answered_one_by_one() {
    let config = json!({"questions": [
        {"id": "colour", "question": "Which colour?", "schema": {"type": "string", "enum": ["red", "green"]}},
        {"id": "many", "question": "How many?", "schema": {"type": "integer"}},
        {"id": "why", "question": "Why?"},
    ]});
    let (_site, run, browser, page) = asked("core.clarificationGate", config).await;
    page.shows(&[
        "Which colour?",
        "<option value=\"1\">green</option>",
        "How many?",
        "type=\"number\"",
        "Why?",
    ]);
    let short = answered(&browser, &page, &run, &[("shape", "clarification"), ("answer.many", "3")]).await;
    assert_eq!(short.status, 400);
    let fields =
        [("shape", "clarification"), ("answer.colour", "1"), ("answer.many", "3"), ("answer.why", "because")];
    let done = answered(&browser, &page, &run, &fields).await;
    assert_eq!(done.status, 303, "{}", done.text);
    outcome(&browser, &run).await.shows(&["green", "because"]);
}

#[tokio::test]
async fn an_external_event_must_match_the_awaited_fields() {
    let config = json!({"kind": "external-event", "key": "k", "data": {"eventType": "paid", "correlation": {"order": "7"}}});
    let (_site, run, browser, page) = asked("core.interrupt", config).await;
    page.shows(&[">Event<", "&quot;order&quot;: &quot;7&quot;"]);
    let wrong = answered(&browser, &page, &run, &[("shape", "event"), ("event", "{\"order\": \"8\"}")]).await;
    assert!((400..500).contains(&wrong.status), "{}", wrong.status);
    let done =
        answered(&browser, &page, &run, &[("shape", "event"), ("event", "{\"order\": \"7\", \"sum\": 3}")])
            .await;
    assert_eq!(done.status, 303, "{}", done.text);
}

#[tokio::test]
async fn a_resume_schema_becomes_a_form() {
    let config = json!({"kind": "custom", "key": "k", "data": {"customKind": "plan", "payload": {"prompt": "Choose a plan"}}, "resumeSchema": {
        "type": "object", "required": ["plan"], "properties": {
            "plan": {"enum": ["small", "large"], "title": "Plan"}, "seats": {"type": "integer"}, "trial": {"type": "boolean"},
        },
    }});
    let (_site, run, browser, page) = asked("core.interrupt", config).await;
    page.shows(&[
        "Choose a plan",
        "Plan",
        "name=\"value.plan\"",
        "name=\"value.seats\"",
        "name=\"value.trial\"",
    ]);
    let fields = [("shape", "custom"), ("value.plan", "0"), ("value.seats", "5"), ("value.trial", "true")];
    let done = answered(&browser, &page, &run, &fields).await;
    assert_eq!(done.status, 303, "{}", done.text);
    outcome(&browser, &run).await.shows(&["small"]);
}
