//! A bounded gzip reader that records why it stopped.

use std::cell::Cell;
use std::io::{self, Read};

use flate2::bufread::GzDecoder;

use super::Limits;

/// Why the reader stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StopReason {
    /// The bytes are not gzip, or are damaged.
    Gzip,
    /// The unpacked size exceeds the limit.
    TooLarge,
    /// The compression ratio exceeds the limit.
    Ratio,
}

/// Counts the unpacked bytes of a gzip stream.
pub(super) struct Bounded<'a> {
    decoder: GzDecoder<Counted<'a>>,
    consumed: &'a Cell<usize>,
    produced: usize,
    limits: Limits,
    stopped: &'a Cell<Option<StopReason>>,
}

/// A slice that counts the bytes read.
struct Counted<'a> {
    rest: &'a [u8],
    consumed: &'a Cell<usize>,
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.rest.read(buffer)?;
        self.consumed.set(self.consumed.get() + count);
        Ok(count)
    }
}

impl io::BufRead for Counted<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        // In steps, so that the count stays close to the decoder for the ratio check.
        Ok(&self.rest[..self.rest.len().min(8 * 1024)])
    }

    fn consume(&mut self, count: usize) {
        self.rest = &self.rest[count..];
        self.consumed.set(self.consumed.get() + count);
    }
}

impl<'a> Bounded<'a> {
    pub(super) fn new(
        bytes: &'a [u8],
        limits: Limits,
        consumed: &'a Cell<usize>,
        stopped: &'a Cell<Option<StopReason>>,
    ) -> Self {
        let decoder = GzDecoder::new(Counted { rest: bytes, consumed });
        Self { decoder, consumed, produced: 0, limits, stopped }
    }

    /// Reads to the end of the stream, where the checksum is. Returns whether all remaining bytes were zeros.
    pub(super) fn drain_zeros(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 16 * 1024];
        loop {
            match self.read(&mut buffer)? {
                0 => return Ok(true),
                count if buffer[..count].iter().all(|byte| *byte == 0) => {}
                _ => return Ok(false),
            }
        }
    }

    fn stop<T>(&self, stop: StopReason) -> io::Result<T> {
        self.stopped.set(Some(stop));
        Err(io::Error::new(io::ErrorKind::InvalidData, "stopped"))
    }
}

impl Read for Bounded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Ok(count) = self.decoder.read(buffer) else { return self.stop(StopReason::Gzip) };
        self.produced += count;
        if self.produced > self.limits.unpacked_bytes {
            return self.stop(StopReason::TooLarge);
        }
        let fair = self.consumed.get().saturating_mul(self.limits.ratio).saturating_add(Limits::RATIO_FREE);
        if self.produced > fair {
            return self.stop(StopReason::Ratio);
        }
        Ok(count)
    }
}
