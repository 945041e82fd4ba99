//! Shared parts of the pages about guided sessions.

use std::path::Path;
use std::sync::Arc;

use ::guided::{self, DEFAULT_TENANT, Guided, GuidedErrorCode};
use guide::record::{NodeId, NodeKind, RunId, SessionId};
use maud::{Markup, html};
use ports::Cause;
use runs::{ApiCode, Refusal};
use serde::Serialize;
use storage::StoreErrorCode;

use crate::call::PageRequest;
use crate::parts;

pub(super) const SESSIONS: &str = "builtin-interlock-sessions:routes/list";
pub(super) const SESSION: &str = "builtin-interlock-sessions:routes/session";
pub(super) const ANSWER: &str = "builtin-interlock-sessions:routes/answer";
pub(super) const NODE: &str = "builtin-interlock-sessions:routes/node";
pub(super) const PIN: &str = "builtin-interlock-sessions:routes/workflow";

/// The guided sessions of the caller's tenant.
pub(super) async fn of(call: &PageRequest) -> Result<Arc<Guided>, Refusal> {
    call.console.guided.guided(call.caller.tenant.as_str()).await.map_err(refused)
}

/// Runs file access, or long computations, on a separate thread.
pub(super) async fn blocking<T: Send + 'static>(
    what: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let gone = |error| {
        Refusal::new(ApiCode::InternalError, "The page could not be loaded. Reload it.")
            .because(Cause::new(error))
    };
    tokio::task::spawn_blocking(what).await.map_err(gone)?
}

/// Waits for the store of runs inside [`blocking`].
pub(super) fn wait_for<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Handle::current().block_on(future)
}

/// A refusal of the guided service as a page error.
pub(super) fn refused(refusal: guided::Refusal) -> Refusal {
    let envelope = refusal.into_envelope();
    let code = if envelope.has_code(StoreErrorCode::SessionUnknown) {
        ApiCode::NotFound
    } else if envelope.has_code(GuidedErrorCode::QuestionClosed) {
        ApiCode::Conflict
    } else if envelope.has_code(GuidedErrorCode::AnswerInvalid) {
        ApiCode::ValidationError
    } else {
        ApiCode::InternalError
    };
    Refusal::new(code, format!("{} {}", envelope.message(), envelope.suggestion()))
}

/// The session id in the path.
pub(super) fn session_id(call: &PageRequest) -> Result<SessionId, Refusal> {
    SessionId::parse(call.param("sessionId")?).map_err(|_| no_session())
}

/// The run id in the query.
pub(super) fn run_id(call: &PageRequest) -> Result<Option<RunId>, Refusal> {
    let named = call.query.text("run").map(RunId::parse).transpose();
    named.map_err(|_| {
        Refusal::new(ApiCode::NotFound, "Run not found in this session. Omit `run` to see the first run.")
    })
}

pub(super) fn no_session() -> Refusal {
    Refusal::new(
        ApiCode::NotFound,
        "Session not found. It may have been deleted by `session gc`, or belong to another tenant.",
    )
}

/// Whether workflows of a workspace may be read: only below the roots that the operator allows.
/// Without such roots, the tenant of the data directory is the operator, and any workspace is
/// allowed.
pub(super) fn is_open(call: &PageRequest, workspace: &Path) -> bool {
    let roots = &call.console.host.workspace_roots;
    if roots.is_empty() {
        return call.caller.tenant == DEFAULT_TENANT;
    }
    let Ok(real) = workspace.canonicalize() else { return false };
    roots.iter().any(|root| real.starts_with(root))
}

/// The label of a node's kind.
pub(super) const fn kind_word(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::Step => "step",
        NodeKind::Checkpoint => "checkpoint",
        NodeKind::BlockedAttempt => "blocked",
    }
}

/// A link to a node, labelled with the end of its id.
pub(super) fn node_link(call: &PageRequest, session: &SessionId, node: &NodeId) -> Markup {
    let id = node.as_str();
    // Ids are ASCII, so every byte offset is a character boundary.
    let end = id.get(id.len().saturating_sub(6)..).unwrap_or(id);
    call.anchor(NODE, &[("sessionId", session.as_str()), ("nodeId", id)], html! { code.name { (end) } })
}

/// The wire name of an enum member.
pub(super) fn word<T: Serialize>(member: &T) -> String {
    match serde_json::to_value(member) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

/// The warning for a damaged session.
pub(super) fn damage(session: &SessionId, damage: &str) -> Markup {
    html! {
        div.notice.bad role="alert" {
            p { strong { "This session is damaged." } " " (parts::cut(damage, 600)) }
            p { "Only the part that could be validated is shown. The session cannot be continued." }
            p.muted { code { "interlock session verify " (session) } " shows the damage; "
                code { "interlock session export " (session) " --salvage -o part.json" } " saves the valid part." }
        }
    }
}

/// The first non-empty line, truncated.
pub(super) fn first_line(text: &str, characters: usize) -> String {
    let mut lines = text.lines().map(|line| line.trim_start_matches(['#', '-', '*', '>', ' ']).trim());
    parts::cut(lines.find(|line| !line.is_empty()).unwrap_or_default(), characters)
}

/// A shortened digest, with the full value as its title.
pub(super) fn digest(digest: &str) -> Markup {
    let short = digest.strip_prefix("sha256:").unwrap_or(digest);
    html! { code title=(digest) { (parts::cut(short, 12)) } }
}
