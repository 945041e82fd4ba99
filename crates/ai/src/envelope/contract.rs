//! The envelope kinds that a node accepts.

use std::collections::BTreeSet;

use serde_json::Value;

use super::kind::Universal;
use crate::wire_enum::wire_enum;

/// The maximum number of kinds in a contract.
pub const MAX_KINDS: usize = 256;

wire_enum! {
    /// How an envelope of another kind is handled.
    pub enum RefusalMode {
        FailNode => "fail-node",
        /// Drop the envelope and log a warning.
        DiscardAndWarn => "discard-and-warn",
    }
}

/// The kinds that a node accepts. The universal kinds are always included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contract {
    accepts: BTreeSet<String>,
    pub refusal_mode: RefusalMode,
}

/// An invalid contract and the position of the error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{pointer}: {message}")]
pub struct ContractError {
    /// A JSON Pointer.
    pub pointer: &'static str,
    pub message: &'static str,
}

impl Contract {
    pub fn new(accepts: impl IntoIterator<Item = String>, refusal_mode: RefusalMode) -> Self {
        Self { accepts: accepts.into_iter().collect(), refusal_mode }
    }

    /// Reads a contract: `{accepts, alwaysAccepted?, refusalMode?}`.
    ///
    /// # Errors
    /// The contract is invalid.
    pub fn read(value: &Value) -> Result<Self, ContractError> {
        let error = |pointer, message| ContractError { pointer, message };
        let members = value.as_object().ok_or_else(|| error("", "a contract must be an object"))?;
        if members.keys().any(|name| !["accepts", "alwaysAccepted", "refusalMode"].contains(&name.as_str())) {
            return Err(error("", "a contract can have only `accepts`, `alwaysAccepted` and `refusalMode`"));
        }
        let kinds = |value: &Value, pointer| -> Result<BTreeSet<String>, ContractError> {
            let items = value.as_array().filter(|items| items.len() <= MAX_KINDS);
            let items = items.ok_or_else(|| error(pointer, "must be a list of at most 256 kinds"))?;
            let kind = |item: &Value| {
                item.as_str().filter(|kind| (1..=256).contains(&kind.chars().count())).map(ToOwned::to_owned)
            };
            items
                .iter()
                .map(|item| {
                    kind(item).ok_or_else(|| {
                        error(
                            pointer,
                            "a kind must be a string of 1 to 256 \
                        characters",
                        )
                    })
                })
                .collect()
        };
        let accepts = match members.get("accepts") {
            Some(accepts) => kinds(accepts, "/accepts")?,
            None => return Err(error("/accepts", "required")),
        };
        if let Some(always) = members.get("alwaysAccepted") {
            let always = kinds(always, "/alwaysAccepted")?;
            if always.iter().any(|kind| Universal::parse(kind).is_none()) {
                return Err(error("/alwaysAccepted", "only universal kinds can be always accepted"));
            }
        }
        let refusal_mode = match members.get("refusalMode") {
            None => RefusalMode::FailNode,
            Some(mode) => mode
                .as_str()
                .and_then(RefusalMode::parse)
                .ok_or_else(|| error("/refusalMode", "must be `fail-node` or `discard-and-warn`"))?,
        };
        Ok(Self { accepts, refusal_mode })
    }

    #[must_use]
    pub fn with(mut self, kind: impl Into<String>) -> Self {
        self.accepts.insert(kind.into());
        self
    }

    /// The named kinds, without the universal ones.
    pub fn named(&self) -> impl Iterator<Item = &str> {
        self.accepts.iter().map(String::as_str).filter(|kind| Universal::parse(kind).is_none())
    }

    /// Instructs the model about the envelopes that it may send.
    pub fn instruction(&self) -> String {
        let mut text = "Instead of the requested output you may reply with one envelope: the JSON \
            document {\"type\": KIND, \"payload\": PAYLOAD} and no other text. The kinds are: \
            `clarification.request` asks a person; its payload is {\"questions\": [{\"id\", \
            \"question\"}]}. `schema.request` asks for the JSON Schema of the payload of a kind; its \
            payload is {\"envelopeType\"}. `error` reports that the task cannot be done; its payload is \
            {\"code\", \"message\"}"
            .to_owned();
        for kind in self.named() {
            text.push_str(", `");
            text.push_str(kind);
            text.push('`');
        }
        text.push('.');
        text
    }

    /// Whether the node accepts a kind.
    pub fn takes(&self, kind: &str) -> bool {
        Universal::parse(kind).is_some() || self.accepts.contains(kind)
    }

    /// The accepted kinds, the universal ones first.
    pub fn kinds(&self) -> Vec<String> {
        let universal = Universal::ALL.iter().map(|kind| kind.as_str().to_owned());
        universal.chain(self.named().map(ToOwned::to_owned)).collect()
    }
}
