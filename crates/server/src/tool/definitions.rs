//! The definitions of all tools, written for an agent that does not know this program.

use guide::placeholder;
use guide::record::budgets;
use guide::workflow::registry::tags;

use super::parameter::{Kind, Parameter, TOKEN_BYTES};
use super::{Alias, Definition, Tool, output};

pub const fn definition(tool: Tool) -> &'static Definition {
    match tool {
        Tool::ListWorkflows => &LIST,
        Tool::InspectWorkflow => &INSPECT,
        Tool::StartWorkflow => &START,
        Tool::ContinueWorkflow => &CONTINUE,
        Tool::CheckpointWorkflow => &CHECKPOINT,
        Tool::ResumeSession => &RESUME,
        Tool::ManageWorkflowSource => &MANAGE,
    }
}

/// The modes of `inspect_workflow`.
pub(super) const INSPECT_MODES: &[&str] = &["metadata", "preview"];
/// The intents of `continue_workflow`.
const INTENTS: &[&str] = &["advance", "rehydrate"];
/// The actions of `manage_workflow_source`.
pub(super) const ACTIONS: &[&str] = &["attach", "detach"];

/// The maximum length of a goal and of a query, in bytes.
const GOAL_BYTES: usize = 4096;
const QUERY_BYTES: usize = 256;
/// The maximum length of an id, in bytes.
const ID_BYTES: usize = 256;

const WORKSPACE: Parameter = Parameter {
    name: "workspacePath",
    kind: Kind::Path,
    required: false,
    about: "Absolute path of the folder you work in. Workflows of that project are found only with it.",
    placeholder: "<absolute path of the folder you are working in>",
};

const WORKFLOW_ID: Parameter = Parameter {
    name: "workflowId",
    kind: Kind::Text { max_bytes: ID_BYTES },
    required: true,
    about: "Id from list_workflows.",
    placeholder: "<workflowId from list_workflows>",
};

const PREFERENCES: Parameter = Parameter {
    name: "preferences",
    kind: Kind::Group(&[
        Parameter {
            name: "autonomy",
            kind: Kind::Choice(&["guided", "full_auto_stop_on_user_deps", "full_auto_never_stop"]),
            required: false,
            about: "guided: wait for every confirmation. full_auto_stop_on_user_deps: wait only for what \
                    the user alone can \
                    give. full_auto_never_stop: never wait; record what is missing as a gap.",
            placeholder: "<autonomy>",
        },
        Parameter {
            name: "riskPolicy",
            kind: Kind::Choice(&["conservative", "balanced", "aggressive"]),
            required: false,
            about: "conservative: stop when in doubt. balanced: warn about unknown capabilities. \
                    aggressive: warn about \
                    missing ones too.",
            placeholder: "<riskPolicy>",
        },
    ]),
    required: false,
    about: "Only when the user asks for a change, and only the member that changes. A run begins guided \
            and conservative.",
    placeholder: "<an object with autonomy, riskPolicy or both>",
};

const NOTES: Parameter = Parameter {
    name: "notesMarkdown",
    // The engine decides how long notes may be, and truncates or rejects them with a reason.
    kind: Kind::Text { max_bytes: 1 << 20 },
    required: false,
    about: "What you did, found and decided in this step, in Markdown, for a reader who has only these \
            notes.",
    placeholder: placeholder::NOTES,
};

