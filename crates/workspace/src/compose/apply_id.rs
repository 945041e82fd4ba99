//! The identity of a request.

use canon::digest::Digest;
use serde_json::{Map, Value};

use super::facts::{Facts, Scope};
use super::javascript::{number_text, short_hash};
use crate::Error;

/// The manifest members that determine the mounts. `extends` is not among them, because it is
/// already merged.
const HASHED: [&str; 5] = ["agent", "mounts", "seedFiles", "env", "requiredTemplateNames"];

/// Equal for equivalent requests, regardless of key order. The briefcase, system skills and
/// template texts are not included; the plan digest covers those.
pub(super) fn of(facts: &Facts<'_, '_>) -> Result<String, Error> {
    let manifest = facts.root.get("manifest").object()?;
    let hashed = HASHED.iter().filter_map(|key| Some(((*key).to_owned(), manifest.get(*key)?.clone())));
    let manifest_hash = short_hash(&Value::Object(hashed.collect::<Map<_, _>>()));
    let inputs_hash = match facts.context.raw() {
        Some(context) => short_hash(context),
        None => return Err(facts.context.refusal("an object")),
    };
    let scope = match facts.scope {
        Scope::Run { run_id, job_run_id } => format!("wf:{run_id}:{job_run_id}"),
        Scope::Session { session_id, turn_gen } => {
            let turn_gen = turn_gen.map_or_else(|| "0".to_owned(), number_text);
            format!("is:{session_id}:{turn_gen}")
        }
    };
    let parts = [
        facts.org_id,
        facts.project_id,
        facts.manifest.slug,
        facts.manifest.version,
        &manifest_hash,
        facts.agent_slug,
        facts.role,
        &inputs_hash,
        &scope,
    ];
    Ok(Digest::of_bytes(parts.join(":").as_bytes()).to_hex())
}
