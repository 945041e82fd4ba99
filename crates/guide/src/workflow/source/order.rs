//! The order in which an author wrote the fields of an object.
//!
//! Parsed values have their fields sorted, because their order has no meaning, with one exception: the
//! outputs in `outputRequired` are shown in the author's order.

use std::collections::HashMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::workflow::problem::{item, member};

/// The field whose order is kept.
const ORDERED: &str = "outputRequired";

/// The names of ordered fields as they were written, by the path of their object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Order(HashMap<String, Vec<String>>);

impl Order {
    /// For a file that was already read as JSON, and so is within the limits.
    pub(super) fn of_json(bytes: &[u8]) -> Self {
        serde_json::from_slice(bytes).map_or_else(|_| Self::default(), |shape| Self::of(&shape))
    }

    pub(super) fn of(shape: &Shape) -> Self {
        let mut order = HashMap::new();
        let mut waiting = vec![(shape, String::new())];
        while let Some((next, path)) = waiting.pop() {
            match next {
                Shape::Scalar => {}
                Shape::List(items) => {
                    waiting
                        .extend(items.iter().enumerate().map(|(index, below)| (below, item(&path, index))));
                }
                Shape::Members(members) => {
                    if path == ORDERED || path.ends_with(&format!(".{ORDERED}")) {
                        order.insert(path, members.iter().map(|(name, _)| name.clone()).collect());
                        continue;
                    }
                    waiting.extend(members.iter().map(|(name, below)| (below, member(&path, name))));
                }
            }
        }
        Self(order)
    }

    /// The position of a field among those of its object.
    pub(super) fn position(&self, path: &str, name: &str) -> usize {
        let names = self.0.get(path).map(Vec::as_slice).unwrap_or_default();
        names.iter().position(|written| written == name).unwrap_or(usize::MAX)
    }
}

/// The structure of a value: only the names, in order.
pub(super) enum Shape {
    Scalar,
    List(Vec<Self>),
    Members(Vec<(String, Self)>),
}

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Shapes)
    }
}

struct Shapes;

impl<'de> Visitor<'de> for Shapes {
    type Value = Shape;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }

    fn visit_str<E>(self, _: &str) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }

    fn visit_unit<E>(self) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }

    fn visit_none<E>(self) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Shape, D::Error> {
        Shape::deserialize(deserializer)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Shape, D::Error> {
        Shape::deserialize(deserializer)
    }

    fn visit_bytes<E>(self, _: &[u8]) -> Result<Shape, E> {
        Ok(Shape::Scalar)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Shape, A::Error> {
        let mut items = Vec::new();
        while let Some(shape) = sequence.next_element()? {
            items.push(shape);
        }
        Ok(Shape::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Shape, A::Error> {
        let mut members = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            members.push((name, map.next_value()?));
        }
        Ok(Shape::Members(members))
    }

    fn visit_enum<A: serde::de::EnumAccess<'de>>(self, data: A) -> Result<Shape, A::Error> {
        data.variant::<IgnoredAny>().map(|_| Shape::Scalar)
    }
}
