//! A person answers what a guided session needs of them (finding G2).

use guided::Guided;
use guided::api::{ContinueRequest, Handle, Intent, Reply, ReplyKind, StartRequest};
use serde_json::json;

use crate::support::{KEY, OTHER, READER, Site, wait};

fn proceed(guided: &Guided, reply: &Reply, intent: Intent) -> Reply {
    submit(guided, reply, intent, "Built and signed.")
}

fn submit(guided: &Guided, reply: &Reply, intent: Intent, notes: &str) -> Reply {
    let request = ContinueRequest {
        handle: Handle::Single(reply.continue_token.clone().unwrap()),
        intent,
        notes_markdown: (intent == Intent::Advance).then(|| notes.to_owned()),
        artifacts: Vec::new(),
        context: None,
        preferences: None,
    };
    wait(guided.proceed(request)).unwrap_or_else(|refusal| panic!("{refusal}"))
}

#[tokio::test]
async fn a_person_answers_in_the_console_and_the_agent_continues() {
    let site = Site::open().await;
    site.flow(
        "release.json",
        &json!({"id": "team.release", "name": "Release", "description": "By people.", "version": "1.0.0", "steps": [
            {"id": "ship", "title": "Ship", "prompt": "Ship it.", "requireConfirmation": true, "requirePerson": true},
            {"id": "tell", "title": "Tell", "prompt": "Tell them."}]}),
    );
    let guided = wait(site.guided.guided("default")).unwrap();
    let start = StartRequest {
        workflow_id: "team.release".to_owned(),
        goal: "2.4".to_owned(),
        ..StartRequest::default()
    };
    let started = wait(guided.start(start)).unwrap_or_else(|refusal| panic!("{refusal}"));
    let path = format!("/console/sessions/{}", started.run.session_id);
    let answer = format!("{path}/answer");
    let person = site.signed_in(KEY).await;
    person.get(&path).await.hides(&["Waiting for a person", &answer]);

    let blocked = proceed(&guided, &started, Intent::Advance);
    assert_eq!(blocked.kind, ReplyKind::Blocked);
    let page = person.get(&path).await;
    page.shows(&[
        "Waiting for a person",
        // Bug 2b: the person sees what they approve.
        "An approval counts only for them.",
        "Built and signed.",
        "confirmation",
        "Approve",
        "Reject",
        &format!("action=\"{answer}\""),
    ]);
    let node = page.field("node").to_owned();
    let given = [("node", node.as_str()), ("question", "confirmation"), ("outcome", "given")];

    // An answer requires the scope, the tenant and the CSRF token of the form.
    let reader = site.signed_in(READER).await;
    let seen = reader.get(&path).await;
    seen.shows(&["Waiting for a person", "approvals:respond"]);
    seen.hides(&[&answer]);
    assert_eq!(reader.submit(&reader.get("/runs").await, &answer, &given).await.status, 403);
    let other = site.signed_in(OTHER).await;
    assert_eq!(other.submit(&other.get("/runs").await, &answer, &given).await.status, 404);
    assert_eq!(person.post(&answer, &given).await.status, 403);
    // What is not asked, and what is not an answer, is refused.
    for (name, fields, status) in [
        ("another question", [("node", node.as_str()), ("question", "other"), ("outcome", "given")], 409),
        (
            "another outcome",
            [("node", node.as_str()), ("question", "confirmation"), ("outcome", "maybe")],
            400,
        ),
        ("no node", [("node", "x"), ("question", "confirmation"), ("outcome", "given")], 400),
    ] {
        assert_eq!(person.submit(&page, &answer, &fields).await.status, status, "{name}");
    }
    let long = "a".repeat(1025);
    let too_long = [given[0], given[1], given[2], ("words", long.as_str())];
    assert_eq!(person.submit(&page, &answer, &too_long).await.status, 400);
    let back = proceed(&guided, &blocked, Intent::Rehydrate);
    assert!(back.warnings.is_empty(), "nothing was recorded: {:?}", back.warnings);

    let done = person.submit(&page, &answer, &given).await;
    assert_eq!((done.status, done.header("location")), (303, format!("{path}?done=answered").as_str()));
    person.get(&path).await.shows(&["Answered. The run continues with the agent's next call."]);
    let back = proceed(&guided, &blocked, Intent::Rehydrate);
    assert!(back.warnings[0].contains("A person gave `confirmation`"), "{:?}", back.warnings);
    assert_eq!(proceed(&guided, &started, Intent::Advance), blocked, "a replay is the same to the byte");

    let advanced = proceed(&guided, &blocked, Intent::Advance);
    assert_eq!(advanced.pending.as_ref().unwrap().step_id, "tell");
    person.get(&path).await.hides(&["Waiting for a person"]);
    let late = person.submit(&page, &answer, &given).await;
    assert_eq!(late.status, 409, "the form of an earlier question: {}", late.text);
    assert_eq!(proceed(&guided, &blocked, Intent::Advance), advanced);
}

/// Bug 2b: an approval in the console counts only for the notes that the page showed.
#[tokio::test]
async fn an_approval_does_not_count_for_notes_that_the_person_did_not_see() {
    let site = Site::open().await;
    site.flow(
        "release.json",
        &json!({"id": "team.release", "name": "Release", "description": "By people.", "version": "1.0.0", "steps": [
            {"id": "ship", "title": "Ship", "prompt": "Ship it.", "requireConfirmation": true, "requirePerson": true},
            {"id": "tell", "title": "Tell", "prompt": "Tell them."}]}),
    );
    let guided = wait(site.guided.guided("default")).unwrap();
    let start = StartRequest {
        workflow_id: "team.release".to_owned(),
        goal: "2.4".to_owned(),
        ..StartRequest::default()
    };
    let started = wait(guided.start(start)).unwrap_or_else(|refusal| panic!("{refusal}"));
    let path = format!("/console/sessions/{}", started.run.session_id);
    let answer = format!("{path}/answer");
    let person = site.signed_in(KEY).await;
    // Longer than a recap, and than what an event contains.
    let long = format!("Fixed a typo. {}The last word is zebra.", "It was small. ".repeat(400));
    let blocked = submit(&guided, &started, Intent::Advance, &long);
    let page = person.get(&path).await;
    page.shows(&["Fixed a typo.", "The last word is zebra."]);
    let node = page.field("node").to_owned();
    let given = [("node", node.as_str()), ("question", "confirmation"), ("outcome", "given")];
    assert_eq!(person.submit(&page, &answer, &given).await.status, 303);
    let other = submit(&guided, &blocked, Intent::Advance, "Dropped the production database.");
    assert_eq!(other.kind, ReplyKind::Blocked, "the person has not seen these notes");
    let page = person.get(&path).await;
    page.shows(&["Dropped the production database."]);
    page.hides(&["The last word is zebra.", "Answered. The run continues"]);
    let advanced = submit(&guided, &other, Intent::Advance, &long);
    assert_eq!(advanced.pending.as_ref().unwrap().step_id, "tell", "the approved notes");
}
