//! A client that sends exactly the given bytes.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A reply.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    pub(crate) fn json_or_null(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// Asserts the status and returns the body.
    #[track_caller]
    pub(crate) fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        self.json()
    }

    /// Asserts an error: the status, the code, and that the envelope has no other fields.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16, code: &str) -> Value {
        let body = self.expect(status);
        let members: Vec<&String> = body.as_object().unwrap().keys().collect();
        assert!(
            members.iter().all(|name| ["error", "message", "details"].contains(&name.as_str())),
            "{body}"
        );
        assert!(body.get("details").is_none_or(Value::is_object), "{body}");
        assert_eq!(body["error"], code, "{body}");
        assert!(body["message"].as_str().is_some_and(|message| !message.is_empty()), "{body}");
        body
    }
}

/// Sends raw bytes, and reads until the server closes the connection.
pub(crate) async fn raw(address: SocketAddr, request: &[u8]) -> Option<Answer> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The server may close the connection before everything is sent.
    let _ = stream.write_all(request).await;
    let mut received = Vec::new();
    let _ = stream.read_to_end(&mut received).await;
    parse(&received)
}

/// Parses a reply from the bytes of a connection.
pub(crate) fn parse(received: &[u8]) -> Option<Answer> {
    let end = received.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8(received[..end].to_vec()).unwrap();
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().unwrap();
    let headers: Vec<(String, String)> = lines
        .map(|line| line.split_once(':').unwrap())
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect();
    let body = &received[end + 4..];
    let chunked = headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
    let body = if chunked { unchunked(body) } else { body.to_vec() };
    Some(Answer { status, headers, body })
}

/// The content of all complete chunks.
pub(crate) fn unchunked(mut body: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    while let Some(end) = body.windows(2).position(|window| window == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&body[..end]).unwrap(), 16).unwrap();
        let Some(chunk) = body.get(end + 2..end + 2 + size) else { break };
        content.extend_from_slice(chunk);
        body = body.get(end + 4 + size..).unwrap_or_default();
    }
    content
}

/// The text of a request with `Connection: close`.
pub(crate) fn request(method: &str, path: &str, headers: &[(&str, &str)], body: Option<&[u8]>) -> Vec<u8> {
    let mut text = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
    if !headers.iter().any(|(name, _)| *name == "host") {
        text.push_str("host: host.test\r\n");
    }
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if let Some(body) = body {
        text.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    let mut bytes = format!("{text}\r\n").into_bytes();
    bytes.extend_from_slice(body.unwrap_or_default());
    bytes
}

/// A reply that the host keeps open.
pub(crate) struct OpenStream {
    stream: TcpStream,
    received: Vec<u8>,
}

impl OpenStream {
    pub(crate) async fn get(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Self {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&request("GET", path, headers, None)).await.unwrap();
        Self { stream, received: Vec::new() }
    }

    /// Reads until the text appears, and returns everything so far.
    pub(crate) async fn until(&mut self, text: &str) -> String {
        loop {
            let so_far = String::from_utf8_lossy(&self.received).into_owned();
            if so_far.contains(text) {
                return so_far;
            }
            assert!(self.more().await, "the host ended the stream: {so_far}");
        }
    }

    /// Reads until the host ends the stream, and returns everything.
    pub(crate) async fn read_to_end(mut self) -> String {
        while self.more().await {}
        String::from_utf8_lossy(&self.received).into_owned()
    }

    async fn more(&mut self) -> bool {
        let mut buffer = [0; 4096];
        // A host that ends a stream early may close the connection without the final chunk.
        let count = self.stream.read(&mut buffer).await.unwrap_or(0);
        self.received.extend_from_slice(&buffer[..count]);
        count > 0
    }
}
