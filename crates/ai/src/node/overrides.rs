//! What the caller of a run says about its calls of models.

use serde_json::{Map, Value};

use super::credential::CredentialRef;
use super::reader::Problem;
use crate::completion::MAX_OUTPUT_TOKENS;
use crate::prompt::resolve::{ByKind, by_kind};
use crate::reasoning::Verbosity;

/// What the caller of a run says, before what nodes say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overrides {
    /// The provider.
    pub provider: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// The credential, by its name.
    pub credential: Option<CredentialRef>,
    /// How freely models choose.
    pub temperature: Option<f64>,
    /// How much room replies get.
    pub max_tokens: Option<u32>,
    /// Prompts, by what they are for.
    pub prompts: ByKind,
    /// How much of what a model thinks is recorded.
    pub verbosity: Option<Verbosity>,
}

impl Overrides {
    /// Reads what `configurable` says: `model`, `temperature`, `maxTokens`, `promptOverrides`, `reasoningVerbosity`, and
    /// `provider`, `model` and `credentialRef` of `ai`, which may also stand there with a dot in their names.
    ///
    /// # Errors
    /// All that is wrong with it.
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
        // As with every limit of the host, whoever asks for more gets what there is.
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
            provider: member!(ai("provider"), "/ai/provider", "it is a text of 1 to 256 bytes", text),
            model: member!(
                ai("model").or(plain("model")),
                "/ai/model",
                "it is a text of 1 to 256 bytes",
                text
            ),
            credential: member!(
                ai("credentialRef"),
                "/ai/credentialRef",
                "it is the name of a secret",
                |value: &Value| value.as_str().and_then(CredentialRef::parse)
            ),
            temperature: member!(
                plain("temperature"),
                "/temperature",
                "it is a number from 0 to 2",
                |value: &Value| value.as_f64().filter(|number| (0.0..=2.0).contains(number))
            ),
            max_tokens: member!(plain("maxTokens"), "/maxTokens", "it is a whole number from 1", room),
            prompts: plain("promptOverrides").map(by_kind).unwrap_or_default(),
            verbosity: member!(
                plain("reasoningVerbosity"),
                "/reasoningVerbosity",
                "it is `summary`, `full` or `off`",
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
    fn both_spellings_are_read_and_mistakes_have_a_place() {
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
