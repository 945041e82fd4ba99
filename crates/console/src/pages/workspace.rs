//! One workspace: lease, contents and drift.

use std::sync::Arc;

use canon::time::Timestamp;
use flow::id::RunId;
use guided_node::workspaces::{DriftLook, SlotLook, WorkspaceLook};
use maud::{Markup, html};
use runs::Refusal;
use workspace::apply::{Lease, LeaseState};
use workspace::drift::{Drift, EntryFacts, Report, Verdict};
use workspace::index::LineKind;

use super::guided;
use super::run_list::RUN;
use super::workspaces::{LIST, lease_word, scope, unreadable};
use crate::call::PageRequest;
use crate::page::{Page, PageResponse};
use crate::parts;

pub(crate) async fn show(call: Arc<PageRequest>) -> Result<PageResponse, Refusal> {
    let run_id = call.param("runId")?.to_owned();
    let node_id = call.param("nodeId")?.to_owned();
    let asked = call.query.text("drift").is_some();
    let reading = Arc::clone(&call);
    call.runs().queries().status(&call.caller, &RunId::new(run_id.as_str())).await?;
    let look = guided::blocking(move || {
        let look = reading.console.workspaces.look(&run_id, &node_id, asked, reading.now.0);
        look.map_err(|cause| unreadable(&cause))
    })
    .await?;
    let none = || {
        let message = "Workspace not found. A run gets a workspace when a node that names a manifest starts.";
        Refusal::new(runs::ApiCode::NotFound, message)
    };
    let look = look.ok_or_else(none)?;
    let body = html! {
        (lease(&call, &look))
        (drift(&call, &look.drift))
        (plan(&look))
    };
    let page = Page::new(format!("Workspace of {}", look.line.node_id), body)
        .below("Workspaces", call.link(LIST, &[]))
        .below(look.line.run_id.clone(), call.link(RUN, &[("runId", &look.line.run_id)]));
    Ok(match &look.line.lease {
        Ok(Some((_, state))) => page.beside(parts::status(lease_word(*state))).into(),
        _ => page.into(),
    })
}

fn lease(call: &PageRequest, look: &WorkspaceLook) -> Markup {
    html! {
        section.panel {
            h2 { "Lease" }
            @match &look.line.lease {
                Ok(Some((lease, state))) => (lease_facts(call, lease, *state)),
                Ok(None) => p.muted { "No plan was applied, so the folder has no owner." },
                Err(error) => p.notice.bad { (error) },
            }
            @if super::workflows::may_see_paths(call) { p.muted { "Folder " code { (look.root.display()) } } }
        }
    }
}

fn lease_facts(call: &PageRequest, lease: &Lease, state: LeaseState) -> Markup {
    html! {
        dl.facts {
            dt { "For" } dd { (scope(call, lease)) }
            dt { "Held by" } dd { (lease.holder) ", " (lease_word(state)) }
            dt { "Since" } dd { (call.time(Timestamp(lease.created_at))) ", renewed " (call.time(Timestamp(lease.renewed_at))) ", until " (call.time(Timestamp(lease.expires_at))) }
            dt { "Generation" } dd { (lease.generation) }
            dt { "Plan" } dd { (guided::digest(&lease.plan_digest)) ", request " (guided::digest(&lease.apply_id)) }
            @for pin in &lease.pinned { dt { "Pinned" } dd { (pin.mount_key) " at " code { (pin.revision) } } }
        }
    }
}

fn drift(call: &PageRequest, look: &DriftLook) -> Markup {
    let ask = |label: &str| html! { a.button href=(call.query.with("drift", Some("stat"))) { (label) } };
    html! {
        section.panel {
            h2 { "Drift" }
            @match look {
                DriftLook::NothingApplied => p.muted { "No applied plan to compare with." },
                DriftLook::OnRequest(files) => {
                    p { "The workspace has " (at_least(*files)) " files, so drift is checked on request." } (ask("Check drift"))
                },
                DriftLook::TooMuch(files) => p {
                    "The workspace has " (at_least(*files)) " files, too many to check on this page. "
                    code { "interlock workspace drift --root DIR" } " checks all of them."
                },
                DriftLook::Failed(error) => { p.notice.wait { (error) } (ask("Retry")) },
                DriftLook::Looked(report) => (report_of(report)),
            }
        }
    }
}

