//! A server that pretends to be a provider of models.
//!
//! ```ignore
//! let server = ModelServer::start(vec![wants(&[("tool", json!({}))]), reply("done")]);
//! // … a host whose provider is at `server.base`, on either wire …
//! assert_eq!(server.requests()[1].body["messages"][0]["content"], "…");
//! ```
//!
//! It answers chat completions and Messages, by the path that it is asked at.

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

/// One answer.
#[derive(Clone)]
pub(super) struct Reply(Kind);

#[derive(Clone)]
enum Kind {
    /// All at once, even where it is asked for piece by piece: what is said, or which tools are wanted.
    Whole(String, Vec<(String, Value)>),
    /// These pieces, with pauses between them.
    Pieces(Vec<String>),
    /// What the test says, when it says it.
    Live(Arc<Mutex<Option<UnboundedReceiver<Piece>>>>),
}

enum Piece {
    Text(String),
    Fail,
    BreakOff,
}

/// Says this, all at once.
pub(super) fn reply(text: &str) -> Reply {
    Reply(Kind::Whole(text.to_owned(), Vec::new()))
}

/// Wants tools to be called. Arguments that are text are sent as they are, so that they may be no JSON.
pub(super) fn wants(calls: &[(&str, Value)]) -> Reply {
    let calls = calls.iter().map(|(name, arguments)| ((*name).to_owned(), arguments.clone()));
    Reply(Kind::Whole(String::new(), calls.collect()))
}

/// Says this piece by piece.
pub(super) fn pieces(pieces: &[&str]) -> Reply {
    Reply(Kind::Pieces(pieces.iter().map(|piece| (*piece).to_owned()).collect()))
}

/// Says what the speaker says, as soon as it does. It is for one question.
pub(super) fn spoken_by_the_test() -> (Speaker, Reply) {
    let (sender, receiver) = unbounded_channel();
    (Speaker(sender), Reply(Kind::Live(Arc::new(Mutex::new(Some(receiver))))))
}

/// Says the pieces of a reply, which ends well when this is dropped.
pub(super) struct Speaker(UnboundedSender<Piece>);

impl Speaker {
    pub(super) fn say(&self, text: &str) {
        self.0.send(Piece::Text(text.to_owned())).unwrap();
    }

    /// The answer breaks off.
    pub(super) fn break_off(self) {
        self.0.send(Piece::BreakOff).unwrap();
    }

    /// The server says that it cannot go on.
    pub(super) fn fail(self) {
        self.0.send(Piece::Fail).unwrap();
    }
}

/// Answers these, in order, the last of them for ever, and remembers what it was asked.
pub(super) struct ModelServer {
    /// Where a host finds it.
    pub(super) base: String,
    requests: Arc<Mutex<Vec<Request>>>,
    door: Arc<Door>,
}

/// Where questions arrive, and how many answers may go out.
struct Door {
    arrived: Semaphore,
    through: Semaphore,
}

impl ModelServer {
    pub(super) fn start(replies: Vec<Reply>) -> Self {
        Self::behind(Semaphore::MAX_PERMITS, replies)
    }

    /// The same, where every answer waits until it is [let go](Self::let_go).
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

    /// What it was asked, in order.
    pub(super) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// How often it was asked.
    pub(super) fn count(&self) -> usize {
        self.requests.lock().unwrap().len()
    }

    /// Waits until one more question has come.
    pub(super) async fn asked(&self) {
        self.door.arrived.acquire().await.unwrap().forget();
    }

    /// Lets one answer go that is held.
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

/// An answer that goes out piece by piece.
struct Spoken(TcpStream);

impl Spoken {
    async fn begin(wire: Wire, request: &Request, stream: TcpStream) -> Self {
        assert_eq!(request.body["stream"], true, "it is asked for piece by piece");
        let mut spoken = Self(stream);
        spoken.write("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n").await;
        spoken.write(&wire.begin()).await;
        spoken
    }

    /// Whoever asked may be gone.
    async fn write(&mut self, text: &str) {
        let _ = self.0.write_all(text.as_bytes()).await;
    }
}
