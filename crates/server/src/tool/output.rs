//! The schemas of what tools give back.
//!
//! They say what a caller can rely on and leave room for more: a later version may add members.

use serde_json::{Map, Value, json};

/// The body of a failed call.
pub fn error_schema() -> Value {
    object(
        "The call failed. Nothing else was done than what the message says.",
        &[
            ("code", text("One of a closed list; each has a page under docs/errors.")),
            ("message", text("What went wrong.")),
            (
                "retry",
                object(
                    "Whether the same call can succeed later.",
                    &[
                        (
                            "kind",
                            json!({"type": "string",
                                   "enum": ["not_retryable", "retryable_immediate", "retryable_after_ms"]}),
                        ),
                        ("afterMs?", json!({"type": "integer", "minimum": 0})),
                    ],
                ),
            ),
            (
                "details?",
                json!({"type": "object", "description": "suggestion: what to do next; and further facts."}),
            ),
        ],
    )
}

/// What `start_workflow` and `continue_workflow` give.
pub(super) fn reply() -> Value {
    object(
        "Where the run is now.",
        &[
            ("kind", json!({"type": "string", "enum": ["ok", "blocked"]})),
            ("run", run()),
            ("continueToken?", text("Handle for the next call about this run.")),
            ("stateToken", text("Long handle of the node.")),
            ("ackToken?", text("Long handle that acknowledges the pending step.")),
            ("checkpointToken?", text("Handle for checkpoint_workflow.")),
            ("isComplete", json!({"type": "boolean"})),
            (
                "pending",
                nullable(&object(
                    "The step to do now.",
                    &[
                        ("stepId", text("Its id.")),
                        ("title", text("Its title.")),
                        ("prompt", text("What to do.")),
                        ("agentRole?", text("The stance to take.")),
                        ("modelTier?", json!({"type": "string", "enum": ["lightweight", "mid", "heavy"]})),
                    ],
                )),
            ),
            (
                "preferences",
                object(
                    "In force now.",
                    &[("autonomy", text("When to stop.")), ("riskPolicy", text("What to risk."))],
                ),
            ),
            (
                "nextIntent",
                json!({"type": "string", "enum": ["perform_pending_then_continue", "await_user_confirmation",
                                                  "rehydrate_only", "complete"]}),
            ),
            ("nextCall", nullable(&call())),
            ("latestCall?", call()),
            (
                "blockers?",
                object(
                    "Why the step was not taken.",
                    &[(
                        "blockers",
                        list(&object(
                            "One reason.",
                            &[
                                ("code", text("The kind of reason.")),
                                ("pointer", json!({"type": "object", "description": "What it is about."})),
                                ("message", text("What is wrong.")),
                                ("suggestedFix?", text("What to do.")),
                            ],
                        )),
                    )],
                ),
            ),
            ("retryable?", json!({"type": "boolean"})),
            ("retryContinueToken?", text("Handle for the next attempt.")),
            (
                "validation?",
                object(
                    "What was checked.",
                    &[("issues", list(&text("What is wrong."))), ("suggestions", list(&text("What to do.")))],
                ),
            ),
            (
                "stepContext?",
                json!({"type": "object", "description": "Facts about the step just completed."}),
            ),
            (
                "openGaps?",
                object(
                    "What the run goes on without: what this call opened or, on a rehydrate and at the end, all that is open.",
                    &[
                        ("count", count("How many there are.")),
                        (
                            "gaps",
                            list(&object(
                                "One gap.",
                                &[
                                    ("gapId", text("What a wr.gap_resolution names.")),
                                    (
                                        "severity",
                                        json!({"type": "string", "enum": ["info", "warning", "critical"]}),
                                    ),
                                    (
                                        "reason",
                                        json!({"type": "object", "description": "category and detail."}),
                                    ),
                                    ("summary", text("What is missing.")),
                                ],
                            )),
                        ),
                    ],
                ),
            ),
            ("warnings?", list(&text("What to know besides."))),
        ],
    )
}

/// What `checkpoint_workflow` gives.
pub(super) fn checkpoint() -> Value {
    object(
        "The bookmark.",
        &[
            ("run", run()),
            ("checkpointNodeId", text("The bookmark's node.")),
            ("resumeToken", text("Handle to come back with, from any conversation.")),
            ("nextCall", call()),
            ("warnings?", list(&text("What to know besides."))),
        ],
    )
}

/// What `resume_session` gives.
pub(super) fn resume() -> Value {
    object(
        "Runs that match.",
        &[
            (
                "candidates",
                list(&json!({"type": "object", "description":
                    "sessionId, runId, workflowId, sessionTitle, snippet, confidence, whyMatched, nextCall and more."})),
            ),
            ("totalEligible", count("How many runs there are to choose from.")),
            ("warnings?", list(&text("What to know besides."))),
        ],
    )
}

