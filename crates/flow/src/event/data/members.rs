//! Deserializes the members of a payload into its type.
//!
//! serde passes the field names of a struct to the deserializer. The deserializer removes those members from the payload, so the remaining ones
//! are those that this version does not know.

use serde::de::value::StrDeserializer;
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, Visitor,
};
use serde_json::{Map, Value};

use super::EventKind;

/// A payload that does not match its kind.
///
/// The error does not repeat the value, because it can contain any data of a user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the payload of `{kind}` {flaw}")]
pub struct PayloadError {
    kind: EventKind,
    flaw: Flaw,
}

impl PayloadError {
    /// The error for a missing required member.
    pub(crate) const fn without(kind: EventKind, member: &'static str) -> Self {
        Self { kind, flaw: Flaw::Missing(member) }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Flaw {
    #[error("has no `{0}`")]
    Missing(&'static str),
    #[error("has `{0}` with the wrong type")]
    Mistyped(&'static str),
    #[error("cannot be read")]
    Unreadable,
}

impl de::Error for Flaw {
    fn custom<T: std::fmt::Display>(_message: T) -> Self {
        Self::Unreadable
    }

    fn missing_field(field: &'static str) -> Self {
        Self::Missing(field)
    }
}

/// Removes the members of a kind from a payload and deserializes them.
pub(super) fn read<P: DeserializeOwned>(
    kind: &EventKind,
    payload: &mut Map<String, Value>,
) -> Result<P, PayloadError> {
    P::deserialize(Members(payload)).map_err(|flaw| PayloadError { kind: kind.clone(), flaw })
}

struct Members<'m>(&'m mut Map<String, Value>);

impl<'de> Deserializer<'de> for Members<'_> {
    type Error = Flaw;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Flaw> {
        visitor.visit_map(KnownMembers { fields: fields.iter(), members: self.0, current: None })
    }

    /// Never called, because every payload is a struct.
    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Flaw> {
        Err(Flaw::Unreadable)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// The members for which a struct has fields.
struct KnownMembers<'m> {
    fields: std::slice::Iter<'static, &'static str>,
    members: &'m mut Map<String, Value>,
    current: Option<(&'static str, Value)>,
}

impl<'de> MapAccess<'de> for KnownMembers<'_> {
    type Error = Flaw;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Flaw> {
        let members = &mut *self.members;
        self.current = self.fields.by_ref().find_map(|name| Some((*name, members.remove(*name)?)));
        match &self.current {
            None => Ok(None),
            Some((name, _)) => {
                let name: StrDeserializer<'_, Flaw> = (*name).into_deserializer();
                seed.deserialize(name).map(Some)
            }
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Flaw> {
        let (name, value) = self.current.take().ok_or(Flaw::Unreadable)?;
        seed.deserialize(value).map_err(|_: serde_json::Error| Flaw::Mistyped(name))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::EventData;
    use super::*;

    fn read(kind: EventKind, payload: &Value) -> Result<(EventData, Map<String, Value>), String> {
        EventData::read(kind, payload.as_object().unwrap().clone()).map_err(|error| error.to_string())
    }

    #[test]
    fn an_error_names_the_missing_or_mistyped_member() {
        let cases = [
            (json!({"attempt": 0, "typeId": "core.noop"}), "the payload of `node.started` has no `nodeId`"),
            (
                json!({"attempt": "secret", "nodeId": "a", "typeId": "core.noop"}),
                "the payload of `node.started` has `attempt` with the wrong type",
            ),
            (
                json!({"attempt": 0, "dueAt": "tomorrow", "nodeId": "a", "typeId": "core.noop"}),
                "the payload of `node.started` has `dueAt` with the wrong type",
            ),
        ];
        for (payload, message) in cases {
            assert_eq!(read(EventKind::NodeStarted, &payload).unwrap_err(), message);
        }
    }

    #[test]
    fn unknown_members_are_returned_separately() {
        let payload = json!({"attempt": 0, "nodeId": "a", "typeId": "core.noop", "worker": {"id": 7}});
        let (data, extra) = read(EventKind::NodeStarted, &payload).unwrap();
        assert_eq!(data.kind(), EventKind::NodeStarted);
        assert_eq!(Value::Object(extra), json!({"worker": {"id": 7}}));
    }

    #[test]
    fn a_null_value_of_a_user_is_kept() {
        let (data, _) = read(EventKind::VariableChanged, &json!({"name": "a", "next": null})).unwrap();
        assert_eq!(Value::Object(data.to_members()), json!({"name": "a", "next": null}));
    }
}
