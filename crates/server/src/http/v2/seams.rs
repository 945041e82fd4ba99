//! `GET /host/effect-seams`: where this host has effects outside of itself. A replay suppresses all of them.

use serde_json::{Value, json};

use super::super::exchange::CheckedRequest;
use super::super::response;
use super::super::route::HandlerResult;

/// The seams: name, kind, what guards it, and what it is.
const SEAMS: [(&str, &str, &str, &str); 6] = [
    ("interlock.http", "http", "effect-ledger", "HTTP requests of nodes."),
    ("interlock.mcp", "http", "effect-ledger", "Calls of tools on MCP servers."),
    ("interlock.models", "provider-sdk", "effect-ledger", "Calls of model providers."),
    (
        "interlock.storage",
        "storage",
        "effect-ledger",
        "Calls of storage surfaces: files, keys, tables, blobs, caches, SQL, vectors, search.",
    ),
    ("interlock.queue", "queue", "effect-ledger", "Messages that are published to queues and streams."),
    (
        "interlock.webhooks",
        "webhook-fanout",
        "fork-suppression",
        "Deliveries to webhooks. Forks in mode `replay` deliver nothing.",
    ),
];

/// `GET /host/effect-seams`
pub(super) async fn answer(_: CheckedRequest) -> HandlerResult {
    Ok(response::json(200, &document(build())))
}

/// The commit of this program if the build names it, else its version.
fn build() -> &'static str {
    option_env!("INTERLOCK_COMMIT").unwrap_or(env!("CARGO_PKG_VERSION"))
}

fn document(build: &str) -> Value {
    let seams: Vec<Value> = SEAMS
        .iter()
        .map(|(seam, kind, guard, note)| json!({"seam": seam, "kind": kind, "guarded": true, "guardedBy": guard, "note": note}))
        .collect();
    json!({
        "manifestVersion": "1",
        "host": {"name": "interlock", "build": {"kind": "commit", "id": build}},
        "seams": seams,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v2_effect_seam_manifest() {
        let document = document("0");
        for seam in document["seams"].as_array().unwrap() {
            let name = seam["seam"].as_str().unwrap();
            let is_word = |word: &str| {
                word.starts_with(|found: char| found.is_ascii_lowercase())
                    && word
                        .bytes()
                        .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
            };
            assert!(name.contains('.') && name.split('.').all(is_word), "{name}");
            assert!(
                ["http", "queue", "storage", "provider-sdk", "webhook-fanout"]
                    .contains(&seam["kind"].as_str().unwrap())
            );
            assert_eq!(seam["guarded"], true);
        }
    }
}
