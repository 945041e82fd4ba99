//! An incremental reader of server-sent events.
//!
//! The result does not depend on how the bytes are split. Lines and events have a size limit, so a server cannot
//! exhaust the memory.

/// The maximum size of an event, in bytes.
pub const MAX_EVENT_BYTES: usize = 1 << 20;

/// A server-sent event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SseEvent {
    /// The name; `message` by default.
    pub name: String,
    /// The data lines, joined.
    pub data: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a stream event is larger than {MAX_EVENT_BYTES} bytes")]
pub struct TooLong;

/// A reader of an event stream.
#[derive(Clone, Debug, Default)]
pub struct SseReader {
    line: Vec<u8>,
    name: Option<String>,
    data: Option<String>,
    /// The last byte was a carriage return; a line feed after it belongs to the same line end.
    after_return: bool,
    /// A line was read, so a byte order mark is no longer skipped.
    begun: bool,
}

impl SseReader {
    /// A reader at the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the next bytes and returns the events that they complete.
    ///
    /// # Errors
    /// An event is too long. The rest of the stream cannot be read.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Vec<SseEvent>, TooLong> {
        let mut events = Vec::new();
        for byte in bytes {
            match byte {
                b'\n' if self.after_return => self.after_return = false,
                b'\n' | b'\r' => {
                    self.after_return = *byte == b'\r';
                    events.extend(self.end_of_line()?);
                }
                other => {
                    self.after_return = false;
                    if self.line.len() >= MAX_EVENT_BYTES {
                        return Err(TooLong);
                    }
                    self.line.push(*other);
                }
            }
        }
        Ok(events)
    }

    fn end_of_line(&mut self) -> Result<Option<SseEvent>, TooLong> {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        let first = !std::mem::replace(&mut self.begun, true);
        let line = if first { line.strip_prefix('\u{feff}').unwrap_or(&line) } else { &line };
        if line.is_empty() {
            let name = self.name.take();
            let event = |data| SseEvent { name: name.unwrap_or_else(|| "message".to_owned()), data };
            return Ok(self.data.take().map(event));
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => self.name = Some(value.to_owned()).filter(|name| !name.is_empty()),
            "data" => match &mut self.data {
                Some(data) if data.len() + value.len() < MAX_EVENT_BYTES => {
                    data.push('\n');
                    data.push_str(value);
                }
                Some(_) => return Err(TooLong),
                None => self.data = Some(value.to_owned()),
            },
            // Comments, ids and retry times are not part of a reply.
            _ => {}
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str, data: &str) -> SseEvent {
        SseEvent { name: name.to_owned(), data: data.to_owned() }
    }

    #[test]
    fn parses_streams() {
        let cases = [
            ("data: a\n\n", vec![event("message", "a")]),
            ("data:a\r\ndata: b\r\n\r\n", vec![event("message", "a\nb")]),
            ("event: x\rdata: 1\r\rdata: 2\r\r", vec![event("x", "1"), event("message", "2")]),
            ("\u{feff}data: a\n\n", vec![event("message", "a")]),
            (": ping\n\nevent: only\n\nid: 1\nretry: 2\ndata\n\n", vec![event("message", "")]),
            ("data: not ended", vec![]),
        ];
        for (text, events) in cases {
            assert_eq!(SseReader::new().feed(text.as_bytes()), Ok(events), "{text:?}");
        }
    }

    #[test]
    fn rejects_an_unbounded_event() {
        let mut reader = SseReader::new();
        assert_eq!(reader.feed(&vec![b'x'; MAX_EVENT_BYTES]), Ok(Vec::new()));
        assert_eq!(reader.feed(b"x"), Err(TooLong));
        let mut reader = SseReader::new();
        let line = format!("data: {}\n", "y".repeat(MAX_EVENT_BYTES / 2));
        assert_eq!(reader.feed(line.as_bytes()), Ok(Vec::new()));
        assert_eq!(reader.feed(line.as_bytes()), Err(TooLong));
    }
}