static LIST: Definition = Definition {
    tool: Tool::ListWorkflows,
    title: "List workflows",
    purpose: "Lists the workflows that can be started: procedures for tasks such as investigating a bug or \
              reviewing a \
              change.",
    when: &["At the start of a task that may have a workflow, to get the id that start_workflow needs."],
    parameters: &[
        WORKSPACE,
        Parameter {
            name: "tags",
            kind: Kind::Names(tag_ids),
            required: false,
            about: "Lists all details of the workflows with any of these tags.",
            placeholder: "<a list of tags>",
        },
        Parameter {
            name: "includeSources",
            kind: Kind::Flag,
            required: false,
            about: "Adds the sources of workflows.",
            placeholder: "<true or false>",
        },
    ],
    aliases: &[],
    rules: &[
        "Without tags you get a summary of the bundled workflows by tag, and all details of the others. \
         Call again with the tag that fits.",
    ],
    example: r#"{"workspacePath":"/home/me/project","tags":["investigation"]}"#,
    returns: "workflows[] with workflowId, name, description, version, workflowHash, tags and source; \
              without tags \
              also tagSummary[].",
    output: output::LISTING,
    read_only: true,
    idempotent: true,
};

static INSPECT: Definition = Definition {
    tool: Tool::InspectWorkflow,
    title: "Inspect a workflow",
    purpose: "Shows the purpose and the steps of one workflow without starting it.",
    when: &["To choose between workflows, or when the user asks what a workflow does. Not needed before \
         start_workflow."],
    parameters: &[
        WORKFLOW_ID,
        WORKSPACE,
        Parameter {
            name: "mode",
            kind: Kind::Choice(INSPECT_MODES),
            required: false,
            about: "metadata: without the steps. preview (default): everything.",
            placeholder: "<mode>",
        },
    ],
    aliases: &[],
    rules: &["Do not do steps from a preview: only a run records your work."],
    example: r#"{"workflowId":"wr.bug_investigation","workspacePath":"/home/me/project","mode":"preview"}"#,
    returns: "workflowId, workflowHash (the version that a new run is pinned to), source, and compiled.",
    output: output::INSPECTION,
    read_only: true,
    idempotent: true,
};

static START: Definition = Definition {
    tool: Tool::StartWorkflow,
    title: "Start a workflow",
    purpose: "Starts a durable run of a workflow and returns its first step.",
    when: &[
        "Once per task. For an existing run use continue_workflow, or resume_session if you have no token.",
    ],
    parameters: &[
        WORKFLOW_ID,
        Parameter {
            name: "goal",
            kind: Kind::Text { max_bytes: GOAL_BYTES },
            required: true,
            about: "What the user wants, in one sentence. Every reply identifies the run by it.",
            placeholder: "<what the user wants, in one sentence>",
        },
        WORKSPACE,
        Parameter {
            name: "context",
            kind: Kind::Object,
            required: false,
            about: "Inputs that the workflow requires, by name. At most 256 KiB.",
            placeholder: "<an object with the facts to set, by name>",
        },
        PREFERENCES,
        Parameter {
            name: "parentSessionId",
            kind: Kind::Text { max_bytes: ID_BYTES },
            required: false,
            about: "The session (sess_…) or child handle that delegated this task to you, if any.",
            placeholder: "<parentSessionId of the call that you received>",
        },
    ],
    aliases: &[Alias { name: "contextVariables", path: &["context"] }],
    rules: &[
        "Two calls start two runs. Do not mix their tokens: every reply names its run.",
        "Do the step, then make the call in nextCall.",
    ],
    example: r#"{"workflowId":"wr.bug_investigation","goal":"find out why the import hangs on empty files","workspacePath":"/home/me/project"}"#,
    returns: "The pending step (title, prompt), the continueToken for the next call, a checkpointToken, \
              and nextCall: \
              the exact call to make when the step is done.",
    output: output::REPLY,
    read_only: false,
    idempotent: false,
};

