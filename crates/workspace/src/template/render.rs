//! Renders a tree with variables; every step is counted.

use serde_json::Value;

use super::parse::{Block, BlockKind, Node, Path, Root};
use super::{Fault, FaultKind, MAX_LOOP_STEPS, MAX_OUTPUT, MAX_VISITS, quoted};

pub(super) fn render(template: &[Node<'_>], variables: &Value) -> Result<String, Fault> {
    let root = Frame { context: variables, turn: None };
    let mut renderer = Renderer { out: String::new(), frames: vec![root], loop_steps: 0, visits: 0 };
    renderer.nodes(template)?;
    Ok(renderer.out)
}

/// The scope: the variables, and the current item of each enclosing loop.
struct Frame<'v> {
    context: &'v Value,
    turn: Option<Turn<'v>>,
}

/// The position of a loop.
struct Turn<'v> {
    index: usize,
    /// For a list, the index.
    key: Option<&'v str>,
    is_last: bool,
}

struct Renderer<'v> {
    out: String,
    frames: Vec<Frame<'v>>,
    loop_steps: u64,
    visits: u64,
}

/// The value of a path.
enum Lookup<'v> {
    Value(&'v Value),
    Number(usize),
    Text(&'v str),
    Truth(bool),
}

impl<'v> Renderer<'v> {
    /// Recursive: a template has bounded depth.
    fn nodes(&mut self, nodes: &[Node<'_>]) -> Result<(), Fault> {
        for node in nodes {
            match node {
                Node::Text { at, text } => {
                    self.visit(*at)?;
                    self.push(*at, text)?;
                }
                Node::Value { at, path, raw } => {
                    self.visit(*at)?;
                    let found = self.required(*at, path)?;
                    self.write(*at, &found, *raw)?;
                }
                Node::Block(block) => {
                    self.visit(block.at)?;
                    self.block(block)?;
                }
            }
        }
        Ok(())
    }

    fn visit(&mut self, at: usize) -> Result<(), Fault> {
        self.visits += 1;
        if self.visits > MAX_VISITS {
            return Err(Fault::limit(at, "steps of rendering a template", MAX_VISITS));
        }
        Ok(())
    }

    fn block(&mut self, block: &Block<'_>) -> Result<(), Fault> {
        if block.kind == BlockKind::Each {
            return self.each(block);
        }
        let holds = self.find(&block.path).is_some_and(|found| is_true(&found));
        if holds == (block.kind == BlockKind::If) {
            self.nodes(&block.body)
        } else {
            self.nodes(&block.otherwise)
        }
    }

    fn each(&mut self, block: &Block<'_>) -> Result<(), Fault> {
        match self.required(block.at, &block.path)? {
            Lookup::Value(Value::Array(items)) if !items.is_empty() => {
                let items = items.iter().enumerate().map(|(index, item)| (index, None, item));
                self.turns(block, items)
            }
            Lookup::Value(Value::Object(members)) if !members.is_empty() => {
                let members = members.iter().enumerate();
                let members = members.map(|(index, (key, value))| (index, Some(key.as_str()), value));
                self.turns(block, members)
            }
            found if !is_true(&found) => self.nodes(&block.otherwise),
            // An empty object; in a condition it is true.
            Lookup::Value(Value::Object(_)) => self.nodes(&block.otherwise),
            _ => {
                let name = block.path.text;
                let message =
                    format!("`#each` requires a list or an object, but {} is neither", quoted(name));
                Err(Fault { at: block.at, kind: FaultKind::Missing { name: name.to_owned(), message } })
            }
        }
    }

    fn turns(
        &mut self,
        block: &Block<'_>,
        items: impl ExactSizeIterator<Item = (usize, Option<&'v str>, &'v Value)>,
    ) -> Result<(), Fault> {
        let count = items.len();
        for (index, key, context) in items {
            self.loop_steps += 1;
            if self.loop_steps > MAX_LOOP_STEPS {
                return Err(Fault::limit(block.at, "loop steps of a template", MAX_LOOP_STEPS));
            }
            let turn = Turn { index, key, is_last: index + 1 == count };
            self.frames.push(Frame { context, turn: Some(turn) });
            let rendered = self.nodes(&block.body);
            self.frames.pop();
            rendered?;
        }
        Ok(())
    }

    fn required(&self, at: usize, path: &Path<'_>) -> Result<Lookup<'v>, Fault> {
        self.find(path).ok_or_else(|| {
            let name = path.text;
            let outside = || {
                let outer = self.frames.iter().rev().skip(path.up + 1);
                let outer: Vec<bool> =
                    outer.map(|frame| follow(frame.context, &path.segments).is_some()).collect();
                outer.iter().position(|found| *found).map(|steps| "../".repeat(steps + 1))
            };
            let hint = match (path.root, outside()) {
                (Root::This, Some(up)) => format!("; it exists outside the loop: use `{up}{name}`"),
                (Root::This, None) => String::new(),
                (_, _) => "; it exists only inside `#each`".to_owned(),
            };
            let message = format!("unknown variable {}{hint}", quoted(name));
            Fault { at, kind: FaultKind::Missing { name: name.to_owned(), message } }
        })
    }

    fn find(&self, path: &Path<'_>) -> Option<Lookup<'v>> {
        let frame = self.frames.iter().rev().nth(path.up)?;
        if path.root == Root::This {
            return follow(frame.context, &path.segments).map(Lookup::Value);
        }
        let turn = frame.turn.as_ref()?;
        Some(match (path.root, turn.key) {
            (Root::Key, Some(key)) => Lookup::Text(key),
            (Root::First, _) => Lookup::Truth(turn.index == 0),
            (Root::Last, _) => Lookup::Truth(turn.is_last),
            (Root::This | Root::Index | Root::Key, _) => Lookup::Number(turn.index),
        })
    }

    fn write(&mut self, at: usize, found: &Lookup<'_>, raw: bool) -> Result<(), Fault> {
        let text = match found {
            Lookup::Value(Value::String(text)) => return self.push_as(at, text, raw),
            Lookup::Text(text) => return self.push_as(at, text, raw),
            Lookup::Value(Value::Null) => return Ok(()),
            Lookup::Value(other) => canon::canonical::string_of(other),
            Lookup::Number(number) => number.to_string(),
            Lookup::Truth(truth) => truth.to_string(),
        };
        self.push_as(at, &text, raw)
    }

    fn push_as(&mut self, at: usize, text: &str, raw: bool) -> Result<(), Fault> {
        if raw {
            return self.push(at, text);
        }
        let mut rest = text;
        while let Some(index) = rest.find(['&', '<', '>', '"', '\'', '`', '=']) {
            self.push(at, &rest[..index])?;
            // The escapes of Handlebars.
            self.push(
                at,
                match rest.as_bytes()[index] {
                    b'&' => "&amp;",
                    b'<' => "&lt;",
                    b'>' => "&gt;",
                    b'"' => "&quot;",
                    b'\'' => "&#x27;",
                    b'`' => "&#x60;",
                    _ => "&#x3D;",
                },
            )?;
            rest = &rest[index + 1..];
        }
        self.push(at, rest)
    }

    fn push(&mut self, at: usize, text: &str) -> Result<(), Fault> {
        if self.out.len() + text.len() > MAX_OUTPUT {
            return Err(Fault::limit(at, "bytes of a rendered template", MAX_OUTPUT as u64));
        }
        self.out.push_str(text);
        Ok(())
    }
}

fn follow<'v>(context: &'v Value, segments: &[&str]) -> Option<&'v Value> {
    segments.iter().try_fold(context, |value, segment| match value {
        Value::Object(members) => members.get(*segment),
        Value::Array(items) => items.get(segment.parse::<usize>().ok()?),
        _ => None,
    })
}

fn is_true(found: &Lookup<'_>) -> bool {
    match found {
        Lookup::Value(Value::Null) => false,
        Lookup::Value(Value::Bool(truth)) | Lookup::Truth(truth) => *truth,
        Lookup::Value(Value::Number(number)) => number.as_f64() != Some(0.0),
        Lookup::Value(Value::String(text)) => !text.is_empty(),
        Lookup::Value(Value::Array(items)) => !items.is_empty(),
        Lookup::Value(Value::Object(_)) => true,
        Lookup::Number(number) => *number != 0,
        Lookup::Text(text) => !text.is_empty(),
    }
}
