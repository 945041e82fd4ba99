//! The bodies of requests and replies, as types.
//!
//! A request type parses a body and reports what is invalid; its JSON Schema in the OpenAPI document is derived from the same
//! type, so the document and the checks cannot disagree. The members of a reply are declared in alphabetical order, which is how
//! they are sent.

pub(super) mod annotations;
mod fields;
pub(super) mod history;
pub(super) mod interrupts;
pub(super) mod packs;
mod problem;
pub(super) mod runs;
pub(super) mod webhooks;
pub(super) mod workflows;

use ::runs::{ApiCode, Caller, Refusal, StoredReply};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use self::fields::Field;
use self::problem::Problem;

/// A JSON object that a caller sends.
pub(super) trait Body: Field + JsonSchema {
    /// The names of its members.
    const MEMBERS: &'static [&'static str];
    /// Whether other members are ignored instead of refused.
    const IS_OPEN: bool;

    fn of_members(members: Map<String, Value>) -> Result<Self, Problem>;
}

/// Reads a body.
pub(super) fn read<B: Body>(body: Value) -> Result<B, Refusal> {
    B::read(body).map_err(Problem::refusal)
}

/// The reply with a body.
pub(super) fn written(status: u16, body: &impl Serialize) -> StoredReply {
    let body = serde_json::to_vec(body).expect("the keys are strings, so it can be serialized");
    StoredReply { status, body: body.into(), replayed: false }
}

/// Refuses a body that names another tenant than that of the key.
pub(super) fn check_tenant(caller: &Caller, named: Option<&str>) -> Result<(), Refusal> {
    match named {
        Some(named) if caller.tenant != *named => {
            Err(Refusal::new(ApiCode::Forbidden, "the key belongs to another tenant; remove `tenantId`"))
        }
        Some(_) | None => Ok(()),
    }
}

/// Reads the members of an object into a type.
fn of_object<B: Body>(value: Value) -> Result<B, Problem> {
    let Value::Object(members) = value else { return Err(Problem::wrong("an object")) };
    let is_known = |name: &&String| B::MEMBERS.contains(&name.as_str());
    match members.keys().find(|name| !is_known(name)) {
        Some(name) if !B::IS_OPEN => Err(Problem::unknown(name, B::MEMBERS)),
        Some(_) | None => B::of_members(members),
    }
}

/// A member of an object, read and removed.
fn member<T: Field>(members: &mut Map<String, Value>, name: &'static str) -> Result<T, Problem> {
    let read = match members.remove(name) {
        Some(value) => T::read(value),
        None => T::missing().ok_or_else(|| Problem::missing(T::expected())),
    };
    read.map_err(|problem| problem.below(name))
}

/// Declares a body: its members with their names and types, and for some a hint to the caller who gets one wrong.
macro_rules! body {
    (@declare $is_open:literal [$($attribute:meta)*] $(#[$meta:meta])* $name:ident {
        $($(#[$member_meta:meta])* $member:ident = $wire:literal: $type:ty $(; $hint:literal)?,)*
    }) => {
        #[derive(Debug, schemars::JsonSchema)]
        $(#[$meta])*
        $(#[$attribute])*
        pub(in crate::http) struct $name {
            $($(#[$member_meta])* #[schemars(rename = $wire)] pub(in crate::http) $member: $type,)*
        }

        impl $crate::http::bodies::Body for $name {
            const MEMBERS: &'static [&'static str] = &[$($wire),*];
            const IS_OPEN: bool = $is_open;

            fn of_members(
                mut members: serde_json::Map<String, serde_json::Value>,
            ) -> Result<Self, $crate::http::bodies::problem::Problem> {
                // Also for a body without members.
                let _: &mut serde_json::Map<_, _> = &mut members;
                Ok(Self {
                    $($member: $crate::http::bodies::member(&mut members, $wire)
                        $(.map_err(|problem| problem.hint($hint)))?
                        ?,)*
                })
            }
        }

        impl $crate::http::bodies::fields::Field for $name {
            fn expected() -> std::borrow::Cow<'static, str> {
                "an object".into()
            }

            fn read(value: serde_json::Value) -> Result<Self, $crate::http::bodies::problem::Problem> {
                $crate::http::bodies::of_object(value)
            }
        }
    };
    ($(#[$meta:meta])* closed $name:ident $members:tt) => {
        $crate::http::bodies::body!(@declare false [schemars(deny_unknown_fields)] $(#[$meta])* $name $members);
    };
    ($(#[$meta:meta])* open $name:ident $members:tt) => {
        $crate::http::bodies::body!(@declare true [] $(#[$meta])* $name $members);
    };
}
use body;
