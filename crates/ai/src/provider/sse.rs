//! Server-sent events, read piece by piece.
//!
//! What comes out does not depend on where the pieces were cut. A line and an event are bounded: a server that never ends
//! one does not fill the memory.

/// The longest event, in bytes.
pub const MAX_EVENT_BYTES: usize = 1 << 20;

/// One event of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SseEvent {
    /// Its name; `message` where it has none.
    pub name: String,
    /// Its lines of data, joined.
    pub data: String,
}

/// An event was too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream has more than {MAX_EVENT_BYTES} bytes")]
pub struct TooLong;

/// A reader of a stream.
#[derive(Clone, Debug, Default)]
pub struct SseReader {
    line: Vec<u8>,
    name: Option<String>,
    data: Option<String>,
    /// The last byte was a carriage return: a line feed after it belongs to it.
    after_return: bool,
    /// A line was read before: a byte order mark is only one at the beginning.
    begun: bool,
}

impl SseReader {
    /// A reader at the beginning of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes, and gives the events that they complete.
    ///
    /// # Errors
    /// An event is too long. The stream cannot be read on.
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
            // A comment, an id or a time to wait: nothing that a reply is made of.
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
    fn streams_and_their_events() {
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
    fn an_event_without_an_end_is_refused() {
        let mut reader = SseReader::new();
        assert_eq!(reader.feed(&vec![b'x'; MAX_EVENT_BYTES]), Ok(Vec::new()));
        assert_eq!(reader.feed(b"x"), Err(TooLong));
        let mut reader = SseReader::new();
        let line = format!("data: {}\n", "y".repeat(MAX_EVENT_BYTES / 2));
        assert_eq!(reader.feed(line.as_bytes()), Ok(Vec::new()));
        assert_eq!(reader.feed(line.as_bytes()), Err(TooLong));
    }
}
