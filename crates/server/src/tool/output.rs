//! The results of tools: the fields that a caller can rely on. Later versions may add more.
//!
//! The schemas for clients contain only names and types: they are part of every `tools/list`, which a model
//! reads completely. The documentation explains the fields.

use serde_json::{Map, Value, json};

#[derive(Clone, Copy, Debug)]
pub struct Member {
    pub name: &'static str,
    /// Whether every result has it.
    pub always: bool,
    pub shape: Shape,
    pub about: &'static str,
}

#[derive(Clone, Copy, Debug)]
pub enum Shape {
    Text,
    TextOrNull,
    /// `true` or `false`.
    Flag,
    Count,
    /// One of these values.
    Choice(&'static [&'static str]),
    Object,
    ObjectOrNull,
    /// A list of strings.
    Texts,
    Objects,
}

impl Shape {
    fn schema(self) -> Value {
        match self {
            Self::Text => json!({"type": "string"}),
            Self::TextOrNull => json!({"type": ["string", "null"]}),
            Self::Flag => json!({"type": "boolean"}),
            Self::Count => json!({"type": "integer"}),
            Self::Choice(choices) => json!({"enum": choices}),
            Self::Object => json!({"type": "object"}),
            Self::ObjectOrNull => json!({"type": ["object", "null"]}),
            Self::Texts | Self::Objects => json!({"type": "array"}),
        }
    }

    /// A description, for the documentation.
    pub(crate) fn words(self) -> String {
        match self {
            Self::Text => "text".to_owned(),
            Self::TextOrNull => "string or null".to_owned(),
            Self::Flag => "boolean".to_owned(),
            Self::Count => "number".to_owned(),
            Self::Choice(choices) => {
                choices.iter().map(|one| format!("`{one}`")).collect::<Vec<_>>().join(", ")
            }
            Self::Object => "object".to_owned(),
            Self::ObjectOrNull => "object or null".to_owned(),
            Self::Texts => "list of strings".to_owned(),
            Self::Objects => "list of objects".to_owned(),
        }
    }
}

const fn always(name: &'static str, shape: Shape, about: &'static str) -> Member {
    Member { name, always: true, shape, about }
}

const fn sometimes(name: &'static str, shape: Shape, about: &'static str) -> Member {
    Member { name, always: false, shape, about }
}

/// The schema of an object with these fields.
pub(super) fn schema(members: &[Member]) -> Value {
    let properties: Map<String, Value> =
        members.iter().map(|member| (member.name.to_owned(), member.shape.schema())).collect();
    let required: Vec<&str> = members.iter().filter(|one| one.always).map(|one| one.name).collect();
    json!({"properties": properties, "required": required})
}

/// The body of a failed call.
pub const ERROR: &[Member] = &[
    always("code", Shape::Text, "One of a closed list; each has a page under docs/errors."),
    always("message", Shape::Text, "What went wrong."),
    always(
        "retry",
        Shape::Object,
        "`kind`: `not_retryable`, `retryable_immediate` or `retryable_after_ms` with `afterMs`.",
    ),
    sometimes("details", Shape::Object, "`suggestion`: what to do next; and further facts."),
];

/// The schema of the body of a failed call.
pub fn error_schema() -> Value {
    schema(ERROR)
}

const RUN: Member = always(
    "run",
    Shape::Object,
    "The run of this reply: `sessionId`, `runId`, `workflowId`, `workflowName`, `goal`, `step` and `steps` \
     (the number of the pending step, from 1, and of all steps), and `description`, the same in one \
     sentence.",
);

const WARNINGS: Member = sometimes("warnings", Shape::Texts, "Warnings and other facts.");

