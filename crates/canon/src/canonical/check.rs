//! A serializer that writes nothing and rejects values without a lossless canonical form.
//!
//! It visits a value as the writer will. It counts containers and stops at the limit, so it uses at most `MAX_DEPTH`
//! levels of stack.

use std::fmt::Display;

use serde::ser::{
    Error, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

use super::{CanonicalError, MAX_EXACT_INTEGER};
use crate::json;

pub(super) fn check<T: Serialize + ?Sized>(value: &T) -> Result<(), CanonicalError> {
    value.serialize(Check { depth: 0 })
}

/// Checks one value inside `depth` containers.
#[derive(Clone, Copy)]
struct Check {
    depth: usize,
}

impl Check {
    /// Checks what is inside `levels` more containers.
    fn inside(self, levels: usize) -> Result<Self, CanonicalError> {
        let depth = self.depth + levels;
        if depth > json::MAX_DEPTH {
            return Err(CanonicalError::TooDeep { limit: json::MAX_DEPTH });
        }
        Ok(Self { depth })
    }

    fn element<T: Serialize + ?Sized>(self, value: &T) -> Result<(), CanonicalError> {
        value.serialize(self)
    }
}

fn integer(exact: bool, value: impl Display) -> Result<(), CanonicalError> {
    if exact { Ok(()) } else { Err(CanonicalError::InexactInteger { integer: value.to_string() }) }
}

impl Error for CanonicalError {
    fn custom<T: Display>(message: T) -> Self {
        Self::Refused { message: message.to_string() }
    }
}

type CheckResult = Result<(), CanonicalError>;

impl Serializer for Check {
    type Ok = ();
    type Error = CanonicalError;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = Self;
    type SerializeStruct = Self;
    type SerializeStructVariant = Self;

    fn serialize_bool(self, _: bool) -> CheckResult {
        Ok(())
    }

    fn serialize_i8(self, _: i8) -> CheckResult {
        Ok(())
    }

    fn serialize_i16(self, _: i16) -> CheckResult {
        Ok(())
    }

    fn serialize_i32(self, _: i32) -> CheckResult {
        Ok(())
    }

    fn serialize_i64(self, value: i64) -> CheckResult {
        integer(value.unsigned_abs() <= MAX_EXACT_INTEGER, value)
    }

    fn serialize_i128(self, value: i128) -> CheckResult {
        integer(value.unsigned_abs() <= u128::from(MAX_EXACT_INTEGER), value)
    }

    fn serialize_u8(self, _: u8) -> CheckResult {
        Ok(())
    }

    fn serialize_u16(self, _: u16) -> CheckResult {
        Ok(())
    }

    fn serialize_u32(self, _: u32) -> CheckResult {
        Ok(())
    }

    fn serialize_u64(self, value: u64) -> CheckResult {
        integer(value <= MAX_EXACT_INTEGER, value)
    }

    fn serialize_u128(self, value: u128) -> CheckResult {
        integer(value <= u128::from(MAX_EXACT_INTEGER), value)
    }

    fn serialize_f32(self, value: f32) -> CheckResult {
        self.serialize_f64(f64::from(value))
    }

    fn serialize_f64(self, value: f64) -> CheckResult {
        if value.is_finite() { Ok(()) } else { Err(CanonicalError::NotFinite) }
    }

    fn serialize_char(self, _: char) -> CheckResult {
        Ok(())
    }

    fn serialize_str(self, _: &str) -> CheckResult {
        Ok(())
    }

    fn serialize_bytes(self, _: &[u8]) -> CheckResult {
        // JSON has no bytes: they are written as a list of numbers.
        self.inside(1).map(|_| ())
    }

    fn serialize_none(self) -> CheckResult {
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> CheckResult {
        value.serialize(self)
    }

    fn serialize_unit(self) -> CheckResult {
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> CheckResult {
        Ok(())
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, _: &'static str) -> CheckResult {
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> CheckResult {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        value: &T,
    ) -> CheckResult {
        value.serialize(self.inside(1)?)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self, CanonicalError> {
        self.inside(1)
    }

    fn serialize_tuple(self, _: usize) -> Result<Self, CanonicalError> {
        self.inside(1)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self, CanonicalError> {
        self.inside(1)
    }

    // A variant with content is an object with one member for the content.
    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self, CanonicalError> {
        self.inside(2)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self, CanonicalError> {
        self.inside(1)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self, CanonicalError> {
        self.inside(1)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self, CanonicalError> {
        self.inside(2)
    }
}

/// The compound traits differ only in their method names.
macro_rules! check_elements {
    ($($compound:ident :: $method:ident),*) => {$(
        impl $compound for Check {
            type Ok = ();
            type Error = CanonicalError;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> CheckResult {
                self.element(value)
            }

            fn end(self) -> CheckResult {
                Ok(())
            }
        }
    )*};
}

check_elements!(
    SerializeSeq::serialize_element,
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field
);

macro_rules! check_fields {
    ($($compound:ident),*) => {$(
        impl $compound for Check {
            type Ok = ();
            type Error = CanonicalError;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, _: &'static str, value: &T) -> CheckResult {
                self.element(value)
            }

            fn end(self) -> CheckResult {
                Ok(())
            }
        }
    )*};
}

check_fields!(SerializeStruct, SerializeStructVariant);

impl SerializeMap for Check {
    type Ok = ();
    type Error = CanonicalError;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, _: &T) -> CheckResult {
        // The writer converts integer keys to strings and rejects container keys before it reads them, so keys need no
        // check.
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> CheckResult {
        self.element(value)
    }

    fn end(self) -> CheckResult {
        Ok(())
    }
}
