//! Interpolation: `${input.NAME}`, `${input.NAME | default: LITERAL}`, `${credential.NAME}`.
//!
//! A string is parsed once, when the manifest is compiled. Later only the pieces are filled in, so
//! that text from an input is never read as a token.

use std::fmt;

use serde_json::{Number, Value};

use super::problem::{Location, quoted};

/// A string with tokens, and its location.
#[derive(Clone, Debug)]
pub(super) struct Text {
    pub(super) pieces: Vec<Piece>,
    pub(super) place: Location,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Piece {
    Literal(String),
    Input { name: String, default: Option<Value> },
    Credential { name: String },
}

impl Text {
    /// The only piece, if the string is a single token.
    pub(super) fn whole(&self) -> Option<&Piece> {
        match self.pieces.as_slice() {
            [piece @ (Piece::Input { .. } | Piece::Credential { .. })] => Some(piece),
            _ => None,
        }
    }
}

/// Why the tokens of a string are invalid.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TokenError {
    Unclosed,
    Nested,
    Empty,
    OtherNamespace(String),
    BadName(String),
    BadDefault(String),
    CredentialDefault,
}

impl fmt::Display for TokenError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unclosed => formatter.write_str("a `${` has no closing `}`"),
            Self::Nested => formatter.write_str("tokens cannot be nested; use one `${…}` after the other"),
            Self::Empty => formatter.write_str("`${}` is empty; use `${input.NAME}`"),
            Self::OtherNamespace(name) => write!(
                formatter,
                "unknown token {}; use `${{input.NAME}}` or, in env values, `${{credential.NAME}}`. A file that needs \
                 a literal `${{` can be a template",
                quoted(&format!("${{{name}}}"))
            ),
            Self::BadName(name) => {
                write!(
                    formatter,
                    "{} is not a valid name: use letters, digits, `_` and `-`, starting with a letter or `_`",
                    quoted(name)
                )
            }
            Self::BadDefault(text) => write!(
                formatter,
                "{} is not a valid default: use `| default: LITERAL` with a quoted string, a number, `true` or `false`",
                quoted(text)
            ),
            Self::CredentialDefault => formatter.write_str("a credential cannot have a default"),
        }
    }
}

/// The longest name of an input or credential, in bytes.
const MAX_NAME: usize = 64;

/// Whether it is a valid name of an input or credential.
pub(super) fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    text.len() <= MAX_NAME
        && bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// Parses a string. Without tokens it is one literal, or empty.
pub(super) fn parse(text: &str) -> Result<Vec<Piece>, TokenError> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        if start > 0 {
            pieces.push(Piece::Literal(rest[..start].to_owned()));
        }
        let body = &rest[start + 2..];
        let end = end_of_token(body)?;
        pieces.push(token(body[..end].trim())?);
        rest = &body[end + 1..];
    }
    if !rest.is_empty() {
        pieces.push(Piece::Literal(rest.to_owned()));
    }
    Ok(pieces)
}

/// The offset of the `}` that ends a token. A quoted default may contain braces.
fn end_of_token(body: &str) -> Result<usize, TokenError> {
    let mut quote = None;
    let mut escaped = false;
    let mut previous = ' ';
    for (index, character) in body.char_indices() {
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if character == '\\' => escaped = true,
            Some(open) if character == open => quote = None,
            Some(_) => {}
            None => match character {
                '"' | '\'' => quote = Some(character),
                '}' => return Ok(index),
                '{' if previous == '$' => return Err(TokenError::Nested),
                _ => {}
            },
        }
        previous = character;
    }
    Err(TokenError::Unclosed)
}

