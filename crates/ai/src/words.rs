//! Closed sets of words, with their spelling on the wire.

/// Makes an enum whose members are words.
macro_rules! words {
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
            /// Every word, in the order in which they are declared.
            pub const ALL: &'static [Self] = &[$(Self::$word),+];

            /// The word as it is sent.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$word => $text,)+
                }
            }

            /// The member with exactly this text.
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

pub(crate) use words;
