//! A service with scripted replies that records its calls.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use canon::error::{Envelope, Retry};
use catalogue::{
    Catalogue, CatalogueOptions, Entry, FileProblem, Listing, ResolvedWorkflow, ShadowCause, Shadowed,
};
use guide::record::{
    Blocker, BlockerCode, BlockerReport, GapReason, GapSeverity, Pointer, Preferences, StepName,
    UserOnlyDependency, WorkflowHash, WorkflowSourceKind,
};
use guide::workflow::ids::IdStatus;
use guide::workflow::problem::{Problem, ProblemCode};
use guided::api::{
    BlockedReply, CheckpointReply, ContinueRequest, GapWords, Intent, NextCall, NextIntent, OpenGaps,
    PendingStep, Reply, ReplyKind, ResumeReply, ResumeRequest, RunWords, StartRequest, Validation,
};
use ports::PortFuture;
use serde_json::json;
use server::GuideService;
use server::service::{ServiceFuture, ServiceResult};

canon::error_codes! {
    /// The errors of the fake.
    pub(crate) enum FakeCode {
        /// Another caller holds the write lock.
        Busy => "TOKEN_SESSION_LOCKED",
    }
}

/// The token determines the reply.
#[derive(Default)]
pub(crate) struct Fake {
    pub(crate) asked: Mutex<Vec<String>>,
}

impl Fake {
    pub(crate) fn last(&self) -> String {
        self.asked.lock().unwrap().last().cloned().unwrap_or_default()
    }

    fn note(&self, asked: impl std::fmt::Debug) {
        self.asked.lock().unwrap().push(format!("{asked:?}"));
    }
}

pub(crate) fn run(goal: &str, step: u32) -> RunWords {
    RunWords {
        session_id: format!("sess_{}", goal.len()),
        run_id: format!("run_{}", goal.len()),
        workflow_id: "wr.bug_investigation".into(),
        workflow_name: "Investigate a bug".into(),
        goal: goal.into(),
        step,
        steps: 3,
        description: format!("Investigate a bug (goal: {goal}), step {step} of 3"),
    }
}

pub(crate) fn ok(goal: &str, step: u32) -> Reply {
    Reply {
        kind: ReplyKind::Ok,
        run: run(goal, step),
        continue_token: Some("ct_next".into()),
        state_token: "st.v1.x".into(),
        ack_token: Some("ack.v1.x".into()),
        checkpoint_token: Some("cp_x".into()),
        is_complete: false,
        pending: Some(PendingStep {
            step_id: "reproduce".into(),
            title: "Reproduce it".into(),
            prompt: "Find the smallest input that fails.\n\n- Write down the command.\n".into(),
            agent_role: None,
            model_tier: None,
        }),
        preferences: Preferences::default(),
        next_intent: NextIntent::PerformPendingThenContinue,
        next_call: Some(NextCall {
            tool: "continue_workflow",
            params: json!({"continueToken": "ct_next", "intent": "advance"}),
        }),
        latest_call: None,
        token_note: guided::api::TOKEN_NOTE,
        blocked: None,
        verification: None,
        delegations: Vec::new(),
        return_call: None,
        step_context: None,
        skipped: Vec::new(),
        open_gaps: None,
        warnings: Vec::new(),
    }
}

fn blocked(retryable: bool) -> Reply {
    let blockers = BlockerReport::new(vec![
        Blocker {
            code: BlockerCode::MissingRequiredNotes,
            pointer: Pointer::WorkflowStep { step_id: StepName::parse("reproduce").unwrap() },
            message: "The step asks for notes.".into(),
            suggested_fix: Some("Send output.notesMarkdown.\nA paragraph is enough.".into()),
        },
        Blocker {
            code: BlockerCode::InvalidRequiredOutput,
            pointer: Pointer::OutputContract { contract_ref: "wr.contracts.loop_control".into() },
            message: "The artifact does not keep its contract.".into(),
            suggested_fix: None,
        },
    ])
    .unwrap();
    let token = retryable.then(|| "ct_retry".to_owned());
    Reply {
        kind: ReplyKind::Blocked,
        continue_token: token.clone(),
        next_call: token.clone().map(|token| NextCall {
            tool: "continue_workflow",
            params: json!({"continueToken": token, "intent": "advance"}),
        }),
        checkpoint_token: token.clone().map(|_| "cp_x".to_owned()),
        ack_token: None,
        blocked: Some(BlockedReply {
            blockers,
            retryable: retryable.then_some(true),
            retry_continue_token: token,
            validation: Some(Validation {
                issues: vec!["decision: \"maybe\" is neither continue nor stop".into()],
                suggestions: vec!["Send decision: \"stop\".".into()],
            }),
        }),
        ..ok("the import hangs", 1)
    }
}

