//! Reads an index.

use std::io::Read;

use serde::Deserialize;

use super::{Header, Line, MAX_LINE_BYTES, VERSION, compare_paths, damaged, failed};
use crate::Error;

/// The block size; several lines of the greatest length fit.
const BLOCK: usize = 4 * MAX_LINE_BYTES;

/// Reads an index line by line. The lines are verified only after the end was reached: the last
/// line contains the hash of all others.
#[derive(Debug)]
pub struct Reader<R> {
    blocks: Blocks<R>,
    header: Header,
    last: String,
    lines: u64,
    ended: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct First {
    version: u32,
    apply_id: String,
    generation: u64,
    written_at_ns: i64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Last {
    lines: u64,
    blake3: String,
}

/// Only the version: a later format may have another header.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

impl<R: Read> Reader<R> {
    /// Starts reading. The reader uses large blocks; `input` needs no buffer.
    ///
    /// # Errors
    /// If the header is missing or has another version, or the file cannot be read.
    pub fn new(input: R) -> Result<Self, Error> {
        let mut blocks = Blocks::new(input);
        let text = blocks.next_line()?.ok_or_else(|| damaged(1, "the header is missing"))?;
        let first = match serde_json::from_slice::<First>(text) {
            Ok(first) if first.version == VERSION => first,
            _ => return Err(foreign(text)),
        };
        let header = Header {
            apply_id: first.apply_id,
            generation: first.generation,
            written_at_ns: first.written_at_ns,
        };
        Ok(Self { blocks, header, last: String::new(), lines: 0, ended: false })
    }

    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The next line; `None` at the verified end.
    ///
    /// # Errors
    /// If a line is missing, damaged, too long or out of order, if the index was truncated or
    /// altered, or if it cannot be read.
    pub fn next_line(&mut self) -> Result<Option<Line>, Error> {
        if self.ended {
            return Ok(None);
        }
        // The header is the first line of the file.
        let number = self.lines + 2;
        let text = self.blocks.next_line()?.ok_or_else(|| damaged(number, "the last line is missing"))?;
        if text.starts_with(br#"{"lines":"#) {
            let last =
                serde_json::from_slice(text).map_err(|_| damaged(number, "the line is not valid JSON"))?;
            self.end(&last, number)?;
            return Ok(None);
        }
        let line: Line =
            serde_json::from_slice(text).map_err(|_| damaged(number, "the line is not valid JSON"))?;
        if let Some(problem) = line.problem() {
            return Err(damaged(number, problem));
        }
        if self.lines > 0 && compare_paths(self.last.as_bytes(), line.path.as_bytes()).is_ge() {
            return Err(damaged(number, "the line is out of order"));
        }
        self.lines += 1;
        self.last.clear();
        self.last.push_str(&line.path);
        Ok(Some(line))
    }

    fn end(&mut self, last: &Last, number: u64) -> Result<(), Error> {
        if last.lines != self.lines {
            return Err(damaged(number, &format!("expected {} lines, found {}", last.lines, self.lines)));
        }
        if self.blocks.hash_before_last_line().to_hex().as_str() != last.blake3 {
            return Err(damaged(number, "the hash of the lines does not match"));
        }
        if self.blocks.next_line()?.is_some() {
            return Err(damaged(number + 1, "there is data after the last line"));
        }
        self.ended = true;
        Ok(())
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Line, Error>;

    /// The next line. After an error the iterator ends.
    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_line().transpose();
        if matches!(next, Some(Err(_))) {
            self.ended = true;
        }
        next
    }
}

/// The problem of a header.
fn foreign(text: &[u8]) -> Error {
    match serde_json::from_slice(text) {
        Ok(Versioned { version }) if version != VERSION => {
            damaged(1, &format!("the version is {version}, but this program supports {VERSION}"))
        }
        _ => damaged(1, "the header is missing"),
    }
}

/// Splits large blocks into lines. Hashing also uses large blocks: per line, it would cost more
/// than reading.
#[derive(Debug)]
struct Blocks<R> {
    input: R,
    block: Vec<u8>,
    /// The lines before this offset are consumed and hashed.
    hashed: usize,
    /// The start of the last returned line.
    current: usize,
    /// The start of the next line.
    start: usize,
    /// The end of the data in the block.
    filled: usize,
    hasher: blake3::Hasher,
    number: u64,
}

impl<R: Read> Blocks<R> {
    fn new(input: R) -> Self {
        let block = vec![0; BLOCK];
        Self {
            input,
            block,
            hashed: 0,
            current: 0,
            start: 0,
            filled: 0,
            hasher: blake3::Hasher::new(),
            number: 0,
        }
    }

    /// The next line without its line feed; `None` at the end.
    fn next_line(&mut self) -> Result<Option<&[u8]>, Error> {
        self.number += 1;
        let mut searched = self.start;
        loop {
            if let Some(found) = memchr(b'\n', &self.block[searched..self.filled]) {
                let end = searched + found;
                self.current = self.start;
                self.start = end + 1;
                if self.start - self.current > MAX_LINE_BYTES {
                    return Err(self.too_long());
                }
                return Ok(Some(&self.block[self.current..end]));
            }
            if self.filled - self.start >= MAX_LINE_BYTES {
                return Err(self.too_long());
            }
            if self.filled == self.block.len() {
                self.hash_until(self.start);
                self.block.copy_within(self.start..self.filled, 0);
                self.filled -= self.start;
                (self.hashed, self.current, self.start) = (0, 0, 0);
            }
            searched = self.filled;
            let read = loop {
                match self.input.read(&mut self.block[self.filled..]) {
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    other => break other.map_err(|error| failed("read", &error))?,
                }
            };
            if read == 0 {
                return if self.filled == self.start {
                    Ok(None)
                } else {
                    Err(damaged(self.number, "the line is truncated"))
                };
            }
            self.filled += read;
        }
    }

    /// The hash of everything before the last returned line.
    fn hash_before_last_line(&mut self) -> blake3::Hash {
        self.hash_until(self.current);
        self.hasher.finalize()
    }

    fn hash_until(&mut self, end: usize) {
        self.hasher.update(&self.block[self.hashed..end]);
        self.hashed = end;
    }

    fn too_long(&self) -> Error {
        damaged(self.number, &format!("the line is longer than {MAX_LINE_BYTES} bytes"))
    }
}

fn memchr(byte: u8, text: &[u8]) -> Option<usize> {
    text.iter().position(|&candidate| candidate == byte)
}
