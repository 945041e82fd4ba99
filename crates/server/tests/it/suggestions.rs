//! Every suggested call, made verbatim, does what its text says; and a reply says each thing once.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::client::{Connection, Reply};
use crate::real::serve;

/// A deciding step, a step that its decision guards, an input, a loop, and checked notes.
fn guarded() -> Value {
    json!({
        "id": "team.guarded", "name": "Guarded", "description": "A guarded step.", "version": "1.0.0",
        "inputs": {"size": {"enum": ["small", "large"]}},
        "steps": [
            {"id": "diagnose", "title": "Diagnose", "prompt": "Find the cause.",
             "producesContext": {"fixDecision": {"enum": ["fix", "report"]}},
             "validationCriteria": [
                {"type": "regex", "pattern": "(?m)^Cause: .+", "message": "Give a line that starts with \
                  `Cause:`."},
                {"type": "length", "min": 20, "message": "Explain the cause."}]},
            {"id": "fix", "title": "Fix it", "prompt": "Fix the cause.",
             "runCondition": {"var": "fixDecision", "equals": "fix"}},
            {"id": "report", "title": "Report", "prompt": "Report."},
            {"type": "loop", "id": "passes", "title": "Passes", "loop": {"type": "for", "count": 2, "maxIterations": 5},
             "body": [{"id": "look", "title": "Look", "prompt": "Look again."}]},
        ],
    })
}

async fn serve_guarded(directory: &Path) -> Connection {
    fs::create_dir_all(directory.join("flows")).unwrap();
    fs::write(directory.join("flows/guarded.json"), guarded().to_string()).unwrap();
    let probing = json!({"id": "team.probing", "name": "Probing", "description": "Needs the web.", "version": "1.0.0",
        "capabilities": {"web_browsing": "required"}, "steps": [{"id": "read", "title": "Read", "prompt": "Read."}]});
    fs::write(directory.join("flows/probing.json"), probing.to_string()).unwrap();
    serve(directory).await
}

/// A suggested call.
#[derive(Clone, Debug, PartialEq)]
struct Suggested {
    tool: &'static str,
    arguments: Value,
}

/// The calls in the text of a reply, in order.
fn suggested(text: &str) -> Vec<Suggested> {
    let mut found = Vec::new();
    for tool in ["start_workflow", "continue_workflow", "checkpoint_workflow", "resume_session"] {
        for (open, close) in [(" with\n\n```json\n", "\n```"), (" with `", "`")] {
            let lead = format!("{tool}{open}");
            for (place, _) in text.match_indices(&lead) {
                let body = &text[place + lead.len()..];
                let arguments = serde_json::from_str(&body[..body.find(close).unwrap()]).unwrap();
                found.push((place, Suggested { tool, arguments }));
            }
        }
    }
    found.sort_by_key(|(place, _)| *place);
    found.into_iter().map(|(_, call)| call).collect()
}

fn with_output(call: &Suggested, notes: &str) -> Suggested {
    let mut call = call.clone();
    call.arguments["output"] = json!({"notesMarkdown": notes});
    call
}

async fn make(connection: &Connection, call: &Suggested) -> Reply {
    connection.call(call.tool, call.arguments.clone()).await
}

/// The one call that a field of the facts suggests.
fn of(facts: &Value) -> Suggested {
    assert_eq!(facts["tool"], "continue_workflow", "{facts}");
    Suggested { tool: "continue_workflow", arguments: facts["params"].clone() }
}

async fn start(connection: &Connection, workflow: &str, more: Value) -> Reply {
    let mut arguments = json!({"workflowId": workflow, "goal": "try it"});
    arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    connection.call("start_workflow", arguments).await
}

