//! JSON with the order and positions of its members.
//!
//! [`canon::json::read`] validates the text: it is JSON without duplicate keys and within the depth
//! limit. This module then walks the same text again for what a `Value` does not keep. It relies on
//! that validation, and returns `None` for anything unexpected.

use canon::json::Limits;
use serde_json::Value;

use super::node::{Member, Node, Position, Tree};
use super::{MAX_BYTES, MAX_DEPTH, Unreadable};

pub(super) fn read(text: &str) -> Result<Node, Unreadable> {
    let limits = Limits::DEFAULT.max_bytes(MAX_BYTES).max_depth(MAX_DEPTH);
    canon::json::read(text.as_bytes(), &limits).map_err(|error| {
        let at = error.position;
        let position = Position { line: at.line as u64, column: at.column as u64 };
        Unreadable { position: Some(position), reason: error.kind.to_string() }
    })?;
    let mut walk = JsonReader { text, at: 0, counted: 0, line: 1, column: 1 };
    walk.node().ok_or_else(|| Unreadable { position: None, reason: "the file is not JSON".to_owned() })
}

/// The remaining text, and the last computed position.
struct JsonReader<'a> {
    text: &'a str,
    at: usize,
    /// Line and column of this byte. It only moves forward, so the walk is linear.
    counted: usize,
    line: u64,
    column: u64,
}

impl JsonReader<'_> {
    /// Recursive: the text is at most [`MAX_DEPTH`] levels deep.
    fn node(&mut self) -> Option<Node> {
        self.space();
        let position = self.position();
        let tree = match self.peek()? {
            b'{' => Tree::Object(self.members()?),
            b'[' => Tree::List(self.items()?),
            b'"' => Tree::Text(self.string()?),
            _ => self.scalar()?,
        };
        Some(Node { position, tree })
    }

    fn members(&mut self) -> Option<Vec<Member>> {
        let mut members = Vec::new();
        self.at += 1;
        loop {
            self.space();
            match self.peek()? {
                b'}' => break,
                b',' => {
                    self.at += 1;
                    continue;
                }
                _ => {}
            }
            let position = self.position();
            let key = self.string()?;
            self.space();
            // The colon.
            self.at += 1;
            members.push(Member { key, position, value: self.node()? });
        }
        self.at += 1;
        Some(members)
    }

    fn items(&mut self) -> Option<Vec<Node>> {
        let mut items = Vec::new();
        self.at += 1;
        loop {
            self.space();
            match self.peek()? {
                b']' => break,
                b',' => self.at += 1,
                _ => items.push(self.node()?),
            }
        }
        self.at += 1;
        Some(items)
    }

    fn string(&mut self) -> Option<String> {
        let start = self.at;
        self.at += 1;
        loop {
            match self.peek()? {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        serde_json::from_str(self.text.get(start..self.at)?).ok()
    }

    fn scalar(&mut self) -> Option<Tree> {
        let rest = &self.text[self.at..];
        let end = rest.find([',', ']', '}', ' ', '\t', '\n', '\r']).unwrap_or(rest.len());
        self.at += end;
        let limits = Limits::DEFAULT;
        Some(match canon::json::read(&rest.as_bytes()[..end], &limits).ok()? {
            Value::Null => Tree::Null,
            Value::Bool(boolean) => Tree::Boolean(boolean),
            Value::Number(number) => Tree::Number(number),
            Value::String(_) | Value::Array(_) | Value::Object(_) => return None,
        })
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn position(&mut self) -> Position {
        for character in self.text[self.counted..self.at].chars() {
            if character == '\n' {
                self.line += 1;
                self.column = 1;
            } else {
                self.column += 1;
            }
        }
        self.counted = self.at;
        Position { line: self.line, column: self.column }
    }
}