/// What `list_workflows` gives.
pub(super) fn listing() -> Value {
    object(
        "Workflows that can be started.",
        &[
            (
                "workflows",
                list(&object(
                    "A workflow.",
                    &[
                        ("workflowId", text("Its id.")),
                        ("name", text("What to call it.")),
                        ("description", text("What it is for.")),
                        ("version", text("The author's version.")),
                        ("kind", json!({"type": "string", "enum": ["workflow"]})),
                        ("workflowHash", json!({"type": ["string", "null"]})),
                        ("tags", list(&text("A tag."))),
                        ("examples?", list(&text("A goal that it suits."))),
                        ("sourceKind", text("The kind of source it comes from.")),
                        ("source", text("The source it comes from, as sources has it.")),
                        ("sourceRef", text("Which one there.")),
                        ("idStatus", json!({"type": "string", "enum": ["namespaced", "legacy"]})),
                        ("suggestedId?", text("An id to rename it to.")),
                        ("shadowed?", list(&shadowed())),
                    ],
                )),
            ),
            (
                "tagSummary?",
                list(&object(
                    "The bundled workflows of one tag.",
                    &[
                        ("id", text("The tag.")),
                        ("displayName", text("What to call it.")),
                        ("count", count("How many workflows carry it.")),
                        ("when", list(&text("A situation in which to look here."))),
                        ("examples", list(&text("The id of a workflow."))),
                    ],
                )),
            ),
            ("nextStep?", text("What to do with a digest.")),
            (
                "sources?",
                list(&object(
                    "A place where workflows come from.",
                    &[
                        ("key", text("built_in, or the category and the place.")),
                        (
                            "category",
                            text("Where it stands: built_in, user, managed, configured, git or project."),
                        ),
                        ("kind", text("The kind that runs record.")),
                        ("displayName", text("Its folder or address.")),
                        ("effectiveWorkflowCount", count("How many can be started.")),
                        ("totalWorkflowCount", count("How many it has.")),
                        ("shadowedWorkflowCount", count("How many another source has replaced.")),
                        ("addedAtMs?", count("When it was attached, in milliseconds since 1970.")),
                        ("stale", json!({"type": "boolean", "description": "Whether it could not be read."})),
                    ],
                )),
            ),
            (
                "validationWarnings?",
                list(&object(
                    "A file that was left out.",
                    &[
                        ("workflowId", json!({"type": ["string", "null"]})),
                        ("sourceKind", text("The kind of source it is in.")),
                        ("file", text("The file.")),
                        ("errors", list(&text("What is wrong with it."))),
                    ],
                )),
            ),
            ("warnings?", list(&text("What may make the list incomplete."))),
        ],
    )
}

/// What `inspect_workflow` gives.
pub(super) fn inspection() -> Value {
    object(
        "One workflow.",
        &[
            ("workflowId", text("Its id.")),
            ("workflowHash", text("What a run started now would be pinned to.")),
            ("mode", json!({"type": "string", "enum": super::definitions::INSPECT_MODES})),
            ("sourceKind", text("The kind of source it comes from.")),
            ("source", text("The source it comes from.")),
            ("sourceRef", text("Which one there.")),
            ("reason", text("Why this file and no other.")),
            ("shadowed", list(&shadowed())),
            ("tags", list(&text("A tag."))),
            ("examples", list(&text("A goal that it suits."))),
            ("canonicalId?", text("The id to use instead.")),
            ("suggestedId?", text("An id to rename it to.")),
            ("about?", text("Markdown for people who choose a workflow.")),
            ("warnings?", list(&text("What to know besides."))),
            (
                "compiled",
                json!({"type": "object", "description": "The compiled workflow; in metadata mode its head."}),
            ),
        ],
    )
}

/// What `manage_workflow_source` gives.
pub(super) fn source() -> Value {
    object(
        "What was done.",
        &[
            ("action", json!({"type": "string", "enum": super::definitions::ACTIONS})),
            ("path", text("The folder, as it was understood.")),
        ],
    )
}

fn shadowed() -> Value {
    object(
        "A file with the same id that was not taken.",
        &[
            ("source", text("Its source.")),
            ("path", text("The file.")),
            ("cause", text("precedence, same_folder, broken or reserved.")),
            ("reason", text("Why, in words.")),
        ],
    )
}

fn run() -> Value {
    object(
        "Which run this is about.",
        &[
            ("sessionId", text("The session.")),
            ("runId", text("The run.")),
            ("workflowId", text("The workflow.")),
            ("workflowName", text("Its name.")),
            ("goal", text("What the run is for.")),
            ("step", count("Which step is pending, from 1.")),
            ("steps", count("How many steps the workflow has.")),
            ("description", text("All of it in one sentence.")),
        ],
    )
}

fn call() -> Value {
    object(
        "A call, ready to be made.",
        &[
            ("tool", text("The tool.")),
            ("params", json!({"type": "object", "description": "Its arguments."})),
        ],
    )
}

/// An object of these members; those whose name ends in `?` may be absent.
fn object(about: &str, members: &[(&str, Value)]) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (name, schema) in members {
        let bare = name.trim_end_matches('?');
        if bare == *name {
            required.push(bare);
        }
        properties.insert(bare.to_owned(), schema.clone());
    }
    json!({"type": "object", "description": about, "properties": properties, "required": required})
}

fn text(about: &str) -> Value {
    json!({"type": "string", "description": about})
}

fn count(about: &str) -> Value {
    json!({"type": "integer", "minimum": 0, "description": about})
}

fn list(items: &Value) -> Value {
    json!({"type": "array", "items": items})
}

fn nullable(schema: &Value) -> Value {
    json!({"anyOf": [schema, {"type": "null"}]})
}