fn token(body: &str) -> Result<Piece, TokenError> {
    if body.is_empty() {
        return Err(TokenError::Empty);
    }
    let (reference, default) = match body.split_once('|') {
        Some((reference, default)) => (reference.trim_end(), Some(default.trim())),
        None => (body, None),
    };
    let named = |name: &str| match is_name(name) {
        true => Ok(name.to_owned()),
        false => Err(TokenError::BadName(name.to_owned())),
    };
    if let Some(name) = reference.strip_prefix("input.") {
        let name = named(name)?;
        let default = default.map(literal).transpose()?;
        Ok(Piece::Input { name, default })
    } else if let Some(name) = reference.strip_prefix("credential.") {
        let name = named(name)?;
        if default.is_some() {
            return Err(TokenError::CredentialDefault);
        }
        Ok(Piece::Credential { name })
    } else {
        Err(TokenError::OtherNamespace(reference.to_owned()))
    }
}

/// `default: LITERAL`, trimmed.
fn literal(text: &str) -> Result<Value, TokenError> {
    let refused = || TokenError::BadDefault(text.to_owned());
    let literal = text.strip_prefix("default").ok_or_else(refused)?.trim_start();
    let literal = literal.strip_prefix(':').ok_or_else(refused)?.trim_start();
    match literal {
        "true" => return Ok(Value::Bool(true)),
        "false" => return Ok(Value::Bool(false)),
        _ => {}
    }
    for quote in ['"', '\''] {
        if let Some(inner) = literal.strip_prefix(quote) {
            return unquoted(inner, quote).map(Value::String).ok_or_else(refused);
        }
    }
    // The grammar of JSON numbers, without `null`: a default is a value.
    literal.parse::<Number>().map(Value::Number).map_err(|_| refused())
}

/// The quoted text up to the closing quote, which must be last. A backslash escapes the next
/// character.
fn unquoted(inner: &str, quote: char) -> Option<String> {
    let mut text = String::new();
    let mut characters = inner.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => text.push(characters.next()?),
            _ if character == quote => return characters.as_str().is_empty().then_some(text),
            _ => text.push(character),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(name: &str, default: Option<Value>) -> Piece {
        Piece::Input { name: name.to_owned(), default }
    }

    #[test]
    fn strings_are_parsed_into_literals_and_tokens() {
        let literal = |text: &str| Piece::Literal(text.to_owned());
        let cases = [
            ("", vec![]),
            ("plain $ text }", vec![literal("plain $ text }")]),
            ("${input.a}", vec![input("a", None)]),
            ("${ input.a }", vec![input("a", None)]),
            ("x-${input.a}-y", vec![literal("x-"), input("a", None), literal("-y")]),
            ("${input.a}${input.b}", vec![input("a", None), input("b", None)]),
            ("${input.a | default: 3}", vec![input("a", Some(3.into()))]),
            ("${input.a|default:-1.5}", vec![input("a", Some((-1.5).into()))]),
            ("${input.a | default: true}", vec![input("a", Some(true.into()))]),
            ("${input.a | default: \"}|\\\"\"}", vec![input("a", Some("}|\"".into()))]),
            ("${input.a | default: ''}", vec![input("a", Some("".into()))]),
            ("${credential.T}", vec![Piece::Credential { name: "T".to_owned() }]),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn invalid_tokens_are_rejected() {
        let other = |name: &str| TokenError::OtherNamespace(name.to_owned());
        let cases = [
            ("${input.a", TokenError::Unclosed),
            ("${input.${input.a}}", TokenError::Nested),
            ("${}", TokenError::Empty),
            ("${env.X}", other("env.X")),
            ("${secrets.X}", other("secrets.X")),
            ("${HOME}", other("HOME")),
            ("${input.}", TokenError::BadName(String::new())),
            ("${input.a.b}", TokenError::BadName("a.b".to_owned())),
            ("${input.1}", TokenError::BadName("1".to_owned())),
            ("${input.a | upper}", TokenError::BadDefault("upper".to_owned())),
            ("${input.a | default: null}", TokenError::BadDefault("default: null".to_owned())),
            ("${input.a | default: 'x' y}", TokenError::BadDefault("default: 'x' y".to_owned())),
            ("${credential.T | default: 1}", TokenError::CredentialDefault),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text), Err(expected), "{text}");
        }
    }
}
