//! Typed ids: a prefix for the kind, and a body of safe characters.
//!
//! The body has 1 to 128 bytes of `A-Z a-z 0-9 _ -`, so an id is valid as a file name, URL segment and log field
//! without escaping. [`typed_id!`](crate::typed_id) declares one type per kind, so kinds cannot be confused.
//! [`opaque_id!`](crate::opaque_id) does the same for externally chosen names without a fixed format.

use std::fmt;
use std::sync::Arc;

/// The maximum length after the prefix, in bytes.
pub const MAX_BODY_BYTES: usize = 128;

/// Why a text is not a valid id.
///
/// The text is not quoted: it may be a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    #[error("the id must start with `{prefix}`")]
    Prefix { prefix: &'static str },
    #[error("the id must have 1 to {MAX_BODY_BYTES} bytes after `{prefix}`, not {measured}")]
    Length {
        prefix: &'static str,
        /// Bytes after the prefix.
        measured: usize,
    },
    #[error(
        "byte {offset} of the id is {character:?}; only A-Z, a-z, 0-9, `_` and `-` are allowed after \
            `{prefix}`"
    )]
    Character {
        prefix: &'static str,
        /// The first invalid character.
        character: char,
        /// Its byte offset in the text.
        offset: usize,
    },
}

/// Declares an id type.
///
/// The type has `PREFIX`, `parse`, `as_str`, `Display`, `Debug` (the text), `FromStr`, `Ord` and `Hash`, and serde uses
/// `parse`: every value of the type is valid.
///
/// ```
/// canon::typed_id!(
///     /// One durable workflow session.
///     SessionId, "sess_"
/// );
///
/// let id = SessionId::parse("sess_gwl2x")?;
/// assert_eq!(id.as_str(), "sess_gwl2x");
/// assert!(SessionId::parse("run_gwl2x").is_err());
/// # Ok::<(), canon::id::IdError>(())
/// ```
#[macro_export]
macro_rules! typed_id {
    ($(#[$attribute:meta])* $name:ident, $prefix:literal $(,)?) => {
        $(#[$attribute])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(::std::string::String);

        impl $name {
            pub const PREFIX: &'static str = $prefix;

            /// Parses an id: the prefix, then 1 to 128 bytes of `A-Z a-z 0-9 _ -`.
            ///
            /// # Errors
            /// Any other text.
            pub fn parse(text: &str) -> ::std::result::Result<Self, $crate::id::IdError> {
                $crate::__private::check(text, $prefix)?;
                ::std::result::Result::Ok(Self(::std::borrow::ToOwned::to_owned(text)))
            }

            /// The text with the prefix.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                formatter.pad(&self.0)
            }
        }

        impl ::std::fmt::Debug for $name {
            fn fmt(&self, formatter: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                formatter.pad(&self.0)
            }
        }

        impl ::std::str::FromStr for $name {
            type Err = $crate::id::IdError;

            fn from_str(text: &str) -> ::std::result::Result<Self, Self::Err> {
                Self::parse(text)
            }
        }

        impl ::std::convert::TryFrom<::std::string::String> for $name {
            type Error = $crate::id::IdError;

            fn try_from(text: ::std::string::String) -> ::std::result::Result<Self, Self::Error> {
                $crate::__private::check(&text, $prefix)?;
                ::std::result::Result::Ok(Self(text))
            }
        }

        impl ::std::convert::From<$name> for ::std::string::String {
            fn from(id: $name) -> Self {
                id.0
            }
        }

        impl $crate::__private::serde::Serialize for $name {
            fn serialize<S: $crate::__private::serde::Serializer>(
                &self,
                serializer: S,
            ) -> ::std::result::Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> $crate::__private::serde::Deserialize<'de> for $name {
            fn deserialize<D: $crate::__private::serde::Deserializer<'de>>(
                deserializer: D,
            ) -> ::std::result::Result<Self, D::Error> {
                let text: ::std::string::String =
                    $crate::__private::serde::Deserialize::deserialize(deserializer)?;
                ::std::convert::TryFrom::try_from(text)
                    .map_err($crate::__private::serde::de::Error::custom)
            }
        }
    };
}