fn gaps() -> OpenGaps {
    let reason = GapReason::UserOnlyDependency(UserOnlyDependency::NeedsUserApproval);
    let gap = |gap_id: &str, summary: &str| GapWords {
        gap_id: gap_id.into(),
        severity: GapSeverity::Critical,
        reason,
        summary: summary.into(),
    };
    OpenGaps { count: 12, gaps: vec![gap("gap_1", "There is no approval."), gap("gap_2", "No\nchoice.")] }
}

/// The replies, which are ready immediately.
impl Fake {
    fn start(&self, request: &StartRequest) -> ServiceResult<Reply> {
        self.note(request);
        if request.goal == "panic" {
            panic!("the service fails");
        }
        Ok(ok(&request.goal, 1))
    }

    fn proceed(&self, request: &ContinueRequest) -> ServiceResult<Reply> {
        self.note(request);
        let guided::api::Handle::Single(token) = &request.handle else {
            return Ok(ok("the import hangs", 2));
        };
        let goal = "the import hangs";
        Ok(match token.as_str() {
            "ct_blocked" => blocked(true),
            "ct_terminal" => blocked(false),
            "ct_busy" => {
                return Err(Box::new(
                    Envelope::new(FakeCode::Busy, "The session is busy.")
                        .suggest("Wait a moment and retry this call.")
                        .retry(Retry::AfterMs(250)),
                ));
            }
            "ct_done" => Reply {
                continue_token: None,
                ack_token: None,
                checkpoint_token: None,
                is_complete: true,
                pending: None,
                next_intent: NextIntent::Complete,
                next_call: None,
                ..ok(goal, 3)
            },
            "ct_user" => {
                let message =
                    "This step needs approval of the user (`confirmation`), and no answer was sent.";
                let blockers = BlockerReport::new(vec![Blocker {
                    code: BlockerCode::UserOnlyDependency,
                    pointer: Pointer::WorkflowStep { step_id: StepName::parse("reproduce").unwrap() },
                    message: message.into(),
                    suggested_fix: Some("Ask, and wait.".into()),
                }]);
                let blocked = blocked(true);
                let blockers = blockers.unwrap();
                Reply {
                    next_intent: NextIntent::AwaitUserConfirmation,
                    blocked: blocked.blocked.clone().map(|blocked_reply| BlockedReply {
                        blockers,
                        validation: None,
                        ..blocked_reply
                    }),
                    ..blocked
                }
            }
            "ct_gaps" => Reply { open_gaps: Some(gaps()), ..ok(goal, 2) },
            "ct_done_with_gaps" => Reply {
                continue_token: None,
                ack_token: None,
                checkpoint_token: None,
                is_complete: true,
                pending: None,
                next_intent: NextIntent::Complete,
                next_call: None,
                open_gaps: Some(gaps()),
                ..ok(goal, 3)
            },
            "ct_confirm" => Reply {
                next_intent: NextIntent::AwaitUserConfirmation,
                step_context: Some(json!({"assessments": [{"assessmentId": "readiness", "dimensions": []}]})),
                warnings: vec!["The binding of `tracker` has changed since the run began.".into()],
                ..ok(goal, 2)
            },
            "ct_earlier" => Reply {
                next_intent: NextIntent::RehydrateOnly,
                latest_call: Some(NextCall {
                    tool: "continue_workflow",
                    params: json!({"continueToken": "st.v1.newest", "intent": "rehydrate"}),
                }),
                ..ok(goal, 2)
            },
            _ if request.intent == Intent::Rehydrate => {
                Reply { next_intent: NextIntent::RehydrateOnly, ..ok(goal, 2) }
            }
            _ => ok(goal, 2),
        })
    }

    fn checkpoint(&self, checkpoint_token: &str, notes: Option<&str>) -> ServiceResult<CheckpointReply> {
        self.note((checkpoint_token, notes));
        Ok(CheckpointReply {
            run: run("the import hangs", 2),
            checkpoint_node_id: "node_bookmark".into(),
            resume_token: "st.v1.bookmark".into(),
            resume_call: NextCall {
                tool: "continue_workflow",
                params: json!({"continueToken": "ct_bookmark", "intent": "rehydrate"}),
            },
            next_call: NextCall {
                tool: "continue_workflow",
                params: json!({"continueToken": "ct_next", "intent": "advance"}),
            },
            warnings: Vec::new(),
        })
    }

