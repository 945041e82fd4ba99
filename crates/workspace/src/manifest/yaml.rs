//! Manifests in YAML, with limits and positions.

use std::collections::BTreeSet;
use std::fmt;

use canon::yaml::{self, Booleans, Fault, Limits, Tags};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Number;
use serde_saphyr::{Location, Spanned};

use super::node::{Member, Node, Position, Tree};
use super::problem::quoted;
use super::{MAX_BYTES, MAX_DEPTH, Unreadable};

const LIMITS: Limits = Limits {
    max_bytes: MAX_BYTES,
    max_depth: MAX_DEPTH,
    // More than a file of the maximum size contains if written by hand.
    max_nodes: 100_000,
    max_aliases: 1000,
    tags: Tags::Refused,
    booleans: Booleans::TrueFalse,
};

pub(super) fn read(text: &str) -> Result<Node, Unreadable> {
    let root: Spanned<Tree> = yaml::read(text, &LIMITS).map_err(|error| {
        let position = error.position.map(|(line, column)| Position { line, column });
        let reason = match error.fault {
            Fault::DuplicateKey(key) => format!("duplicate key {}", quoted(&key)),
            Fault::Other(reason) => reason,
        };
        Unreadable { position, reason }
    })?;
    Ok(root.into())
}

fn position(location: Location) -> Option<Position> {
    (location != Location::UNKNOWN).then(|| Position { line: location.line(), column: location.column() })
}

impl From<Spanned<Tree>> for Node {
    fn from(spanned: Spanned<Tree>) -> Self {
        let start = Position { line: 1, column: 1 };
        Self { position: position(spanned.referenced).unwrap_or(start), tree: spanned.value }
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_none<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_bool<E>(self, boolean: bool) -> Result<Tree, E> {
        Ok(Tree::Boolean(boolean))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Tree, E> {
        Ok(Tree::Number(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Tree, E> {
        Ok(Tree::Number(number.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Tree, E> {
        Number::from_f64(number).map(Tree::Number).ok_or_else(|| E::custom("a number must be finite"))
    }

    fn visit_str<E>(self, text: &str) -> Result<Tree, E> {
        Ok(Tree::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Tree, E> {
        Ok(Tree::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element::<Spanned<Tree>>()? {
            items.push(item.into());
        }
        Ok(Tree::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Tree, A::Error> {
        let mut members = Vec::new();
        let mut seen = BTreeSet::new();
        while let Some(key) = access.next_key::<Spanned<String>>()? {
            // The library compares keys as written; here `1` and `"1"` are the same key.
            if !seen.insert(key.value.clone()) {
                let message = format!("duplicate key {}", quoted(&key.value));
                return Err(A::Error::custom(message));
            }
            let value: Node = access.next_value::<Spanned<Tree>>()?.into();
            let position = position(key.referenced).unwrap_or(value.position);
            members.push(Member { key: key.value, position, value });
        }
        Ok(Tree::Object(members))
    }
}