fn at_least(files: u64) -> String {
    format!("{files} or more")
}

fn report_of(report: &Report) -> Markup {
    let state = match report.verdict {
        Verdict::Clean => "clean",
        Verdict::Dirty => "dirty",
        Verdict::Critical => "critical",
    };
    let word = match report.verdict {
        Verdict::Clean => "No changes since the plan was applied.",
        Verdict::Dirty => "The agent changed writable files. Read-only files are unchanged.",
        Verdict::Critical => "Protected files differ from the applied plan.",
    };
    let counts = &report.counts;
    html! {
        p { (parts::status(state)) " " (word) }
        p.muted {
            (report.scanned.files) " files and " (report.scanned.dirs) " folders compared by file metadata: "
            (counts.critical) " critical, " (counts.warning) " warnings, " (counts.info) " informational."
            @if report.verdict == Verdict::Critical { " Apply the same plan again to restore the read-only slots." }
        }
        @if !report.drifts.is_empty() {
            div.scroll { table {
                thead { tr { th { "Severity" } th { "Kind" } th { "Path" } th { "Applied" } th { "Found" } } }
                tbody { @for drift in &report.drifts { (drift_row(drift)) } }
            } }
            @if report.truncated { p.muted { "Only the most severe are listed." } }
        }
    }
}

fn drift_row(drift: &Drift) -> Markup {
    html! {
        tr {
            td { (parts::status(drift.severity.as_str())) }
            td { (drift.kind.as_str()) }
            th.wide scope="row" { code { (parts::cut(&drift.path, 200)) } }
            td { (facts(drift.expected.as_ref())) }
            td { (facts(drift.actual.as_ref())) }
        }
    }
}

/// A short description of one side of a comparison.
fn facts(facts: Option<&EntryFacts>) -> String {
    let Some(facts) = facts else { return String::new() };
    let size = facts.size.map(|size| format!("{size} bytes"));
    let target = facts.target.as_ref().map(|target| format!("-> {target}"));
    let what = facts.what.map(str::to_owned);
    let hash = facts.blake3.as_ref().map(|hash| parts::cut(hash, 12));
    let parts = [what, facts.mode.clone(), size, hash, target, facts.error.clone()];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn plan(look: &WorkspaceLook) -> Markup {
    html! {
        section.panel {
            h2 { "Plan" }
            p.muted { "Files that the plan created. Other files in the folder were written by the agent." }
            @if let Some(error) = &look.index_problem { p.notice.bad { (error) } }
            @if look.slots.is_empty() { p.muted { "Nothing." } }
            @for slot in &look.slots { (slot_of(slot)) }
            @if look.unshown > 0 { p.muted { (look.unshown) " more paths are not shown." } }
        }
    }
}

fn slot_of(slot: &SlotLook) -> Markup {
    html! {
        h3 { code { (slot.path) } " " span.muted { (slot.mode.as_str()) ", " (slot.files) " files, " (slot.bytes) " bytes" } }
        @if !slot.lines.is_empty() {
            div.scroll { table.tree {
                tbody { @for line in &slot.lines {
                    tr {
                        th scope="row" class={ "depth-" (line.depth.min(8)) } {
                            code { (parts::cut(&line.name, 100)) @match line.kind { LineKind::Dir => "/", LineKind::Link => " ->", LineKind::File => "" } }
                        }
                        td.number { @if line.kind == LineKind::File { (line.size) " bytes" } }
                        td.wide { @if let Some(mount) = &line.mount_key { span.muted { (mount) } } }
                    }
                } }
            } }
        }
    }
}