    fn resume(&self, request: &ResumeRequest) -> ServiceResult<ResumeReply> {
        self.note(request);
        if request.query.as_deref() == Some("nothing") {
            return Ok(ResumeReply { candidates: Vec::new(), total_eligible: 0, warnings: Vec::new() });
        }
        Ok(ResumeReply {
            candidates: vec![json!({
                "sessionId": "sess_1", "runId": "run_1", "workflowId": "wr.bug_investigation",
                "sessionTitle": "the import hangs", "gitBranch": null, "resumeToken": "st.v1.r",
                "snippet": "Reproduced with an empty file.\nThe reader never returns.", "confidence": "strong",
                "matchExplanation": "every word of the query is in the notes", "pendingStepId": "fix",
                "isComplete": false, "lastModifiedMs": 5, "whyMatched": ["matched_notes"],
                "nextCall": {"tool": "continue_workflow", "params": {"continueToken": "st.v1.r", "intent": "rehydrate"}},
            })],
            total_eligible: 7,
            warnings: Vec::new(),
        })
    }

    fn list(&self, workspace: Option<&Path>) -> Listing {
        self.note(workspace);
        let mut listing = Catalogue::new(CatalogueOptions::default()).list(None);
        listing.entries.push(Entry {
            workflow_id: "acme.release_notes".into(),
            name: "Release notes".into(),
            description: "Write the notes\nof a release.".into(),
            version: "1.0.0".into(),
            workflow_hash: Some(hash()),
            source_kind: WorkflowSourceKind::Project,
            source_ref: "workflows/release_notes.json".into(),
            source: "project:/repo/workflows".into(),
            tags: vec!["documentation".into()],
            examples: Vec::new(),
            id_status: IdStatus::Namespaced,
            suggested_id: None,
            shadowed: vec![Shadowed {
                source: "user:/home/me/workflows".into(),
                path: "/home/me/workflows/release_notes.json".into(),
                cause: ShadowCause::Precedence,
                reason: "the project's workflows come after the user's own".into(),
            }],
        });
        listing.problems.push(FileProblem {
            path: "/repo/workflows/broken.json".into(),
            workflow_id: None,
            source_kind: WorkflowSourceKind::Project,
            problems: vec![Problem::new("", ProblemCode::Unreadable, "The file is not JSON.", "Correct it.")],
        });
        listing.unreadable.push("/gone is not there.".into());
        listing
    }

    fn find(&self, workspace: Option<&Path>, workflow_id: &str) -> ServiceResult<Arc<ResolvedWorkflow>> {
        self.note((workspace, workflow_id));
        Catalogue::new(CatalogueOptions::default()).find(None, workflow_id).map_err(Box::new)
    }
}

impl GuideService for Fake {
    fn start(&self, request: StartRequest) -> ServiceFuture<'_, Reply> {
        PortFuture::ready(self.start(&request))
    }

    fn proceed(&self, request: ContinueRequest) -> ServiceFuture<'_, Reply> {
        PortFuture::ready(self.proceed(&request))
    }

    fn checkpoint<'a>(
        &'a self,
        checkpoint_token: &'a str,
        notes: Option<&'a str>,
    ) -> ServiceFuture<'a, CheckpointReply> {
        PortFuture::ready(self.checkpoint(checkpoint_token, notes))
    }

    fn resume<'a>(&'a self, request: &'a ResumeRequest) -> ServiceFuture<'a, ResumeReply> {
        PortFuture::ready(self.resume(request))
    }

    fn list(&self, workspace: Option<PathBuf>) -> PortFuture<'_, Listing> {
        PortFuture::ready(self.list(workspace.as_deref()))
    }

    fn bundled_hash(&self, _: &str) -> Option<WorkflowHash> {
        Some(hash())
    }

    fn find(
        &self,
        workspace: Option<PathBuf>,
        workflow_id: String,
    ) -> ServiceFuture<'_, Arc<ResolvedWorkflow>> {
        PortFuture::ready(self.find(workspace.as_deref(), &workflow_id))
    }

    fn attach(&self, path: String) -> ServiceFuture<'_, String> {
        PortFuture::ready(Ok(path.trim_end_matches('/').to_owned()))
    }

    fn detach(&self, path: String) -> ServiceFuture<'_, String> {
        PortFuture::ready(Ok(path.trim_end_matches('/').to_owned()))
    }
}

fn hash() -> WorkflowHash {
    canon::digest::Digest::of_canonical(&json!("a workflow")).unwrap()
}
