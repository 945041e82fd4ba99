//! Reads members and records problems.

use std::fmt::Display;

use crate::manifest::model::Expression;
use crate::manifest::node::{Member, Node, Tree};
use crate::manifest::problem::{At, Problems, quoted};
use crate::manifest::token::{self, Piece, Text};
use crate::manifest::vocabulary::Closed;

/// The most items of a list or object.
pub(super) const MAX_ITEMS: usize = 1000;

/// Reads values and records problems. Methods that return an `Option` have recorded a problem when
/// they return `None`.
pub(super) struct Reader<'p> {
    pub(super) problems: &'p mut Problems,
}

/// The members of an object.
#[derive(Clone, Copy)]
pub(super) struct Fields<'n> {
    node: &'n Node,
    members: &'n [Member],
}

impl<'n> Fields<'n> {
    pub(super) fn get(&self, key: &str) -> Option<&'n Node> {
        self.members.iter().find(|member| member.key == key).map(|member| &member.value)
    }

    pub(super) fn members(&self) -> &'n [Member] {
        self.members
    }
}

impl Reader<'_> {
    pub(super) fn problem(&mut self, node: &Node, at: &At<'_>, message: impl Display) {
        self.problems.add(at, node.position, message);
    }

    fn wrong_kind(&mut self, node: &Node, at: &At<'_>, wanted: &str) {
        let hint = match (&node.tree, wanted) {
            (Tree::Null, _) => "; give it a value, or remove it",
            (Tree::Number(_) | Tree::Boolean(_), "a string") => "; put it in quotes",
            _ => "",
        };
        self.problem(node, at, format_args!("must be {wanted}, but is {}{hint}", node.kind()));
    }

    /// The members of an object; unknown ones are reported.
    pub(super) fn fields<'n>(&mut self, node: &'n Node, at: &At<'_>, known: &[&str]) -> Option<Fields<'n>> {
        let fields = self.open_fields(node, at)?;
        for member in fields.members {
            if !known.contains(&member.key.as_str()) {
                let hint = match canon::nearest::nearest(&member.key, known.iter().copied(), 1).first() {
                    Some(nearest) => format!("; did you mean `{nearest}`?"),
                    None => format!("; known members: {}", known.join(", ")),
                };
                let message = format!("unknown member {}{hint}", quoted(&member.key));
                self.problems.add(&at.member(&member.key), member.position, message);
            }
        }
        Some(fields)
    }

    /// The members of an object with arbitrary keys.
    pub(super) fn open_fields<'n>(&mut self, node: &'n Node, at: &At<'_>) -> Option<Fields<'n>> {
        match &node.tree {
            Tree::Object(members) => Some(Fields { node, members }),
            _ => {
                self.wrong_kind(node, at, "an object");
                None
            }
        }
    }

    /// A required member.
    pub(super) fn required<'n>(&mut self, fields: &Fields<'n>, at: &At<'_>, key: &str) -> Option<&'n Node> {
        let node = fields.get(key);
        if node.is_none() {
            self.problem(fields.node, &at.member(key), "required, but missing");
        }
        node
    }

    pub(super) fn required_text<'n>(
        &mut self,
        fields: &Fields<'n>,
        at: &At<'_>,
        key: &str,
    ) -> Option<(&'n str, &'n Node)> {
        let node = self.required(fields, at, key)?;
        let text = self.text(node, &at.member(key))?;
        Some((text, node))
    }

    /// A required non-empty member with a length limit.
    pub(super) fn name<'n>(
        &mut self,
        fields: &Fields<'n>,
        at: &At<'_>,
        key: &str,
        max: usize,
    ) -> Option<&'n str> {
        let node = self.required(fields, at, key)?;
        self.literal(node, &at.member(key), max)
    }

    /// A string of 1 to `max` bytes where tokens are not filled in. A token would be kept
    /// literally, which is never intended.
    pub(super) fn literal<'n>(&mut self, node: &'n Node, at: &At<'_>, max: usize) -> Option<&'n str> {
        let text = self.bounded_text(node, at, max)?;
        if text.contains("${") {
            self.problem(node, at, "`${` is not supported here; write the value directly");
            return None;
        }
        Some(text)
    }

    /// A string of 1 to `max` bytes without control characters.
    pub(super) fn bounded_text<'n>(&mut self, node: &'n Node, at: &At<'_>, max: usize) -> Option<&'n str> {
        let text = self.text(node, at)?;
        let problem = if text.trim().is_empty() {
            "must not be empty".to_owned()
        } else if text.len() > max {
            format!("is {} bytes; the limit is {max} bytes", text.len())
        } else if text.chars().any(|character| character.is_control() && character != '\n') {
            "must not contain control characters".to_owned()
        } else {
            return Some(text);
        };
        self.problem(node, at, problem);
        None
    }

    pub(super) fn optional_text<'n>(
        &mut self,
        fields: &Fields<'n>,
        at: &At<'_>,
        key: &str,
        max: usize,
    ) -> Option<&'n str> {
        let node = fields.get(key)?;
        self.bounded_text(node, &at.member(key), max)
    }

    /// A member with one of a few exact values.
    pub(super) fn exactly(&mut self, fields: &Fields<'_>, at: &At<'_>, key: &str, allowed: &[&str]) {
        let Some((text, node)) = self.required_text(fields, at, key) else { return };
        if !allowed.contains(&text) {
            let message = format_args!("must be `{}`, but is {}", allowed[0], quoted(text));
            self.problem(node, &at.member(key), message);
        }
    }

    pub(super) fn text<'n>(&mut self, node: &'n Node, at: &At<'_>) -> Option<&'n str> {
        match &node.tree {
            Tree::Text(text) => Some(text),
            _ => {
                self.wrong_kind(node, at, "a string");
                None
            }
        }
    }

    pub(super) fn boolean(&mut self, node: &Node, at: &At<'_>) -> Option<bool> {
        match &node.tree {
            Tree::Boolean(boolean) => Some(*boolean),
            _ => {
                self.wrong_kind(node, at, "true or false");
                None
            }
        }
    }

    /// A boolean member that defaults to `false`.
    pub(super) fn flag(&mut self, fields: &Fields<'_>, at: &At<'_>, key: &str) -> bool {
        fields.get(key).and_then(|node| self.boolean(node, &at.member(key))).unwrap_or(false)
    }

    pub(super) fn number(&mut self, node: &Node, at: &At<'_>) -> Option<f64> {
        match &node.tree {
            Tree::Number(number) => number.as_f64(),
            _ => {
                self.wrong_kind(node, at, "a number");
                None
            }
        }
    }

    /// An integer of at most `max`.
    pub(super) fn whole_number(&mut self, node: &Node, at: &At<'_>, max: u64) -> Option<u64> {
        let number = match &node.tree {
            Tree::Number(number) => number.as_u64().filter(|number| *number <= max),
            _ => None,
        };
        if number.is_none() {
            self.wrong_kind_or_range(node, at, max);
        }
        number
    }

    fn wrong_kind_or_range(&mut self, node: &Node, at: &At<'_>, max: u64) {
        self.problem(node, at, format_args!("must be an integer from 0 to {max}"));
    }

    /// The items of a list with their locations; empty if it is not a list.
    pub(super) fn items<'n, 'a>(&mut self, node: &'n Node, at: &'a At<'a>) -> Vec<(At<'a>, &'n Node)> {
        let Tree::List(items) = &node.tree else {
            self.wrong_kind(node, at, "a list");
            return Vec::new();
        };
        if items.len() > MAX_ITEMS {
            self.problem(node, at, format_args!("{} items; the limit is {MAX_ITEMS}", items.len()));
            return Vec::new();
        }
        items.iter().enumerate().map(|(index, item)| (at.item(index), item)).collect()
    }

    /// One of a closed set.
    pub(super) fn choice<T: Closed>(&mut self, node: &Node, at: &At<'_>) -> Option<T> {
        let text = self.text(node, at)?;
        let found = T::all().iter().copied().find(|member| member.spelling() == text);
        if found.is_none() {
            let known: Vec<&str> = T::all().iter().map(|member| member.spelling()).collect();
            let message = format_args!("{} is invalid; use one of: {}", quoted(text), known.join(", "));
            self.problem(node, at, message);
        }
        found
    }

    pub(super) fn required_choice<T: Closed>(
        &mut self,
        fields: &Fields<'_>,
        at: &At<'_>,
        key: &str,
    ) -> Option<T> {
        let node = self.required(fields, at, key)?;
        self.choice(node, &at.member(key))
    }

    /// A path below a slot or the workspace: relative, and never above it.
    pub(super) fn relative_path(&mut self, node: &Node, at: &At<'_>, path: &str) {
        let problem = if path.is_empty() {
            "the path must not be empty"
        } else if path.starts_with('/') {
            "the path must be relative; remove the leading `/`"
        } else if path.contains(['\\', '\0']) {
            "the path contains a backslash or NUL; use `/`"
        } else if path.split('/').any(|segment| matches!(segment, "" | "." | "..")) {
            "the path has an empty, `.` or `..` segment"
        } else {
            return;
        };
        self.problem(node, at, problem);
    }

    /// A value that may contain tokens, all parsed. Recursive: a document has bounded depth.
    pub(super) fn expression(
        &mut self,
        node: &Node,
        at: &At<'_>,
        credentials: Credentials,
    ) -> Option<Expression> {
        Some(match &node.tree {
            Tree::Text(text) if text.contains("${") => {
                let pieces = match token::parse(text) {
                    Ok(pieces) => pieces,
                    Err(error) => {
                        self.problem(node, at, error);
                        return None;
                    }
                };
                let has_credential = pieces.iter().any(|piece| matches!(piece, Piece::Credential { .. }));
                if has_credential && credentials == Credentials::Refused {
                    self.problem(node, at, "credentials are only allowed in env values; set a variable");
                    return None;
                }
                Expression::Text(Text { pieces, place: self.problems.place(at, node.position) })
            }
            Tree::List(items) => {
                // All are parsed; the result is `None` if one is invalid.
                let items: Vec<Option<Expression>> = (items.iter().enumerate())
                    .map(|(index, item)| self.expression(item, &at.item(index), credentials))
                    .collect();
                let items: Option<Vec<Expression>> = items.into_iter().collect();
                plain_list(items?)
            }
            Tree::Object(members) => {
                let members: Vec<Option<(String, Expression)>> = (members.iter())
                    .map(|member| {
                        let value = self.expression(&member.value, &at.member(&member.key), credentials)?;
                        Some((member.key.clone(), value))
                    })
                    .collect();
                let members: Option<Vec<(String, Expression)>> = members.into_iter().collect();
                plain_object(members?)
            }
            _ => Expression::Plain(node.value()),
        })
    }
}

/// Whether credentials are allowed in a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Credentials {
    Allowed,
    Refused,
}

fn plain_list(items: Vec<Expression>) -> Expression {
    if items.iter().all(|item| matches!(item, Expression::Plain(_))) {
        let plain = items.into_iter().filter_map(Expression::into_plain);
        return Expression::Plain(plain.collect());
    }
    Expression::List(items)
}

fn plain_object(members: Vec<(String, Expression)>) -> Expression {
    if members.iter().all(|(_, value)| matches!(value, Expression::Plain(_))) {
        let plain = members.into_iter().filter_map(|(key, value)| Some((key, value.into_plain()?)));
        return Expression::Plain(plain.collect());
    }
    Expression::Object(members)
}

impl Expression {
    fn into_plain(self) -> Option<serde_json::Value> {
        match self {
            Self::Plain(value) => Some(value),
            Self::Text(_) | Self::List(_) | Self::Object(_) => None,
        }
    }
}
