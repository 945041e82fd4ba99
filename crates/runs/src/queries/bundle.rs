//! Debug bundles: a run and its events in one document.

use flow::definition::Masking;
use flow::id::RunId;
use flow::mask::Mask;
use serde_json::{Map, Value, json};

use super::Queries;
use crate::states::{lines, shown, unreadable_snapshot};
use crate::{ApiCode, Caller, Refusal};

/// The maximum size of a bundle, in bytes. A bundle says what was omitted to fit.
pub const MAX_BUNDLE_BYTES: usize = 8 << 20;
/// The reserved size for members other than the run and its events, in bytes.
const FRAME_BYTES: usize = 4096;
/// The maximum size of a snapshot that is included in full, in bytes. This leaves room for events.
const MAX_SNAPSHOT_BYTES: usize = 4 << 20;
/// How much is read from the store at once.
const PAGE_EVENTS: usize = 1000;
const PAGE_BYTES: usize = 1 << 20;

/// Which part of a log goes into a bundle.
struct Wanted<'a> {
    run_id: &'a RunId,
    /// What is hidden in events, as for every reader.
    mask: Option<&'a Mask<'a>>,
    max_events: usize,
    /// The size of the bundle so far, in bytes.
    size: usize,
}

impl Queries {
    /// The debug bundle of a run: its snapshot without tokens, and its events from the first on.
    ///
    /// # Errors
    /// If there is no such run.
    pub async fn debug_bundle(
        &self,
        caller: &Caller,
        run_id: &RunId,
        max_events: Option<usize>,
    ) -> Result<Value, Refusal> {
        let row = self.states.visible(caller, run_id).await?;
        let mut run: Value =
            serde_json::from_slice(&row.snapshot).map_err(|error| unreadable_snapshot(&error))?;
        self.records.secrets().redact(&caller.tenant, &mut run);
        let mut reason = None;
        let mut size = FRAME_BYTES + run.to_string().len();
        if size > MAX_SNAPSHOT_BYTES {
            let kept = ["runId", "workflowId", "status", "startedAt", "completedAt", "currentNodeId"];
            let members: Map<_, _> =
                kept.iter().filter_map(|name| Some(((*name).to_owned(), run.get(*name)?.clone()))).collect();
            run = Value::Object(members);
            size = FRAME_BYTES + run.to_string().len();
            reason = Some("snapshot_truncated_to_size_cap");
        }
        let definition = self.states.pinned(&row).await?;
        let mask = Mask::of(&definition);
        let mut wanted =
            Wanted { run_id, mask: mask.as_ref(), max_events: max_events.unwrap_or(usize::MAX), size };
        let (events, stopped) = self.bundled(caller, &mut wanted).await?;
        let reason = stopped.or(reason);
        let nodes = run.get("nodeStates").and_then(Value::as_object).map_or(0, Map::len);
        let cost = run.pointer("/metrics/openwopCost").cloned().unwrap_or(Value::Null);
        let mut bundle = json!({
            "bundleVersion": "1.0",
            "generatedAt": self.records.now().to_rfc3339(),
            "host": {"name": "interlock", "version": env!("CARGO_PKG_VERSION"), "vendor": "interlock"},
            "metrics": {"openwopCost": cost, "nodeCount": nodes, "eventCount": events.len()},
            "run": run,
            "events": events,
            "spans": [],
            "redactionMode": mask.as_ref().map_or(Masking::Mask, Mask::masking).as_str(),
            "truncated": reason.is_some(),
        });
        let masked = mask.is_some() || is_masked(&bundle["run"]) || is_masked(&bundle["events"]);
        bundle["redactionApplied"] = masked.into();
        if let Some(reason) = reason {
            bundle["truncatedReason"] = reason.into();
        }
        Ok(bundle)
    }

    /// The events that fit, and why the rest was omitted, if it was.
    async fn bundled(
        &self,
        caller: &Caller,
        wanted: &mut Wanted<'_>,
    ) -> Result<(Vec<Value>, Option<&'static str>), Refusal> {
        let mut events = Vec::new();
        let mut next = 0;
        loop {
            let appends = self.records.store().appends(wanted.run_id, next, PAGE_EVENTS, PAGE_BYTES).await?;
            let Some(last) = appends.last().map(|append| append.last) else { return Ok((events, None)) };
            for (_, text) in appends.iter().flat_map(|append| lines(append, next)) {
                if events.len() >= wanted.max_events {
                    return Ok((events, Some("events_truncated_to_max_events")));
                }
                let shown = shown(wanted.mask, wanted.run_id, text);
                let event = shown.and_then(|text| serde_json::from_str::<Value>(&text).ok());
                let mut event = event.ok_or_else(|| {
                    Refusal::new(ApiCode::InternalError, "an event of the run cannot be read")
                })?;
                self.records.secrets().redact(&caller.tenant, &mut event);
                // Plus a comma.
                wanted.size += event.to_string().len() + 1;
                if wanted.size > MAX_BUNDLE_BYTES {
                    return Ok((events, Some("events_truncated_to_size_cap")));
                }
                events.push(event);
            }
            next = last + 1;
        }
    }
}

/// Whether something in the value was masked, here or before it was recorded.
fn is_masked(value: &Value) -> bool {
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            Value::String(text) if text.contains("[REDACTED") => return true,
            Value::Array(items) => open.extend(items),
            Value::Object(members) => {
                if members.keys().any(|name| name.contains("[REDACTED")) {
                    return true;
                }
                open.extend(members.values());
            }
            _ => {}
        }
    }
    false
}
