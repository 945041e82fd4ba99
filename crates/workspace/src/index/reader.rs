//! Reading an index.

use std::io::Read;

use serde::Deserialize;

use super::{Header, Line, MAX_LINE_BYTES, VERSION, compare_paths, damaged, failed};
use crate::Error;

/// How many bytes are read at once; several lines of the greatest length fit.
const BLOCK: usize = 4 * MAX_LINE_BYTES;

/// Reads an index, line by line. What it returned is only known to be whole when it has returned nothing:
/// the last line has the hash of all before it.
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

/// The version alone: a later format may have another header.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

impl<R: Read> Reader<R> {
    /// Starts to read. The reader takes large blocks itself; `input` needs no buffer.
    ///
    /// # Errors
    /// When there is no header, when it is that of another version, or when nothing can be read.
    pub fn new(input: R) -> Result<Self, Error> {
        let mut blocks = Blocks::new(input);
        let text = blocks.next_line()?.ok_or_else(|| damaged(1, "there is no header"))?;
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

    /// What stands before the lines.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The next line; nothing when the index is at its end, and whole.
    ///
    /// # Errors
    /// When a line is missing, damaged, too long or out of order, when the index was cut off or
    /// altered, or when it cannot be read.
    pub fn next_line(&mut self) -> Result<Option<Line>, Error> {
        if self.ended {
            return Ok(None);
        }
        // The header is the first line of the file.
        let number = self.lines + 2;
        let text = self.blocks.next_line()?.ok_or_else(|| damaged(number, "the end is missing"))?;
        if text.starts_with(br#"{"lines":"#) {
            let last = serde_json::from_slice(text).map_err(|_| damaged(number, "it cannot be read"))?;
            self.end(&last, number)?;
            return Ok(None);
        }
        let line: Line = serde_json::from_slice(text).map_err(|_| damaged(number, "it cannot be read"))?;
        if let Some(problem) = line.problem() {
            return Err(damaged(number, problem));
        }
        if self.lines > 0 && compare_paths(self.last.as_bytes(), line.path.as_bytes()).is_ge() {
            return Err(damaged(number, "it does not come after the line before"));
        }
        self.lines += 1;
        self.last.clear();
        self.last.push_str(&line.path);
        Ok(Some(line))
    }

    fn end(&mut self, last: &Last, number: u64) -> Result<(), Error> {
        if last.lines != self.lines {
            return Err(damaged(
                number,
                &format!("{} lines were written, and {} are there", last.lines, self.lines),
            ));
        }
        if self.blocks.hash_before_last_line().to_hex().as_str() != last.blake3 {
            return Err(damaged(number, "the hash of the lines is not the one that was written"));
        }
        if self.blocks.next_line()?.is_some() {
            return Err(damaged(number + 1, "something follows the end"));
        }
        self.ended = true;
        Ok(())
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Line, Error>;

    /// The next line. After an error nothing more comes.
    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_line().transpose();
        if matches!(next, Some(Err(_))) {
            self.ended = true;
        }
        next
    }
}

/// What is wrong with a header.
fn foreign(text: &[u8]) -> Error {
    match serde_json::from_slice(text) {
        Ok(Versioned { version }) if version != VERSION => {
            damaged(1, &format!("it has version {version}, and this program reads {VERSION}"))
        }
        _ => damaged(1, "there is no header"),
    }
}

/// Lines out of large blocks, hashed in large blocks too: line by line the hash would cost more than the reading.
#[derive(Debug)]
struct Blocks<R> {
    input: R,
    block: Vec<u8>,
    /// The lines before are consumed and hashed.
    hashed: usize,
    /// Where the line that was returned last starts.
    current: usize,
    /// Where the next line starts.
    start: usize,
    /// Up to here the block has bytes.
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

    /// The next line without its line feed; nothing at the end.
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
                    Err(damaged(self.number, "the line was cut off"))
                };
            }
            self.filled += read;
        }
    }

    /// The hash of everything before the line that was returned last.
    fn hash_before_last_line(&mut self) -> blake3::Hash {
        self.hash_until(self.current);
        self.hasher.finalize()
    }

    fn hash_until(&mut self, end: usize) {
        self.hasher.update(&self.block[self.hashed..end]);
        self.hashed = end;
    }

    fn too_long(&self) -> Error {
        damaged(self.number, &format!("it has more than {MAX_LINE_BYTES} bytes"))
    }
}

fn memchr(byte: u8, text: &[u8]) -> Option<usize> {
    text.iter().position(|&candidate| candidate == byte)
}
