//! What the pages about guided sessions share.

use std::path::Path;
use std::sync::Arc;

use flow::store::Cause;
use guide::record::{NodeId, NodeKind, RunId, SessionId};
use host::guided::{self, DEFAULT_TENANT, Guided};
use host::runs::{ApiCode, Refusal};
use maud::{Markup, html};
use serde::Serialize;
use storage::StoreErrorCode;

use crate::call::Call;
use crate::parts;

/// The page of all sessions.
pub(super) const SESSIONS: &str = "builtin-interlock-sessions:routes/list";
/// The page of one session.
pub(super) const SESSION: &str = "builtin-interlock-sessions:routes/session";
/// The page of one node.
pub(super) const NODE: &str = "builtin-interlock-sessions:routes/node";
/// The page of what a run is pinned to.
pub(super) const PIN: &str = "builtin-interlock-sessions:routes/workflow";

/// Reads something of the caller's tenant, on a thread that may wait for a disk.
pub(super) async fn read<T: Send + 'static>(
    call: &Arc<Call>,
    what: impl FnOnce(&Call, &Guided) -> Result<T, guided::Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let call = Arc::clone(call);
    blocking(move || {
        let guided = call.console.guided.guided(call.caller.tenant.as_str()).map_err(refused)?;
        what(&call, &guided).map_err(refused)
    })
    .await
}

/// Does something that waits for a disk, on a thread of its own.
pub(super) async fn blocking<T: Send + 'static>(
    what: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let gone = |error| {
        Refusal::new(ApiCode::InternalError, "the page could not be read; load it again")
            .because(Cause::new(error))
    };
    tokio::task::spawn_blocking(what).await.map_err(gone)?
}

/// What the guided service refused, as a page says it.
fn refused(refusal: guided::Refusal) -> Refusal {
    let envelope = refusal.into_envelope();
    let code = if envelope.has_code(StoreErrorCode::SessionUnknown) {
        ApiCode::NotFound
    } else {
        ApiCode::InternalError
    };
    Refusal::new(code, format!("{} {}", envelope.message(), envelope.suggestion()))
}

/// The session that the path names.
pub(super) fn session_id(call: &Call) -> Result<SessionId, Refusal> {
    SessionId::parse(call.param("sessionId")?).map_err(|_| no_session())
}

/// The run that the query names.
pub(super) fn run_id(call: &Call) -> Result<Option<RunId>, Refusal> {
    let named = call.query.text("run").map(RunId::parse).transpose();
    named.map_err(|_| {
        Refusal::new(ApiCode::NotFound, "the session has no such run; leave `run` out for its first")
    })
}

pub(super) fn no_session() -> Refusal {
    Refusal::new(
        ApiCode::NotFound,
        "there is no such session; it may have been collected, or belong to another tenant",
    )
}

/// Whether workflows of a workspace may be read: only where the operator says that workspaces are. Where nothing is said, the
/// tenant of the data directory itself is the operator, and its workspaces are anywhere.
pub(super) fn is_open(call: &Call, workspace: &Path) -> bool {
    let roots = &call.console.facts.workspace_roots;
    if roots.is_empty() {
        return call.caller.tenant == DEFAULT_TENANT;
    }
    let Ok(real) = workspace.canonicalize() else { return false };
    roots.iter().any(|root| real.starts_with(root))
}

/// A node, as the kind that it is.
pub(super) const fn kind_word(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::Step => "step",
        NodeKind::Checkpoint => "checkpoint",
        NodeKind::BlockedAttempt => "blocked",
    }
}

/// A link to a node, called by the end of its id.
pub(super) fn node_link(call: &Call, session: &SessionId, node: &NodeId) -> Markup {
    let id = node.as_str();
    // Ids are ASCII, so any byte is a boundary.
    let end = id.get(id.len().saturating_sub(6)..).unwrap_or(id);
    call.anchor(NODE, &[("sessionId", session.as_str()), ("nodeId", id)], html! { code.name { (end) } })
}

/// The spelling that a member of a closed set has on the wire.
pub(super) fn word<T: Serialize>(member: &T) -> String {
    match serde_json::to_value(member) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

/// What is said of a session that is not healthy.
pub(super) fn damage(session: &SessionId, damage: &str) -> Markup {
    html! {
        div.notice.bad role="alert" {
            p { strong { "This session is damaged." } " " (parts::cut(damage, 600)) }
            p { "Shown is the part that could be validated. It can be looked at, and not gone on with." }
            p.muted { code { "interlock session verify " (session) } " says what is wrong; "
                code { "interlock session export " (session) " --salvage -o part.json" } " keeps the sound part." }
        }
    }
}

/// A text on one line, short: the first line of it that says something.
pub(super) fn first_line(text: &str, characters: usize) -> String {
    let mut lines = text.lines().map(|line| line.trim_start_matches(['#', '-', '*', '>', ' ']).trim());
    parts::cut(lines.find(|line| !line.is_empty()).unwrap_or_default(), characters)
}

/// A digest, short, with all of it on hover.
pub(super) fn digest(digest: &str) -> Markup {
    let short = digest.strip_prefix("sha256:").unwrap_or(digest);
    html! { code title=(digest) { (parts::cut(short, 12)) } }
}