#[tokio::test]
async fn every_suggested_call_does_what_its_text_says() {
    let directory = tempfile::tempdir().unwrap();
    let connection = serve_guarded(directory.path()).await;

    // After a start: advance once the step is done, or bookmark the position.
    let started = start(&connection, "team.two_steps", json!({})).await;
    let calls = suggested(&started.text);
    assert_eq!(calls.len(), 2, "{}", started.text);
    assert_eq!(calls[0], of(&started.facts["nextCall"]), "words and facts suggest the same");
    assert_eq!(calls[1].arguments, json!({"checkpointToken": started.facts["checkpointToken"]}));

    // "To save a checkpoint": the step stays pending, and both calls of that reply work.
    let bookmark = make(&connection, &calls[1]).await;
    let offered = suggested(&bookmark.text);
    assert_eq!(
        offered,
        [of(&bookmark.facts["nextCall"]), of(&bookmark.facts["resumeCall"])],
        "{}",
        bookmark.text
    );
    let back = make(&connection, &offered[1]).await;
    assert_eq!(
        (&back.facts["nextIntent"], &back.facts["pending"]["stepId"]),
        (&json!("rehydrate_only"), &json!("one"))
    );

    // The advance without the output that its text requires is blocked; with it, the run continues.
    let blocked = make(&connection, &offered[0]).await;
    assert_eq!(blocked.facts["kind"], "blocked");
    let retry = &suggested(&blocked.text)[0];
    assert_eq!(*retry, of(&blocked.facts["nextCall"]));
    let second = make(&connection, &with_output(retry, "The first is done.")).await;
    assert_eq!(second.facts["pending"]["stepId"], "two", "{}", second.text);

    // A read of an earlier position: continue at the newest one, or branch from here.
    let earlier = connection
        .call(
            "continue_workflow",
            json!({"continueToken": started.facts["continueToken"], "intent": "rehydrate"}),
        )
        .await;
    let ways = suggested(&earlier.text);
    assert_eq!(
        ways[..2],
        [of(&earlier.facts["latestCall"]), of(&earlier.facts["nextCall"])],
        "{}",
        earlier.text
    );
    let newest = make(&connection, &ways[0]).await;
    assert_eq!(newest.facts["pending"]["stepId"], "two", "{}", newest.text);
    let branch = make(&connection, &with_output(&ways[1], "Another way.")).await;
    assert_eq!(branch.facts["pending"]["stepId"], "two", "{}", branch.text);

    // A run that was found by a search.
    let found = connection.call("resume_session", json!({"query": "try it"})).await;
    let candidates = suggested(&found.text);
    assert_eq!(candidates, [of(&found.facts["candidates"][0]["nextCall"])], "{}", found.text);
    let returned = make(&connection, &candidates[0]).await;
    assert_eq!(returned.facts["run"]["runId"], started.facts["run"]["runId"]);

    // Bug 8: tokens of two steps of one run. The call returns its latest step and starts no branch.
    let crossed = json!({"stateToken": started.facts["stateToken"], "ackToken": branch.facts["ackToken"],
        "intent": "advance", "output": {"notesMarkdown": "Crossed."}});
    let refused = connection.call("continue_workflow", crossed).await;
    assert_eq!(refused.facts["code"], "TOKEN_SCOPE_MISMATCH", "{}", refused.text);
    assert!(refused.text.contains("two positions of one run"), "{}", refused.text);
    let latest = make(&connection, &of(&refused.facts["details"]["nextCall"])).await;
    assert_eq!(latest.facts["pending"]["stepId"], "two", "{}", latest.text);
    assert_eq!(latest.facts["continueToken"], branch.facts["continueToken"], "nothing was changed");

    // Tokens of two runs: each call continues its own run.
    let other = start(&connection, "team.two_steps", json!({})).await;
    let mixed = json!({"stateToken": second.facts["stateToken"], "ackToken": other.facts["ackToken"], "intent": "advance",
        "output": {"notesMarkdown": "Mixed up."}});
    let refused = connection.call("continue_workflow", mixed).await;
    assert_eq!(refused.facts["code"], "TOKEN_SCOPE_MISMATCH", "{}", refused.text);
    for (member, run) in [("first", &second), ("second", &other)] {
        let described = &refused.facts["details"][member];
        let led_on = make(&connection, &with_output(&of(&described["call"]), "Done.")).await;
        assert_eq!(led_on.facts["kind"], "ok", "{described}");
        assert_eq!(led_on.facts["run"]["runId"], run.facts["run"]["runId"], "{described}");
    }
}

