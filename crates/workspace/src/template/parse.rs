//! Parses tokens into a tree of bounded depth.

use super::lex::{Kind, Token};
use super::{Fault, MAX_NESTING, quoted};

/// The limits of a path: segments, and bytes per segment.
const MAX_SEGMENTS: usize = 32;
const MAX_SEGMENT: usize = 256;

#[derive(Debug)]
pub(super) enum Node<'t> {
    Text { at: usize, text: &'t str },
    Value { at: usize, path: Path<'t>, raw: bool },
    Block(Block<'t>),
}

#[derive(Debug)]
pub(super) struct Block<'t> {
    pub(super) at: usize,
    pub(super) kind: BlockKind,
    pub(super) path: Path<'t>,
    pub(super) body: Vec<Node<'t>>,
    pub(super) otherwise: Vec<Node<'t>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockKind {
    If,
    Unless,
    Each,
}

impl BlockKind {
    const fn as_str(self) -> &'static str {
        match self {
            Self::If => "if",
            Self::Unless => "unless",
            Self::Each => "each",
        }
    }
}

/// A path such as `../user.name`.
#[derive(Debug)]
pub(super) struct Path<'t> {
    /// As written, for messages.
    pub(super) text: &'t str,
    /// How many loops up.
    pub(super) up: usize,
    pub(super) root: Root,
    pub(super) segments: Vec<&'t str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Root {
    This,
    Index,
    Key,
    First,
    Last,
}

/// An open block.
struct Open<'t> {
    block: Block<'t>,
    has_else: bool,
}

pub(super) fn parse(tokens: Vec<Token<'_>>) -> Result<Vec<Node<'_>>, Fault> {
    let mut root = Vec::new();
    let mut open: Vec<Open<'_>> = Vec::new();
    for Token { at, kind } in tokens {
        let node = match kind {
            Kind::Comment | Kind::Text("") => continue,
            Kind::Text(text) => Node::Text { at, text },
            Kind::Value { path, raw } => Node::Value { at, path: self::path(path, at)?, raw },
            Kind::Open { name, path } => {
                let kind = match name {
                    "if" => BlockKind::If,
                    "unless" => BlockKind::Unless,
                    "each" => BlockKind::Each,
                    other => {
                        let message =
                            format!("unknown block {}; use `if`, `unless` or `each`", quoted(other));
                        return Err(Fault::syntax(at, message));
                    }
                };
                if open.len() == MAX_NESTING {
                    return Err(Fault::limit(at, "levels of blocks in a template", MAX_NESTING as u64));
                }
                if path.is_empty() {
                    return Err(Fault::syntax(at, format!("`#{name}` requires a variable")));
                }
                let block =
                    Block { at, kind, path: self::path(path, at)?, body: Vec::new(), otherwise: Vec::new() };
                open.push(Open { block, has_else: false });
                continue;
            }
            Kind::Else => {
                match open.last_mut() {
                    Some(block) if !block.has_else => block.has_else = true,
                    Some(_) => return Err(Fault::syntax(at, "this block already has an `else`")),
                    None => return Err(Fault::syntax(at, "`else` is outside of a block")),
                }
                continue;
            }
            Kind::Close(name) => match open.pop() {
                Some(Open { block, .. }) if block.kind.as_str() == name => Node::Block(block),
                Some(Open { block, .. }) => {
                    let message =
                        format!("{} closes `#{}`", quoted(&format!("/{name}")), block.kind.as_str());
                    return Err(Fault::syntax(at, message));
                }
                None => {
                    return Err(Fault::syntax(
                        at,
                        format!("{} has no opening tag", quoted(&format!("/{name}"))),
                    ));
                }
            },
        };
        match open.last_mut() {
            Some(Open { block, has_else: true }) => block.otherwise.push(node),
            Some(Open { block, has_else: false }) => block.body.push(node),
            None => root.push(node),
        }
    }
    match open.pop() {
        None => Ok(root),
        Some(Open { block, .. }) => {
            let name = block.kind.as_str();
            Err(Fault::syntax(block.at, format!("`#{name}` is not closed; add `{{{{/{name}}}}}`")))
        }
    }
}

fn path(text: &str, at: usize) -> Result<Path<'_>, Fault> {
    let refused = |reason: &str| Err(Fault::syntax(at, format!("{} {reason}", quoted(text))));
    let mut rest = text;
    let mut up = 0;
    while let Some(inner) = rest.strip_prefix("../") {
        up += 1;
        rest = inner;
        if up > MAX_NESTING {
            return refused("goes up more levels than blocks can be nested");
        }
    }
    if let Some(name) = rest.strip_prefix('@') {
        let root = match name {
            "index" => Root::Index,
            "key" => Root::Key,
            "first" => Root::First,
            "last" => Root::Last,
            _ => return refused("is invalid; use one of @index, @key, @first, @last"),
        };
        if up > 0 {
            return refused("refers to the position of an outer loop, which is not supported");
        }
        return Ok(Path { text, up, root, segments: Vec::new() });
    }
    let mut segments: Vec<&str> = rest.split('.').collect();
    if segments[0] == "this" {
        segments.remove(0);
    }
    if segments.len() > MAX_SEGMENTS || segments.iter().any(|segment| segment.len() > MAX_SEGMENT) {
        return refused("is too long");
    }
    let word = |segment: &&str| {
        !segment.is_empty() && segment.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '$'))
    };
    if !segments.iter().all(word) {
        return refused("is not a valid variable: use names joined by `.`");
    }
    Ok(Path { text, up, root: Root::This, segments })
}
