//! The parser: one loop and a heap stack of open containers.

use std::{mem::take, str::from_utf8};

use serde_json::{Map, Number, Value, map::Entry};

use super::{Limits, MAX_DEPTH, Numbers, ReadErrorKind};

/// A problem and its byte offset. Line and column are computed later.
type Refusal = (ReadErrorKind, usize);

pub(super) fn parse(bytes: &[u8], limits: &Limits) -> Result<Value, Refusal> {
    if bytes.len() > limits.max_bytes {
        let kind = ReadErrorKind::TooLarge { limit: limits.max_bytes, measured: bytes.len() };
        return Err((kind, limits.max_bytes));
    }
    // Checking the encoding once is fast, and afterwards every slice between two ASCII characters is valid text.
    let text = from_utf8(bytes).map_err(|cause| {
        let offset = cause.valid_up_to();
        (ReadErrorKind::InvalidUtf8 { byte: bytes[offset] }, offset)
    })?;
    if text.starts_with('\u{feff}') {
        return Err((ReadErrorKind::ByteOrderMark, 0));
    }
    Parser { text, bytes, at: 0, max_depth: limits.max_depth.min(MAX_DEPTH), numbers: limits.numbers }
        .document()
}

struct Parser<'a> {
    text: &'a str,
    bytes: &'a [u8],
    /// The offset of the next byte.
    at: usize,
    max_depth: usize,
    numbers: Numbers,
}

/// An open container.
enum Open {
    Array(Vec<Value>),
    Object {
        members: Map<String, Value>,
        /// The key whose value is being read, and its offset.
        key: String,
        key_at: usize,
    },
}

