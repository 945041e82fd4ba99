//! The definitions, in words that an agent understands on first sight.

use guide::placeholder;
use guide::record::budgets;
use guide::workflow::registry::tags;

use super::parameter::{Kind, Parameter, TOKEN_BYTES};
use super::{Alias, Definition, Tool, output};

/// The definition of a tool.
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

/// The longest goal and the longest query, in bytes.
const GOAL_BYTES: usize = 4096;
const QUERY_BYTES: usize = 256;
/// The longest id, in bytes.
const ID_BYTES: usize = 256;

const WORKSPACE: Parameter = Parameter {
    name: "workspacePath",
    kind: Kind::Path,
    required: false,
    about: "Absolute path of the folder you are working in. Workflows of that project are found only with it. \
            Leave it out only when there is no such folder.",
    placeholder: "<absolute path of the folder you are working in>",
};

const WORKFLOW_ID: Parameter = Parameter {
    name: "workflowId",
    kind: Kind::Text { max_bytes: ID_BYTES },
    required: true,
    about: "Id of a workflow, exactly as list_workflows gives it.",
    placeholder: "<workflowId from list_workflows>",
};

const PREFERENCES: Parameter = Parameter {
    name: "preferences",
    kind: Kind::Group(&[
        Parameter {
            name: "autonomy",
            kind: Kind::Choice(&["guided", "full_auto_stop_on_user_deps", "full_auto_never_stop"]),
            required: false,
            about: "guided: a person follows along, and every confirmation is waited for. full_auto_stop_on_user_deps: \
                    only what the user alone can give is waited for. full_auto_never_stop: never stop; what is missing is \
                    recorded as a gap.",
            placeholder: "<autonomy>",
        },
        Parameter {
            name: "riskPolicy",
            kind: Kind::Choice(&["conservative", "balanced", "aggressive"]),
            required: false,
            about: "conservative: stop when in doubt. balanced: an unknown capability is a warning. aggressive: a \
                    missing one is a warning too.",
            placeholder: "<riskPolicy>",
        },
    ]),
    required: false,
    about: "How autonomous the run is from here on. Send it only when the user asks for a change, and only the member \
            that changes: the other stays as it is. A run begins guided and conservative.",
    placeholder: "<an object with autonomy, riskPolicy or both>",
};

const NOTES: Parameter = Parameter {
    name: "notesMarkdown",
    // The engine has the last word on how long notes are, and cuts or refuses with its reasons.
    kind: Kind::Text { max_bytes: 1 << 20 },
    required: false,
    about: "What you did, found and decided in this step, in Markdown. Most steps ask for it. Write it for somebody \
            who has nothing but these notes.",
    placeholder: placeholder::NOTES,
};

static LIST: Definition = Definition {
    tool: Tool::ListWorkflows,
    title: "List workflows",
    purpose: "Lists the workflows that can be started: step-by-step procedures for tasks such as investigating a bug \
              or reviewing a change.",
    when: &[
        "At the beginning of a task that may have a workflow: call it before you work out your own procedure.",
        "To look up the id that start_workflow needs.",
    ],
    parameters: &[
        WORKSPACE,
        Parameter {
            name: "tags",
            kind: Kind::Names(tag_ids),
            required: false,
            about: "Gives every workflow that carries any of these tags, in full.",
            placeholder: "<a list of tags>",
        },
        Parameter {
            name: "includeSources",
            kind: Kind::Flag,
            required: false,
            about: "Adds where workflows come from, and which source won.",
            placeholder: "<true or false>",
        },
    ],
    aliases: &[],
    rules: &[
        "Without tags you get a digest by tag of the workflows that come with the program, and every workflow of the \
         user, the project and configured folders in full. Call again with the tag that fits.",
        "A workflow file that is broken is listed under validationWarnings with its reasons, and cannot be started.",
    ],
    example: r#"{"workspacePath":"/home/me/project","tags":["investigation"]}"#,
    returns: "workflows[] with workflowId, name, description, version, workflowHash, tags and source; without tags \
              also tagSummary[].",
    output: output::listing,
    read_only: true,
    idempotent: true,
};

static INSPECT: Definition = Definition {
    tool: Tool::InspectWorkflow,
    title: "Inspect a workflow",
    purpose: "Shows one workflow before it is started: what it is for, and every step of it.",
    when: &[
        "To choose between workflows that both seem to fit.",
        "When the user asks what a workflow would do. Not needed before start_workflow.",
    ],
    parameters: &[
        WORKFLOW_ID,
        WORKSPACE,
        Parameter {
            name: "mode",
            kind: Kind::Choice(INSPECT_MODES),
            required: false,
            about: "metadata: name, description and version. preview (the default): the whole compiled workflow.",
            placeholder: "<mode>",
        },
    ],
    aliases: &[],
    rules: &[
        "Do not carry out the steps from a preview: start the workflow, and take the steps one at a time. Only a run \
         records what was done.",
    ],
    example: r#"{"workflowId":"wr.bug_investigation","workspacePath":"/home/me/project","mode":"preview"}"#,
    returns: "workflowId, workflowHash (what a run started now would be pinned to), source, and compiled.",
    output: output::inspection,
    read_only: true,
    idempotent: true,
};

