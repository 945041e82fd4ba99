//! The workspaces that runs prepared for agents.

use std::sync::Arc;

use canon::time::Timestamp;
use flow::id::RunId;
use guided_node::workspaces::{WorkspaceLine, WorkspaceList};
use maud::{Markup, html};
use runs::{ApiCode, Refusal};
use workspace::apply::{Lease, LeaseScope, LeaseState};

use super::guided::{self, SESSION};
use super::run_list::RUN;
use crate::call::PageRequest;
use crate::page::{Page, PageResponse};
use crate::parts;

pub(super) const LIST: &str = "builtin-interlock-workspaces:routes/list";
pub(super) const WORKSPACE: &str = "builtin-interlock-workspaces:routes/workspace";

const PAGE: usize = 30;

pub(crate) async fn show(call: Arc<PageRequest>) -> Result<PageResponse, Refusal> {
    let first = call.query.number("from").and_then(|from| usize::try_from(from).ok()).unwrap_or_default();
    let reading = Arc::clone(&call);
    let list = guided::blocking(move || {
        // A workspace is visible only to callers who may see its run.
        let is_visible = |run: &str| {
            guided::wait_for(reading.runs().queries().status(&reading.caller, &RunId::new(run))).is_ok()
        };
        let list = reading.console.workspaces.list(&is_visible, (first, PAGE), reading.now.0);
        list.map_err(|cause| unreadable(&cause))
    })
    .await?;
    let body = html! {
        @if list.workspaces.is_empty() && list.first == 0 { (nothing()) } @else { (table(&call, &list)) }
        @if list.is_cut { p.muted { "Too many folders for one page. Check a folder with " code { "interlock workspace drift --root DIR" } "." } }
        (parts::more(list.has_more.then(|| call.query.with("from", Some(&(first + PAGE).to_string()))).as_deref(), "Older workspaces"))
    };
    Ok(Page::new("Workspaces", body).into())
}

pub(super) fn unreadable(cause: &std::io::Error) -> Refusal {
    let message = format!(
        "The workspaces folder cannot be read: {cause}. Check that the host has read access to its data directory."
    );
    Refusal::new(ApiCode::InternalError, message)
}

fn nothing() -> Markup {
    let help = html! {
        p { "A workspace is a folder with exactly what was declared for an agent: instructions, skills, inputs and repositories. "
            "A run creates one when it reaches a node of type " code { "interlock.guided" } " that names a workspace manifest. To create one manually:" }
        pre { code { "interlock workspace plan --manifest FILE --library DIR --context FILE -o FILE\ninterlock workspace apply --root DIR --plan FILE --library DIR" } }
    };
    parts::empty("No workspaces yet.", &help)
}

fn table(call: &PageRequest, list: &WorkspaceList) -> Markup {
    html! {
        div.scroll { table {
            thead { tr { th { "Run" } th { "Node" } th { "Lease" } th { "For" } th.number { "Files" } th { "Renewed" } } }
            tbody { @for line in &list.workspaces { (row(call, line)) } }
        } }
    }
}

fn row(call: &PageRequest, line: &WorkspaceLine) -> Markup {
    let params = [("runId", line.run_id.as_str()), ("nodeId", line.node_id.as_str())];
    html! {
        tr {
            th scope="row" { (call.anchor(RUN, &[("runId", &line.run_id)], parts::cut(&line.run_id, 24))) }
            td { (call.anchor(WORKSPACE, &params, &line.node_id)) }
            @match &line.lease {
                Ok(Some((lease, state))) => {
                    td { (parts::status(lease_word(*state))) }
                    td { (scope(call, lease)) }
                    td.number { (lease.slots.iter().map(|slot| slot.files).sum::<u64>()) }
                    td { (call.time(Timestamp(lease.renewed_at))) }
                },
                Ok(None) => td colspan="4" { span.muted { "No plan applied." } },
                Err(error) => td colspan="4" { (parts::status("error")) " " (error) },
            }
        }
    }
}

/// The label of a lease state.
pub(super) const fn lease_word(state: LeaseState) -> &'static str {
    match state {
        LeaseState::Pending => "pending",
        LeaseState::Active => "active",
        LeaseState::Released => "released",
        LeaseState::Expired => "expired",
        LeaseState::Superseded => "superseded",
        LeaseState::Failed => "failed",
    }
}

/// The run or session that a workspace is for.
pub(super) fn scope(call: &PageRequest, lease: &Lease) -> Markup {
    html! {
        @match &lease.scope {
            LeaseScope::Run { job_run_id, .. } => { "job " code { (parts::cut(job_run_id, 24)) } " of the run" },
            LeaseScope::Session { session_id, turn_gen } => {
                "session " (call.anchor(SESSION, &[("sessionId", session_id)], parts::cut(session_id, 24))) ", turn " (turn_gen)
            },
            LeaseScope::Plan { apply_id } => { "plan " (guided::digest(apply_id)) },
        }
    }
}
