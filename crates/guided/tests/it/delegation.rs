//! Delegated runs on real files (finding G3): handles, links, counting, and a caller who does everything alone.

use std::fs;
use std::sync::Arc;

use catalogue::{Catalogue, CatalogueOptions};
use guide::delegation::ChildHandle;
use guide::record::BlockerCode;
use guide::verification::ChildStatus;
use guided::Refusal;
use guided::api::{ContinueRequest, Handle, Intent, NextCall, Reply, ReplyKind, StartRequest};
use serde_json::json;
use storage::disk::RealDisk;
use storage::files::SessionFiles;
use system::{ManualClock, SeededEntropy};

use crate::sync::Guided;

struct Desk {
    _directory: tempfile::TempDir,
    guided: Guided,
}

impl Desk {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let flows = directory.path().join("flows");
        fs::create_dir_all(&flows).unwrap();
        let parent = json!({"id": "project.review", "name": "Review", "description": "Reviews.", "version": "1.0.0",
        "steps": [
            {"id": "lenses", "type": "parallel", "title": "Lenses", "parallelDelegations": [
                {"workflowId": "project.lens", "goal": "correctness of {{goal}}", "args": {"lens": "a"}},
                {"workflowId": "project.lens", "goal": "tests of {{goal}}"},
            ]},
            {"id": "verdict", "title": "Verdict", "prompt": "Judge."},
        ]});
        let lens = json!({"id": "project.lens", "name": "Lens", "description": "Looks.", "version": "1.0.0",
            "steps": [{"id": "look", "title": "Look", "prompt": "Look at {{goal}}."}]});
        let each = json!({"id": "project.each", "name": "Each", "description": "Each.", "version": "1.0.0", "steps": [
            {"id": "each", "type": "loop", "title": "Each",
             "loop": {"type": "forEach", "items": "files", "itemVar": "file", "maxIterations": 3, "parallel": true},
             "body": [{"id": "review", "type": "parallel", "title": "Review", "parallelDelegations": [
                {"workflowId": "project.lens", "goal": "Review {{file}}"}]}]}]});
        for (name, workflow) in [("parent.json", parent), ("lens.json", lens), ("each.json", each)] {
            fs::write(flows.join(name), workflow.to_string()).unwrap();
        }
        let files =
            SessionFiles::open(Arc::new(RealDisk::open(&directory.path().join("data")).unwrap())).unwrap();
        let catalogue =
            Catalogue::new(CatalogueOptions { configured_dirs: vec![flows], ..CatalogueOptions::default() });
        let guided =
            Guided::new(files, catalogue, Arc::new(ManualClock::at(1)), Arc::new(SeededEntropy::new(1)));
        Self { _directory: directory, guided }
    }

    fn start(&self) -> Reply {
        let request = StartRequest {
            workflow_id: "project.review".to_owned(),
            goal: "change 7".to_owned(),
            ..StartRequest::default()
        };
        self.guided.start(request).unwrap_or_else(|refusal| panic!("{refusal}"))
    }

    /// Makes a call exactly as a client would.
    fn make(&self, call: &NextCall) -> Result<Reply, Refusal> {
        assert_eq!(call.tool, "start_workflow");
        let text = |name: &str| call.params[name].as_str().unwrap().to_owned();
        self.guided.start(StartRequest {
            workflow_id: text("workflowId"),
            goal: text("goal"),
            context: call.params["context"].as_object().cloned().unwrap_or_default(),
            child_handle: Some(ChildHandle::parse(&text("parentSessionId")).unwrap()),
            ..StartRequest::default()
        })
    }

    fn proceed(&self, reply: &Reply, intent: Intent) -> Reply {
        let request = ContinueRequest {
            handle: Handle::Single(reply.continue_token.clone().unwrap()),
            intent,
            notes_markdown: Some("Looked at it.".to_owned()),
            artifacts: Vec::new(),
            context: None,
            preferences: None,
        };
        self.guided.proceed(request).unwrap_or_else(|refusal| panic!("{refusal}"))
    }

    fn advance(&self, reply: &Reply) -> Reply {
        self.proceed(reply, Intent::Advance)
    }
}

