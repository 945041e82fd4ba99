//! A document as it was written: with the order of its members and the position of each value.
//!
//! Both formats are read into this. `serde_json::Value` would lose both, and mounts are composed in the
//! order in which they are declared.

use serde_json::{Map, Number, Value};

/// A place in a file, counted from 1; columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: u64,
    /// The column.
    pub column: u64,
}

/// A value and where it stands.
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

/// A member of an object: its key, where that stands, and its value.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) key: String,
    pub(super) position: Position,
    pub(super) value: Node,
}

impl Node {
    /// What it is, for a sentence.
    pub(super) const fn kind(&self) -> &'static str {
        match &self.tree {
            Tree::Null => "null",
            Tree::Boolean(_) => "a boolean",
            Tree::Number(_) => "a number",
            Tree::Text(_) => "a text",
            Tree::List(_) => "a list",
            Tree::Object(_) => "an object",
        }
    }

    /// The value without its positions. Recursive: a document is at most
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
