//! `GET /.well-known/openwop` in version 2: a closed document of families, each with its maturity and with how it can be verified.
//!
//! A family is computed from what version 1 advertises, without the members that version 2 does not have. A family for which the
//! protocol defines no verification is not advertised.

use axum::body::Body;
use axum::response::Response;
use canon::digest::Digest;
use http::header::{CACHE_CONTROL, ETAG, VARY};
use http::{HeaderValue, StatusCode};
use openwop::Major;
use runs::webhooks::dead_letters::MAX_DEAD_LETTERS;
use serde_json::{Map, Value, json};

use super::super::exchange::CheckedRequest;
use super::super::route::HandlerResult;
use super::super::state::Service;
use super::super::{discovery, encoding, response};
use super::operations::{DEAD_LETTER_DAYS, host_id};

/// How a family can be verified.
const GATED: &str = "witnessable-gated";
const CLAIMED: &str = "claims-check";
const SEAM: &str = "seam-gated";

/// The families that are taken from version 1: the name, how it is verified, and the members that version 2 has.
const TAKEN: [(&str, &str, &[&str]); 22] = [
    ("feedback", GATED, &["signals", "targets"]),
    ("agents", GATED, &["orchestrator", "dispatch", "dispatchMapping", "reasoning", "manifestRuntime"]),
    ("subWorkflow", CLAIMED, &["inputMapping"]),
    ("fs", GATED, &["sandboxRoot", "maxFileSizeBytes"]),
    (
        "kvStorage",
        GATED,
        &["atomicIncrement", "compareAndSwap", "maxKeyBytes", "maxTtlSeconds", "maxValueBytes"],
    ),
    ("tableStorage", GATED, &["maxRowsPerTable", "maxColumnsPerRow"]),
    ("queueBus", GATED, &["backends", "deadLetterSupported", "stream"]),
    ("sql", GATED, &["datasources", "drivers", "transactions"]),
    ("vectorStore", GATED, &["collections", "backends"]),
    ("searchIndex", GATED, &["indexes", "backends"]),
    ("blobStorage", GATED, &["buckets", "maxObjectBytes", "presignSupported"]),
    ("cache", GATED, &["maxTtlSeconds", "maxValueBytes"]),
    ("toolCatalog", GATED, &["sources", "compactView"]),
    ("nodePackRuntimes", CLAIMED, &["wasm"]),
    ("sandbox", GATED, &["allowedHostCalls", "isolationModel", "memoryLimitBytes", "wallClockLimitMs"]),
    ("uiPlugins", GATED, &["isolation", "surfaces", "hostApi", "maxEntryBytes"]),
    ("workflowChainPacks", GATED, &["subChains"]),
    ("webhooks", GATED, &["signatureAlgorithms", "secretRotation"]),
    ("replay", GATED, &["modes"]),
    ("auditLogIntegrity", GATED, AUDIT),
    ("conversationPrimitive", CLAIMED, &[]),
    ("limits", GATED, LIMITS),
];

const AUDIT: &[&str] = &[
    "checkpointSignatureAlgorithm",
    "checkpointPublicKey",
    "checkpointIntervalEntries",
    "checkpointIntervalSeconds",
];
const LIMITS: &[&str] = &[
    "clarificationRounds",
    "envelopesPerTurn",
    "maxLoopIterations",
    "maxNodeExecutions",
    "maxRequestBodyBytes",
    "maxRunDurationMs",
    "schemaRounds",
];

/// The only family of this host that the protocol declares stable.
const STABLE: &str = "limits";
/// Experimental families are promised until the next major version.
const UNTIL: &str = "3.0";

/// `GET /.well-known/openwop` with `OpenWOP-Version: 2`
pub(super) async fn answer(call: CheckedRequest) -> HandlerResult {
    let document = document(&call.state).to_string();
    let tag = format!("\"v2-{}\"", &Digest::of_bytes(document.as_bytes()).to_hex()[..32]);
    let mut response = match encoding::matches(&call.headers, &tag) {
        Some(_) => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response
        }
        None => response::json_bytes(200, document),
    };
    response.headers_mut().extend(HeaderValue::from_str(&tag).ok().map(|tag| (ETAG, tag)));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=300"));
    response.headers_mut().insert(VARY, HeaderValue::from_static("OpenWOP-Version"));
    Ok(response)
}