static CONTINUE: Definition = Definition {
    tool: Tool::ContinueWorkflow,
    title: "Continue a workflow",
    purpose: "Completes the pending step of a run and returns the next one (advance), or shows the pending \
              step and changes nothing (rehydrate).",
    when: &[
        "advance: when the pending step is done, with its result in output; again after you fixed the \
         blockers of a blocked reply.",
        "rehydrate: when you have lost track of the run.",
    ],
    parameters: &[
        Parameter {
            name: "continueToken",
            kind: Kind::Text { max_bytes: TOKEN_BYTES },
            required: false,
            about: "Token of the latest reply about this run (ct_…). Copy it exactly.",
            placeholder: "<continueToken of the latest reply about this run>",
        },
        Parameter {
            name: "intent",
            kind: Kind::Choice(INTENTS),
            required: false,
            about: "Required unless output is given, which means advance.",
            placeholder: "<intent>",
        },
        Parameter {
            name: "output",
            kind: Kind::Group(&[
                NOTES,
                Parameter {
                    name: "artifacts",
                    kind: Kind::Objects { max_items: budgets::ARTIFACTS },
                    required: false,
                    about: "Objects with a kind, as the step requires them. Allowed with any step: \
                            wr.user_answer {dependencyId, \
                            answeredBy: user, outcome: given or refused, answer}, the user's answer to a USER NEEDED; \
                            wr.gap_resolution {gapId, summary, answeredBy?}, closes one of openGaps; wr.notes_correction \
                            {notesMarkdown}, replaces the notes of the previous step.",
                    placeholder: "<a list of objects, each with a kind>",
                },
            ]),
            required: false,
            about: "The result of the step. Only with advance.",
            placeholder: "<an object with notesMarkdown, artifacts or both>",
        },
        Parameter {
            name: "context",
            kind: Kind::Object,
            required: false,
            about: "Facts that changed, by name; null deletes one. Only with advance.",
            placeholder: "<an object with the facts to set, by name>",
        },
        PREFERENCES,
        Parameter {
            name: "stateToken",
            kind: Kind::Text { max_bytes: TOKEN_BYTES },
            required: false,
            about: "Instead of continueToken: long token of a node (st.v1.…). Alone it rehydrates.",
            placeholder: "<stateToken of the latest reply about this run>",
        },
        Parameter {
            name: "ackToken",
            kind: Kind::Text { max_bytes: TOKEN_BYTES },
            required: false,
            about: "With stateToken, from the same reply (ack.v1.…): advances.",
            placeholder: "<ackToken of the latest reply about this run>",
        },
        WORKSPACE,
    ],
    aliases: &[
        Alias { name: "contextVariables", path: &["context"] },
        Alias { name: "notes", path: &["output", "notesMarkdown"] },
        Alias { name: "notesMarkdown", path: &["output", "notesMarkdown"] },
        Alias { name: "artifacts", path: &["output", "artifacts"] },
    ],
    rules: &[
        "Do the step before you advance: Interlock checks what you send.",
        "USER NEEDED in a step means: ask the user, wait, and send the answer as an artifact. Never answer \
         for the user: the record shows who answered.",
        "A token advances once. If you send it again you get the same reply, so retry freely when a reply \
         is lost.",
        "A token of an earlier step goes back to it: advancing it starts a new branch.",
        "When isComplete is true the run is complete. Do not call again.",
    ],
    example: r#"{"continueToken":"ct_0123456789abcdefghijklmn","intent":"advance","output":{"notesMarkdown":"Reproduced with an empty file: the reader never returns."}}"#,
    returns: "kind ok with the next step and fresh tokens, or kind blocked with blockers that say what is \
              missing and how \
              to fix it; nextCall is the exact next call.",
    output: output::REPLY,
    read_only: false,
    idempotent: true,
};

