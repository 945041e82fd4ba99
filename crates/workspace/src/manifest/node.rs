//! A parsed document with the order of its members and the position of each value.
//!
//! Both formats are parsed into this. `serde_json::Value` would lose order and positions, and
//! mounts are composed in declaration order.

use serde_json::{Map, Number, Value};

/// A position in a file, from 1; columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub line: u64,
    pub column: u64,
}

/// A value and its position.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) position: Position,
    pub(super) tree: Tree,
}

#[derive(Clone, Debug)]
pub(super) enum Tree {
    Null,
    Boolean(bool),
    Number(Number),
    Text(String),
    List(Vec<Node>),
    Object(Vec<Member>),
}

/// A member of an object: key, position of the key, and value.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) key: String,
    pub(super) position: Position,
    pub(super) value: Node,
}

impl Node {
    /// The type, for messages.
    pub(super) const fn kind(&self) -> &'static str {
        match &self.tree {
            Tree::Null => "null",
            Tree::Boolean(_) => "a boolean",
            Tree::Number(_) => "a number",
            Tree::Text(_) => "a string",
            Tree::List(_) => "a list",
            Tree::Object(_) => "an object",
        }
    }

    /// The value without positions. Recursive: a document is at most
    /// [`MAX_DEPTH`](super::MAX_DEPTH) levels deep.
    pub(super) fn value(&self) -> Value {
        match &self.tree {
            Tree::Null => Value::Null,
            Tree::Boolean(boolean) => Value::Bool(*boolean),
            Tree::Number(number) => Value::Number(number.clone()),
            Tree::Text(text) => Value::String(text.clone()),
            Tree::List(items) => Value::Array(items.iter().map(Self::value).collect()),
            Tree::Object(members) => {
                let members = members.iter().map(|member| (member.key.clone(), member.value.value()));
                Value::Object(members.collect::<Map<_, _>>())
            }
        }
    }
}