/// Findings B10 and R7, and calls with mistakes: what an error suggests works, or is refused as a placeholder.
#[tokio::test]
async fn every_call_that_an_error_suggests_does_what_it_says() {
    let directory = tempfile::tempdir().unwrap();
    let connection = serve_guarded(directory.path()).await;

    let orphan =
        start(&connection, "team.two_steps", json!({"parentSessionId": "sess_aaaaaaaaaaaaaaaa"})).await;
    assert_eq!(orphan.facts["code"], "SESSION_UNKNOWN", "{}", orphan.text);
    assert!(orphan.text.contains("without it"), "{}", orphan.text);
    let first = start(&connection, "team.two_steps", json!({})).await;
    assert!(!first.failed);
    let child = json!({"parentSessionId": first.facts["run"]["sessionId"]});
    assert!(!start(&connection, "team.two_steps", child).await.failed, "a session that exists");

    // Ten blocks: the call that returns to the position before them.
    let mut reply = make(&connection, &of(&first.facts["nextCall"])).await;
    for _ in 0..10 {
        reply = make(&connection, &of(&reply.facts["nextCall"])).await;
        if reply.failed {
            break;
        }
    }
    assert_eq!(reply.facts["code"], "PRECONDITION_FAILED", "{}", reply.text);
    let place = make(&connection, &of(&reply.facts["details"]["nextCall"])).await;
    assert_eq!(place.facts["pending"]["stepId"], "one", "{}", place.text);
    assert!(place.facts.get("blockers").is_none(), "{}", place.text);
    let on = make(&connection, &with_output(&of(&place.facts["nextCall"]), "Done at last.")).await;
    assert_eq!(on.facts["pending"]["stepId"], "two", "{}", on.text);

    // Bug 10: a capability that was not tested, or is not available. The call returns to the step, where a test is
    // accepted.
    for (provenance, status, code) in [
        ("manual_claim", "available", "REQUIRED_CAPABILITY_UNKNOWN"),
        ("probe_step", "unavailable", "REQUIRED_CAPABILITY_UNAVAILABLE"),
    ] {
        let observed = |provenance: &str, status: &str| {
            json!({"kind": "wr.capability_observation", "capability": "web_browsing", "status": status,
                "provenance": provenance})
        };
        let probe = start(&connection, "team.probing", json!({})).await;
        let advance = |call: &Suggested, artifact: Value| {
            let mut call = call.clone();
            call.arguments["output"] = json!({"artifacts": [artifact]});
            call
        };
        let claim = advance(&of(&probe.facts["nextCall"]), observed(provenance, status));
        let blocked = make(&connection, &claim).await;
        assert_eq!(blocked.facts["blockers"]["blockers"][0]["code"], code, "{}", blocked.text);
        assert!(!blocked.text.contains("Do not call again"), "{}", blocked.text);
        assert_eq!(suggested(&blocked.text), [of(&blocked.facts["nextCall"])], "{}", blocked.text);
        let back = make(&connection, &of(&blocked.facts["nextCall"])).await;
        assert!(back.facts.get("blockers").is_none(), "{}", back.text);
        let tested = advance(&of(&back.facts["nextCall"]), observed("probe_step", "available"));
        assert_eq!(make(&connection, &tested).await.facts["pending"]["stepId"], "read", "{}", back.text);
        let replayed = make(&connection, &claim).await;
        assert_eq!(
            (replayed.facts, replayed.text),
            (blocked.facts, blocked.text),
            "a replay does not change"
        );
    }

    // Missing inputs: the suggested context contains placeholders, which are refused.
    let without = start(&connection, "team.guarded", json!({})).await;
    let context = without.facts["details"]["context"].clone();
    assert_eq!(context, json!({"size": "<small | large>"}), "{}", without.text);
    assert!(start(&connection, "team.guarded", json!({"context": context})).await.failed);
    assert!(!start(&connection, "team.guarded", json!({"context": {"size": "small"}})).await.failed);

    // A typo in a name: the example is the intended call.
    let slip = json!({"workflowid": "team.two_steps", "goal": "try it"});
    let mistaken = connection.call("start_workflow", slip).await;
    let example = &mistaken.facts["details"]["example"];
    assert_eq!(example["name"], "start_workflow");
    assert!(!connection.call("start_workflow", example["arguments"].clone()).await.failed, "{example}");
}

/// Finding B1: a reply names every skipped step with its key and the allowed values of the key, and never the recorded value. The
/// suggested call brings the step back.
#[tokio::test]
async fn a_skipped_step_is_listed_and_can_be_made_pending() {
    let directory = tempfile::tempdir().unwrap();
    let connection = serve_guarded(directory.path()).await;
    let notes = "Cause: the buffer is never flushed when the file is empty.";
    let started = start(&connection, "team.guarded", json!({"context": {"size": "small"}})).await;
    assert!(started.facts.get("skipped").is_none());
    let mut call = with_output(&of(&started.facts["nextCall"]), notes);
    call.arguments["context"] = json!({"fixDecision": "report"});
    let report = make(&connection, &call).await;
    let keys = json!([{"key": "fixDecision", "allowed": "one of \"fix\", \"report\""}]);
    assert_eq!(report.facts["skipped"], json!([{"id": "fix", "title": "Fix it", "keys": keys}]));
    assert_eq!(report.facts["pending"]["stepId"], "report");
    assert!(
        report.text.contains("- `fix` (Fix it): depends on `fixDecision` (one of \"fix\", \"report\").\n"),
        "{}",
        report.text
    );
    assert_eq!(make(&connection, &call).await.text, report.text, "a replay says the same");
    let mut call = with_output(&of(&report.facts["nextCall"]), "Reported.");
    let look = make(&connection, &call).await;
    assert!(look.facts.get("skipped").is_none(), "a step that stays skipped is named once: {}", look.text);
    assert!(
        look.text.starts_with("Run: Guarded (goal: try it), step 4 of 4, pass 1 of 2\n"),
        "{}",
        look.text
    );

    call.arguments["context"] = json!({"fixDecision": "fix"});
    let back = connection
        .call(
            "continue_workflow",
            json!({"continueToken": report.facts["continueToken"], "intent": "rehydrate"}),
        )
        .await;
    call.arguments["continueToken"] = back.facts["continueToken"].clone();
    let fix = make(&connection, &call).await;
    assert_eq!(fix.facts["pending"]["stepId"], "fix", "{}", fix.text);
}