static CHECKPOINT: Definition = Definition {
    tool: Tool::CheckpointWorkflow,
    title: "Create a checkpoint",
    purpose: "Saves a checkpoint of a run, so that a later conversation can resume it. The step stays \
              pending.",
    when: &["Before the conversation ends in the middle of a step, or before something risky."],
    parameters: &[
        Parameter {
            name: "checkpointToken",
            kind: Kind::Text { max_bytes: TOKEN_BYTES },
            required: true,
            about: "checkpointToken of the latest reply about this run (cp_…). Copy it exactly.",
            placeholder: "<checkpointToken of the latest reply about this run>",
        },
        Parameter {
            name: "output",
            kind: Kind::Group(&[NOTES]),
            required: false,
            about: "What to remember when the run is resumed.",
            placeholder: "<an object with notesMarkdown>",
        },
    ],
    aliases: &[Alias { name: "notes", path: &["output", "notesMarkdown"] }],
    rules: &[],
    example: r#"{"checkpointToken":"cp_0123456789abcdefghijklmnopq","output":{"notesMarkdown":"Half way: the reader is understood, the fix is not written."}}"#,
    returns: "resumeCall, to resume from any conversation, and nextCall, to continue now.",
    output: output::CHECKPOINT,
    read_only: false,
    idempotent: true,
};

static RESUME: Definition = Definition {
    tool: Tool::ResumeSession,
    title: "Find an earlier run",
    purpose: "Finds earlier runs, best match first, with the call that returns to each. Changes nothing.",
    when: &["When the user wants to continue earlier work and you have no token for it."],
    parameters: &[
        WORKSPACE,
        Parameter {
            name: "query",
            kind: Kind::Text { max_bytes: QUERY_BYTES },
            required: false,
            about: "Words from the goal or the notes.",
            placeholder: "<words from the goal or the notes>",
        },
        Parameter {
            name: "runId",
            kind: Kind::Text { max_bytes: ID_BYTES },
            required: false,
            about: "Id of the run (run_…).",
            placeholder: "<run_… of the run>",
        },
        Parameter {
            name: "sessionId",
            kind: Kind::Text { max_bytes: ID_BYTES },
            required: false,
            about: "Id of the session (sess_…).",
            placeholder: "<sess_… of the session>",
        },
        Parameter {
            name: "gitBranch",
            kind: Kind::Text { max_bytes: ID_BYTES },
            required: false,
            about: "Git branch to prefer instead of the workspace's.",
            placeholder: "<name of the branch>",
        },
        Parameter {
            name: "gitHeadSha",
            kind: Kind::Text { max_bytes: 64 },
            required: false,
            about: "Commit to prefer: 40 or 64 hexadecimal digits.",
            placeholder: "<40 or 64 hexadecimal digits>",
        },
        Parameter {
            name: "sameWorkspaceOnly",
            kind: Kind::Flag,
            required: false,
            about: "Leaves out runs of other repositories.",
            placeholder: "<true or false>",
        },
    ],
    aliases: &[],
    rules: &["Make the nextCall of the candidate that you choose. Ask the user if several fit."],
    example: r#"{"workspacePath":"/home/me/project","query":"import hangs"}"#,
    returns: "candidates[] with workflowId, sessionTitle, snippet, confidence, whyMatched and nextCall; \
              totalEligible.",
    output: output::RESUME,
    read_only: true,
    idempotent: true,
};

static MANAGE: Definition = Definition {
    tool: Tool::ManageWorkflowSource,
    title: "Attach or detach a folder of workflows",
    purpose: "Adds a folder to the sources of workflows, or removes it. No file in it is changed.",
    when: &["When the user asks for it. Project workflows need no attaching: workspacePath finds them."],
    parameters: &[
        Parameter {
            name: "action",
            kind: Kind::Choice(ACTIONS),
            required: true,
            about: "attach adds the folder, detach removes it.",
            placeholder: "<action>",
        },
        Parameter {
            name: "path",
            kind: Kind::Path,
            required: true,
            about: "Absolute path of the folder.",
            placeholder: "<absolute path of the folder>",
        },
    ],
    aliases: &[],
    rules: &[],
    example: r#"{"action":"attach","path":"/home/me/team-workflows"}"#,
    returns: "action and path, with the path normalized.",
    output: output::SOURCE,
    read_only: false,
    idempotent: true,
};

fn tag_ids() -> Vec<&'static str> {
    tags().iter().map(|tag| tag.id).collect()
}
