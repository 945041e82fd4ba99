//! Seams for conformance suites: the pack sandbox with its own test modules, and the validation of manifests.

use packs::install::HostFacts;
use packs::manifest::Manifest;
use sandbox::{Grants, Sandbox, conformance};
use serde_json::{Map, Value, json};

use super::super::exchange::CheckedRequest;
use super::super::response;
use super::super::route::HandlerResult;
use super::errors::{flat, on_a_thread};

/// The pack of a test module, by the name that suites use.
fn pack_of(type_id: &str) -> String {
    let name = match type_id {
        "misbehave.fs-escape-read" | "misbehave.fs-escape-write" => "misbehaving-fs",
        "misbehave.env-leak" => "misbehaving-env",
        "misbehave.network-escape" => "misbehaving-network",
        "misbehave.process-escape" => "misbehaving-process",
        "misbehave.memory-bomb" => "misbehaving-memory",
        "misbehave.timeout" => "misbehaving-timeout",
        "misbehave.capability-gate-violation" => "misbehaving-capability-gate",
        "misbehave.cross-pack-mutate" => "isolation-global",
        other => return other.replace('.', "-"),
    };
    name.to_owned()
}

/// `POST /v1/host/sample/test/sandbox-load`
pub(in super::super) async fn load(call: CheckedRequest) -> HandlerResult {
    let id = call.body.get("packId").and_then(Value::as_str).unwrap_or_default();
    // Suites write the name of the pack with or without its prefix.
    let wanted = id.rsplit('.').next().unwrap_or_default();
    let known = conformance::ALL.iter().any(|example| pack_of(example.type_id) == wanted);
    if !call.state.settings.test_sandbox || !known {
        return Ok(flat(404, "sandbox_pack_not_found", "test pack not found", Map::new()));
    }
    Ok(response::json(200, &json!({"ok": true, "packId": id})))
}

/// `POST /v1/host/sample/test/sandbox-invoke`
pub(in super::super) async fn invoke(call: CheckedRequest) -> HandlerResult {
    let type_id = call.body.get("typeId").and_then(Value::as_str).unwrap_or_default().to_owned();
    if !call.state.settings.test_sandbox || conformance::module(&type_id).is_none() {
        return Ok(flat(404, "sandbox_pack_not_found", "test node type not found", Map::new()));
    }
    let granted = call.body.get("allowedHostCalls").and_then(Value::as_array).into_iter().flatten();
    // Suites write `openwop.fetch` or `fetch`.
    let grants: Grants = granted
        .filter_map(Value::as_str)
        .map(|name| name.strip_prefix("openwop.").unwrap_or(name))
        .take(64)
        .collect();
    let args = call.body.get("args").cloned().unwrap_or_else(|| json!({}));
    let run = move || {
        // Every test gets its own sandbox, so no state is shared.
        let sandbox = Sandbox::new()?;
        Ok(conformance::invoke(&sandbox, &type_id, args, grants))
    };
    let body = match on_a_thread(run).await? {
        Ok(Some(Ok(result))) => json!({"result": result}),
        Ok(Some(Err(fault))) | Err(fault) => json!({"error": {
            "code": fault.code().as_str(), "message": fault.to_string(), "details": fault.details(),
        }}),
        Ok(None) => {
            return Ok(flat(
                404,
                "sandbox_pack_not_found",
                "this node type runs only in workflows",
                Map::new(),
            ));
        }
    };
    Ok(response::json(200, &body))
}

/// `POST /v1/host/sample/packs/install-gate`
pub(in super::super) async fn install_gate(call: CheckedRequest) -> HandlerResult {
    let manifest = match Manifest::from_value(call.body.get("manifest").unwrap_or(&Value::Null)) {
        Ok(manifest) => manifest,
        Err(error) => return Ok(flat(400, "invalid_manifest", &error.to_string(), Map::new())),
    };
    let mut facts = HostFacts::everything([]);
    facts.capabilities = None;
    let gating = call.body.get("gating").and_then(Value::as_bool).unwrap_or(true);
    if let (true, Some(granted)) = (gating, call.body.get("grantSet").and_then(Value::as_array)) {
        facts.runtime_requirements = granted.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    }
    match facts.judge(&manifest) {
        Ok(_) => {
            let requires = manifest.runtime().map(|runtime| runtime.requires.clone()).unwrap_or_default();
            Ok(response::json(200, &json!({"outcome": "installed", "requiresProjected": requires})))
        }
        Err(error) => {
            let mut body = json!({"error": error.code().as_str(), "message": error.message()});
            // Suites expect these fields beside the code.
            if let Value::Object(members) = &mut body {
                members.extend(error.details().clone());
            }
            Ok(response::json(error.http_status(), &body))
        }
    }
}
