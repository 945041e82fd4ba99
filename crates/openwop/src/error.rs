//! Error codes: of replies, and of failed runs and nodes.

mod codes;

use serde_json::{Map, Value, json};

use self::codes::FAILURES;
pub use self::codes::REGISTERED;

/// The code of version 1, beside that of version 2.
const CODE: &str = "x-interlock-code";
/// The details of version 1, if version 2 adds something.
const DETAILS: &str = "x-interlock-details";

/// The HTTP status of a registered code.
pub fn status(code: &str) -> Option<u16> {
    REGISTERED.iter().find(|(_, codes)| codes.contains(&code)).map(|(status, _)| *status)
}

/// What is known about a refused request, beside its reply in version 1.
#[derive(Clone, Copy, Debug, Default)]
pub struct Situation<'s> {
    /// The status of the run that the request names.
    pub run_status: Option<&'s str>,
    /// Whether the request forks a run.
    pub is_fork: bool,
    /// Whether the request is authorized by an interrupt token.
    pub has_token: bool,
}

/// The code of a reply in version 2, with details that it requires. The status follows from the code.
pub fn response(
    code: &str,
    v1_status: u16,
    details: &mut Map<String, Value>,
    situation: Situation<'_>,
) -> &'static str {
    match (code, v1_status) {
        ("key_expired", _) => {
            put(details, "reason", "expired");
            "unauthenticated"
        }
        ("key_revoked", _) => "credential_revoked",
        ("validation_error", 422) if situation.is_fork => "fork_point_invalid",
        ("interrupt_not_found", _) if situation.has_token => "interrupt_token_invalid",
        (
            "run_not_found"
            | "workflow_not_found"
            | "subscription_not_found"
            | "interrupt_not_found"
            | "method_not_allowed"
            | "not_implemented",
            _,
        )
        | ("capability_not_provided", 501) => "not_found",
        ("conflict", _) if details.contains_key("maxAnnotations") || details.contains_key("maxWebhooks") => {
            let service = if details.contains_key("maxAnnotations") { "feedback" } else { "webhooks" };
            put(details, "service", service);
            put(details, "limit", "quota");
            "storage_limit_exceeded"
        }
        ("conflict", _) => match situation.run_status {
            Some("completed" | "failed" | "cancelled") => "run_terminal",
            Some(status) => {
                put(details, "runStatus", status);
                "run_state_conflict"
            }
            // The other conflicts are between requests.
            None => "version_conflict",
        },
        ("interrupt_gone", _) => "interrupt_already_resolved",
        ("unsupported_force_engine_version", _) => {
            put(details, "field", "OpenWOP-Force-Engine-Version");
            "validation_error"
        }
        ("unsupported_mock_provider", _) => {
            put(details, "field", "configurable.ai.mockProvider");
            "validation_error"
        }
        ("request_timeout", _) => "service_unavailable",
        // A failed translation names its code.
        ("internal_error", _)
            if matches!(details.get("reason").and_then(Value::as_str), Some("event_type_unmapped")) =>
        {
            details.remove("reason");
            "event_type_unmapped"
        }
        ("internal_error", _)
            if matches!(details.get("reason").and_then(Value::as_str), Some("payload_unprojectable")) =>
        {
            details.remove("reason");
            "payload_unprojectable"
        }
        _ => registered(code).unwrap_or(match v1_status {
            404 => "not_found",
            400..=499 => "validation_error",
            503 => "service_unavailable",
            _ => "internal_error",
        }),
    }
}

/// Adds a detail, unless it is there.
fn put(details: &mut Map<String, Value>, name: &str, value: &str) {
    details.entry(name).or_insert_with(|| value.into());
}

fn registered(code: &str) -> Option<&'static str> {
    REGISTERED.iter().flat_map(|(_, codes)| codes.iter().copied()).find(|known| *known == code)
}

