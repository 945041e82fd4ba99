//! Streams: records that stay.

use std::time::Duration;

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, PullConsumer, pull};
use async_nats::jetstream::context::GetStreamErrorKind;
use async_nats::jetstream::stream::{Config, DiscardPolicy};
use futures_util::StreamExt as _;
use serde_json::Value;

use super::names::Name;
use super::{Inner, RECOGNISED, WAIT, unavailable};
use crate::args::{check_name, refuse};
use crate::call::Scope;
use crate::error::{Code, SurfaceError};
use crate::queue::{MAX_RECORDS, MAX_SUBJECT_BYTES, ReadFrom, Record, Records};
use crate::value::value_of;

/// How long the server keeps an abandoned consumer.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(30);

impl Inner {
    pub(super) async fn stream_publish(
        &self,
        scope: &Scope,
        stream: &str,
        record: &Value,
    ) -> Result<String, SurfaceError> {
        check_name("stream", stream, MAX_SUBJECT_BYTES, Code::InvalidArgument)?;
        if let Some(effect) = &scope.effect {
            crate::sql::check_effect(effect)?;
        }
        let bytes = self.checked("record", record)?;
        let name = Name::stream(&scope.tenant, stream);
        if !self.known().contains_key(&name.stream) {
            let bound = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
            let config = Config {
                name: name.stream.clone(),
                subjects: vec![name.subject.clone()],
                discard: DiscardPolicy::Old,
                max_messages: bound(self.limits.stream_records),
                max_bytes: bound(self.limits.stream_bytes),
                duplicate_window: RECOGNISED,
                ..Config::default()
            };
            self.context.get_or_create_stream(config).await.map_err(|_| unavailable())?;
            self.remember(&name, None);
        }
        let number = self.send(&name, bytes, scope.effect.as_deref(), None).await?;
        Ok(format!("{}.{number}", name.stream))
    }

    pub(super) async fn stream_read(
        &self,
        scope: &Scope,
        stream: &str,
        from: &ReadFrom,
        limit: usize,
    ) -> Result<Records, SurfaceError> {
        check_name("stream", stream, MAX_SUBJECT_BYTES, Code::InvalidArgument)?;
        let name = Name::stream(&scope.tenant, stream);
        let behind = match from {
            ReadFrom::Cursor(cursor) => Some(
                cursor
                    .parse::<u64>()
                    .map_err(|_| refuse("`cursor` must be the `nextCursor` of an earlier response"))?,
            ),
            ReadFrom::Beginning | ReadFrom::Now => None,
        };
        let found = match self.context.get_stream(&name.stream).await {
            Ok(found) => found,
            Err(error) => match error.kind() {
                GetStreamErrorKind::JetStream(why) if why.error_code() == ErrorCode::STREAM_NOT_FOUND => {
                    return Ok(Records {
                        records: Vec::new(),
                        next: behind.unwrap_or(0).to_string(),
                        more: false,
                    });
                }
                _ => return Err(unavailable()),
            },
        };
        let last = found.cached_info().state.last_sequence;
        let behind = match from {
            ReadFrom::Beginning => 0,
            ReadFrom::Now => last,
            ReadFrom::Cursor(_) => behind.unwrap_or(0),
        };
        if behind >= last || limit == 0 {
            return Ok(Records { records: Vec::new(), next: behind.to_string(), more: behind < last });
        }
        let reader = pull::Config {
            deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: behind + 1 },
            ack_policy: AckPolicy::None,
            inactive_threshold: FORGOTTEN_AFTER,
            ..pull::Config::default()
        };
        let reader: PullConsumer = found.create_consumer(reader).await.map_err(|_| unavailable())?;
        let mut fetched = reader
            .fetch()
            .max_messages(limit.min(MAX_RECORDS))
            .expires(WAIT)
            .messages()
            .await
            .map_err(|_| unavailable())?;
        let (mut records, mut next) = (Vec::new(), behind);
        while let Some(message) = fetched.next().await {
            let message = message.map_err(|_| unavailable())?;
            next = message.info().map_err(|_| unavailable())?.stream_sequence;
            records.push(Record {
                id: format!("{}.{next}", name.stream),
                payload: value_of(&message.payload)?,
                next: next.to_string(),
            });
        }
        // The server removes a leftover consumer itself.
        let _ = found.delete_consumer(&reader.cached_info().name).await;
        Ok(Records { records, next: next.to_string(), more: next < last })
    }
}
