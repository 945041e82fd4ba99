//! Whether a model can do what a node needs, and which one is asked instead.

use serde_json::{Map, Value, json};

use crate::event::{EventKind, RunEvent};

/// The most abilities that a node may need.
pub const MAX_CAPABILITIES: usize = 32;

/// A model of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// The provider.
    pub provider: String,
    /// The model.
    pub model: String,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// What the node needs.
    pub required: Vec<String>,
    /// Which model may be asked instead.
    pub fallback: Option<Model>,
    /// The model that is meant.
    pub active: Model,
    /// Whether this host asks another model at all.
    pub substitution_supported: bool,
    /// The providers that can be called.
    pub supported_providers: Vec<String>,
    /// The node.
    pub node_id: String,
}

/// Why a question is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is missing or wrong")]
pub struct QuestionError(pub &'static str);

impl Question {
    /// Reads a question.
    ///
    /// # Errors
    /// A member is missing or wrong.
    pub fn read(value: &Value) -> Result<Self, QuestionError> {
        let text = |from: &Value, name: &'static str| {
            let given = from.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
            given.map(ToOwned::to_owned).ok_or(QuestionError(name))
        };
        let module =
            value.get("module").filter(|module| module.is_object()).ok_or(QuestionError("module"))?;
        let fallback = match module.get("fallbackModel") {
            None | Some(Value::Null) => None,
            Some(model) => Some(Model { provider: text(model, "provider")?, model: text(model, "model")? }),
        };
        let required = texts(module.get("requiredModelCapabilities"), "requiredModelCapabilities")?;
        if required.len() > MAX_CAPABILITIES {
            return Err(QuestionError("requiredModelCapabilities"));
        }
        Ok(Self {
            required,
            fallback,
            active: Model { provider: text(value, "activeProvider")?, model: text(value, "activeModel")? },
            substitution_supported: value
                .get("substitutionSupported")
                .and_then(Value::as_bool)
                .unwrap_or(false),
            supported_providers: texts(value.get("supportedProviders"), "supportedProviders")?,
            node_id: value.get("nodeId").and_then(Value::as_str).unwrap_or("node").to_owned(),
        })
    }
}

fn texts(value: Option<&Value>, name: &'static str) -> Result<Vec<String>, QuestionError> {
    let Some(value) = value else { return Ok(Vec::new()) };
    let items = value.as_array().ok_or(QuestionError(name))?;
    items.iter().map(|item| item.as_str().map(ToOwned::to_owned).ok_or(QuestionError(name))).collect()
}

/// Which model is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// The one that was meant.
    Dispatch,
    /// The other one.
    Substitute(Model),
    /// None. The node fails with `capability_not_provided`.
    Refuse {
        /// Whether the other one was looked at.
        fallback_attempted: bool,
    },
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Which model is asked.
    pub route: Route,
    /// What the model that was meant cannot do.
    pub missing: Vec<String>,
}

/// Answers a question. `able` says what a model can do; a fallback has no fallback of its own.
pub fn evaluate<'c>(question: &Question, able: impl Fn(&Model) -> &'c [&'c str]) -> Answer {
    let lacks = |model: &Model| {
        let able = able(model);
        let mut missing: Vec<String> = Vec::new();
        for needed in &question.required {
            if !able.contains(&needed.as_str()) && !missing.contains(needed) {
                missing.push(needed.clone());
            }
        }
        missing
    };
    let missing = lacks(&question.active);
    let route = match &question.fallback {
        _ if missing.is_empty() => Route::Dispatch,
        Some(other) if question.substitution_supported => {
            let reachable = question.supported_providers.contains(&other.provider);
            match reachable && lacks(other).is_empty() {
                true => Route::Substitute(other.clone()),
                false => Route::Refuse { fallback_attempted: true },
            }
        }
        Some(_) | None => Route::Refuse { fallback_attempted: false },
    };
    Answer { route, missing }
}