/// The failure code of version 2, and the details that it adds.
fn failure(code: &str) -> (&'static str, Map<String, Value>) {
    let mut added = Map::new();
    if let Some(same) = registered(code) {
        return (same, added);
    }
    if let Some(row) = FAILURES.iter().find(|row| row.v1 == code) {
        if let Some(service) = row.service {
            added.insert("service".to_owned(), service.into());
        }
        return (row.v2, added);
    }
    added.insert("code".to_owned(), code.into());
    let known = if code.ends_with("_not_found") { "not_found" } else { "internal_error" };
    (known, added)
}

/// The error of a failed run or node in a snapshot, where it has no extension members.
pub fn failure_to_v2_closed(error: Map<String, Value>) -> Map<String, Value> {
    let mut error = failure_to_v2(error);
    error.retain(|name, _| ["code", "message", "details"].contains(&name.as_str()));
    error
}

/// The error of a failed run or node in an event.
pub fn failure_to_v2(mut error: Map<String, Value>) -> Map<String, Value> {
    let Some(Value::String(code)) = error.get("code").cloned() else { return error };
    let (translated, added) = failure(&code);
    if translated != code {
        error.insert(CODE.to_owned(), code.into());
        error.insert("code".to_owned(), translated.into());
    }
    if !added.is_empty() {
        let original = error.remove("details");
        let mut details = match &original {
            Some(Value::Object(members)) => members.clone(),
            Some(other) => Map::from_iter([("value".to_owned(), other.clone())]),
            None => Map::new(),
        };
        for (name, value) in added {
            details.entry(name).or_insert(value);
        }
        error.insert(DETAILS.to_owned(), json!(original.map(|details| vec![details]).unwrap_or_default()));
        error.insert("details".to_owned(), details.into());
    }
    error
}

/// The error of a failed run or node, from the form of version 2.
pub fn failure_to_v1(mut error: Map<String, Value>) -> Map<String, Value> {
    if let Some(code) = error.remove(CODE) {
        error.insert("code".to_owned(), code);
    }
    if let Some(original) = error.remove(DETAILS) {
        error.remove("details");
        if let Some(details) = original.as_array().and_then(|list| list.first()) {
            error.insert("details".to_owned(), details.clone());
        }
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_code_of_the_table_is_registered_once() {
        for row in FAILURES {
            assert!(registered(row.v2).is_some(), "{}", row.v2);
            assert!(registered(row.v1).is_none(), "{} is registered, so it keeps its name", row.v1);
            assert_eq!(FAILURES.iter().filter(|other| other.v1 == row.v1).count(), 1, "{}", row.v1);
        }
        assert_eq!(REGISTERED.iter().map(|(_, codes)| codes.len()).sum::<usize>(), 126);
    }

    #[test]
    fn a_conflict_names_the_state_of_the_run() {
        for (status, expected) in [
            (Some("completed"), "run_terminal"),
            (Some("failed"), "run_terminal"),
            (Some("cancelled"), "run_terminal"),
            (Some("paused"), "run_state_conflict"),
            (None, "version_conflict"),
        ] {
            let mut details = Map::new();
            let situation = Situation { run_status: status, ..Situation::default() };
            assert_eq!(response("conflict", 409, &mut details, situation), expected);
        }
    }

    proptest::proptest! {
        #[test]
        fn every_failure_comes_back(
            code in "[a-z_]{1,30}|CONFIG_INVALID|mcp_timeout|run_timeout|child_failed|row_not_found",
            details in proptest::option::of("[a-z]{0,4}"),
        ) {
            let mut error = json!({"code": code, "message": "m"});
            if let Some(details) = details {
                error["details"] = if details.is_empty() { json!("text") } else { json!({details: 1, "service": "s"}) };
            }
            let Value::Object(error) = error else { unreachable!() };
            let translated = failure_to_v2(error.clone());
            proptest::prop_assert!(registered(translated["code"].as_str().unwrap()).is_some());
            proptest::prop_assert_eq!(failure_to_v1(translated), error);
        }
    }
}