impl Parser<'_> {
    fn document(mut self) -> Result<Value, Refusal> {
        let mut open: Vec<Open> = Vec::new();
        self.skip_space();
        if self.peek().is_none() {
            return Err((ReadErrorKind::Empty, self.at));
        }
        // Each iteration starts where a value is expected, after white space.
        loop {
            let mut value = match self.peek() {
                Some(b'[') => {
                    self.enter(open.len())?;
                    if self.peek() != Some(b']') {
                        open.push(Open::Array(Vec::new()));
                        continue;
                    }
                    self.at += 1;
                    Value::Array(Vec::new())
                }
                Some(b'{') => {
                    self.enter(open.len())?;
                    if self.peek() != Some(b'}') {
                        let (key, key_at) = self.key("a key or `}`")?;
                        open.push(Open::Object { members: Map::new(), key, key_at });
                        continue;
                    }
                    self.at += 1;
                    Value::Object(Map::new())
                }
                _ => self.scalar()?,
            };
            // A value is complete. It is added to the innermost container, which may complete that one, and so on.
            loop {
                self.skip_space();
                match open.last_mut() {
                    None => {
                        return match self.character() {
                            None => Ok(value),
                            Some(found) => Err((ReadErrorKind::Trailing { found }, self.at)),
                        };
                    }
                    Some(Open::Array(items)) => {
                        items.push(value);
                        match self.peek() {
                            Some(b',') => {
                                self.at += 1;
                                self.skip_space();
                                break;
                            }
                            Some(b']') => {
                                self.at += 1;
                                value = Value::Array(take(items));
                                open.pop();
                            }
                            _ => return Err(self.unexpected("`,` or `]`")),
                        }
                    }
                    Some(Open::Object { members, key, key_at }) => {
                        match members.entry(take(key)) {
                            Entry::Vacant(place) => {
                                place.insert(value);
                            }
                            Entry::Occupied(place) => {
                                let key = ReadErrorKind::quoted(place.key());
                                return Err((ReadErrorKind::DuplicateKey { key }, *key_at));
                            }
                        }
                        match self.peek() {
                            Some(b',') => {
                                self.at += 1;
                                self.skip_space();
                                (*key, *key_at) = self.key("a key")?;
                                break;
                            }
                            Some(b'}') => {
                                self.at += 1;
                                value = Value::Object(take(members));
                                open.pop();
                            }
                            _ => return Err(self.unexpected("`,` or `}`")),
                        }
                    }
                }
            }
        }
    }

    /// Consumes the opening bracket of a container at that depth.
    fn enter(&mut self, depth: usize) -> Result<(), Refusal> {
        if depth >= self.max_depth {
            let kind = ReadErrorKind::TooDeep { limit: self.max_depth, measured: depth + 1 };
            return Err((kind, self.at));
        }
        self.at += 1;
        self.skip_space();
        Ok(())
    }

    /// Reads a key and its colon, up to the value.
    fn key(&mut self, expected: &'static str) -> Result<(String, usize), Refusal> {
        let key_at = self.at;
        if self.peek() != Some(b'"') {
            return Err(self.unexpected(expected));
        }
        let key = self.string()?;
        self.skip_space();
        if self.peek() != Some(b':') {
            return Err(self.unexpected("`:`"));
        }
        self.at += 1;
        self.skip_space();
        Ok((key, key_at))
    }

    fn scalar(&mut self) -> Result<Value, Refusal> {
        match self.peek() {
            Some(b'"') => self.string().map(Value::String),
            Some(b'-' | b'0'..=b'9') => self.number().map(Value::Number),
            Some(b'n') => self.word("null", Value::Null),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            _ => Err(self.unexpected("a value")),
        }
    }

    fn word(&mut self, word: &'static str, value: Value) -> Result<Value, Refusal> {
        for byte in word.bytes() {
            if self.peek() != Some(byte) {
                return Err(self.unexpected(match word {
                    "null" => "`null`",
                    "true" => "`true`",
                    _ => "`false`",
                }));
            }
            self.at += 1;
        }
        Ok(value)
    }

    /// Reads a string with its quotes.
    fn string(&mut self) -> Result<String, Refusal> {
        self.at += 1;
        let start = self.at;
        self.at += plain_length(&self.bytes[start..]);
        if self.peek() == Some(b'"') {
            // The common case: no escapes, one copy of the exact size.
            let plain = self.text[start..self.at].to_owned();
            self.at += 1;
            return Ok(plain);
        }
        let mut unescaped = self.text[start..self.at].to_owned();
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(unescaped);
                }
                Some(b'\\') => unescaped.push(self.escape()?),
                Some(control) => {
                    return Err((ReadErrorKind::ControlCharacter { found: char::from(control) }, self.at));
                }
                None => return Err(self.unexpected("`\"` at the end of the string")),
            }
            let start = self.at;
            self.at += plain_length(&self.bytes[start..]);
            unescaped.push_str(&self.text[start..self.at]);
        }
    }

    /// Reads an escape, or two if they form a surrogate pair.
    fn escape(&mut self) -> Result<char, Refusal> {
        let start = self.at;
        self.at += 1;
        let character = match self.peek() {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                let unit = self.four_digits()?;
                return match unit {
                    0xD800..=0xDBFF => self.low_surrogate(unit, start),
                    _ => {
                        char::from_u32(u32::from(unit)).ok_or((ReadErrorKind::LoneSurrogate { unit }, start))
                    }
                };
            }
            _ => return Err((ReadErrorKind::Escape { found: self.character() }, start)),
        };
        self.at += 1;
        Ok(character)
    }

    /// Reads the second half of a pair whose first half, `high`, is at `start`.
    fn low_surrogate(&mut self, high: u16, start: usize) -> Result<char, Refusal> {
        let lone = (ReadErrorKind::LoneSurrogate { unit: high }, start);
        if !self.bytes[self.at..].starts_with(b"\\u") {
            return Err(lone);
        }
        self.at += 2;
        let low = self.four_digits()?;
        match char::decode_utf16([high, low]).next() {
            Some(Ok(character)) => Ok(character),
            _ => Err(lone),
        }
    }

    fn four_digits(&mut self) -> Result<u16, Refusal> {
        let mut unit = 0;
        for _ in 0..4 {
            let digit = match self.peek() {
                Some(byte @ b'0'..=b'9') => byte - b'0',
                Some(byte @ b'a'..=b'f') => byte - b'a' + 10,
                Some(byte @ b'A'..=b'F') => byte - b'A' + 10,
                _ => return Err(self.unexpected("four hexadecimal digits after `\\u`")),
            };
            unit = unit << 4 | u16::from(digit);
            self.at += 1;
        }
        Ok(unit)
    }

    fn number(&mut self) -> Result<Number, Refusal> {
        let start = self.at;
        let negative = self.peek() == Some(b'-');
        if negative {
            self.at += 1;
        }
        let digits_at = self.at;
        // The magnitude, while it fits: most numbers need no more.
        let mut magnitude = Some(0_u64);
        while let Some(byte @ b'0'..=b'9') = self.peek() {
            let digit = u64::from(byte - b'0');
            magnitude = magnitude.and_then(|sum| sum.checked_mul(10)?.checked_add(digit));
            self.at += 1;
        }
        match &self.bytes[digits_at..self.at] {
            [] => return Err(self.unexpected("a digit")),
            [b'0', _, ..] => return Err((ReadErrorKind::LeadingZero, digits_at)),
            _ => {}
        }
        let is_integer = !matches!(self.peek(), Some(b'.' | b'e' | b'E'));
        if is_integer {
            if let Some(magnitude) = magnitude {
                let number = match (negative, magnitude) {
                    (false, _) => Some(Number::from(magnitude)),
                    // There is no integer -0; `serde_json` also keeps the sign in a double.
                    (true, 0) => None,
                    (true, _) => 0_i64.checked_sub_unsigned(magnitude).map(Number::from),
                };
                if let Some(number) = number {
                    return self.exact_or_refused(number, magnitude, start);
                }
            }
        } else {
            self.fraction_and_exponent()?;
        }
        let literal = &self.text[start..self.at];
        let double: f64 = literal.parse().expect("every JSON number is a valid `f64` literal");
        let Some(number) = Number::from_f64(double) else {
            return Err((ReadErrorKind::OutOfRange { literal: ReadErrorKind::quoted(literal) }, start));
        };
        // Beyond 64 bits no integer type is available for comparison. With a precision, a double prints all its digits:
        // the literal is exact if they are the same.
        if is_integer && self.numbers == Numbers::Exact && format!("{double:.0}") != literal {
            return Err((ReadErrorKind::InexactInteger { literal: ReadErrorKind::quoted(literal) }, start));
        }
        Ok(number)
    }

    fn exact_or_refused(&self, number: Number, magnitude: u64, start: usize) -> Result<Number, Refusal> {
        if self.numbers == Numbers::Exact && !is_double(magnitude) {
            let literal = ReadErrorKind::quoted(&self.text[start..self.at]);
            return Err((ReadErrorKind::InexactInteger { literal }, start));
        }
        Ok(number)
    }

    fn fraction_and_exponent(&mut self) -> Result<(), Refusal> {
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.some_digits("a digit after the decimal point")?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.some_digits("a digit in the exponent")?;
        }
        Ok(())
    }

    fn some_digits(&mut self, expected: &'static str) -> Result<(), Refusal> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        if self.at == start { Err(self.unexpected(expected)) } else { Ok(()) }
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// The character at the current offset, which is a character boundary.
    fn character(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn unexpected(&self, expected: &'static str) -> Refusal {
        (ReadErrorKind::Unexpected { expected, found: self.character() }, self.at)
    }
}

/// Whether a double represents this integer exactly: at most 53 significant bits.
const fn is_double(magnitude: u64) -> bool {
    magnitude == 0 || 64 - magnitude.leading_zeros() - magnitude.trailing_zeros() <= 53
}

/// The number of bytes before the next quote, backslash or control character.
///
/// Strings dominate most documents, so eight bytes are examined at once. For each byte `b` of `word`, `b - limit`
/// borrows into the top bit if `b < limit`; `& !word` keeps only bytes without a top bit. A borrow can spill into
/// higher bytes, never lower ones, so the lowest mark is always correct, and only that one is used.
fn plain_length(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const TOPS: u64 = ONES << 7;
    let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word;
    let mut length = 0;
    let (words, _) = bytes.as_chunks::<8>();
    for word in words {
        let word = u64::from_le_bytes(*word);
        let quote = below(word ^ (ONES * b'"' as u64), 1);
        let backslash = below(word ^ (ONES * b'\\' as u64), 1);
        let marks = (below(word, 0x20) | quote | backslash) & TOPS;
        if marks != 0 {
            return length + marks.trailing_zeros() as usize / 8;
        }
        length += 8;
    }
    let plain = |byte: &&u8| **byte >= 0x20 && !matches!(**byte, b'"' | b'\\');
    length + bytes[length..].iter().take_while(plain).count()
}
