//! YAML, as far as it says what JSON can say.
//!
//! One document, no tags of one's own, keys that are texts and stand once, aliases replayed within a
//! budget: a file of a few lines must not become a gigabyte. Only `true` and `false` are booleans, so
//! that a value `no` stays a text.

use std::collections::BTreeSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Number;
use serde_saphyr::{Location, Spanned};

use super::node::{Member, Node, Position, Tree};
use super::problem::quoted;
use super::{MAX_BYTES, MAX_DEPTH, Unreadable};

/// How many values a file may hold, those that aliases repeat included. A file of the greatest size that
/// is written out by hand holds fewer.
const MAX_NODES: usize = 100_000;

pub(super) fn read(text: &str) -> Result<Node, Unreadable> {
    let mut alias_limits = serde_saphyr::options::AliasLimits::default();
    alias_limits.max_total_replayed_events = MAX_NODES;
    alias_limits.max_replay_stack_depth = 16;
    alias_limits.max_alias_expansions_per_anchor = 1000;
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_reader_input_bytes: Some(MAX_BYTES),
            max_depth: MAX_DEPTH,
            flow_nesting_limit: MAX_DEPTH,
            max_events: 2 * MAX_NODES,
            max_nodes: MAX_NODES,
            max_aliases: 1000,
            max_anchors: 1000,
            max_documents: 1,
            max_merge_keys: 100,
            // Aliases repeat text as well as values: written out, the file may be this large.
            max_total_scalar_bytes: 4 * MAX_BYTES,
        },
        alias_limits: alias_limits,
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::Error,
        strict_booleans: true,
        reject_unsupported_tags: true,
    };
    let root: Spanned<Tree> = serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let position = error.location().and_then(position);
        let reason = match error.without_snippet() {
            serde_saphyr::Error::DuplicateMappingKey { key, .. } => {
                format!("the key {} stands twice in one object", quoted(key.as_deref().unwrap_or_default()))
            }
            other => {
                let reason = other.to_string();
                let reason = reason.lines().next().unwrap_or_default();
                // The position is told anyway, in the form of all others.
                let reason = reason.rsplit_once(" at line ").map_or(reason, |(reason, _)| reason);
                canon::budget::truncate(reason, 300).into_owned()
            }
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
        Number::from_f64(number).map(Tree::Number).ok_or_else(|| E::custom("a number has to be finite"))
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
            // The library compares keys as written; `1` and `"1"` are one key here.
            if !seen.insert(key.value.clone()) {
                let message = format!("the key {} stands twice in one object", quoted(&key.value));
                return Err(A::Error::custom(message));
            }
            let value: Node = access.next_value::<Spanned<Tree>>()?.into();
            let position = position(key.referenced).unwrap_or(value.position);
            members.push(Member { key: key.value, position, value });
        }
        Ok(Tree::Object(members))
    }
}