#[test]
fn children_are_linked_counted_and_checked_before_the_step_passes() {
    let desk = Desk::new();
    let parent = desk.start();
    assert_eq!(parent.delegations.len(), 2);
    let first = &parent.delegations[0];
    assert_eq!(first.start_call.params["goal"], "correctness of change 7");
    assert_eq!(first.start_call.params["context"], json!({"lens": "a"}));
    assert_eq!(first.status, None, "it would change what a replay says");

    let blocked = desk.advance(&parent);
    assert_eq!(blocked.kind, ReplyKind::Blocked);
    let reported = blocked.blocked.as_ref().unwrap().blockers.blockers();
    assert_eq!(reported[0].code, BlockerCode::MissingRequiredOutput);
    assert!(
        reported[0].message.contains("2 of 2 delegated runs are not complete"),
        "{}",
        reported[0].message
    );
    assert_eq!(blocked.delegations, parent.delegations, "a blocked attempt hands out the same runs");

    let child = desk.make(&first.start_call).unwrap();
    assert_eq!(child.run.session_id, first.session_id);
    let again = desk.make(&first.start_call).unwrap();
    assert_eq!(again.run.session_id, first.session_id, "a call that is made twice finds the run");
    assert!(again.warnings.iter().any(|warning| warning.contains("already started")), "{:?}", again.warnings);

    let done = desk.advance(&child);
    assert!(done.is_complete);
    let back = done.return_call.as_ref().unwrap();
    assert_eq!((back.tool, &back.params), ("resume_session", &json!({"sessionId": parent.run.session_id})));
    let shown = desk.proceed(&blocked, Intent::Rehydrate);
    let statuses: Vec<_> = shown.delegations.iter().map(|run| run.status).collect();
    assert_eq!(statuses, [Some(ChildStatus::Complete), Some(ChildStatus::NotStarted)]);

    let blocked = desk.advance(&blocked);
    assert_eq!(blocked.kind, ReplyKind::Blocked, "one of two is not enough");
    let second = desk.make(&parent.delegations[1].start_call).unwrap();
    assert!(desk.advance(&second).is_complete);
    let passed = desk.advance(&blocked);
    assert_eq!((passed.kind, passed.run.step), (ReplyKind::Ok, 2));
    let counted = &passed.verification.as_ref().unwrap().delegations;
    assert!(counted.iter().all(|child| child.status == ChildStatus::Complete), "{counted:?}");
    // The recorded answers do not change.
    let replayed = desk.advance(&parent);
    assert_eq!((replayed.kind, &replayed.delegations), (ReplyKind::Blocked, &parent.delegations));
}

#[test]
fn a_handle_is_good_for_its_workflow_and_for_what_a_step_hands_out() {
    let desk = Desk::new();
    let parent = desk.start();
    let call = &parent.delegations[0].start_call;
    let handle = ChildHandle::parse(call.params["parentSessionId"].as_str().unwrap()).unwrap();
    let start = |workflow_id: &str, handle: ChildHandle| {
        let request = StartRequest {
            workflow_id: workflow_id.to_owned(),
            goal: "x".to_owned(),
            child_handle: Some(handle),
            ..StartRequest::default()
        };
        desk.guided.start(request).unwrap_err().envelope().code().to_owned()
    };
    let elsewhere = "sess_aaaaaaaaaaaaaaaaaaaaaaaaaa".parse().unwrap_or_else(|_| panic!());
    for (name, workflow_id, handle, code) in [
        ("another workflow", "project.review", handle.clone(), "VALIDATION_ERROR"),
        (
            "a place that is not there",
            "project.lens",
            ChildHandle { index: 2, ..handle.clone() },
            "VALIDATION_ERROR",
        ),
        (
            "a node that hands nothing out",
            "project.lens",
            ChildHandle { node: guide::record::NodeId::derived(&["x"]), ..handle.clone() },
            "VALIDATION_ERROR",
        ),
        (
            "another session",
            "project.lens",
            ChildHandle { parent: elsewhere, ..handle.clone() },
            "SESSION_UNKNOWN",
        ),
    ] {
        assert_eq!(start(workflow_id, handle), code, "{name}");
    }
}

