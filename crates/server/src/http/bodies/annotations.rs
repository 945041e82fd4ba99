//! Notes about runs.

use flow::id::{NodeId, Principal, RunId};
use runs::Refusal;
use runs::annotations::{Annotation as StoredAnnotation, NewAnnotation, Signal as StoredSignal};
use schemars::{JsonSchema, Schema, json_schema};
use serde::Serialize;
use serde_json::json;

use super::body;
use super::fields::{Integer, Maybe, Text, choice};
use super::problem::Problem;

/// The longest text of a note, a correction or a label, in bytes.
const MAX_TEXT_BYTES: usize = 16 << 10;

choice! {
    Kind { Rating = "rating", Correction = "correction", Label = "label", Flag = "flag", }
    expected "`rating`, `correction`, `label` or `flag`"
}

body! {
    /// What a note is about besides its run.
    #[schemars(inline)]
    closed Anchor {
        #[schemars(default)]
        event_id = "eventId": Maybe<Text<1, 256>>,
        #[schemars(default)]
        node_id = "nodeId": Maybe<Text<1, 256>>,
    }
}

body! {
    /// What a note says, for programs: a kind, and the member of its name.
    #[schemars(inline, transform = signal_schema)]
    closed Signal {
        kind = "kind": Kind,
        #[schemars(default)]
        rating = "rating": Maybe<Integer<1, 5>>,
        #[schemars(default)]
        label = "label": Maybe<Text<1, MAX_TEXT_BYTES>>,
        #[schemars(default)]
        correction = "correction": Maybe<Text<1, MAX_TEXT_BYTES>>,
    }
}

body! {
    /// A note to make.
    #[schemars(rename = "AnnotationRequest")]
    closed Annotate {
        target = "target": Option<Anchor>,
        signal = "signal": Signal,
        note = "note": Option<Text<1, MAX_TEXT_BYTES>>,
    }
}

impl Signal {
    fn parse(self) -> Result<StoredSignal, Problem> {
        let Self { kind, rating: Maybe(rating), label: Maybe(label), correction: Maybe(correction) } = self;
        let given = [
            (Kind::Rating, "rating", rating.is_some()),
            (Kind::Label, "label", label.is_some()),
            (Kind::Correction, "correction", correction.is_some()),
        ];
        for (of, name, is_given) in given {
            match (of == kind, is_given) {
                (false, true) => return Err(Problem::other("belongs to another kind of signal").below(name)),
                (true, false) => {
                    return Err(Problem::other("is required for this kind of signal").below(name));
                }
                (true, true) | (false, false) => {}
            }
        }
        let signal = match kind {
            Kind::Rating => {
                rating.and_then(|Integer(rating)| u8::try_from(rating).ok()).map(StoredSignal::Rating)
            }
            Kind::Label => label.map(|Text(label)| StoredSignal::Label(label)),
            Kind::Correction => correction.map(|Text(correction)| StoredSignal::Correction(correction)),
            Kind::Flag => Some(StoredSignal::Flag),
        };
        signal.ok_or_else(|| Problem::wrong("a signal with the field that its kind requires"))
    }
}

impl Annotate {
    pub(in crate::http) fn into_new(self) -> Result<NewAnnotation, Refusal> {
        let (event_id, node_id) = match self.target {
            Some(Anchor { event_id, node_id }) => (event_id.0, node_id.0),
            None => (None, None),
        };
        Ok(NewAnnotation {
            event_id: event_id.map(|Text(id)| id),
            node_id: node_id.map(|Text(id)| NodeId::new(id)),
            signal: self.signal.parse().map_err(|problem| problem.below("signal").refusal())?,
            note: self.note.map(|Text(note)| note),
        })
    }
}

