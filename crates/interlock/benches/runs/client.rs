//! A cheap HTTP client, because it shares the machine with the server it measures.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::figures::Samples;

pub(crate) struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    /// For a stream, the raw chunks.
    pub(crate) body: Vec<u8>,
    /// When the first byte of the body arrived.
    pub(crate) first_byte: Instant,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, received: Vec::with_capacity(16 << 10) })
    }

    /// Sends a request and reads the response, with a content length or chunked.
    pub(crate) async fn ask(&mut self, request: &[u8]) -> io::Result<Answer> {
        self.stream.write_all(request).await?;
        self.received.clear();
        let head = loop {
            self.receive().await?;
            if let Some(end) = find(&self.received, b"\r\n\r\n") {
                break end + 4;
            }
        };
        let text = std::str::from_utf8(&self.received[..head]).map_err(io::Error::other)?;
        let status = text.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0);
        let length = header(text, "content-length").and_then(|value| value.parse::<usize>().ok());
        match length {
            Some(length) => {
                while self.received.len() < head + length {
                    self.receive().await?;
                }
            }
            None => {
                while self.received.len() == head {
                    self.receive().await?;
                }
            }
        }
        let first_byte = Instant::now();
        if length.is_none() {
            while !self.received.ends_with(b"\r\n0\r\n\r\n") {
                self.receive().await?;
            }
        }
        Ok(Answer { status, body: self.received.split_off(head), first_byte })
    }

    async fn receive(&mut self) -> io::Result<()> {
        match self.stream.read_buf(&mut self.received).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

fn header<'t>(head: &'t str, name: &str) -> Option<&'t str> {
    head.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

pub(crate) fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

/// The work of a client; `turn` counts over all clients.
pub(crate) trait Work: Send + Sync + 'static {
    fn once(&self, connection: &mut Connection, turn: u64) -> impl Future<Output = io::Result<Done>> + Send;
}

/// The result of one turn, except for its duration.
#[derive(Clone, Copy, Default)]
pub(crate) struct Done {
    pub(crate) first: Option<Duration>,
    pub(crate) events: u64,
}

/// The results of many turns.
#[derive(Default)]
pub(crate) struct Measurement {
    pub(crate) took: Duration,
    pub(crate) whole: Samples,
    pub(crate) first: Samples,
    pub(crate) events: u64,
}

impl Measurement {
    pub(crate) fn add(&mut self, others: Self) {
        self.took += others.took;
        self.whole.extend(others.whole);
        self.first.extend(others.first);
        self.events += others.events;
    }

    pub(crate) fn per_second(&self) -> f64 {
        self.whole.len() as f64 / self.took.as_secs_f64()
    }

    pub(crate) fn events_per_second(&self) -> f64 {
        self.events as f64 / self.took.as_secs_f64()
    }
}

/// When a measurement ends.
#[derive(Clone, Copy)]
pub(crate) enum Until {
    /// After this time; the first second is not counted.
    Seconds(f64),
    /// After this many turns.
    Turns(u64),
}

/// Runs clients concurrently, each with one connection and one request at a time.
pub(crate) async fn drive<W: Work>(address: SocketAddr, clients: u64, until: Until, work: W) -> Measurement {
    let work = Arc::new(work);
    let begin = Instant::now();
    let (warm, end, most) = match until {
        Until::Seconds(seconds) => {
            let warm = begin + Duration::from_millis(700);
            (warm, warm + Duration::from_secs_f64(seconds), u64::MAX)
        }
        Until::Turns(turns) => (begin, begin + Duration::from_secs(3600), turns),
    };
    let mut tasks = Vec::new();
    for client in 0..clients {
        let work = Arc::clone(&work);
        tasks.push(tokio::spawn(async move {
            let mut connection = Connection::open(address).await.unwrap();
            let mut seen = (Samples::default(), Samples::default(), 0);
            let mut turn = client;
            while turn < most {
                let begun = Instant::now();
                if begun >= end {
                    break;
                }
                let done = work.once(&mut connection, turn).await.unwrap();
                turn += clients;
                let ended = Instant::now();
                if ended < warm || ended > end {
                    continue;
                }
                seen.0.add(ended - begun);
                if let Some(first) = done.first {
                    seen.1.add(first);
                }
                seen.2 += done.events;
            }
            seen
        }));
    }
    let mut outcome = Measurement::default();
    for task in tasks {
        let (whole, first, events) = task.await.unwrap();
        outcome.whole.extend(whole);
        outcome.first.extend(first);
        outcome.events += events;
    }
    outcome.took = match until {
        Until::Seconds(_) => end - warm,
        Until::Turns(_) => begin.elapsed(),
    };
    outcome
}
