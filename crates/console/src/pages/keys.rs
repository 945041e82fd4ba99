//! The API keys of the tenant. Key secrets are never shown.

use std::sync::Arc;

use canon::time::Timestamp;
use maud::{Markup, html};
use runs::{ApiKey, Refusal};

use crate::call::PageRequest;
use crate::mount::BASE;
use crate::page::{Page, PageResponse};
use crate::parts;

const LIST: &str = "builtin-interlock-keys:routes/list";
const REVOKE: &str = "builtin-interlock-keys:routes/revoke";

const LISTED: usize = 100;

pub(crate) async fn show(call: Arc<PageRequest>) -> Result<PageResponse, Refusal> {
    let mut keys: Vec<ApiKey> = call.runs().keys().all().await?.into_iter().map(|(_, key)| key).collect();
    keys.retain(|key| key.tenant == call.caller.tenant);
    keys.sort_by(|left, right| right.created_at.cmp(&left.created_at).then_with(|| left.id.cmp(&right.id)));
    let body = html! {
        p.muted { "A key is shown once, when it is created; the host stores only its hash. Tenant: " (call.caller.tenant) "." }
        (table(&call, &keys))
        p { "Create a read-only key:" }
        pre { code { "interlock key new --tenant " (call.caller.tenant) " --scope runs:read --scope manifest:read --expires 30d" } }
    };
    Ok(Page::new("Keys", body).into())
}

/// Revokes a key permanently.
pub(crate) async fn revoke(call: Arc<PageRequest>) -> Result<PageResponse, Refusal> {
    let id = call.param("keyId")?;
    call.runs().keys().revoke(&call.caller, id).await?;
    let list = call.link(LIST, &[]).unwrap_or_else(|| BASE.to_owned());
    Ok(PageResponse::See(format!("{list}?done=revoked")))
}

fn table(call: &PageRequest, keys: &[ApiKey]) -> Markup {
    html! {
        div.scroll.cards { table {
            thead { tr { th { "Name" } th { "State" } th { "Scopes" } th { "Created" } th { "Expires" } th { span.hidden { "Actions" } } } }
            tbody { @for key in keys.iter().take(LISTED) {
                tr {
                    th.name scope="row" { (key.id)
                        @if call.caller.principal == key.id.as_str() { " " span.muted { "yours" } }
                        @if key.test { " " span.muted { "for tests" } }
                    }
                    td.state { (parts::status(state(key, call.now))) }
                    td.wide { (key.scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(", ")) }
                    td data-label="Created" { (call.time(Timestamp(key.created_at))) }
                    td data-label="Expires" { @match key.revoked_at.or(key.expires_at) { Some(at) => (call.time(Timestamp(at))), None => span.muted { "never" } } }
                    td { @if state(key, call.now) == "active" && call.caller.principal != key.id.as_str() {
                        (call.post_form(REVOKE, &[("keyId", &key.id)], "", &html! { button.danger type="submit" { "Revoke" } }))
                    } }
                }
            } }
        } }
        @if keys.len() > LISTED { p.muted { (keys.len() - LISTED) " more. " code { "interlock key list" } " shows all keys." } }
    }
}

fn state(key: &ApiKey, now: Timestamp) -> &'static str {
    if key.revoked_at.is_some_and(|at| at <= now.0) {
        "revoked"
    } else if key.expires_at.is_some_and(|at| at <= now.0) {
        "expired"
    } else {
        "active"
    }
}
