//! A webhook receiver that outlives the host.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

use flow::id::RunId;
use serde_json::Value;

/// The received deliveries, by id. The same delivery may arrive twice, with the same contents.
type Deliveries = Arc<Mutex<BTreeMap<String, Value>>>;

pub(super) struct Receiver {
    pub(super) address: SocketAddr,
    reported: Deliveries,
}

impl Receiver {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let reported = Deliveries::default();
        let record = Arc::clone(&reported);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = BufReader::new(stream.unwrap());
                let (mut length, mut id) = (0, String::new());
                loop {
                    let mut line = String::new();
                    // A host that dies sends nothing more.
                    if stream.read_line(&mut line).unwrap_or(0) == 0 || line == "\r\n" {
                        break;
                    }
                    match line.trim().split_once(": ") {
                        Some(("content-length", value)) => length = value.parse().unwrap(),
                        Some(("x-openwop-delivery-id", value)) => id = value.to_owned(),
                        _ => {}
                    }
                }
                let mut body = vec![0; length];
                if length == 0 || stream.read_exact(&mut body).is_err() {
                    continue;
                }
                let body: Value = serde_json::from_slice(&body).unwrap();
                if let Some(before) = record.lock().unwrap().insert(id, body.clone()) {
                    assert_eq!(before, body, "a delivery says the same every time");
                }
                let _ = stream
                    .get_mut()
                    .write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
            }
        });
        Self { address, reported }
    }

    /// The delivered events of a run, in order and without duplicates.
    pub(super) fn reported(&self, run_id: &RunId) -> Vec<Value> {
        let reported = self.reported.lock().unwrap();
        let mut events: Vec<Value> = reported
            .values()
            .filter(|body| body["runId"] == run_id.as_str())
            .map(|body| body["event"].clone())
            .collect();
        events.sort_by_key(|event| event["sequence"].as_u64());
        events
    }
}
