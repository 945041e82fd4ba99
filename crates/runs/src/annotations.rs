//! Annotations: feedback of people and agents on a run, stored beside its log.

use std::sync::Arc;

use flow::id::{NodeId, Principal, RunId};
use ports::Cause;
use ports::runs::Change;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::records::Records;
use super::states::States;
use super::{ApiCode, Caller, Refusal, Respond};

/// The maximum number of annotations of a run. They are listed in one response.
pub const MAX_ANNOTATIONS: usize = 1000;

/// An annotation that a caller adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewAnnotation {
    /// The event of the run that it refers to, if any.
    pub event_id: Option<String>,
    /// The node that it refers to, if any.
    pub node_id: Option<NodeId>,
    pub signal: Signal,
    pub note: Option<String>,
}

/// The machine-readable part of an annotation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "SignalRecord", try_from = "SignalRecord")]
pub enum Signal {
    /// From 1 to 5.
    Rating(u8),
    Correction(String),
    Label(String),
    Flag,
}

/// An annotation as it is stored and shown. The members are in alphabetical order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Annotation {
    pub actor: Actor,
    pub annotation_id: String,
    pub created_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    pub signal: Signal,
    pub target: Target,
}

/// The author of an annotation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Actor {
    pub principal_ref: Principal,
}

/// What an annotation refers to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
    pub run_id: RunId,
}

/// A stored signal: the name of its kind, and the member of that kind.
#[derive(Serialize, Deserialize)]
struct SignalRecord {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    correction: Option<String>,
    kind: SignalKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rating: Option<u8>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SignalKind {
    Rating,
    Correction,
    Label,
    Flag,
}

impl From<Signal> for SignalRecord {
    fn from(signal: Signal) -> Self {
        let of = |kind| Self { correction: None, kind, label: None, rating: None };
        match signal {
            Signal::Rating(rating) => Self { rating: Some(rating), ..of(SignalKind::Rating) },
            Signal::Correction(text) => Self { correction: Some(text), ..of(SignalKind::Correction) },
            Signal::Label(text) => Self { label: Some(text), ..of(SignalKind::Label) },
            Signal::Flag => of(SignalKind::Flag),
        }
    }
}

impl TryFrom<SignalRecord> for Signal {
    type Error = &'static str;

    fn try_from(record: SignalRecord) -> Result<Self, Self::Error> {
        let found = match record.kind {
            SignalKind::Rating => record.rating.map(Self::Rating),
            SignalKind::Correction => record.correction.map(Self::Correction),
            SignalKind::Label => record.label.map(Self::Label),
            SignalKind::Flag => Some(Self::Flag),
        };
        found.ok_or("the signal is missing the field that its kind requires")
    }
}

/// The annotations of runs.
pub struct Annotations {
    records: Arc<Records>,
    states: Arc<States>,
}

impl Annotations {
    pub(crate) fn new(records: Arc<Records>, states: Arc<States>) -> Self {
        Self { records, states }
    }

    /// Annotates a run, one of its nodes or one of its events. The run may have ended.
    ///
    /// # Errors
    /// If there is no such run, or it has the maximum number of annotations.
    pub async fn add<R: Respond<Annotation>>(
        &self,
        caller: &Caller,
        run_id: &RunId,
        new: NewAnnotation,
        respond: R,
    ) -> Result<R::Response, Refusal> {
        let _place = self.records.admit()?;
        if let Some(response) = respond.replayed(&self.records).await? {
            return Ok(response);
        }
        self.states.visible(caller, run_id).await?;
        if self.records.store().annotations(run_id).await?.len() >= MAX_ANNOTATIONS {
            let message = format!("the run has {MAX_ANNOTATIONS} annotations, which is the limit");
            return Err(Refusal::new(ApiCode::Conflict, message).detail("maxAnnotations", MAX_ANNOTATIONS));
        }
        let annotation_id = self.records.new_id("ann_")?;
        let annotation = Annotation {
            actor: Actor { principal_ref: caller.principal.clone() },
            annotation_id: annotation_id.clone(),
            created_at: self.records.now().to_rfc3339(),
            note: new.note,
            signal: new.signal,
            target: Target { event_id: new.event_id, node_id: new.node_id, run_id: run_id.clone() },
        };
        let annotation = self.redacted(caller, &annotation)?;
        let document = serde_json::to_vec(&annotation).map_err(unkept)?;
        let mut changes = vec![
            Change::PutAnnotation {
                run_id: run_id.to_owned(),
                annotation_id: annotation_id.clone(),
                document: document.into(),
            },
            self.records.audited(
                caller,
                "run.annotate",
                &json!({"runId": run_id, "annotationId": annotation_id}),
            ),
        ];
        let event_text = annotated(run_id, &annotation);
        let (response, recorded) = respond.respond(&self.records, annotation);
        changes.extend(recorded);
        match self.records.commit(changes).await {
            Ok(()) => {
                self.states.send_note(run_id, event_text);
                Ok(response)
            }
            Err(error) => self.records.settle(error, &respond).await,
        }
    }

    /// An annotation with secrets removed.
    fn redacted(&self, caller: &Caller, annotation: &Annotation) -> Result<Annotation, Refusal> {
        let mut document = serde_json::to_value(annotation).map_err(unkept)?;
        self.records.secrets().redact(&caller.tenant, &mut document);
        serde_json::from_value(document).map_err(unkept)
    }

    /// The annotations of a run, in the order of their creation.
    ///
    /// # Errors
    /// If there is no such run.
    pub async fn list(&self, caller: &Caller, run_id: &RunId) -> Result<Vec<Annotation>, Refusal> {
        self.states.visible(caller, run_id).await?;
        let found = self.records.store().annotations(run_id).await?;
        Ok(found.iter().filter_map(|document| serde_json::from_slice(document).ok()).collect())
    }
}

fn unkept(error: serde_json::Error) -> Refusal {
    Refusal::new(ApiCode::InternalError, "the annotation cannot be stored").because(Cause::new(error))
}

/// The message about an annotation for watchers of the run.
fn annotated(run_id: &RunId, annotation: &Annotation) -> String {
    let event_text = json!({
        "type": "run.annotated",
        "runId": run_id,
        "timestamp": annotation.created_at,
        "payload": annotation,
    });
    event_text.to_string()
}