static START: Definition = Definition {
    tool: Tool::StartWorkflow,
    title: "Start a workflow",
    purpose: "Begins a run of a workflow and gives its first step. The run is durable: it outlives this conversation.",
    when: &[
        "Once you know which workflow fits the task. Call it once for each task.",
        "Not to go on with a run that exists: use continue_workflow, or resume_session when you have no token.",
    ],
    parameters: &[
        WORKFLOW_ID,
        Parameter {
            name: "goal",
            kind: Kind::Text { max_bytes: GOAL_BYTES },
            required: true,
            about: "What the user wants, in a sentence. Names the run in every later reply.",
            placeholder: "<what the user wants, in a sentence>",
        },
        WORKSPACE,
        Parameter {
            name: "context",
            kind: Kind::Object,
            required: false,
            about: "Inputs that the workflow asks for, by name. At most 256 KiB of JSON.",
            placeholder: "<an object with the facts to set, by name>",
        },
        PREFERENCES,
        Parameter {
            name: "parentSessionId",
            kind: Kind::Text { max_bytes: ID_BYTES },
            required: false,
            about: "Session (sess_…) that handed this task to you, when another run delegated it.",
            placeholder: "<sess_… of the session that delegated this task>",
        },
    ],
    aliases: &[Alias { name: "contextVariables", path: &["context"] }],
    rules: &[
        "Calling it twice begins two runs.",
        "Do what the first step says, then call continue_workflow with the continueToken of the reply.",
        "Keep the tokens of two runs apart: every reply names its run in its first line.",
    ],
    example: r#"{"workflowId":"wr.bug_investigation","goal":"find out why the import hangs on empty files","workspacePath":"/home/me/project"}"#,
    returns: "The pending step (title, prompt), the continueToken for the next call, a checkpointToken, and nextCall: \
              the exact call to make when the step is done.",
    output: output::reply,
    read_only: false,
    idempotent: false,
};

static CONTINUE: Definition = Definition {
    tool: Tool::ContinueWorkflow,
    title: "Continue a workflow",
    purpose: "Acknowledges the pending step of a run and gives the next one (intent advance), or tells again where the \
              run is and changes nothing (intent rehydrate).",
    when: &[
        "advance: when the pending step is done, with what came of it in output.",
        "advance again: when the reply was blocked and you have fixed what it names.",
        "rehydrate: when you lost the thread, for example after resume_session or in a new conversation.",
    ],
    parameters: &[
        Parameter {
            name: "continueToken",
            kind: Kind::Text { max_bytes: TOKEN_BYTES },
            required: false,
            about: "Token of the latest reply about this run (ct_…), or a resume token. Copy it exactly.",
            placeholder: "<continueToken of the latest reply about this run>",
        },
        Parameter {
            name: "intent",
            kind: Kind::Choice(INTENTS),
            required: false,
            about: "advance or rehydrate. May be left out only when output is given, which means advance.",
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
                    about: "Structured results, each an object with a kind, when the step asks for them. Three kinds go with any \
                            step. wr.user_answer {dependencyId, answeredBy: user, outcome: given or refused, answer}: what \
                            the user answered to a USER NEEDED. wr.gap_resolution {gapId, summary, answeredBy?}: closes one \
                            of openGaps. wr.notes_correction {notesMarkdown}: stands for the notes of the step before, \
                            where they were wrong.",
                    placeholder: "<a list of objects, each with a kind>",
                },
            ]),
            required: false,
            about: "What came of the step. Only with advance.",
            placeholder: "<an object with notesMarkdown, artifacts or both>",
        },
        Parameter {
            name: "context",
            kind: Kind::Object,
            required: false,
            about: "Facts that changed, by name; null deletes one. Send only what changed. Only with advance.",
            placeholder: "<an object with the facts to set, by name>",
        },
        PREFERENCES,
        Parameter {
            name: "stateToken",
            kind: Kind::Text { max_bytes: TOKEN_BYTES },
            required: false,
            about: "Instead of continueToken: the long token of a node (st.v1.…). Alone it rehydrates.",
            placeholder: "<stateToken of the latest reply about this run>",
        },
        Parameter {
            name: "ackToken",
            kind: Kind::Text { max_bytes: TOKEN_BYTES },
            required: false,
            about: "With stateToken, from the same reply: acknowledges the pending step (ack.v1.…).",
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
        "Take the step before you advance. A step is judged by what you send, not by saying that it is done.",
        "USER NEEDED in a step means: ask the user, wait, and send the answer as an artifact. Never answer for the user: \
         who answered is recorded. Without an answer the step is blocked with USER_ONLY_DEPENDENCY.",
        "Send either continueToken, or stateToken with its ackToken; never tokens of two replies.",
        "The same call made twice has the effect of one and gets the same answer, so retry freely when a reply is lost.",
        "A token of an earlier step goes back there: advancing it makes a new branch.",
        "When the reply has isComplete true the run is over. Do not call again.",
    ],
    example: r#"{"continueToken":"ct_0123456789abcdefghijklmn","intent":"advance","output":{"notesMarkdown":"Reproduced with an empty file: the reader never returns."}}"#,
    returns: "kind ok with the next pending step and fresh tokens, or kind blocked with blockers[] that say what is \
              missing and how to mend it; nextCall is the exact call to make next.",
    output: output::reply,
    read_only: false,
    idempotent: true,
};