/// Adds one alternative for each kind, with the field that belongs to it.
fn signal_schema(schema: &mut Schema) {
    let alternative = |kind: &str| {
        let member = schema.as_value()["properties"].get(kind).cloned();
        let mut properties = serde_json::Map::from_iter([("kind".to_owned(), json!({"const": kind}))]);
        properties.extend(member.map(|member| (kind.to_owned(), member)));
        let required: Vec<&String> = properties.keys().collect();
        json!({"type": "object", "required": required, "properties": properties, "additionalProperties": false})
    };
    let alternatives = ["rating", "correction", "label", "flag"].map(alternative);
    *schema = json_schema!({"oneOf": alternatives});
}

/// A note.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::http) struct Annotation {
    actor: Actor,
    annotation_id: String,
    #[schemars(extend("format" = "date-time"))]
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    note: Option<String>,
    #[schemars(with = "Signal")]
    signal: StoredSignal,
    target: Target,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct Actor {
    #[schemars(with = "String")]
    principal_ref: Principal,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct Target {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    event_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    node_id: Option<NodeId>,
    #[schemars(with = "String")]
    run_id: RunId,
}

impl From<StoredAnnotation> for Annotation {
    fn from(kept: StoredAnnotation) -> Self {
        Self {
            actor: Actor { principal_ref: kept.actor.principal_ref },
            annotation_id: kept.annotation_id,
            created_at: kept.created_at,
            note: kept.note,
            signal: kept.signal,
            target: Target {
                event_id: kept.target.event_id,
                node_id: kept.target.node_id,
                run_id: kept.target.run_id,
            },
        }
    }
}

/// The notes about a run.
#[derive(Serialize, JsonSchema)]
pub(in crate::http) struct Annotations {
    annotations: Vec<Annotation>,
}

impl Annotations {
    pub(in crate::http) fn of(kept: Vec<StoredAnnotation>) -> Self {
        Self { annotations: kept.into_iter().map(Annotation::from).collect() }
    }
}

#[cfg(test)]
mod tests {
    use runs::ApiCode;

    use super::super::read;
    use super::*;

    #[test]
    fn an_invalid_annotation_is_rejected() {
        let cases = [
            json!(null),
            json!({}),
            json!({"signal": {}}),
            json!({"signal": {"kind": "applause"}}),
            json!({"signal": {"kind": "rating"}}),
            json!({"signal": {"kind": "rating", "rating": 6}}),
            json!({"signal": {"kind": "rating", "rating": 2.5}}),
            json!({"signal": {"kind": "rating", "rating": 2, "label": "x"}}),
            json!({"signal": {"kind": "label", "label": ""}}),
            json!({"signal": {"kind": "flag", "more": 1}}),
            json!({"signal": {"kind": "flag", "rating": null}}),
            json!({"signal": {"kind": "flag"}, "target": {"runId": "x"}}),
            json!({"signal": {"kind": "flag"}, "target": {"nodeId": null}}),
            json!({"signal": {"kind": "flag"}, "note": 1}),
            json!({"signal": {"kind": "flag"}, "note": "x".repeat(20_000)}),
            json!({"signal": {"kind": "flag"}, "other": 1}),
        ];
        for request in cases {
            let refused = read::<Annotate>(request.clone()).and_then(Annotate::into_new).unwrap_err();
            assert_eq!(refused.code, ApiCode::ValidationError, "{request}");
        }
        let request = json!({"signal": {"kind": "rating", "rating": 6}});
        assert_eq!(read::<Annotate>(request).unwrap_err().details["field"], "signal.rating");
    }

    #[test]
    fn an_annotation_has_the_field_of_its_kind() {
        let request =
            json!({"signal": {"kind": "rating", "rating": 5.0}, "target": {"nodeId": "a"}, "note": null});
        let new = read::<Annotate>(request).unwrap().into_new().unwrap();
        let node_id = Some(NodeId::new("a"));
        assert_eq!(
            new,
            NewAnnotation { event_id: None, node_id, signal: StoredSignal::Rating(5), note: None }
        );
    }
}
