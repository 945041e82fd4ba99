//! The field types of request bodies. Each type parses a value and has a JSON Schema that accepts the same values.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value};

use super::problem::Problem;

/// Implements [`JsonSchema`] for a type whose schema is inlined.
macro_rules! inline_schema {
    ($type:ty $(where [$($parameter:tt)+])?, $generator:ident => $schema:expr) => {
        impl $(<$($parameter)+>)? JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema($generator: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    };
}
pub(super) use inline_schema;

/// A value that a caller sends.
pub(in crate::http) trait Field: Sized {
    /// What the value must be. It continues the sentence "must be …".
    fn expected() -> Cow<'static, str>;

    fn read(value: Value) -> Result<Self, Problem>;

    /// The value if the field is missing; `None` if the field is required.
    fn missing() -> Option<Self> {
        None
    }
}

/// Left out, or `null`.
impl<T: Field> Field for Option<T> {
    fn expected() -> Cow<'static, str> {
        T::expected()
    }

    fn read(value: Value) -> Result<Self, Problem> {
        match value {
            Value::Null => Ok(None),
            value => T::read(value).map(Some),
        }
    }

    fn missing() -> Option<Self> {
        Some(None)
    }
}

/// Left out, and not `null`.
#[derive(Debug)]
pub(in crate::http) struct Maybe<T>(pub(in crate::http) Option<T>);

impl<T> Default for Maybe<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Field> Field for Maybe<T> {
    fn expected() -> Cow<'static, str> {
        T::expected()
    }

    fn read(value: Value) -> Result<Self, Problem> {
        T::read(value).map(|value| Self(Some(value)))
    }

    fn missing() -> Option<Self> {
        Some(Self(None))
    }
}

inline_schema!(Maybe<T> where [T: JsonSchema], generator => T::json_schema(generator));

/// A string with a length in bytes within bounds.
#[derive(Debug)]
pub(in crate::http) struct Text<const LEAST: usize = 0, const MOST: usize = { usize::MAX }>(
    pub(in crate::http) String,
);

impl<const LEAST: usize, const MOST: usize> Field for Text<LEAST, MOST> {
    fn expected() -> Cow<'static, str> {
        match (LEAST, MOST) {
            (0, usize::MAX) => "a string".into(),
            (_, usize::MAX) => "a string that is not empty".into(),
            (0, most) => format!("a string of at most {most} bytes").into(),
            (least, most) => format!("a string of {least} to {most} bytes").into(),
        }
    }

    fn read(value: Value) -> Result<Self, Problem> {
        match value {
            Value::String(text) if (LEAST..=MOST).contains(&text.len()) => Ok(Self(text)),
            _ => Err(Problem::wrong(Self::expected())),
        }
    }
}

// JSON Schema counts characters and the host counts bytes. For ASCII they are the same.
inline_schema!(Text<LEAST, MOST> where [const LEAST: usize, const MOST: usize], _generator => {
    let mut schema = json_schema!({"type": "string"});
    if LEAST > 0 {
        schema.insert("minLength".to_owned(), LEAST.into());
    }
    if MOST < usize::MAX {
        schema.insert("maxLength".to_owned(), MOST.into());
    }
    schema
});

/// A string of at most this many characters, for people.
#[derive(Debug)]
pub(in crate::http) struct Words<const MOST: usize>(pub(in crate::http) String);

impl<const MOST: usize> Field for Words<MOST> {
    fn expected() -> Cow<'static, str> {
        format!("a string of at most {MOST} characters").into()
    }

    fn read(value: Value) -> Result<Self, Problem> {
        match value {
            Value::String(text) if text.chars().count() <= MOST => Ok(Self(text)),
            _ => Err(Problem::wrong(Self::expected())),
        }
    }
}

inline_schema!(Words<MOST> where [const MOST: usize], _generator => json_schema!({"type": "string", "maxLength": MOST}));

/// An integer within bounds, in any notation: in JSON, `5.0` is `5`.
#[derive(Clone, Copy, Debug)]
pub(in crate::http) struct Integer<const LEAST: u64 = 0, const MOST: u64 = { u64::MAX }>(
    pub(in crate::http) u64,
);

impl<const LEAST: u64, const MOST: u64> Field for Integer<LEAST, MOST> {
    fn expected() -> Cow<'static, str> {
        match MOST {
            u64::MAX => format!("an integer of at least {LEAST}").into(),
            _ => format!("an integer from {LEAST} to {MOST}").into(),
        }
    }

    fn read(value: Value) -> Result<Self, Problem> {
        let number = whole(&value).filter(|number| (LEAST..=MOST).contains(number));
        number.map(Self).ok_or_else(|| Problem::wrong(Self::expected()))
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an integer within the limits")]
fn whole(value: &Value) -> Option<u64> {
    let spelt = |number: f64| number.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&number);
    value.as_u64().or_else(|| value.as_f64().filter(|number| spelt(*number)).map(|number| number as u64))
}

