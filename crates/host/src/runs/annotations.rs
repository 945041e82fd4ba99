//! What people and agents think of a run: notes beside it, not in its log.

use flow::id::RunId;
use flow::store::{Change, CommitError};
use serde_json::{Map, Value, json};

use super::{ApiCode, Caller, Keyed, Refusal, Reply, Runs, whole};

/// The longest text of a note, a correction or a label, in bytes.
const MAX_TEXT_BYTES: usize = 16 << 10;
/// The longest id that a note may be anchored to.
const MAX_ANCHOR_BYTES: usize = 256;
/// The most notes of a run. They are listed at once, and nobody reads more.
pub const MAX_ANNOTATIONS: usize = 1000;

impl Runs {
    /// Notes something about a run, one of its nodes or one of its events. The run may be at its end.
    ///
    /// # Errors
    /// When there is no such run, or the note is not as it has to be.
    pub async fn annotate(
        &self,
        caller: &Caller,
        run_id: &RunId,
        body: &Value,
        keyed: Option<&Keyed>,
    ) -> Result<Reply, Refusal> {
        let _place = self.admit()?;
        if let Some(reply) = self.replay(keyed)? {
            return Ok(reply);
        }
        let note = read(body)?;
        self.visible(caller, run_id)?;
        if self.store().annotations(run_id)?.len() >= MAX_ANNOTATIONS {
            let message = format!("the run has {MAX_ANNOTATIONS} annotations, as many as are kept");
            return Err(Refusal::new(ApiCode::Conflict, message).detail("maxAnnotations", MAX_ANNOTATIONS));
        }
        let annotation_id = self.new_id("ann_")?;
        let mut target = note.target;
        target.insert("runId".into(), run_id.as_str().into());
        let mut document = json!({
            "annotationId": annotation_id,
            "target": target,
            "signal": note.signal,
            "actor": {"principalRef": caller.principal},
            "createdAt": self.now().to_rfc3339(),
        });
        if let Some(text) = note.note {
            document["note"] = text.into();
        }
        self.redact(&caller.tenant, &mut document);
        let reply = Reply::new(201, &document);
        let mut changes = vec![
            Change::PutAnnotation {
                run_id: run_id.to_owned(),
                annotation_id: annotation_id.clone(),
                document: document.to_string().into_bytes().into(),
            },
            self.audited(caller, "run.annotate", &json!({"runId": run_id, "annotationId": annotation_id})),
        ];
        changes.extend(self.record(keyed, &reply));
        match self.commit(changes).await {
            Ok(()) => {
                if let Some(live) = self.inner.live.get(run_id) {
                    live.feed.tell_note(annotated(run_id, &document));
                }
                Ok(reply)
            }
            // Another request with the same key was quicker: its answer is ours.
            Err(CommitError::KeyTaken) => match self.replay(keyed)? {
                Some(reply) => Ok(reply),
                None => Err(CommitError::KeyTaken.into()),
            },
            Err(error) => Err(error.into()),
        }
    }

    /// The notes about a run, in the order in which they were made.
    ///
    /// # Errors
    /// When there is no such run.
    pub fn annotations(&self, caller: &Caller, run_id: &RunId) -> Result<Value, Refusal> {
        self.visible(caller, run_id)?;
        let found = self.store().annotations(run_id)?;
        let annotations: Vec<Value> =
            found.iter().filter_map(|document| serde_json::from_slice(document).ok()).collect();
        Ok(json!({"annotations": annotations}))
    }
}

/// What those who watch the run are told of a note.
fn annotated(run_id: &RunId, document: &Value) -> String {
    let told = json!({
        "type": "run.annotated",
        "runId": run_id,
        "timestamp": document["createdAt"],
        "payload": document,
    });
    told.to_string()
}

/// A note as the caller gave it.
struct Note {
    target: Map<String, Value>,
    signal: Map<String, Value>,
    note: Option<String>,
}

fn wrong(field: &str, message: &str) -> Refusal {
    Refusal::new(ApiCode::ValidationError, format!("`{field}` {message}")).detail("field", field)
}

/// The members of an object, none of them unknown.
fn members<'v>(
    value: Option<&'v Value>,
    field: &str,
    known: &[&str],
) -> Result<Option<&'v Map<String, Value>>, Refusal> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(members)) if members.keys().all(|name| known.contains(&name.as_str())) => {
            Ok(Some(members))
        }
        Some(_) => Err(wrong(field, "has to be an object with no other members than the known ones")
            .detail("known", known.to_vec())),
    }
}

fn text(value: &Value, field: &str, longest: usize) -> Result<Value, Refusal> {
    match value {
        Value::String(text) if (1..=longest).contains(&text.len()) => Ok(value.clone()),
        _ => Err(wrong(field, &format!("has to be a text of 1 to {longest} bytes"))),
    }
}

fn read(body: &Value) -> Result<Note, Refusal> {
    let Some(body) = members(Some(body), "body", &["target", "signal", "note"])? else {
        return Err(wrong("body", "has to be an object with `signal`"));
    };
    let mut target = Map::new();
    if let Some(given) = members(body.get("target"), "target", &["eventId", "nodeId"])? {
        for (name, value) in given {
            target.insert(name.clone(), text(value, &format!("target.{name}"), MAX_ANCHOR_BYTES)?);
        }
    }
    let known = ["kind", "rating", "label", "correction"];
    let Some(signal) = members(body.get("signal"), "signal", &known)? else {
        return Err(wrong("signal", "is required: an object with `kind`"));
    };
    let kind = signal.get("kind").and_then(Value::as_str);
    let kind = kind.filter(|kind| ["rating", "correction", "label", "flag"].contains(kind));
    let kind = kind.ok_or_else(|| wrong("signal.kind", "is rating, correction, label or flag"))?;
    let mut checked = Map::new();
    checked.insert("kind".into(), kind.into());
    for (name, value) in signal.iter().filter(|(name, _)| *name != "kind") {
        let field = format!("signal.{name}");
        if name != kind {
            return Err(wrong(&field, "belongs to another kind of signal"));
        }
        let value = match name.as_str() {
            "rating" => match whole(value).filter(|rating| (1..=5).contains(rating)) {
                Some(rating) => rating.into(),
                None => return Err(wrong(&field, "has to be a whole number from 1 to 5")),
            },
            _ => text(value, &field, MAX_TEXT_BYTES)?,
        };
        checked.insert(name.clone(), value);
    }
    if kind != "flag" && !checked.contains_key(kind) {
        return Err(wrong(&format!("signal.{kind}"), "is required for this kind of signal"));
    }
    let note = match body.get("note") {
        None | Some(Value::Null) => None,
        Some(note) => text(note, "note", MAX_TEXT_BYTES)?.as_str().map(str::to_owned),
    };
    Ok(Note { target, signal: checked, note })
}
