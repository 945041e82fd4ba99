//! Writes an index.

use std::io::Write;

use serde::Serialize;

use super::{Header, Line, MAX_LINE_BYTES, VERSION, compare_paths, failed};
use crate::{Code, Error};

/// The block size for writing and hashing.
const BLOCK: usize = 64 * 1024;

/// Writes an index line by line in path order.
#[derive(Debug)]
pub struct Writer<W> {
    output: W,
    block: Vec<u8>,
    hasher: blake3::Hasher,
    last: String,
    lines: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct First<'a> {
    version: u32,
    apply_id: &'a str,
    generation: u64,
    written_at_ns: i64,
}

#[derive(Serialize)]
struct Last<'a> {
    lines: u64,
    blake3: &'a str,
}

impl<W: Write> Writer<W> {
    /// Starts an index. The writer uses large blocks; `output` needs no buffer.
    ///
    /// # Errors
    /// If the header cannot be written.
    pub fn new(output: W, header: &Header) -> Result<Self, Error> {
        let block = Vec::with_capacity(BLOCK + MAX_LINE_BYTES);
        let mut writer = Self { output, block, hasher: blake3::Hasher::new(), last: String::new(), lines: 0 };
        let Header { apply_id, generation, written_at_ns } = header;
        let first =
            First { version: VERSION, apply_id, generation: *generation, written_at_ns: *written_at_ns };
        writer.put(&first)?;
        Ok(writer)
    }

    ///
    /// # Errors
    /// If the path is out of order, the line could not be read again, or writing fails.
    pub fn push(&mut self, line: &Line) -> Result<(), Error> {
        let refused = |what: &str| {
            Error::new(Code::ApplyIo, format!("cannot write a line of the index: {what}"))
                .detail("path", line.path.as_str())
        };
        if let Some(problem) = line.problem() {
            return Err(refused(problem));
        }
        if self.lines > 0 && compare_paths(self.last.as_bytes(), line.path.as_bytes()).is_ge() {
            return Err(refused("the line is out of order"));
        }
        self.put(line)?;
        self.lines += 1;
        self.last.clear();
        self.last.push_str(&line.path);
        Ok(())
    }

    /// Writes the last line. Returns the output and the number of lines. Syncing is up to the
    /// caller.
    ///
    /// # Errors
    /// If the last line cannot be written.
    pub fn finish(mut self) -> Result<(W, u64), Error> {
        self.flush()?;
        let hash = self.hasher.finalize().to_hex();
        let last = Last { lines: self.lines, blake3: hash.as_str() };
        self.put(&last)?;
        self.flush()?;
        self.output.flush().map_err(|error| failed("write", &error))?;
        Ok((self.output, self.lines))
    }

    fn put(&mut self, value: &impl Serialize) -> Result<(), Error> {
        let start = self.block.len();
        serde_json::to_writer(&mut self.block, value).map_err(|error| failed("write", &error.into()))?;
        self.block.push(b'\n');
        let length = self.block.len() - start;
        if length > MAX_LINE_BYTES {
            self.block.truncate(start);
            return Err(Error::limit("bytes of a line of the index", MAX_LINE_BYTES as u64, length as u64));
        }
        if self.block.len() >= BLOCK {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.hasher.update(&self.block);
        self.output.write_all(&self.block).map_err(|error| failed("write", &error))?;
        self.block.clear();
        Ok(())
    }
}
