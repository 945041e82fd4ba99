//! Interpolation: `${input.NAME}`, `${input.NAME | default: LITERAL}`, `${credential.NAME}`.
//!
//! A text is taken apart once, when the manifest is compiled. Later only the pieces are filled in, so
//! nothing that an input brings is ever read as a token.

use std::fmt;

use serde_json::{Number, Value};

use super::problem::{Place, quoted};

/// A text with tokens in it, and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Text {
    pub(super) pieces: Vec<Piece>,
    pub(super) place: Place,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Piece {
    Literal(String),
    Input { name: String, default: Option<Value> },
    Credential { name: String },
}

impl Text {
    /// The only piece, when the text is one whole token.
    pub(super) fn whole(&self) -> Option<&Piece> {
        match self.pieces.as_slice() {
            [piece @ (Piece::Input { .. } | Piece::Credential { .. })] => Some(piece),
            _ => None,
        }
    }
}

/// Why a text has no tokens that can be read.
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
            Self::Unclosed => formatter.write_str("a `${` has no `}`; close it"),
            Self::Nested => {
                formatter.write_str("a token cannot hold another; use one `${…}` beside the other")
            }
            Self::Empty => formatter.write_str("`${}` names nothing; write `${input.NAME}`"),
            Self::OtherNamespace(name) => write!(
                formatter,
                "there is no {}, only `${{input.NAME}}` and, in env values, `${{credential.NAME}}`; a file that needs \
                 `${{` for itself can be a template",
                quoted(&format!("${{{name}}}"))
            ),
            Self::BadName(name) => {
                write!(
                    formatter,
                    "{} is no name: letters, digits, `_` and `-`, a letter or `_` first",
                    quoted(name)
                )
            }
            Self::BadDefault(text) => write!(
                formatter,
                "{} is no default: write `| default: LITERAL` with a quoted text, a number, `true` or `false`",
                quoted(text)
            ),
            Self::CredentialDefault => formatter.write_str("a credential has no default"),
        }
    }
}

/// The longest name of an input or credential, in bytes.
const MAX_NAME: usize = 64;

/// Whether it names an input or a credential.
pub(super) fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    text.len() <= MAX_NAME
        && bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// Takes a text apart. One without tokens is one literal, or nothing if it is empty.
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

/// The byte of the `}` that ends a token. A quoted default may hold braces.
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

/// `default: LITERAL`, without what is around it.
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
    // The grammar of JSON numbers, which leaves out `null`: a default is a value.
    literal.parse::<Number>().map(Value::Number).map_err(|_| refused())
}

/// What stands in quotes, up to the closing one, which has to be last. A backslash keeps the character
/// after it.
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
    fn a_text_is_its_literals_and_tokens() {
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
    fn tokens_that_are_refused() {
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
