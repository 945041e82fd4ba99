//! `GET /runs/{runId}/effects`: what a run did outside of itself, one row for each attempt.
//!
//! A row has no request, result or credential: it names the effect, the node, the attempt and the idempotency key that the other side
//! got. The document of the protocol has no cursor: if the reply does not have all rows, a `Link` header has the address of the next page.

use canon::time::Timestamp;
use flow::id::EffectId;
use http::HeaderValue;
use http::header::LINK;
use openwop::id;
use ports::runs::{AttemptPosition, AttemptState, StoredAttempt};
use runs::queries::attempts::MAX_ATTEMPTS_LISTED;
use runs::{ApiCode, Refusal};
use serde_json::{Value, json};

use super::super::exchange::CheckedRequest;
use super::super::response;
use super::super::route::HandlerResult;

/// How effects get their ids: from the tenant, the run, the node and the number of the effect. No node names a business key.
const KEYING: &str = "activity-recipe";

/// The maximum number of rows in a reply to a caller that sets no limit.
const MAX_ROWS: usize = 10 * MAX_ATTEMPTS_LISTED;

/// `GET /runs/{runId}/effects`
pub(super) async fn answer(call: CheckedRequest) -> HandlerResult {
    let most = u64::try_from(MAX_ATTEMPTS_LISTED).unwrap_or(u64::MAX);
    let limit = call.query.number("limit", 1..=most)?;
    let limit = limit.map(|limit| usize::try_from(limit).unwrap_or(MAX_ATTEMPTS_LISTED));
    let mut after = call.query.text("cursor").map(position).transpose()?;
    let (run_id, tenant) = (call.run_id(), call.caller.tenant.as_str());
    let wanted = limit.unwrap_or(MAX_ROWS);
    let mut rows = Vec::new();
    let may_have_more = loop {
        let size = MAX_ATTEMPTS_LISTED.min(wanted - rows.len());
        let page = call.state.runs.queries().attempts(&call.caller, &run_id, after.as_ref(), size).await?;
        let is_full = page.len() == size;
        rows.extend(page.iter().map(|attempt| row(tenant, attempt)));
        after = page.into_iter().last().map(|last| last.position);
        if !is_full || rows.len() == wanted {
            break is_full;
        }
    };
    let bound = id::bind(tenant, run_id.as_str());
    let mut reply = response::json(200, &json!({"runId": bound, "effects": rows}));
    if let (true, Some(after)) = (may_have_more, after) {
        let (path, cursor) = (id::projected(&bound), cursor(&after));
        let limit = limit.map(|limit| format!("limit={limit}&")).unwrap_or_default();
        let next = format!("</runs/{path}/effects?{limit}cursor={cursor}>; rel=\"next\"");
        reply.headers_mut().extend(HeaderValue::from_str(&next).ok().map(|next| (LINK, next)));
    }
    Ok(reply)
}

fn row(tenant: &str, attempt: &StoredAttempt) -> Value {
    let state = match attempt.state {
        AttemptState::Claimed => "claimed",
        AttemptState::Completed => "completed",
        AttemptState::Released => "released",
    };
    let mut row = json!({
        "effectId": id::bind(tenant, attempt.position.id.as_str()),
        "nodeId": attempt.reached.node_id,
        "attempt": attempt.position.attempt,
        "keying": KEYING,
        "state": state,
        "at": attempt.position.at.to_rfc3339(),
    });
    if let Some(key) = &attempt.reached.provider_key {
        row["providerKey"] = key.as_str().into();
    }
    row
}

fn cursor(position: &AttemptPosition) -> String {
    format!("{}.{}.{}", position.at.0, position.attempt, position.id)
}

fn position(text: &str) -> Result<AttemptPosition, Refusal> {
    let read = || {
        let (at, rest) = text.split_once('.')?;
        let (attempt, id) = rest.split_once('.')?;
        Some(AttemptPosition {
            at: Timestamp(at.parse().ok()?),
            id: EffectId::new(id),
            attempt: attempt.parse().ok()?,
        })
    };
    read().ok_or_else(|| {
        let message = "The cursor is invalid. Take it from the `Link` header of the previous page.";
        Refusal::new(ApiCode::ValidationError, message).detail("field", "cursor")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written() {
        for id in ["x", "abc.def.0", "-_~"] {
            let written =
                AttemptPosition { at: Timestamp(1_793_000_000_123), id: EffectId::new(id), attempt: 2 };
            assert_eq!(position(&cursor(&written)), Ok(written));
        }
        for text in ["", "1", "1.2", "a.1.x", "1.a.x", "-1.1.x", "18446744073709551616.1.x"] {
            assert!(position(text).is_err(), "{text}");
        }
    }
}
