//! Closed enums with wire spellings.

/// Declares an enum with a wire spelling for each variant.
macro_rules! wire_enum {
    (
        $(#[$attribute:meta])*
        pub enum $name:ident { $($(#[$word_attribute:meta])* $word:ident => $text:literal),+ $(,)? }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$word_attribute])* $word,)+
        }

        impl $name {
            /// Every variant, in declaration order.
            pub const ALL: &'static [Self] = &[$(Self::$word),+];

            /// The wire spelling.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$word => $text,)+
                }
            }

            /// Parses a wire spelling exactly.
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|word| word.as_str() == text)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.pad(self.as_str())
            }
        }

        impl From<$name> for serde_json::Value {
            fn from(word: $name) -> Self {
                Self::String(word.as_str().to_owned())
            }
        }
    };
}

pub(crate) use wire_enum;
