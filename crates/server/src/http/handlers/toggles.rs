//! Serving less than could be served: what suites ask for to see that it is then refused, and not advertised.

use std::collections::BTreeSet;

use axum::response::Response;
use flow::definition::Capabilities;
use serde_json::{Map, Value, json};

use super::super::exchange::Call;
use super::super::response;
use super::super::route::Answered;
use super::errors::invalid_argument;

/// `POST /v1/host/sample/test/capability-toggle`
pub(in super::super) async fn toggle(call: Call) -> Answered {
    Ok(toggled(&call).unwrap_or_else(|message| invalid_argument(&message)))
}

fn toggled(call: &Call) -> Result<Response, String> {
    let runs = &call.state.runs;
    if call.body.get("reset").and_then(Value::as_bool) == Some(true) {
        runs.withhold(BTreeSet::new());
        return Ok(response::json(200, &json!({"overlay": {}, "reset": true})));
    }
    let name = call.body.get("name").and_then(Value::as_str).ok_or("`name` is missing")?;
    let flag = Capabilities::FLAGS.iter().find(|flag| **flag == name);
    let flag = *flag.ok_or_else(|| format!("`name` is one of {}", Capabilities::FLAGS.join(", ")))?;
    let mut withheld = runs.withheld();
    // Nothing is served that is not there: what is not withheld is served as far as it is.
    match call.body.get("value") {
        Some(Value::Bool(false)) => withheld.insert(flag),
        Some(Value::Bool(true) | Value::Null) => withheld.remove(flag),
        _ => return Err("`value` is `true`, `false` or `null`".to_owned()),
    };
    runs.withhold(withheld.clone());
    let overlay: Map<String, Value> =
        withheld.iter().map(|flag| ((*flag).to_owned(), false.into())).collect();
    Ok(response::json(200, &json!({"overlay": overlay, "set": {name: call.body["value"]}})))
}
