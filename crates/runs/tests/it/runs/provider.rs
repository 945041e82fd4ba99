//! A mock model provider over HTTP.
//!
//! ```ignore
//! let server = ModelServer::start(vec![wants(&[("tool", json!({}))]), reply("done")]);
//! // … a host whose provider is at `server.base`, on either wire …
//! assert_eq!(server.requests()[1].body["messages"][0]["content"], "…");
//! ```
//!
//! It supports chat completions and Messages, selected by the path of the request.

mod wire;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use self::wire::Wire;
use super::served::{self, Request};

/// One reply.
#[derive(Clone)]
pub(super) struct Reply(Kind);

#[derive(Clone)]
enum Kind {
    /// Complete, even if streaming is requested: text, or tool calls.
    Whole(String, Vec<(String, Value)>),
    /// These chunks, with pauses between them.
    Pieces(Vec<String>),
    /// An error, with a request to retry at once.
    Refused(u16),
    /// What the test sends, when it sends it.
    Live(Arc<Mutex<Option<UnboundedReceiver<Piece>>>>),
}

enum Piece {
    Text(String),
    Fail,
    BreakOff,
}

/// A complete text.
pub(super) fn reply(text: &str) -> Reply {
    Reply(Kind::Whole(text.to_owned(), Vec::new()))
}

/// Tool calls. Arguments that are text are sent unchanged, so that they can be invalid JSON.
pub(super) fn wants(calls: &[(&str, Value)]) -> Reply {
    let calls = calls.iter().map(|(name, arguments)| ((*name).to_owned(), arguments.clone()));
    Reply(Kind::Whole(String::new(), calls.collect()))
}

/// A text in chunks.
pub(super) fn pieces(pieces: &[&str]) -> Reply {
    Reply(Kind::Pieces(pieces.iter().map(|piece| (*piece).to_owned()).collect()))
}

/// An HTTP error after which the client may retry at once.
pub(super) fn refused(status: u16) -> Reply {
    Reply(Kind::Refused(status))
}

/// The chunks of the speaker, as soon as it sends them. For one request.
pub(super) fn spoken_by_the_test() -> (Speaker, Reply) {
    let (sender, receiver) = unbounded_channel();
    (Speaker(sender), Reply(Kind::Live(Arc::new(Mutex::new(Some(receiver))))))
}

/// Sends the chunks of a reply, which ends normally when this is dropped.
pub(super) struct Speaker(UnboundedSender<Piece>);

impl Speaker {
    pub(super) fn say(&self, text: &str) {
        self.0.send(Piece::Text(text.to_owned())).unwrap();
    }

    /// Interrupts the reply.
    pub(super) fn break_off(self) {
        self.0.send(Piece::BreakOff).unwrap();
    }

    /// Sends an error in the middle of the reply.
    pub(super) fn fail(self) {
        self.0.send(Piece::Fail).unwrap();
    }
}

/// Sends these replies in order, the last one permanently, and records the requests.
pub(super) struct ModelServer {
    /// Its base URL.
    pub(super) base: String,
    requests: Arc<Mutex<Vec<Request>>>,
    door: Arc<Door>,
}

/// Where requests arrive, and how many replies may be sent.
struct Door {
    arrived: Semaphore,
    through: Semaphore,
}

impl ModelServer {
    pub(super) fn start(replies: Vec<Reply>) -> Self {
        Self::behind(Semaphore::MAX_PERMITS, replies)
    }

    /// Like `start`, but every reply waits for [`Self::let_go`].
    pub(super) fn held(replies: Vec<Reply>) -> Self {
        Self::behind(0, replies)
    }

    fn behind(answers: usize, replies: Vec<Reply>) -> Self {
        let requests = Arc::<Mutex<Vec<Request>>>::default();
        let door = Arc::new(Door { arrived: Semaphore::new(0), through: Semaphore::new(answers) });
        let (seen, gate) = (Arc::clone(&requests), Arc::clone(&door));
        let address = served::serve(async move |request, stream| {
            let place = {
                let mut seen = seen.lock().unwrap();
                seen.push(request.clone());
                seen.len() - 1
            };
            gate.arrived.add_permits(1);
            gate.through.acquire().await.unwrap().forget();
            answer(&replies[place.min(replies.len() - 1)], &request, stream).await;
        });
        Self { base: format!("http://{address}/v1"), requests, door }
    }

    /// The received requests, in order.
    pub(super) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// The number of received requests.
    pub(super) fn count(&self) -> usize {
        self.requests.lock().unwrap().len()
    }

    /// Waits for another request.
    pub(super) async fn asked(&self) {
        self.door.arrived.acquire().await.unwrap().forget();
    }

    /// Releases one held reply.
    pub(super) fn let_go(&self) {
        self.door.through.add_permits(1);
    }
}

async fn answer(reply: &Reply, request: &Request, mut stream: TcpStream) {
    let wire = Wire::of(request);
    match &reply.0 {
        Kind::Whole(text, calls) => served::answer(&mut stream, &wire.whole(text, calls)).await,
        Kind::Pieces(pieces) => {
            let mut spoken = Spoken::begin(wire, request, stream).await;
            for piece in pieces {
                spoken.write(&wire.piece(piece)).await;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            spoken.write(&wire.end()).await;
        }
        Kind::Refused(status) => {
            let head = format!(
                "HTTP/1.1 {status} No\r\nconnection: close\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n"
            );
            let _ = stream.write_all(head.as_bytes()).await;
        }
        Kind::Live(said) => {
            let mut said = said.lock().unwrap().take().expect("it is asked once");
            let mut spoken = Spoken::begin(wire, request, stream).await;
            while let Some(piece) = said.recv().await {
                match piece {
                    Piece::Text(text) => spoken.write(&wire.piece(&text)).await,
                    Piece::Fail => return spoken.write(&wire.failure()).await,
                    Piece::BreakOff => return,
                }
            }
            spoken.write(&wire.end()).await;
        }
    }
}

/// A streamed reply.
struct Spoken(TcpStream);

impl Spoken {
    async fn begin(wire: Wire, request: &Request, stream: TcpStream) -> Self {
        assert_eq!(request.body["stream"], true, "it is asked for piece by piece");
        let mut spoken = Self(stream);
        spoken.write("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n").await;
        spoken.write(&wire.begin()).await;
        spoken
    }

    /// The client may be gone.
    async fn write(&mut self, text: &str) {
        let _ = self.0.write_all(text.as_bytes()).await;
    }
}
