//! Overrides of model settings from the caller of a run.

use serde_json::{Map, Value};

use super::credential::CredentialRef;
use super::reader::Problem;
use crate::completion::MAX_OUTPUT_TOKENS;
use crate::prompt::resolve::{ByKind, by_kind};
use crate::reasoning::Verbosity;

/// Overrides from the caller of a run. They take precedence over node configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overrides {
    pub provider: Option<String>,
    pub model: Option<String>,
    /// The name of the credential.
    pub credential: Option<CredentialRef>,
    pub temperature: Option<f64>,
    /// The maximum number of output tokens.
    pub max_tokens: Option<u32>,
    /// Prompt references by kind.
    pub prompts: ByKind,
    /// How much of the model's reasoning is recorded.
    pub verbosity: Option<Verbosity>,
}

impl Overrides {
    /// Reads `configurable`: `model`, `temperature`, `maxTokens`, `promptOverrides`, `reasoningVerbosity`, and
    /// `provider`, `model` and `credentialRef` of `ai`, which can also be written with a dot, such as `ai.model`.
    ///
    /// # Errors
    /// Every problem.
    pub fn read(configurable: &Map<String, Value>) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut wrong = |pointer: &str, message: &str| {
            problems.push(Problem { pointer: pointer.to_owned(), message: message.to_owned() });
        };
        let ai = |name: &str| {
            let nested = configurable.get("ai").and_then(|ai| ai.get(name));
            nested.or_else(|| configurable.get(&format!("ai.{name}"))).filter(|value| !value.is_null())
        };
        let plain = |name: &str| configurable.get(name).filter(|value| !value.is_null());
        let text = |value: &Value| {
            value.as_str().filter(|text| (1..=256).contains(&text.len())).map(ToOwned::to_owned)
        };
        // As for all host limits, a larger value is reduced to the limit.
        let room = |value: &Value| {
            let room = value.as_u64().filter(|room| *room > 0)?;
            Some(u32::try_from(room).unwrap_or(u32::MAX).min(MAX_OUTPUT_TOKENS))
        };
        macro_rules! member {
            ($value:expr, $pointer:literal, $message:literal, $read:expr) => {
                match $value {
                    None => None,
                    Some(value) => {
                        let read = $read(value);
                        if read.is_none() {
                            wrong($pointer, $message);
                        }
                        read
                    }
                }
            };
        }
        let overrides = Self {
            provider: member!(ai("provider"), "/ai/provider", "must be a string of 1 to 256 bytes", text),
            model: member!(
                ai("model").or(plain("model")),
                "/ai/model",
                "must be a string of 1 to 256 bytes",
                text
            ),
            credential: member!(
                ai("credentialRef"),
                "/ai/credentialRef",
                "must be the name of a secret",
                |value: &Value| value.as_str().and_then(CredentialRef::parse)
            ),
            temperature: member!(
                plain("temperature"),
                "/temperature",
                "must be a number from 0 to 2",
                |value: &Value| value.as_f64().filter(|number| (0.0..=2.0).contains(number))
            ),
            max_tokens: member!(plain("maxTokens"), "/maxTokens", "must be a positive integer", room),
            prompts: plain("promptOverrides").map(by_kind).unwrap_or_default(),
            verbosity: member!(
                plain("reasoningVerbosity"),
                "/reasoningVerbosity",
                "must be `summary`, `full` or `off`",
                |value: &Value| value.as_str().and_then(Verbosity::parse)
            ),
        };
        if problems.is_empty() { Ok(overrides) } else { Err(problems) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reads_both_spellings_and_locates_errors() {
        let read = |value: Value| Overrides::read(value.as_object().unwrap());
        let nested = read(
            json!({"ai": {"provider": "p", "model": "m", "credentialRef": "secret:k"}, "temperature": 1}),
        )
        .unwrap();
        let dotted =
            read(json!({"ai.provider": "p", "ai.model": "m", "ai.credentialRef": "k", "temperature": 1.0}))
                .unwrap();
        assert_eq!(nested, dotted);
        let problems =
            read(json!({"ai": {"credentialRef": "sk-proj-1234"}, "maxTokens": 0, "temperature": 3}))
                .unwrap_err();
        let pointers: Vec<_> = problems.iter().map(|problem| problem.pointer.as_str()).collect();
        assert_eq!(pointers, ["/ai/credentialRef", "/temperature", "/maxTokens"]);
        for (asked, given) in
            [(1, 1), (u64::from(MAX_OUTPUT_TOKENS), MAX_OUTPUT_TOKENS), (u64::MAX, MAX_OUTPUT_TOKENS)]
        {
            assert_eq!(read(json!({"maxTokens": asked})).unwrap().max_tokens, Some(given), "{asked}");
        }
        assert!(!format!("{problems:?}").contains("sk-proj"));
    }
}
