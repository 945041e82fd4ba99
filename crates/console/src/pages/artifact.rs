//! An artifact of a run.

use std::sync::Arc;

use flow::id::ArtifactId;
use maud::{Markup, html};
use runs::{ApiCode, Refusal};
use serde_json::Value;

use super::plugin;
use super::run_list::RUN;
use crate::call::PageRequest;
use crate::page::{Page, PageResponse};
use crate::parts;

pub(crate) async fn show(call: Arc<PageRequest>) -> Result<PageResponse, Refusal> {
    let run_id = &call.run_id()?;
    let missing = || Refusal::new(ApiCode::NotFound, "Artifact not found. Name the artifact with `id`.");
    let id = &call.query.text("id").map(ArtifactId::new).ok_or_else(missing)?;
    let bytes = call.runs().artifacts().read(&call.caller, run_id, id).await?;
    if call.query.text("download").is_some() {
        return Ok(PageResponse::File(format!("{id}.json"), bytes.to_vec()));
    }
    let document: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let download = call.query.with("download", Some("1"));
    let body = html! { (body(&document, &download)) (plugin::viewers(&call, run_id, id)) };
    let page =
        Page::new(id.as_str(), body).below(run_id.as_str(), call.link(RUN, &[("runId", run_id.as_str())]));
    Ok(page.into())
}

/// Type and content: text as Markdown, other values as JSON.
fn body(document: &Value, download: &str) -> Markup {
    let text =
        ["content", "markdown", "text"].iter().find_map(|name| Some((*name, document.get(name)?.as_str()?)));
    let kind = ["artifactType", "mediaType", "contentType", "kind"]
        .iter()
        .find_map(|name| document.get(name)?.as_str());
    html! {
        p.actions { a.button href=(download) { "Download" } @if let Some(kind) = kind { span.muted { (kind) } } }
        @if let Some((_, text)) = text { section.panel { div.markdown { (parts::markdown(text)) } } }
        section.panel {
            h2 { "Stored document" }
            @if text.is_some() { (parts::json_beside(document)) } @else { (parts::json_whole(document)) }
        }
    }
}