/// Bug 5: a run counts for the work that was handed out, so it must be started with its goal and inputs.
#[test]
fn g3_a_handle_is_good_for_the_goal_and_inputs_that_were_handed_out() {
    let desk = Desk::new();
    let parent = desk.start();
    let call = &parent.delegations[0].start_call;
    for (name, member, value, says) in [
        ("another goal", "goal", json!("something else"), "`goal` is not the one"),
        ("another input", "context", json!({"lens": "b"}), "`context.lens` is not the one"),
        ("no inputs", "context", json!({}), "`context.lens` is not the one"),
    ] {
        let mut other = call.clone();
        other.params[member] = value;
        let refused = desk.make(&other).unwrap_err();
        assert_eq!(refused.envelope().code(), "VALIDATION_ERROR", "{name}");
        assert!(refused.to_string().contains(says), "{name}: {refused}");
    }
    assert_eq!(desk.make(call).unwrap().run.goal, "correctness of change 7");
}

/// Bug 5: runs are handed out with the reply that has the list, and the list stays.
#[test]
fn g3_a_list_that_comes_later_is_handed_out_with_the_blocked_reply() {
    let desk = Desk::new();
    let request = StartRequest {
        workflow_id: "project.each".to_owned(),
        goal: "change 7".to_owned(),
        ..StartRequest::default()
    };
    let parent = desk.guided.start(request).unwrap_or_else(|refusal| panic!("{refusal}"));
    assert_eq!(parent.delegations, []);
    let send = |reply: &Reply, files: serde_json::Value| {
        desk.guided.proceed(ContinueRequest {
            handle: Handle::Single(reply.continue_token.clone().unwrap()),
            intent: Intent::Advance,
            notes_markdown: Some("Looked at it.".to_owned()),
            artifacts: Vec::new(),
            context: json!({"files": files}).as_object().cloned(),
            preferences: None,
        })
    };
    let blocked = send(&parent, json!(["a", "b"])).unwrap_or_else(|refusal| panic!("{refusal}"));
    assert_eq!(blocked.kind, ReplyKind::Blocked);
    let goals: Vec<_> = blocked.delegations.iter().map(|run| &run.start_call.params["goal"]).collect();
    assert_eq!(goals, ["Review a", "Review b"]);
    let retry =
        Reply { continue_token: blocked.blocked.clone().unwrap().retry_continue_token, ..blocked.clone() };
    for files in [json!([]), json!(["x", "y"])] {
        let refused = send(&retry, files).unwrap_err();
        assert!(refused.to_string().contains("`files` were already delegated"), "{refused}");
    }
    for run in &blocked.delegations {
        let child = desk.make(&run.start_call).unwrap();
        assert_eq!(child.run.session_id, run.session_id);
        assert!(desk.advance(&child).is_complete);
    }
    let passed = desk.advance(&retry);
    assert_eq!((passed.kind, passed.is_complete), (ReplyKind::Ok, true));
}

/// A branch from the same step hands out runs of its own.
#[test]
fn another_branch_has_children_of_its_own() {
    let desk = Desk::new();
    let (first, second) = (desk.start(), desk.start());
    assert_ne!(first.delegations[0].session_id, second.delegations[0].session_id);
    let child = desk.make(&first.delegations[0].start_call).unwrap();
    assert!(desk.advance(&child).is_complete);
    let shown = desk.proceed(&second, Intent::Rehydrate);
    assert!(shown.delegations.iter().all(|run| run.status == Some(ChildStatus::NotStarted)), "{shown:?}");
}