/// Findings R1, R2 and R3.
#[tokio::test]
async fn a_blocked_reply_has_each_requirement_once_and_explains_the_reply_to_a_used_token() {
    let directory = tempfile::tempdir().unwrap();
    let connection = serve_guarded(directory.path()).await;
    let started = start(&connection, "team.guarded", json!({"context": {"size": "small"}})).await;
    assert!(!started.text.contains("(?m)"), "a pattern with a sentence is not shown: {}", started.text);
    let advance = of(&started.facts["nextCall"]);
    let blocked = make(&connection, &with_output(&advance, "Hm.")).await;
    let facts = blocked.facts.to_string();
    for (name, words) in [
        ("a pattern", "Give a line that starts with `Cause:`"),
        ("a length", "Explain the cause"),
        ("the kind of reply", "BLOCKED"),
    ] {
        assert_eq!(blocked.text.matches(words).count(), 1, "{name}: {}", blocked.text);
        assert!(facts.matches(words).count() <= 1, "{name}: {facts}");
    }
    assert_eq!(blocked.facts.get("validation"), None, "the blockers say it all: {facts}");
    assert_eq!(blocked.text.matches("`fixDecision` is missing").count(), 1, "{}", blocked.text);
    assert!(!blocked.text.contains("CONTEXT REQUIRED"), "{}", blocked.text);

    let better = with_output(&advance, "Cause: the buffer is never flushed when the file is empty.");
    let replayed = make(&connection, &better).await;
    assert_eq!((&replayed.text, &replayed.facts), (&blocked.text, &blocked.facts), "byte for byte");
    let note = blocked.facts["tokenNote"].as_str().unwrap();
    assert!(note.contains("If it is sent again, it gets the first reply"), "{note}");
    for reply in [&started, &blocked] {
        assert_eq!(reply.text.matches(note).count(), 1, "{}", reply.text);
        assert_eq!(reply.facts["tokenNote"], note);
    }
}

/// Finding R4: handles in texts are short enough to copy, and the long ones of earlier versions still work.
#[tokio::test]
async fn handles_in_words_are_short_and_long_ones_still_work() {
    let directory = tempfile::tempdir().unwrap();
    let connection = serve_guarded(directory.path()).await;
    let started = start(&connection, "team.two_steps", json!({})).await;
    let short = started.facts["checkpointToken"].as_str().unwrap();
    assert!(short.starts_with("cp_") && short.len() == 30, "{short}");
    for long in ["st.v1.", "ack.v1.", "chk.v1."] {
        assert!(!started.text.contains(long), "{}", started.text);
    }
    let bookmark = connection.call("checkpoint_workflow", json!({"checkpointToken": short})).await;
    let again = connection.call("checkpoint_workflow", json!({"checkpointToken": short})).await;
    assert_eq!(bookmark.facts, again.facts, "made once");
    let resumed = json!({"continueToken": bookmark.facts["resumeToken"], "intent": "rehydrate"});
    assert_eq!(connection.call("continue_workflow", resumed).await.facts["pending"]["stepId"], "one");
    let forged = format!("{}{}", &short[..29], if short.ends_with('A') { 'B' } else { 'A' });
    for (name, token, code) in [
        ("changed", forged.as_str(), "TOKEN_"),
        ("cut", &short[..20], "TOKEN_INVALID_FORMAT"),
        ("another kind", started.facts["continueToken"].as_str().unwrap(), "TOKEN_INVALID_FORMAT"),
    ] {
        let refused = connection.call("checkpoint_workflow", json!({"checkpointToken": token})).await;
        assert!(refused.facts["code"].as_str().unwrap().starts_with(code), "{name}: {}", refused.text);
    }
    let swapped = json!({"continueToken": short, "intent": "rehydrate"});
    let refused = connection.call("continue_workflow", swapped).await;
    assert_eq!(refused.facts["code"], "TOKEN_INVALID_FORMAT", "{}", refused.text);
}