inline_schema!(Integer<LEAST, MOST> where [const LEAST: u64, const MOST: u64], _generator => {
    let mut schema = json_schema!({"type": "integer", "minimum": LEAST});
    if MOST < u64::MAX {
        schema.insert("maximum".to_owned(), MOST.into());
    }
    schema
});

/// Any object.
#[derive(Debug, Default)]
pub(in crate::http) struct Object(pub(in crate::http) Map<String, Value>);

impl Field for Object {
    fn expected() -> Cow<'static, str> {
        "an object".into()
    }

    fn read(value: Value) -> Result<Self, Problem> {
        match value {
            Value::Object(members) => Ok(Self(members)),
            _ => Err(Problem::wrong(Self::expected())),
        }
    }
}

inline_schema!(Object, _generator => json_schema!({"type": "object"}));

/// Any value, `null` among them.
#[derive(Debug)]
pub(in crate::http) struct Any(pub(in crate::http) Value);

impl Field for Any {
    fn expected() -> Cow<'static, str> {
        "any value".into()
    }

    fn read(value: Value) -> Result<Self, Problem> {
        Ok(Self(value))
    }
}

inline_schema!(Any, _generator => json_schema!({}));

/// A list with a number of items within bounds.
#[derive(Debug)]
pub(in crate::http) struct List<T, const LEAST: usize = 0, const MOST: usize = { usize::MAX }>(
    pub(in crate::http) Vec<T>,
);

impl<T: Field, const LEAST: usize, const MOST: usize> Field for List<T, LEAST, MOST> {
    fn expected() -> Cow<'static, str> {
        let each = T::expected();
        match MOST {
            usize::MAX => format!("a list; each item is {each}").into(),
            _ => format!("a list of {LEAST} to {MOST} items; each is {each}").into(),
        }
    }

    fn read(value: Value) -> Result<Self, Problem> {
        match value {
            Value::Array(items) if (LEAST..=MOST).contains(&items.len()) => {
                let items: Result<_, _> = items.into_iter().map(T::read).collect();
                // The error does not name the index of the item: the limits of an item are part of what the list must be.
                items.map(Self).map_err(|_| Problem::wrong(Self::expected()))
            }
            _ => Err(Problem::wrong(Self::expected())),
        }
    }
}

inline_schema!(List<T, LEAST, MOST> where [T: JsonSchema, const LEAST: usize, const MOST: usize], generator => {
    let items = generator.subschema_for::<T>();
    let mut schema = json_schema!({"type": "array", "items": items});
    if LEAST > 0 {
        schema.insert("minItems".to_owned(), LEAST.into());
    }
    if MOST < usize::MAX {
        schema.insert("maxItems".to_owned(), MOST.into());
    }
    schema
});

/// Declares an enum whose values are strings.
macro_rules! choice {
    ($(#[$meta:meta])* $name:ident { $($variant:ident = $text:literal,)+ } expected $expected:literal) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(in crate::http) enum $name {
            $($variant,)+
        }

        impl $crate::http::bodies::fields::Field for $name {
            fn expected() -> std::borrow::Cow<'static, str> {
                $expected.into()
            }

            fn read(value: serde_json::Value) -> Result<Self, $crate::http::bodies::problem::Problem> {
                match value.as_str() {
                    $(Some($text) => Ok(Self::$variant),)+
                    _ => Err($crate::http::bodies::problem::Problem::wrong(Self::expected())),
                }
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({"enum": [$($text),+]})
            }
        }
    };
}
pub(super) use choice;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A field accepts exactly the values that its schema accepts.
    #[test]
    fn a_field_accepts_what_its_schema_accepts() {
        fn check<T: Field + JsonSchema>() {
            let schema = schemars::schema_for!(T);
            let validator = jsonschema::validator_for(schema.as_value()).unwrap();
            let texts = ["", "a", "ab", "abc", "abcdef"].map(Value::from);
            let numbers = [json!(-1), json!(0), json!(1), json!(2.0), json!(2.5), json!(3), json!(4)];
            let lists =
                [json!([]), json!([1]), json!(["ab"]), json!(["ab", "ab"]), json!(["ab", "ab", "ab"])];
            let others = [json!(null), json!(true), json!({}), json!({"a": 1})];
            for value in texts.into_iter().chain(numbers).chain(lists).chain(others) {
                let taken = T::read(value.clone()).is_ok();
                assert_eq!(taken, validator.is_valid(&value), "{value} as {}", T::expected());
            }
        }
        check::<Text>();
        check::<Text<1>>();
        check::<Text<1, 3>>();
        check::<Words<2>>();
        check::<Integer>();
        check::<Integer<1, 3>>();
        check::<Object>();
        check::<Any>();
        check::<List<Text<1, 3>>>();
        check::<List<Text<1, 3>, 1, 2>>();
        check::<Option<Words<2>>>();
        check::<Option<Object>>();
        check::<Option<List<Any, 1, 2>>>();
    }
}