fn document(state: &Service) -> Value {
    let v1 = discovery::document(state);
    let mut root = json!({
        "protocolVersions": v1["protocolVersions"],
        "preferredVersion": v1["preferredVersion"],
        "implementation": v1["implementation"],
        "engineVersion": v1["engineVersion"],
        "eventLogSchemaVersion": v1["eventLogSchemaVersion"],
    });
    for name in ["fixtures", "conformance"] {
        if let Some(value) = v1.get(name) {
            root[name] = value.clone();
        }
    }
    root["testing"] =
        kept(&v1["testing"], &["mockProviders", "testKeyPrefix", "forceEngineVersionRange"]).into();
    if let Some(protocols) = v1.pointer("/observability/otel/exportProtocols") {
        root["observability"] = json!({"otel": {"exportProtocols": protocols}});
    }
    for (name, witness, members) in TAKEN {
        let source = match name {
            "auditLogIntegrity" => v1.pointer("/auth/auditLogIntegrity"),
            _ => v1.get(name),
        };
        let Some(source) = source.filter(|source| is_served(source)) else { continue };
        root[name] = family(name, witness, kept(source, members));
    }
    let retry = json!({"maxAttempts": runs::webhooks::MAX_ATTEMPTS, "backoff": "exponential"});
    root["webhooks"]["retryPolicy"] = retry;
    root["webhooks"]["deadLetter"] =
        json!({"retentionDays": DEAD_LETTER_DAYS, "maxPageSize": MAX_DEAD_LETTERS});
    root["replay"]["effectSeamsManifest"] = "/host/effect-seams".into();
    root["eventLog"] = family("eventLog", CLAIMED, Map::new());
    let page = Map::from_iter([
        ("maxPageSize".to_owned(), runs::read::MAX_LISTED.into()),
        ("filters".to_owned(), json!(["workflowId", "status"])),
    ]);
    root["runList"] = family("runList", GATED, page);
    let tokens = Map::from_iter([
        ("tokenAlgs".to_owned(), json!(["hs256"])),
        ("refKinds".to_owned(), json!(["principal"])),
        ("callbackDelivery".to_owned(), true.into()),
    ]);
    root["interrupt"] = family("interrupt", GATED, tokens);
    let lane = json!({
        "lane": "api-key", "issuers": [format!("urn:{}:api-key", host_id(state))],
        "revocation": "next-request", "minimumAssurance": "bearer",
    });
    root["auth"] = family("auth", SEAM, Map::from_iter([("lanes".to_owned(), json!([lane]))]));
    if is_served(&v1["multiAgent"]["executionModel"]) {
        let model = json!({
            "version": v1["multiAgent"]["executionModel"]["version"],
            "confidenceEscalationFloor": v1["multiAgent"]["executionModel"]["confidenceEscalationFloor"],
            "crossHostCausation": {"hostId": host_id(state), "ancestryEndpointSupported": true},
        });
        root["multiAgent"] =
            family("multiAgent", CLAIMED, Map::from_iter([("executionModel".to_owned(), model)]));
    }
    root
}

/// Whether version 1 says that something is served.
fn is_served(source: &Value) -> bool {
    match source {
        Value::Null | Value::Bool(false) => false,
        Value::Object(members) => members.get("supported") != Some(&Value::Bool(false)),
        _ => true,
    }
}

/// The members that version 2 has. A member that is off is left out, and `supported` does not exist.
fn kept(source: &Value, members: &[&str]) -> Map<String, Value> {
    let found = members.iter().filter_map(|name| Some(((*name).to_owned(), cleaned(source.get(*name)?)?)));
    found.collect()
}

fn cleaned(value: &Value) -> Option<Value> {
    match value {
        Value::Null | Value::Bool(false) => None,
        Value::Object(members) if members.get("supported") == Some(&Value::Bool(false)) => None,
        Value::Object(members) => {
            let members = members.iter().filter(|(name, _)| *name != "supported");
            Some(Value::Object(
                members.filter_map(|(name, value)| Some((name.clone(), cleaned(value)?))).collect(),
            ))
        }
        other => Some(other.clone()),
    }
}

fn family(name: &str, witness: &str, facets: Map<String, Value>) -> Value {
    let mut family = facets;
    family.insert("since".to_owned(), Major::V2.version().into());
    family.insert("witness".to_owned(), witness.into());
    if name == STABLE {
        family.insert("status".to_owned(), "stable".into());
    } else {
        family.insert("status".to_owned(), "experimental".into());
        family.insert("until".to_owned(), UNTIL.into());
    }
    family.into()
}