impl Answer {
    /// The event of the answer; none where all is as it was meant.
    pub fn event(&self, question: &Question) -> Option<RunEvent> {
        let missing: Value = self.missing.clone().into();
        let active = &question.active;
        match &self.route {
            Route::Dispatch => None,
            Route::Substitute(other) => Some(RunEvent::new(
                EventKind::ModelSubstituted,
                [
                    ("nodeId", question.node_id.as_str().into()),
                    ("originalProvider", active.provider.as_str().into()),
                    ("originalModel", active.model.as_str().into()),
                    ("fallbackProvider", other.provider.as_str().into()),
                    ("fallbackModel", other.model.as_str().into()),
                    ("missingCapabilities", missing),
                ],
            )),
            Route::Refuse { fallback_attempted } => Some(RunEvent::new(
                EventKind::ModelInsufficient,
                [
                    ("nodeId", question.node_id.as_str().into()),
                    ("provider", active.provider.as_str().into()),
                    ("model", active.model.as_str().into()),
                    ("missingCapabilities", missing),
                    ("fallbackAttempted", (*fallback_attempted).into()),
                ],
            )),
        }
    }

    /// The answer as it is sent: `{outcome, event}`.
    pub fn to_value(&self, question: &Question) -> Value {
        let event = self.event(question);
        let mut outcome = event.as_ref().map_or_else(Map::new, |event| event.payload.clone());
        outcome.remove("nodeId");
        let route = match self.route {
            Route::Dispatch => "dispatch",
            Route::Substitute(_) => "substitute",
            Route::Refuse { .. } => "refuse",
        };
        outcome.insert("route".to_owned(), route.into());
        let event = event.map(|event| json!({"type": event.kind.as_str(), "payload": event.payload}));
        json!({"outcome": outcome, "event": event})
    }
}

/// What the models of the providers that this crate speaks to can do. Of others nothing is known, so nothing is promised.
pub fn known_capabilities(model: &Model) -> &'static [&'static str] {
    match model.provider.as_str() {
        "anthropic" | "openai" => &[
            "structured-output",
            "discriminator-enum",
            "long-context",
            "reasoning",
            "function-calling",
            "vision-input",
        ],
        "mock" => &["structured-output", "discriminator-enum", "reasoning", "function-calling"],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_and_their_answers() {
        let ask = |required: Value, fallback: Value, provider: &str, substitution: bool, supported: Value| {
            let question = Question::read(&json!({
                "module": {"requiredModelCapabilities": required, "fallbackModel": fallback},
                "activeProvider": provider, "activeModel": "m", "substitutionSupported": substitution,
                "supportedProviders": supported, "nodeId": "n",
            }))
            .unwrap();
            let answer = evaluate(&question, known_capabilities).to_value(&question);
            (
                answer["outcome"]["route"].as_str().unwrap().to_owned(),
                answer["event"]["payload"]["fallbackAttempted"].clone(),
            )
        };
        let other = json!({"provider": "anthropic", "model": "o"});
        let unable = json!({"provider": "unknown", "model": "o"});
        let needs = json!(["structured-output", "long-context"]);
        let all = json!(["anthropic", "unknown"]);
        let cases = [
            ("able", needs.clone(), Value::Null, "openai", true, "dispatch", Value::Null),
            ("nothing needed", json!([]), Value::Null, "unknown", true, "dispatch", Value::Null),
            ("the other one", needs.clone(), other.clone(), "unknown", true, "substitute", Value::Null),
            ("not here", needs.clone(), other.clone(), "unknown", false, "refuse", json!(false)),
            ("no other one", needs.clone(), Value::Null, "unknown", true, "refuse", json!(false)),
            ("another as unable", needs.clone(), unable, "mock", true, "refuse", json!(true)),
        ];
        for (name, required, fallback, provider, substitution, route, attempted) in cases {
            assert_eq!(
                ask(required, fallback, provider, substitution, all.clone()),
                (route.to_owned(), attempted),
                "{name}"
            );
        }
        let unreachable = ask(needs, other, "unknown", true, json!(["openai"]));
        assert_eq!(unreachable, ("refuse".to_owned(), json!(true)));
    }

    #[test]
    fn questions_that_are_none() {
        let cases = [
            (json!({}), "module"),
            (json!({"module": {"requiredModelCapabilities": [1]}}), "requiredModelCapabilities"),
            (json!({"module": {"fallbackModel": {}}}), "provider"),
            (json!({"module": {}, "activeModel": "m"}), "activeProvider"),
        ];
        for (question, name) in cases {
            assert_eq!(Question::read(&question), Err(QuestionError(name)), "{question}");
        }
    }
}