/// The result of `start_workflow` and `continue_workflow`.
pub(super) const REPLY: &[Member] = &[
    always("kind", Shape::Choice(&["ok", "blocked"]), "Whether the step was accepted."),
    RUN,
    sometimes("continueToken", Shape::Text, "Handle for the next call about this run."),
    always("stateToken", Shape::Text, "Long handle of the node."),
    sometimes("ackToken", Shape::Text, "Long handle that acknowledges the pending step."),
    sometimes("checkpointToken", Shape::Text, "Handle for checkpoint_workflow."),
    always("isComplete", Shape::Flag, "Whether the run is complete."),
    always(
        "pending",
        Shape::ObjectOrNull,
        "The step to do now: `stepId`, `title`, `prompt`, and optionally `agentRole` and `modelTier`.",
    ),
    always("preferences", Shape::Object, "The current `autonomy` and `riskPolicy`."),
    always(
        "nextIntent",
        Shape::Choice(&[
            "perform_pending_then_continue",
            "await_user_confirmation",
            "rehydrate_only",
            "complete",
        ]),
        "What to do with this reply.",
    ),
    always("nextCall", Shape::ObjectOrNull, "The exact next call: `tool` and `params`."),
    sometimes(
        "latestCall",
        Shape::Object,
        "In a reply about an earlier step: the call that shows the latest step of the run.",
    ),
    always(
        "tokenNote",
        Shape::Text,
        "The effect of sending a token a second time. Always the same sentence.",
    ),
    sometimes(
        "blockers",
        Shape::Object,
        "Why the step was not accepted: `blockers`, a list of `code`, `pointer`, `message` and \
         `suggestedFix`.",
    ),
    sometimes("retryable", Shape::Flag, "Whether another attempt can help."),
    sometimes("retryContinueToken", Shape::Text, "Handle for that attempt; the same as `continueToken`."),
    sometimes(
        "validation",
        Shape::Object,
        "`issues` and `suggestions` of the validation that are not in the blockers.",
    ),
    sometimes(
        "verification",
        Shape::Object,
        "What the host verified itself for the previous step: `commands` with `name`, `outcome`, exit code \
         and the digest of the \
         output, and `citations` with `finding`. Everything else in an output is a claim.",
    ),
    sometimes(
        "delegations",
        Shape::Objects,
        "The runs that the pending step delegates: `sessionId`, `startCall`, and on a rehydrate `status`.",
    ),
    sometimes(
        "returnCall",
        Shape::Object,
        "For a completed delegated run: the call that returns to the \
               delegating run.",
    ),
    sometimes("stepContext", Shape::Object, "Facts about the step that was just completed."),
    sometimes(
        "skipped",
        Shape::Objects,
        "Steps that were skipped since the last reply: `id`, `title`, and `keys`, the context keys that \
         the decision depends on, with their allowed values.",
    ),
    sometimes(
        "openGaps",
        Shape::Object,
        "Open gaps, without which the run continues: `count`, and `gaps`, a list of `gapId`, `severity`, \
         `reason` and `summary`. They are the gaps of this call; on a rehydrate and at the end, all open \
         gaps.",
    ),
    WARNINGS,
];

/// The result of `checkpoint_workflow`.
pub(super) const CHECKPOINT: &[Member] = &[
    RUN,
    always("checkpointNodeId", Shape::Text, "The node of the checkpoint."),
    always("resumeToken", Shape::Text, "Long handle to resume with, from any conversation."),
    always("resumeCall", Shape::Object, "The call that resumes the run: `tool` and `params`."),
    always("nextCall", Shape::Object, "The call that continues now: `tool` and `params`."),
    WARNINGS,
];

/// The result of `resume_session`.
pub(super) const RESUME: &[Member] = &[
    always(
        "candidates",
        Shape::Objects,
        "Runs that match, best first: `sessionId`, `runId`, `workflowId`, `sessionTitle`, `snippet`, \
         `confidence`, \
         `whyMatched`, `matchExplanation`, `pendingStepId`, `isComplete`, `resumeToken`, `nextCall` and \
         more.",
    ),
    always("totalEligible", Shape::Count, "The number of runs that were searched."),
    WARNINGS,
];

/// The result of `list_workflows`.
pub(super) const LISTING: &[Member] = &[
    always(
        "workflows",
        Shape::Objects,
        "Workflows with all details: `workflowId`, `name`, `description`, `version`, `workflowHash`, \
         `tags`, `examples`, `sourceKind`, \
         `source`, `sourceRef`, `idStatus`, and optionally `suggestedId` and `shadowed`.",
    ),
    sometimes(
        "tagSummary",
        Shape::Objects,
        "The bundled workflows by tag: `id`, `displayName`, `count`, `when` and `examples`.",
    ),
    sometimes("nextStep", Shape::Text, "What to do with the summary by tag."),
    sometimes(
        "sources",
        Shape::Objects,
        "The sources of workflows: `key`, `category`, `kind`, `displayName` and counts.",
    ),
    sometimes(
        "validationWarnings",
        Shape::Objects,
        "Files that could not be used: `workflowId`, `sourceKind`, `file` and `errors`.",
    ),
    WARNINGS,
];

/// The result of `inspect_workflow`.
pub(super) const INSPECTION: &[Member] = &[
    always("workflowId", Shape::Text, "Its id."),
    always("workflowHash", Shape::Text, "The version that a new run is pinned to."),
    always("mode", Shape::Choice(super::definitions::INSPECT_MODES), "The level of detail of `compiled`."),
    always("sourceKind", Shape::Text, "The kind of its source."),
    always("source", Shape::Text, "Its source."),
    always("sourceRef", Shape::Text, "The file or id within the source."),
    always("reason", Shape::Text, "Why this file was chosen."),
    always(
        "shadowed",
        Shape::Objects,
        "Files with the same id that were not chosen: `source`, `path`, `cause` and `reason`.",
    ),
    always("tags", Shape::Texts, "Its tags."),
    always("examples", Shape::Texts, "Goals that it is suitable for."),
    sometimes("canonicalId", Shape::TextOrNull, "The id to use instead."),
    sometimes("suggestedId", Shape::TextOrNull, "A valid id to rename it to."),
    sometimes("about", Shape::TextOrNull, "A description in Markdown for people who choose a workflow."),
    WARNINGS,
    always("compiled", Shape::Object, "The compiled workflow; in metadata mode without its steps."),
];

/// The result of `manage_workflow_source`.
pub(super) const SOURCE: &[Member] = &[
    always("action", Shape::Choice(super::definitions::ACTIONS), "The action that was performed."),
    always("path", Shape::Text, "The normalized path of the folder."),
];
