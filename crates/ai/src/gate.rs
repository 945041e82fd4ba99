//! Selects a model with the capabilities that a node requires.

use serde_json::{Map, Value, json};

use crate::event::{EventKind, RunEvent};

/// The maximum number of required capabilities.
pub const MAX_CAPABILITIES: usize = 32;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    pub provider: String,
    pub model: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapabilityQuery {
    pub required: Vec<String>,
    pub fallback: Option<Model>,
    /// The configured model.
    pub active: Model,
    /// Whether this host uses fallback models.
    pub substitution_supported: bool,
    /// The providers that the host can call.
    pub supported_providers: Vec<String>,
    pub node_id: String,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is missing or invalid")]
pub struct QueryError(pub &'static str);

impl CapabilityQuery {
    /// Reads a query.
    ///
    /// # Errors
    /// A member is missing or invalid.
    pub fn read(value: &Value) -> Result<Self, QueryError> {
        let text = |from: &Value, name: &'static str| {
            let given = from.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
            given.map(ToOwned::to_owned).ok_or(QueryError(name))
        };
        let module = value.get("module").filter(|module| module.is_object()).ok_or(QueryError("module"))?;
        let fallback = match module.get("fallbackModel") {
            None | Some(Value::Null) => None,
            Some(model) => Some(Model { provider: text(model, "provider")?, model: text(model, "model")? }),
        };
        let required = texts(module.get("requiredModelCapabilities"), "requiredModelCapabilities")?;
        if required.len() > MAX_CAPABILITIES {
            return Err(QueryError("requiredModelCapabilities"));
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

fn texts(value: Option<&Value>, name: &'static str) -> Result<Vec<String>, QueryError> {
    let Some(value) = value else { return Ok(Vec::new()) };
    let items = value.as_array().ok_or(QueryError(name))?;
    items.iter().map(|item| item.as_str().map(ToOwned::to_owned).ok_or(QueryError(name))).collect()
}

/// Which model to call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// The configured model.
    Dispatch,
    /// The fallback model.
    Substitute(Model),
    /// Neither. The node fails with `capability_not_provided`.
    Refuse {
        /// Whether the fallback was considered.
        fallback_attempted: bool,
    },
}

/// The result of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutingDecision {
    pub route: Route,
    /// The capabilities that the configured model lacks.
    pub missing: Vec<String>,
}

/// Evaluates a query. `able` returns the capabilities of a model; a fallback has no further fallback.
pub fn evaluate<'c>(question: &CapabilityQuery, able: impl Fn(&Model) -> &'c [&'c str]) -> RoutingDecision {
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
    RoutingDecision { route, missing }
}

impl RoutingDecision {
    /// The event of the result; `None` if the configured model is used.
    pub fn event(&self, question: &CapabilityQuery) -> Option<RunEvent> {
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

    /// The result as sent: `{outcome, event}`.
    pub fn to_value(&self, question: &CapabilityQuery) -> Value {
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

/// The capabilities of well-known models of the supported providers. Unknown models have none.
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
    fn routes_by_capability() {
        let ask = |required: Value, fallback: Value, provider: &str, substitution: bool, supported: Value| {
            let question = CapabilityQuery::read(&json!({
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
            ("nothing required", json!([]), Value::Null, "unknown", true, "dispatch", Value::Null),
            ("the fallback", needs.clone(), other.clone(), "unknown", true, "substitute", Value::Null),
            ("not supported here", needs.clone(), other.clone(), "unknown", false, "refuse", json!(false)),
            ("no fallback", needs.clone(), Value::Null, "unknown", true, "refuse", json!(false)),
            ("the fallback lacks it too", needs.clone(), unable, "mock", true, "refuse", json!(true)),
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
    fn rejects_invalid_queries() {
        let cases = [
            (json!({}), "module"),
            (json!({"module": {"requiredModelCapabilities": [1]}}), "requiredModelCapabilities"),
            (json!({"module": {"fallbackModel": {}}}), "provider"),
            (json!({"module": {}, "activeModel": "m"}), "activeProvider"),
        ];
        for (question, name) in cases {
            assert_eq!(CapabilityQuery::read(&question), Err(QueryError(name)), "{question}");
        }
    }
}
