//! Parses expressions.

use serde_json::Value;

use super::{Comparison, MAX_BYTES, MAX_DEPTH, Term};

/// Why a text is not a valid expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    #[error("the expression has {0} bytes; the limit is {MAX_BYTES}")]
    TooLong(usize),
    #[error("the expression is nested too deeply; the limit is {MAX_DEPTH} levels")]
    TooDeep,
    #[error("expected {expected} at byte {at}")]
    Expected { expected: &'static str, at: usize },
}

pub(super) fn parse(text: &str) -> Result<Term, ExpressionError> {
    if text.len() > MAX_BYTES {
        return Err(ExpressionError::TooLong(text.len()));
    }
    let mut parser = Parser { text: unwrap_braces(text.trim()), at: 0 };
    let term = parser.any(0)?;
    parser.spaces();
    if parser.at < parser.text.len() {
        return Err(parser.expected("the end"));
    }
    Ok(term)
}

/// Removes the `${ }` or `{{ }}` around an expression.
fn unwrap_braces(text: &str) -> &str {
    for (open, close) in [("${{", "}}"), ("${", "}"), ("{{", "}}")] {
        if let Some(inner) = text.strip_prefix(open).and_then(|rest| rest.strip_suffix(close)) {
            return inner;
        }
    }
    text
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
}

impl Parser<'_> {
    fn expected(&self, expected: &'static str) -> ExpressionError {
        ExpressionError::Expected { expected, at: self.at }
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn spaces(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    fn take(&mut self, token: &str) -> bool {
        self.spaces();
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn any(&mut self, depth: usize) -> Result<Term, ExpressionError> {
        if depth > MAX_DEPTH {
            return Err(ExpressionError::TooDeep);
        }
        let mut terms = vec![self.all(depth)?];
        while self.take("||") {
            terms.push(self.all(depth)?);
        }
        Ok(if terms.len() == 1 { terms.remove(0) } else { Term::Any(terms) })
    }

    fn all(&mut self, depth: usize) -> Result<Term, ExpressionError> {
        let mut terms = vec![self.test(depth)?];
        while self.take("&&") {
            terms.push(self.test(depth)?);
        }
        Ok(if terms.len() == 1 { terms.remove(0) } else { Term::All(terms) })
    }

    fn test(&mut self, depth: usize) -> Result<Term, ExpressionError> {
        let left = self.value(depth)?;
        // A token comes before the tokens that are prefixes of it.
        let comparisons = [
            ("===", Comparison::Equal),
            ("!==", Comparison::NotEqual),
            ("==", Comparison::Equal),
            ("!=", Comparison::NotEqual),
            ("<=", Comparison::LessOrEqual),
            (">=", Comparison::GreaterOrEqual),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
        ];
        for (token, comparison) in comparisons {
            if self.take(token) {
                let right = self.value(depth)?;
                return Ok(Term::Compare(Box::new(left), comparison, Box::new(right)));
            }
        }
        Ok(left)
    }

    fn value(&mut self, depth: usize) -> Result<Term, ExpressionError> {
        if depth > MAX_DEPTH {
            return Err(ExpressionError::TooDeep);
        }
        if self.take("(") {
            let inner = self.any(depth + 1)?;
            return if self.take(")") { Ok(inner) } else { Err(self.expected("`)`")) };
        }
        if self.take("!") {
            return Ok(Term::Not(Box::new(self.value(depth + 1)?)));
        }
        match self.rest().chars().next() {
            Some(quote @ ('"' | '\'')) => self.quoted(quote),
            Some(digit) if digit.is_ascii_digit() || digit == '-' => self.number(),
            Some(letter) if letter.is_alphabetic() || letter == '_' || letter == '$' => self.path(),
            _ => Err(self.expected("a value")),
        }
    }

    fn quoted(&mut self, quote: char) -> Result<Term, ExpressionError> {
        self.at += quote.len_utf8();
        let mut text = String::new();
        let mut characters = self.text[self.at..].char_indices();
        while let Some((offset, character)) = characters.next() {
            match character {
                '\\' => match characters.next() {
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, 't')) => text.push('\t'),
                    Some((_, other)) => text.push(other),
                    None => break,
                },
                end if end == quote => {
                    self.at += offset + quote.len_utf8();
                    return Ok(Term::Value(Value::String(text)));
                }
                other => text.push(other),
            }
        }
        Err(self.expected("a closing quote"))
    }

    fn number(&mut self) -> Result<Term, ExpressionError> {
        let length = self.rest().find(|c: char| !matches!(c, '0'..='9' | '-' | '+' | '.' | 'e' | 'E'));
        let text = &self.rest()[..length.unwrap_or(self.rest().len())];
        let number: serde_json::Number = serde_json::from_str(text).map_err(|_| self.expected("a number"))?;
        self.at += text.len();
        Ok(Term::Value(Value::Number(number)))
    }

    fn name(&mut self) -> Result<String, ExpressionError> {
        let length = self.rest().find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '$')));
        let name = self.rest()[..length.unwrap_or(self.rest().len())].to_owned();
        if name.is_empty() {
            return Err(self.expected("a name"));
        }
        self.at += name.len();
        Ok(name)
    }

    fn path(&mut self) -> Result<Term, ExpressionError> {
        let mut path = vec![self.name()?];
        loop {
            if self.rest().starts_with('.') {
                self.at += 1;
                path.push(self.name()?);
            } else if self.rest().starts_with('[') {
                self.at += 1;
                let digits = self.rest().bytes().take_while(u8::is_ascii_digit).count();
                if digits == 0 || !self.rest()[digits..].starts_with(']') {
                    return Err(self.expected("digits and `]`"));
                }
                path.push(self.rest()[..digits].to_owned());
                self.at += digits + 1;
            } else {
                break;
            }
        }
        Ok(match path.as_slice() {
            [only] if only == "true" => Term::Value(Value::Bool(true)),
            [only] if only == "false" => Term::Value(Value::Bool(false)),
            [only] if only == "null" || only == "undefined" => Term::Value(Value::Null),
            _ => Term::Path(path),
        })
    }
}
