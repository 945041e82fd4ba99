//! A request to compose, as received.
//!
//! A request is not converted to types up front. Its context and half of its manifest are hashed as
//! received, including unknown members, and members that no enabled slot needs are not checked. So
//! it is kept as JSON, and each member is checked where it is used.

use canon::error::Envelope;
use canon::json::{self, Limits, ReadError};
use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use super::javascript;
use super::member::Member;
use crate::Error;

#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Every number is a double, and nothing is nested deeper than [`json::MAX_DEPTH`].
    value: Value,
    /// The keys of `manifest.mounts` in JavaScript's order.
    mounts: Vec<String>,
}

impl Request {
    /// Reads a request from JSON.
    ///
    /// # Errors
    /// Errors of the [strict reader](json).
    pub fn read(bytes: &[u8]) -> Result<Self, RequestError> {
        let value = json::read(bytes, &Limits::DEFAULT)?;
        // A `Value` loses the order of its members. This second pass finds the order of the mounts;
        // if the request has another shape, composing reports it.
        let order = serde_json::from_slice::<Ordered>(bytes).unwrap_or_default();
        Ok(Self::from_value(value, &order.manifest.mounts.0)?)
    }

    /// Takes a request that was built in memory.
    ///
    /// `mount_order` is the order of the mounts in the manifest; unnamed mounts follow in key
    /// order.
    ///
    /// # Errors
    /// If the value is nested too deeply.
    pub fn from_value(mut value: Value, mount_order: &[String]) -> Result<Self, Error> {
        if !json::within_depth(&value, json::MAX_DEPTH) {
            let seen = json::depth_of(&value) as u64;
            return Err(Error::limit("levels of nesting in a request", json::MAX_DEPTH as u64, seen));
        }
        javascript::as_doubles(&mut value);
        let declared =
            value.get("manifest").and_then(|manifest| manifest.get("mounts")).and_then(Value::as_object);
        let mut mounts = Vec::new();
        if let Some(declared) = declared {
            let mut left: std::collections::BTreeSet<&String> = declared.keys().collect();
            mounts.extend(mount_order.iter().filter(|key| left.remove(key)).cloned());
            mounts.extend(left.into_iter().cloned());
            mounts.sort_by_key(|key| javascript::in_object(key));
        }
        Ok(Self { value, mounts })
    }

    pub(super) fn root(&self) -> Member<'_, '_> {
        Member::root(&self.value)
    }

    /// The keys of all mounts, in order.
    pub(super) fn mounts(&self) -> &[String] {
        &self.mounts
    }
}

/// Why a request was not read.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// It is not valid JSON.
    #[error(transparent)]
    Json(#[from] ReadError),
    /// It exceeds a limit.
    #[error(transparent)]
    Refused(#[from] Error),
}

impl RequestError {
    pub fn envelope(&self) -> Envelope {
        match self {
            Self::Json(refusal) => refusal.envelope(),
            Self::Refused(refusal) => refusal.envelope(),
        }
    }
}

/// The part of a request in which order matters.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Ordered {
    manifest: OrderedManifest,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct OrderedManifest {
    mounts: Keys,
}

/// The keys of an object, in text order.
#[derive(Default)]
struct Keys(Vec<String>);

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeysVisitor;

        impl<'de> Visitor<'de> for KeysVisitor {
            type Value = Keys;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Keys, A::Error> {
                let mut keys = Vec::new();
                while let Some((key, IgnoredAny)) = map.next_entry()? {
                    keys.push(key);
                }
                Ok(Keys(keys))
            }
        }

        deserializer.deserialize_map(KeysVisitor)
    }
}
