//! Withholding capabilities: suites check that what is withheld is refused and not advertised.

use std::collections::BTreeSet;

use axum::response::Response;
use flow::definition::Capabilities;
use serde_json::{Map, Value, json};

use super::super::exchange::CheckedRequest;
use super::super::response;
use super::super::route::HandlerResult;
use super::errors::invalid_argument;

/// Whether envelopes are accepted. Discovery has no flag for it.
pub(super) const AI_ENVELOPE: &str = "host.aiEnvelope.supported";

/// `POST /v1/host/sample/test/capability-toggle`
pub(in super::super) async fn toggle(call: CheckedRequest) -> HandlerResult {
    Ok(toggled(&call).unwrap_or_else(|message| invalid_argument(&message)))
}

fn toggled(call: &CheckedRequest) -> Result<Response, String> {
    let runs = &call.state.runs;
    if call.body.get("reset").and_then(Value::as_bool) == Some(true) {
        runs.features().withhold(BTreeSet::new());
        return Ok(response::json(200, &json!({"overlay": {}, "reset": true})));
    }
    let name = call.body.get("name").and_then(Value::as_str).ok_or("`name` is missing")?;
    let mut flags = Capabilities::FLAGS.into_iter().chain([AI_ENVELOPE]);
    let flag = flags.clone().find(|flag| *flag == name);
    let mut withheld = runs.features().withheld();
    // A toggle cannot enable anything that the host does not have: it only removes or restores what the host serves.
    match (flag, call.body.get("value")) {
        (Some(flag), Some(Value::Bool(false))) => drop(withheld.insert(flag)),
        (Some(flag), Some(Value::Bool(true) | Value::Null)) => drop(withheld.remove(flag)),
        // Suites probe for the seam like this. There is nothing to restore.
        (None, Some(Value::Null)) => {}
        (None, Some(Value::Bool(_))) => {
            let known: Vec<_> = flags.by_ref().collect();
            return Err(format!("`name` must be one of {}", known.join(", ")));
        }
        _ => return Err("`value` must be `true`, `false` or `null`".to_owned()),
    }
    runs.features().withhold(withheld.clone());
    let overlay: Map<String, Value> =
        withheld.iter().map(|flag| ((*flag).to_owned(), false.into())).collect();
    Ok(response::json(200, &json!({"overlay": overlay, "set": {name: call.body["value"]}})))
}