/// Declares an id type whose text is not validated: authors or callers chose it, or an earlier version stored it.
///
/// Clones share the text. There is no `Deref` and no `From`, so `.into()` cannot convert between kinds;
/// [`new`](#method.new) creates an id from text.
///
/// ```
/// use std::collections::BTreeMap;
///
/// canon::opaque_id!(
///     /// A workflow step, as named by its author.
///     NodeId
/// );
///
/// let id = NodeId::new("approve");
/// assert_eq!(id, "approve");
/// assert_eq!(BTreeMap::from([(id, 1)]).get("approve"), Some(&1));
/// ```
#[macro_export]
macro_rules! opaque_id {
    ($($(#[$attribute:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$attribute])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(::std::sync::Arc<str>);

        impl $name {
            pub fn new(text: impl ::std::convert::Into<::std::sync::Arc<str>>) -> Self {
                Self(text.into())
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                formatter.pad(&self.0)
            }
        }

        impl ::std::fmt::Debug for $name {
            fn fmt(&self, formatter: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                formatter.pad(&self.0)
            }
        }

        impl ::std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl ::std::convert::AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl ::std::cmp::PartialEq<str> for $name {
            fn eq(&self, text: &str) -> bool {
                &*self.0 == text
            }
        }

        impl ::std::cmp::PartialEq<&str> for $name {
            fn eq(&self, text: &&str) -> bool {
                &*self.0 == *text
            }
        }

        impl $crate::__private::serde::Serialize for $name {
            fn serialize<S: $crate::__private::serde::Serializer>(
                &self,
                serializer: S,
            ) -> ::std::result::Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> $crate::__private::serde::Deserialize<'de> for $name {
            fn deserialize<D: $crate::__private::serde::Deserializer<'de>>(
                deserializer: D,
            ) -> ::std::result::Result<Self, D::Error> {
                $crate::__private::shared_text(deserializer).map(Self)
            }
        }
    )+};
}

/// Reads a string into shared memory with one copy.
#[doc(hidden)]
pub fn shared_text<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Arc<str>, D::Error> {
    struct Text;
    impl serde::de::Visitor<'_> for Text {
        type Value = Arc<str>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a string")
        }

        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Arc<str>, E> {
            Ok(text.into())
        }
    }
    deserializer.deserialize_str(Text)
}

/// The validation behind every `parse` of [`typed_id!`](crate::typed_id).
#[doc(hidden)]
pub fn check(text: &str, prefix: &'static str) -> Result<(), IdError> {
    let body = text.strip_prefix(prefix).ok_or(IdError::Prefix { prefix })?;
    if body.is_empty() || body.len() > MAX_BODY_BYTES {
        return Err(IdError::Length { prefix, measured: body.len() });
    }
    let stranger = body
        .char_indices()
        .find(|(_, character)| !(character.is_ascii_alphanumeric() || matches!(character, '_' | '-')));
    match stranger {
        None => Ok(()),
        Some((offset, character)) => {
            Err(IdError::Character { prefix, character, offset: prefix.len() + offset })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    typed_id!(
        /// An id type for this test.
        SampleId, "sample_"
    );

    #[test]
    fn rejects_invalid_ids() {
        let prefix = "sample_";
        let long = format!("sample_{}", "a".repeat(129));
        let cases = [
            ("nothing", "", IdError::Prefix { prefix }),
            ("another kind", "other_a", IdError::Prefix { prefix }),
            ("another case", "Sample_a", IdError::Prefix { prefix }),
            ("a space in front", " sample_a", IdError::Prefix { prefix }),
            ("no body", "sample_", IdError::Length { prefix, measured: 0 }),
            ("too long", &long, IdError::Length { prefix, measured: 129 }),
            ("climbs", "sample_a/..", IdError::Character { prefix, character: '/', offset: 8 }),
            ("a line end", "sample_a\n", IdError::Character { prefix, character: '\n', offset: 8 }),
            ("not ASCII", "sample_aé", IdError::Character { prefix, character: 'é', offset: 8 }),
            ("a NUL", "sample_\0", IdError::Character { prefix, character: '\0', offset: 7 }),
        ];
        for (name, text, expected) in cases {
            assert_eq!(SampleId::parse(text), Err(expected), "{name}");
            assert_eq!(SampleId::try_from(text.to_owned()), Err(expected), "{name}, owned");
            assert!(serde_json::from_value::<SampleId>(text.into()).is_err(), "{name}, by serde");
        }
    }

    #[test]
    fn accepts_the_longest_id() {
        let text = format!("sample_{}", "aZ09_-bb".repeat(16));
        let id = SampleId::parse(&text).unwrap();
        assert_eq!(id.as_str(), text);
        assert_eq!(id.to_string(), text);
        assert_eq!(format!("{id:?}"), text);
        assert_eq!(text.parse(), Ok(id.clone()));
        assert_eq!(serde_json::to_value(&id).unwrap(), text.as_str());
        assert_eq!(String::from(id), text);
    }
}
