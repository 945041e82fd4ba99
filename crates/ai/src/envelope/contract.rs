//! Which kinds of envelopes a node takes.

use std::collections::BTreeSet;

use serde_json::Value;

use super::kind::Universal;
use crate::words::words;

/// The most kinds of a contract.
pub const MAX_KINDS: usize = 256;

words! {
    /// What happens when an envelope is of another kind.
    pub enum RefusalMode {
        /// The node fails.
        FailNode => "fail-node",
        /// The envelope is dropped, and a line says so.
        DiscardAndWarn => "discard-and-warn",
    }
}

/// The kinds that a node takes. The universal ones are always among them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contract {
    accepts: BTreeSet<String>,
    /// What happens when an envelope is of another kind.
    pub refusal_mode: RefusalMode,
}

/// Why a contract is none, and where that is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{pointer}: {message}")]
pub struct ContractError {
    /// A JSON pointer.
    pub pointer: &'static str,
    /// What is wrong there.
    pub message: &'static str,
}

impl Contract {
    /// A contract of these kinds.
    pub fn new(accepts: impl IntoIterator<Item = String>, refusal_mode: RefusalMode) -> Self {
        Self { accepts: accepts.into_iter().collect(), refusal_mode }
    }

    /// Reads a contract: `{accepts, alwaysAccepted?, refusalMode?}`.
    ///
    /// # Errors
    /// It is not that.
    pub fn read(value: &Value) -> Result<Self, ContractError> {
        let error = |pointer, message| ContractError { pointer, message };
        let members = value.as_object().ok_or_else(|| error("", "a contract is an object"))?;
        if members.keys().any(|name| !["accepts", "alwaysAccepted", "refusalMode"].contains(&name.as_str())) {
            return Err(error(
                "",
                "a contract has `accepts`, `alwaysAccepted` and `refusalMode`, and nothing else",
            ));
        }
        let kinds = |value: &Value, pointer| -> Result<BTreeSet<String>, ContractError> {
            let items = value.as_array().filter(|items| items.len() <= MAX_KINDS);
            let items = items.ok_or_else(|| error(pointer, "it is a list of at most 256 kinds"))?;
            let kind = |item: &Value| {
                item.as_str().filter(|kind| (1..=256).contains(&kind.chars().count())).map(ToOwned::to_owned)
            };
            items
                .iter()
                .map(|item| {
                    kind(item).ok_or_else(|| error(pointer, "a kind is a text of 1 to 256 characters"))
                })
                .collect()
        };
        let accepts = match members.get("accepts") {
            Some(accepts) => kinds(accepts, "/accepts")?,
            None => return Err(error("/accepts", "it is missing")),
        };
        if let Some(always) = members.get("alwaysAccepted") {
            let always = kinds(always, "/alwaysAccepted")?;
            if always.iter().any(|kind| Universal::parse(kind).is_none()) {
                return Err(error("/alwaysAccepted", "only universal kinds are always accepted"));
            }
        }
        let refusal_mode = match members.get("refusalMode") {
            None => RefusalMode::FailNode,
            Some(mode) => mode
                .as_str()
                .and_then(RefusalMode::parse)
                .ok_or_else(|| error("/refusalMode", "it is `fail-node` or `discard-and-warn`"))?,
        };
        Ok(Self { accepts, refusal_mode })
    }

    /// The same, and one kind more.
    #[must_use]
    pub fn with(mut self, kind: impl Into<String>) -> Self {
        self.accepts.insert(kind.into());
        self
    }

    /// The kinds that it names, without those that every contract takes.
    pub fn named(&self) -> impl Iterator<Item = &str> {
        self.accepts.iter().map(String::as_str).filter(|kind| Universal::parse(kind).is_none())
    }

    /// What a model is told of the envelopes that it may reply with.
    pub fn instruction(&self) -> String {
        let mut text = "In the place of what is asked for you may reply with one envelope: the JSON document \
            {\"type\": KIND, \"payload\": PAYLOAD} and nothing around it. The kinds are: \
            `clarification.request`, which asks a person, with {\"questions\": [{\"id\", \"question\"}]}; \
            `schema.request`, which asks for the JSON Schema of the payload of a kind, with {\"envelopeType\"}; \
            `error`, which says that it cannot be done, with {\"code\", \"message\"}"
            .to_owned();
        for kind in self.named() {
            text.push_str(", `");
            text.push_str(kind);
            text.push('`');
        }
        text.push('.');
        text
    }

    /// Whether the node takes a kind.
    pub fn takes(&self, kind: &str) -> bool {
        Universal::parse(kind).is_some() || self.accepts.contains(kind)
    }

    /// The kinds that the node takes, the universal ones first.
    pub fn kinds(&self) -> Vec<String> {
        let universal = Universal::ALL.iter().map(|kind| kind.as_str().to_owned());
        universal.chain(self.named().map(ToOwned::to_owned)).collect()
    }
}
