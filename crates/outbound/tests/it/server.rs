//! A server with scripted connections.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A keep-alive reply.
pub(crate) const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

pub(crate) struct Server {
    pub(crate) port: u16,
    accepted: Arc<AtomicUsize>,
}

impl Server {
    /// Serves each connection with `serve`.
    pub(crate) async fn start<F>(serve: impl Fn(Peer) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let accepted = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&accepted);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                counted.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(Peer { stream, bytes: Vec::new() }));
            }
        });
        Self { port, accepted }
    }

    /// Sends the same bytes for every request and keeps the connection open.
    pub(crate) async fn answering(reply: &'static str) -> Self {
        Self::start(move |mut peer| async move {
            while peer.request().await.is_some() {
                peer.reply(reply).await;
            }
        })
        .await
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/x", self.port)
    }

    /// The number of accepted connections.
    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }
}

/// The server side of one connection.
pub(crate) struct Peer {
    stream: TcpStream,
    bytes: Vec<u8>,
}

impl Peer {
    /// The next request, or `None` after the client closed the connection.
    pub(crate) async fn request(&mut self) -> Option<String> {
        loop {
            if let Some(request) = self.complete() {
                return Some(request);
            }
            if self.stream.read_buf(&mut self.bytes).await.unwrap_or(0) == 0 {
                return None;
            }
        }
    }

    fn complete(&mut self) -> Option<String> {
        let text = String::from_utf8(self.bytes.clone()).unwrap();
        let head = text.find("\r\n\r\n")? + 4;
        let length = text[..head].lines().find_map(|line| line.strip_prefix("content-length: "));
        let end = head + length.map_or(0, |length| length.parse::<usize>().unwrap());
        text.get(..end)?;
        self.bytes.drain(..end);
        Some(text[..end].to_owned())
    }

    pub(crate) async fn reply(&mut self, reply: &str) {
        // The client may be gone.
        let _ = self.stream.write_all(reply.as_bytes()).await;
    }

    /// Closes this side, and waits until the client has closed its side too.
    pub(crate) async fn close(mut self) {
        let _ = self.stream.shutdown().await;
        while self.stream.read_buf(&mut self.bytes).await.unwrap_or(0) > 0 {}
    }
}
