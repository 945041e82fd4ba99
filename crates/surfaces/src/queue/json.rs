//! The JSON interface of queues.

use std::sync::Arc;

use futures_util::FutureExt as _;
use serde_json::{Map, Value, json};

use super::{Consume, LEASE_MS, MAX_DELAY_MS, MAX_LEASE_MS, MAX_RECORDS, Queue, ReadFrom};
use crate::args::{Args, refuse};
use crate::call::Scope;
use crate::error::{Code, SurfaceError};
use crate::served::{PortFuture, Served, unknown_op};

const OPS: &[&str] = &["publish", "consume", "ack", "nack", "deadLetter", "streamPublish", "streamSubscribe"];
const UNKNOWN: &str = "unknown_delivery_token";

pub struct ServedQueue {
    queue: Arc<dyn Queue>,
}

impl ServedQueue {
    pub fn new(queue: Arc<dyn Queue>) -> Self {
        Self { queue }
    }

    async fn carry_out(
        &self,
        scope: &Scope,
        op: &str,
        args: Map<String, Value>,
    ) -> Result<Value, SurfaceError> {
        match op {
            "publish" => {
                let mut args = Args::new(args, &["subject", "topic", "payload", "message", "delaySeconds"])?;
                let subject = subject(&mut args)?;
                let payload = args.one_of(&["payload", "message"])?;
                let delay = args.optional_count("delaySeconds", 0, MAX_DELAY_MS / 1000)?.unwrap_or(0);
                let id = self.queue.publish_later(scope, subject, payload, delay * 1000).await?;
                Ok(json!({ "id": id, "published": true }))
            }
            "consume" => self.consume(scope, args).await,
            "ack" => {
                let token = Args::new(args, &["deliveryToken"])?.text("deliveryToken")?;
                Ok(match self.queue.ack(scope, token).await? {
                    true => json!({ "acked": true }),
                    false => json!({ "acked": false, "reason": UNKNOWN }),
                })
            }
            "nack" => {
                let mut args = Args::new(args, &["deliveryToken", "requeue"])?;
                let (token, requeue) =
                    (args.text("deliveryToken")?, args.optional_flag("requeue")?.unwrap_or(true));
                Ok(match self.queue.nack(scope, token, requeue).await? {
                    true => json!({ "nacked": true, "requeued": requeue }),
                    false => json!({ "nacked": false, "requeued": false, "reason": UNKNOWN }),
                })
            }
            "deadLetter" => {
                let mut args = Args::new(args, &["deliveryToken", "reason"])?;
                let (token, reason) = (args.text("deliveryToken")?, args.optional_text("reason")?);
                Ok(match self.queue.dead_letter(scope, token, reason.unwrap_or_default()).await? {
                    Some(subject) => json!({ "deadLettered": true, "dlqSubject": subject }),
                    None => json!({ "deadLettered": false, "reason": UNKNOWN }),
                })
            }
            "streamPublish" => {
                let mut args = Args::new(args, &["stream", "record"])?;
                let (stream, record) = (args.text("stream")?, args.value("record")?);
                let id = self.queue.stream_publish(scope, stream, record).await?;
                Ok(json!({ "id": id, "published": true }))
            }
            "streamSubscribe" => self.subscribe(scope, args).await,
            other => Err(unknown_op("queueBus", other, OPS)),
        }
    }

    async fn consume(&self, scope: &Scope, args: Map<String, Value>) -> Result<Value, SurfaceError> {
        let mut args = Args::new(args, &["subject", "topic", "leaseSeconds", "durationMs", "consumer"])?;
        let subject = subject(&mut args)?;
        let lease = args.lifetime_ms("leaseSeconds", MAX_LEASE_MS / 1000, Code::InvalidArgument)?;
        let lease = match (lease, args.optional_count("durationMs", 1, MAX_LEASE_MS)?) {
            (Some(_), Some(_)) => {
                return Err(refuse("`leaseSeconds` and `durationMs` are synonyms; use only one"));
            }
            (lease, None) | (None, lease) => lease,
        };
        let consumer = args.optional_text("consumer")?;
        let consume = Consume { subject, consumer, lease_ms: lease.unwrap_or(LEASE_MS), wait_ms: 0 };
        let Some(delivery) = self.queue.consume(scope, consume).await? else {
            return Ok(json!({ "found": false }));
        };
        Ok(json!({
            "found": true,
            "deliveryToken": delivery.token,
            "id": delivery.id,
            "subject": delivery.subject,
            "payload": delivery.payload,
            "deliveryCount": delivery.deliveries,
        }))
    }

    async fn subscribe(&self, scope: &Scope, args: Map<String, Value>) -> Result<Value, SurfaceError> {
        let mut args = Args::new(args, &["stream", "fromBeginning", "cursor", "limit"])?;
        let stream = args.text("stream")?;
        let is_beginning = args.flag("fromBeginning")?;
        let from = match (args.optional_text("cursor")?, is_beginning) {
            (Some(_), true) => return Err(refuse("use either `fromBeginning` or `cursor`, not both")),
            (Some(cursor), false) => ReadFrom::Cursor(cursor),
            (None, true) => ReadFrom::Beginning,
            (None, false) => ReadFrom::Now,
        };
        let limit = args.optional_count("limit", 1, MAX_RECORDS as u64)?;
        let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(MAX_RECORDS);
        let page = self.queue.stream_read(scope, stream, from, limit).await?;
        let count = page.records.len();
        let records: Vec<Value> = page
            .records
            .into_iter()
            .map(|record| json!({ "id": record.id, "payload": record.payload }))
            .collect();
        Ok(json!({
            "records": records,
            "fromBeginningSnapshot": is_beginning,
            "count": count,
            "nextCursor": page.next,
            "more": page.more,
        }))
    }
}

fn subject(args: &mut Args) -> Result<String, SurfaceError> {
    match args.one_of(&["subject", "topic"])? {
        Value::String(subject) => Ok(subject),
        _ => Err(refuse("`subject` must be a string")),
    }
}

impl Served for ServedQueue {
    fn call<'a>(&'a self, scope: &'a Scope, op: &'a str, args: Map<String, Value>) -> PortFuture<'a, Value> {
        self.carry_out(scope, op, args).boxed()
    }

    fn advertise(&self) -> (&'static str, Value) {
        let block = json!({
            "supported": true,
            "backends": [self.queue.backend()],
            "deadLetterSupported": true,
            "stream": { "supported": true, "fromBeginning": true },
        });
        ("queueBus", block)
    }
}
