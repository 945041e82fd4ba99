//! The requests of the benchmark.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use crate::client::{Answer, Connection, Done, Work, find};
use crate::servers::{KEY, NOTHING};

fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {KEY}\r\n\r\n").into_bytes()
}

fn create(workflow: &str, key: &str) -> Vec<u8> {
    let body = format!("{{\"workflowId\":\"{workflow}\",\"inputs\":{{}}}}");
    let length = body.len();
    format!(
        "POST /v1/runs HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {KEY}\r\ncontent-type: application/json\r\n\
         idempotency-key: {key}\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

fn expect(answer: Answer, status: u16) -> io::Result<Answer> {
    if answer.status == status {
        return Ok(answer);
    }
    Err(io::Error::other(format!("{}: {}", answer.status, String::from_utf8_lossy(&answer.body))))
}

fn run_id(answer: &Answer) -> io::Result<String> {
    let marker = b"\"runId\":\"";
    let begin = find(&answer.body, marker).map(|at| at + marker.len());
    let rest = begin.map(|begin| &answer.body[begin..]).unwrap_or_default();
    let id = rest.split(|byte| *byte == b'"').next().unwrap_or_default();
    String::from_utf8(id.to_vec()).map_err(io::Error::other)
}

/// The same request repeatedly.
pub(crate) struct Same(Vec<u8>);

impl Same {
    pub(crate) fn get(path: &str) -> Self {
        Self(get(path))
    }

    pub(crate) fn post() -> Self {
        Self(create(NOTHING, "bare"))
    }
}

impl Work for Same {
    async fn once(&self, connection: &mut Connection, _: u64) -> io::Result<Done> {
        expect(connection.ask(&self.0).await?, 200)?;
        Ok(Done::default())
    }
}

/// What happens to a run after it was created.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// Nothing: only its creation is measured.
    Nothing,
    /// Its snapshot is read until it is completed.
    Completed,
    /// Its events are streamed to the end.
    Streamed,
}

pub(crate) struct Create {
    pub(crate) workflow: &'static str,
    pub(crate) name: String,
    pub(crate) then: Then,
}

impl Create {
    pub(crate) fn nothing(name: &str, then: Then) -> Self {
        Self { workflow: NOTHING, name: name.to_owned(), then }
    }
}

impl Work for Create {
    async fn once(&self, connection: &mut Connection, turn: u64) -> io::Result<Done> {
        let begin = Instant::now();
        let request = create(self.workflow, &format!("{}-{turn}", self.name));
        let created = expect(connection.ask(&request).await?, 201)?;
        let run_id = run_id(&created)?;
        match self.then {
            Then::Nothing => Ok(Done::default()),
            Then::Completed => {
                let acknowledged = begin.elapsed();
                let request = get(&format!("/v1/runs/{run_id}"));
                loop {
                    let snapshot = expect(connection.ask(&request).await?, 200)?;
                    if find(&snapshot.body, b"\"status\":\"completed\"").is_some() {
                        return Ok(Done { first: Some(acknowledged), events: 0 });
                    }
                }
            }
            Then::Streamed => {
                let begin = Instant::now();
                let stream = connection.ask(&get(&format!("/v1/runs/{run_id}/events"))).await?;
                let stream = expect(stream, 200)?;
                Ok(Done { first: Some(stream.first_byte - begin), events: events(&stream.body) })
            }
        }
    }
}

/// The number of events in a stream: each has one line that names it.
fn events(stream: &[u8]) -> u64 {
    stream.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"event:")).count() as u64
}

/// The same key and body repeatedly.
pub(crate) struct Replay(pub(crate) u64);

impl Work for Replay {
    async fn once(&self, connection: &mut Connection, turn: u64) -> io::Result<Done> {
        expect(connection.ask(&create(NOTHING, &format!("replayed-{}", turn % self.0))).await?, 201)?;
        Ok(Done::default())
    }
}

/// Snapshots of known runs in pseudo-random order.
pub(crate) struct Snapshots(pub(crate) Arc<[String]>);

impl Work for Snapshots {
    async fn once(&self, connection: &mut Connection, turn: u64) -> io::Result<Done> {
        let place = turn.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
        let place = usize::try_from(place % self.0.len() as u64).unwrap_or_default();
        expect(connection.ask(&get(&format!("/v1/runs/{}", self.0[place]))).await?, 200)?;
        Ok(Done::default())
    }
}

/// The ids of the newest runs.
pub(crate) async fn listed(connection: &mut Connection, most: usize) -> Arc<[String]> {
    let mut found = Vec::new();
    let mut cursor = String::new();
    while found.len() < most {
        let answer = connection.ask(&get(&format!("/v1/runs?limit=200{cursor}"))).await.unwrap();
        let page: serde_json::Value = serde_json::from_slice(&expect(answer, 200).unwrap().body).unwrap();
        let runs = page["runs"].as_array().cloned().unwrap_or_default();
        found.extend(runs.iter().filter_map(|run| run["runId"].as_str().map(str::to_owned)));
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    found.into()
}

pub(crate) async fn recorded(connection: &mut Connection, run_id: &str) -> u64 {
    let path = format!("/v1/runs/{run_id}/events/poll?lastSequence=0&limit=100&timeout=0");
    let answer = expect(connection.ask(&get(&path)).await.unwrap(), 200).unwrap();
    let page: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    let last = page["events"].as_array().and_then(|events| events.last());
    last.and_then(|event| event["sequence"].as_u64()).unwrap_or_else(|| panic!("no events in {page}")) + 1
}
