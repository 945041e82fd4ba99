//! The texts that a model reads, as golden files for review.

use std::path::Path;

use serde_json::json;

use crate::client::fake;
use crate::documents::same;

#[tokio::test]
async fn replies_in_words() {
    let cases = [
        ("start", "start_workflow", json!({"workflowId": "wr.x", "goal": "the import hangs"})),
        ("advance", "continue_workflow", json!({"continueToken": "ct_1", "intent": "advance"})),
        ("confirm", "continue_workflow", json!({"continueToken": "ct_confirm", "intent": "advance"})),
        ("blocked", "continue_workflow", json!({"continueToken": "ct_blocked", "intent": "advance"})),
        (
            "blocked_permanently",
            "continue_workflow",
            json!({"continueToken": "ct_terminal", "intent": "advance"}),
        ),
        (
            "blocked_for_the_user",
            "continue_workflow",
            json!({"continueToken": "ct_user", "intent": "advance"}),
        ),
        ("gaps", "continue_workflow", json!({"continueToken": "ct_gaps", "intent": "advance"})),
        (
            "complete_with_gaps",
            "continue_workflow",
            json!({"continueToken": "ct_done_with_gaps", "intent": "advance"}),
        ),
        ("complete", "continue_workflow", json!({"continueToken": "ct_done", "intent": "advance"})),
        ("rehydrate", "continue_workflow", json!({"continueToken": "ct_1", "intent": "rehydrate"})),
        (
            "rehydrate_earlier",
            "continue_workflow",
            json!({"continueToken": "ct_earlier", "intent": "rehydrate"}),
        ),
        ("checkpoint", "checkpoint_workflow", json!({"checkpointToken": "chk.v1.x"})),
        ("resume", "resume_session", json!({"query": "import"})),
        ("resume_nothing", "resume_session", json!({"query": "nothing"})),
        ("list", "list_workflows", json!({})),
        ("list_by_tag", "list_workflows", json!({"tags": ["documentation"], "includeSources": true})),
        (
            "inspect_metadata",
            "inspect_workflow",
            json!({"workflowId": "wr.change_review", "mode": "metadata"}),
        ),
        ("attach", "manage_workflow_source", json!({"action": "attach", "path": "/team/flows"})),
        ("detach", "manage_workflow_source", json!({"action": "detach", "path": "/team/flows"})),
    ];
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    for (name, tool, arguments) in cases {
        // One connection each: a second run would cause a warning.
        let (connection, _) = fake().await;
        let reply = connection.call(tool, arguments).await;
        assert!(!reply.failed, "{name}: {}", reply.text);
        // A bundled workflow may change, so its digest is not part of the golden file.
        let text = match reply.facts["workflowHash"].as_str() {
            Some(hash) => reply.text.replace(hash, "sha256:…"),
            None => reply.text,
        };
        same(&golden.join(format!("{name}.md")), &text);
    }
}

/// The preview contains the whole bundled workflow, as text and as data.
#[tokio::test]
async fn a_preview_shows_every_step() {
    let (connection, _) = fake().await;
    let reply = connection.call("inspect_workflow", json!({"workflowId": "wr.bug_investigation"})).await;
    let steps = reply.facts["compiled"]["steps"].as_array().unwrap();
    assert!(steps.len() > 3);
    for step in steps {
        assert!(reply.text.contains(step["title"].as_str().unwrap()));
        assert!(reply.text.contains(step["prompt"].as_str().unwrap().trim_end()));
    }
    assert!(reply.text.contains(reply.facts["workflowHash"].as_str().unwrap()));
}

#[tokio::test]
async fn a_list_without_tags_has_a_summary_and_the_users_own_workflows() {
    let (connection, _) = fake().await;
    let facts = connection.call("list_workflows", json!({})).await.facts;
    let ids: Vec<&str> = facts["workflows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["workflowId"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["acme.release_notes"]);
    assert_eq!(facts["tagSummary"].as_array().unwrap().len(), 9);
    assert_eq!(facts["validationWarnings"][0]["errors"][0], "The file is not JSON. Correct it.");
    assert!(facts.get("sources").is_none());
    let facts =
        connection.call("list_workflows", json!({"tags": ["review_audit", "documentation"]})).await.facts;
    assert!(facts.get("tagSummary").is_none());
    let ids: Vec<&str> = facts["workflows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["workflowId"].as_str().unwrap())
        .collect();
    let bundled = ["wr.architecture_audit", "wr.change_review", "wr.documentation", "wr.ui_review"];
    assert_eq!(ids, [&bundled[..], &["acme.release_notes"]].concat());
    assert!(facts["workflows"].as_array().unwrap().iter().all(|one| one["workflowHash"].is_string()));
}
