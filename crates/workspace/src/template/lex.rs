//! Splits a template into tags and text, and resolves white space.

use super::{Fault, quoted};

#[derive(Debug)]
pub(super) struct Token<'t> {
    /// Its byte offset.
    pub(super) at: usize,
    pub(super) kind: Kind<'t>,
}

#[derive(Debug)]
pub(super) enum Kind<'t> {
    Text(&'t str),
    /// `{{x}}`, or unescaped.
    Value {
        path: &'t str,
        raw: bool,
    },
    /// `{{#name path}}`
    Open {
        name: &'t str,
        path: &'t str,
    },
    Else,
    /// `{{/name}}`
    Close(&'t str),
    Comment,
}

impl Kind<'_> {
    /// Whether the tag removes its line if it is alone there.
    const fn can_stand_alone(&self) -> bool {
        match self {
            Self::Open { .. } | Self::Else | Self::Close(_) | Self::Comment => true,
            Self::Text(_) | Self::Value { .. } => false,
        }
    }
}

/// A tag: where it ends, and on which sides a `~` strips white space.
struct Tag<'t> {
    kind: Kind<'t>,
    end: usize,
    eats_left: bool,
    eats_right: bool,
}

pub(super) fn tokens(text: &str) -> Result<Vec<Token<'_>>, Fault> {
    // Tags first, then the text between them: whether a tag is alone on its line depends on both
    // sides.
    let mut tags: Vec<(usize, Tag<'_>)> = Vec::new();
    let mut from = 0;
    while let Some(found) = text[from..].find("{{") {
        let at = from + found;
        if text[..at].ends_with('\\') {
            return Err(Fault::syntax(at, "a backslash before `{{` is not supported; remove it"));
        }
        let tag = tag(text, at)?;
        from = tag.end;
        tags.push((at, tag));
    }
    let mut tokens = Vec::with_capacity(2 * tags.len() + 1);
    let mut from = 0;
    let mut eats = false;
    let mut alone_before = false;
    for index in 0..tags.len() {
        let (at, tag) = &tags[index];
        let after = tags.get(index + 1).map_or(text.len(), |(next, _)| *next);
        let alone = tag.kind.can_stand_alone()
            && line_is_blank_before(&text[from..*at], index == 0)
            && line_is_blank_after(&text[tag.end..after], index + 1 == tags.len());
        let between = cut(&text[from..*at], eats, alone_before, tag.eats_left, alone);
        push_text(&mut tokens, from, between);
        (from, eats, alone_before) = (tag.end, tag.eats_right, alone);
    }
    push_text(&mut tokens, from, cut(&text[from..], eats, alone_before, false, false));
    // The texts are in place; now insert the tags after theirs.
    let mut merged = Vec::with_capacity(tokens.len() + tags.len());
    let mut tags = tags.into_iter();
    for token in tokens {
        merged.push(token);
        if let Some((at, tag)) = tags.next() {
            merged.push(Token { at, kind: tag.kind });
        }
    }
    Ok(merged)
}

/// One text for each gap between tags, including empty ones.
fn push_text<'t>(tokens: &mut Vec<Token<'t>>, at: usize, text: &'t str) {
    tokens.push(Token { at, kind: Kind::Text(text) });
}

fn is_blank(text: &str) -> bool {
    text.chars().all(|character| matches!(character, ' ' | '\t' | '\r'))
}

fn line_is_blank_before(text: &str, is_start: bool) -> bool {
    match text.rfind('\n') {
        Some(newline) => is_blank(&text[newline + 1..]),
        None => is_start && is_blank(text),
    }
}

fn line_is_blank_after(text: &str, is_end: bool) -> bool {
    match text.find('\n') {
        Some(newline) => is_blank(&text[..newline]),
        None => is_end && is_blank(text),
    }
}

/// The text between two tags, without what they strip.
fn cut(text: &str, eats_start: bool, line_start: bool, eats_end: bool, line_end: bool) -> &str {
    let mut text = text;
    if line_start {
        text = text.find('\n').map_or("", |newline| &text[newline + 1..]);
    }
    if line_end {
        text = text.rfind('\n').map_or("", |newline| &text[..=newline]);
    }
    if eats_start {
        text = text.trim_start();
    }
    if eats_end {
        text = text.trim_end();
    }
    text
}