static CHECKPOINT: Definition = Definition {
    tool: Tool::CheckpointWorkflow,
    title: "Bookmark a place",
    purpose: "Bookmarks the present place of a run, without advancing it, so that any later conversation can come back.",
    when: &[
        "Before the conversation ends or its memory runs out in the middle of a step.",
        "Before something risky that you may want to come back from.",
    ],
    parameters: &[
        Parameter {
            name: "checkpointToken",
            kind: Kind::Text { max_bytes: TOKEN_BYTES },
            required: true,
            about: "checkpointToken of the latest reply about this run (chk.v1.…). Copy it exactly.",
            placeholder: "<checkpointToken of the latest reply about this run>",
        },
        Parameter {
            name: "output",
            kind: Kind::Group(&[NOTES]),
            required: false,
            about: "What to remember about this place.",
            placeholder: "<an object with notesMarkdown>",
        },
    ],
    aliases: &[Alias { name: "notes", path: &["output", "notesMarkdown"] }],
    rules: &["The step stays pending. Go on with nextCall, or later with the resumeToken."],
    example: r#"{"checkpointToken":"chk.v1.…","output":{"notesMarkdown":"Half way: the reader is understood, the fix is not written."}}"#,
    returns: "resumeToken, to send to continue_workflow with intent rehydrate from any conversation, and nextCall to \
              carry on now.",
    output: output::checkpoint,
    read_only: false,
    idempotent: true,
};

static RESUME: Definition = Definition {
    tool: Tool::ResumeSession,
    title: "Find a run again",
    purpose: "Finds runs that were begun earlier, best match first, and gives the exact call that returns to each.",
    when: &[
        "When the user wants to go on with something and you have no token for it.",
        "At the beginning of a conversation about work that may have been begun before.",
    ],
    parameters: &[
        WORKSPACE,
        Parameter {
            name: "query",
            kind: Kind::Text { max_bytes: QUERY_BYTES },
            required: false,
            about: "Words of the goal or of the notes.",
            placeholder: "<words of the goal or of the notes>",
        },
        Parameter {
            name: "runId",
            kind: Kind::Text { max_bytes: ID_BYTES },
            required: false,
            about: "Exact run (run_…).",
            placeholder: "<run_… of the run>",
        },
        Parameter {
            name: "sessionId",
            kind: Kind::Text { max_bytes: ID_BYTES },
            required: false,
            about: "Exact session (sess_…).",
            placeholder: "<sess_… of the session>",
        },
        Parameter {
            name: "gitBranch",
            kind: Kind::Text { max_bytes: ID_BYTES },
            required: false,
            about: "Branch to prefer, instead of the one that the workspace is on.",
            placeholder: "<name of the branch>",
        },
        Parameter {
            name: "gitHeadSha",
            kind: Kind::Text { max_bytes: 64 },
            required: false,
            about: "Commit to prefer, instead of the workspace's: 40 or 64 hexadecimal digits.",
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
    rules: &[
        "Nothing is changed. Make the nextCall of the candidate you choose; ask the user when several fit.",
    ],
    example: r#"{"workspacePath":"/home/me/project","query":"import hangs"}"#,
    returns: "candidates[] with workflowId, sessionTitle, snippet, confidence, whyMatched and nextCall; totalEligible.",
    output: output::resume,
    read_only: true,
    idempotent: true,
};

static MANAGE: Definition = Definition {
    tool: Tool::ManageWorkflowSource,
    title: "Attach or detach a folder of workflows",
    purpose: "Adds a folder to the places where workflows are looked for, or takes it away. No file in it is touched.",
    when: &["When the user asks for a folder of workflows to be used, or no longer to be used."],
    parameters: &[
        Parameter {
            name: "action",
            kind: Kind::Choice(ACTIONS),
            required: true,
            about: "attach adds the folder, detach takes it away.",
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
    rules: &[
        "The folder of the project you work in needs no attaching: its workflows are found by workspacePath.",
    ],
    example: r#"{"action":"attach","path":"/home/me/team-workflows"}"#,
    returns: "action and path, the path as it was understood.",
    output: output::source,
    read_only: false,
    idempotent: true,
};

fn tag_ids() -> Vec<&'static str> {
    tags().iter().map(|tag| tag.id).collect()
}
