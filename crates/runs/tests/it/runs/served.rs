//! HTTP on this machine, for mock servers.

use std::net::SocketAddr;
use std::rc::Rc;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{LocalSet, spawn_local};

/// A received request.
#[derive(Clone, Debug)]
pub(super) struct Request {
    /// The request line and the headers.
    pub(super) head: String,
    /// The JSON body, or null.
    pub(super) body: Value,
}

/// Serves on its own thread, so that it outlives the runtime of its clients. A connection is for one request.
pub(super) fn serve(answer: impl AsyncFn(Request, TcpStream) + Send + 'static) -> SocketAddr {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            sender.send(listener.local_addr().unwrap()).unwrap();
            let answer = Rc::new(answer);
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let answer = Rc::clone(&answer);
                spawn_local(async move {
                    if let Some(request) = request(&mut stream).await {
                        answer(request, stream).await;
                    }
                });
            }
        });
    });
    receiver.recv().unwrap()
}

/// Writes a complete reply. The client may be gone.
pub(super) async fn answer(stream: &mut TcpStream, document: &Value) {
    let text = document.to_string();
    let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\n";
    let answer = format!("{head}content-length: {}\r\n\r\n{text}", text.len());
    let _ = stream.write_all(answer.as_bytes()).await;
}

async fn request(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    loop {
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return None;
        }
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head
            .lines()
            .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            return Some(Request {
                head: head.to_owned(),
                body: serde_json::from_str(body).unwrap_or_default(),
            });
        }
    }
}
