//! Closed lists of error codes.

/// A member of a closed list of error codes.
///
/// Implemented by [`error_codes!`](crate::error_codes).
pub trait ErrorCode: Copy + 'static {
    /// Every code, in declaration order. Tests check that each code is produced somewhere and has a page.
    const ALL: &'static [Self];

    /// The wire code, for example `JSON_SYNTAX`.
    fn as_str(self) -> &'static str;
}

/// Declares a closed enum of error codes.
///
/// Each code has a doc line and its wire text. The enum gets `ALL`, `as_str`, `parse`, `Display`,
/// [`ErrorCode`](crate::error::ErrorCode), and serde as the text.
///
/// ```
/// canon::error_codes! {
///     /// Why a lease is rejected.
///     pub enum LeaseErrorCode {
///         /// Another holder has it.
///         Held => "LEASE_HELD",
///         /// The lease does not exist.
///         NotFound => "LEASE_NOT_FOUND",
///     }
/// }
///
/// assert_eq!(LeaseErrorCode::Held.to_string(), "LEASE_HELD");
/// assert_eq!(LeaseErrorCode::parse("LEASE_NOT_FOUND"), Some(LeaseErrorCode::NotFound));
/// assert_eq!(LeaseErrorCode::ALL.len(), 2);
/// ```
#[macro_export]
macro_rules! error_codes {
    (
        $(#[$attribute:meta])*
        $visibility:vis enum $name:ident {
            $($(#[$code_attribute:meta])* $code:ident => $text:literal),+ $(,)?
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $visibility enum $name {
            $($(#[$code_attribute])* $code,)+
        }

        impl $name {
            /// Every code, in declaration order.
            $visibility const ALL: &'static [Self] = &[$(Self::$code),+];

            /// The wire code.
            $visibility const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$code => $text,)+
                }
            }

            /// Parses a wire code exactly.
            $visibility fn parse(text: &str) -> ::std::option::Option<Self> {
                Self::ALL.iter().copied().find(|code| code.as_str() == text)
            }
        }

        impl $crate::error::ErrorCode for $name {
            const ALL: &'static [Self] = $name::ALL;

            fn as_str(self) -> &'static str {
                $name::as_str(self)
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                formatter.pad(self.as_str())
            }
        }

        impl $crate::__private::serde::Serialize for $name {
            fn serialize<S: $crate::__private::serde::Serializer>(
                &self,
                serializer: S,
            ) -> ::std::result::Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> $crate::__private::serde::Deserialize<'de> for $name {
            fn deserialize<D: $crate::__private::serde::Deserializer<'de>>(
                deserializer: D,
            ) -> ::std::result::Result<Self, D::Error> {
                let text: ::std::string::String =
                    $crate::__private::serde::Deserialize::deserialize(deserializer)?;
                Self::parse(&text).ok_or_else(|| {
                    $crate::__private::serde::de::Error::unknown_variant(&text, &[$($text),+])
                })
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::ErrorCode;

    error_codes! {
        /// Codes for this test.
        enum SampleCode {
            /// The first.
            First => "SAMPLE_FIRST",
            /// The second.
            Second => "SAMPLE_SECOND",
        }
    }

    fn texts<C: ErrorCode>() -> Vec<&'static str> {
        C::ALL.iter().map(|code| code.as_str()).collect()
    }

    #[test]
    fn a_list_is_closed_in_both_directions() {
        assert_eq!(texts::<SampleCode>(), ["SAMPLE_FIRST", "SAMPLE_SECOND"]);
        for code in SampleCode::ALL {
            assert_eq!(SampleCode::parse(code.as_str()), Some(*code));
            let value = serde_json::to_value(code).unwrap();
            assert_eq!(value, code.to_string());
            assert_eq!(serde_json::from_value::<SampleCode>(value).unwrap(), *code);
        }
        for stranger in ["", "First", "sample_first", "SAMPLE_THIRD"] {
            assert_eq!(SampleCode::parse(stranger), None, "{stranger}");
            let refused = serde_json::from_value::<SampleCode>(stranger.into());
            assert!(refused.unwrap_err().to_string().contains("SAMPLE_FIRST"), "{stranger}");
        }
    }
}