/// Reads the tag at `at`, which starts with `{{`.
fn tag(text: &str, at: usize) -> Result<Tag<'_>, Fault> {
    let mut inner = at + 2;
    let eats_left = text[inner..].starts_with('~');
    inner += usize::from(eats_left);
    if text[inner..].starts_with('!') {
        return comment(text, at, inner, eats_left);
    }
    let raw = text[inner..].starts_with('{');
    inner += usize::from(raw);
    let rest = &text[inner..];
    let close = if raw { "}" } else { "}}" };
    let unclosed =
        || Fault::syntax(at, format!("this tag has no closing `{}`", if raw { "}}}" } else { "}}" }));
    let length = rest.find(close).ok_or_else(unclosed)?;
    let mut content = &rest[..length];
    let mut end = inner + length + close.len();
    let eats_right;
    if raw {
        eats_right = text[end..].starts_with('~');
        end += usize::from(eats_right);
        if !text[end..].starts_with("}}") {
            return Err(unclosed());
        }
        end += 2;
    } else {
        eats_right = content.ends_with('~');
        content = content.strip_suffix('~').unwrap_or(content);
    }
    let kind = classify(content.trim(), raw, at)?;
    Ok(Tag { kind, end, eats_left, eats_right })
}

fn comment(text: &str, at: usize, inner: usize, eats_left: bool) -> Result<Tag<'_>, Fault> {
    // A comment with dashes may contain tags; the short form ends at the next braces.
    let dashes = if text[inner..].starts_with("!--") { "--" } else { "" };
    let mut from = inner + 1 + dashes.len();
    // A single pass: searching for each ending separately would read the rest of the template for
    // every comment.
    while let Some(found) = text[from..].find(if dashes.is_empty() { "}}" } else { "--" }) {
        let end = from + found + dashes.len();
        let eats_right =
            if dashes.is_empty() { text[from..end].ends_with('~') } else { text[end..].starts_with('~') };
        let close = end + usize::from(eats_right && !dashes.is_empty());
        if text[close..].starts_with("}}") {
            return Ok(Tag { kind: Kind::Comment, end: close + 2, eats_left, eats_right });
        }
        from += found + 1;
    }
    Err(Fault::syntax(at, format!("this comment has no closing `{dashes}}}}}`")))
}

fn classify(content: &str, raw: bool, at: usize) -> Result<Kind<'_>, Fault> {
    let refused = |message: &str| Err(Fault::syntax(at, format!("{} {message}", quoted(content))));
    if raw {
        return match content.contains(char::is_whitespace) {
            true => refused("calls a helper; helpers are not supported"),
            false => Ok(Kind::Value { path: content, raw }),
        };
    }
    let mut characters = content.chars();
    match characters.next() {
        None => Err(Fault::syntax(at, "this tag is empty")),
        Some('#') => {
            let inner = characters.as_str().trim();
            let (name, path) = inner.split_once(char::is_whitespace).unwrap_or((inner, ""));
            Ok(Kind::Open { name, path: path.trim() })
        }
        Some('/') => Ok(Kind::Close(characters.as_str().trim())),
        Some('&') => Ok(Kind::Value { path: characters.as_str().trim(), raw: true }),
        Some('>') => refused("is a partial; partials are not supported"),
        Some('*') => refused("is a decorator; decorators are not supported"),
        Some('^') => refused("is not supported; use `{{else}}` or `{{#unless}}`"),
        Some(_) if content == "else" => Ok(Kind::Else),
        Some(_) if content.starts_with("else ") => {
            refused("is not supported; put an `{{#if}}` inside the `{{else}}`")
        }
        Some(_) if content.contains(char::is_whitespace) => {
            refused("calls a helper; helpers are not supported")
        }
        Some(_) => Ok(Kind::Value { path: content, raw: false }),
    }
}
