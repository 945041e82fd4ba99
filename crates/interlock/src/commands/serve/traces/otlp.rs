//! Spans in the OpenTelemetry protocol.

use canon::time::Timestamp;
use flow::trace::{Attribute, Span, SpanStatus};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link, SpanKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span as Sent, Status};
use prost::Message as _;

pub(super) fn encode(spans: &[Span]) -> Vec<u8> {
    let resource = Resource {
        attributes: vec![
            text("service.name", "interlock"),
            text("service.version", env!("CARGO_PKG_VERSION")),
        ],
        ..Resource::default()
    };
    let scope = InstrumentationScope {
        name: "openwop".to_owned(),
        version: flow::trace::PROTOCOL_VERSION.to_owned(),
        ..InstrumentationScope::default()
    };
    let spans =
        ScopeSpans { scope: Some(scope), spans: spans.iter().map(sent).collect(), ..ScopeSpans::default() };
    let spans =
        ResourceSpans { resource: Some(resource), scope_spans: vec![spans], ..ResourceSpans::default() };
    ExportTraceServiceRequest { resource_spans: vec![spans] }.encode_to_vec()
}

fn sent(span: &Span) -> Sent {
    let status = match &span.outcome {
        SpanStatus::Ok => Some(Status { code: StatusCode::Ok.into(), ..Status::default() }),
        SpanStatus::Failed(code) => Some(Status { code: StatusCode::Error.into(), message: code.clone() }),
        SpanStatus::Unset => None,
    };
    let events = span.moments.iter().map(|moment| Event {
        time_unix_nano: nanoseconds(moment.at),
        name: moment.kind.clone(),
        attributes: vec![
            text("openwop.event_type", &moment.kind),
            key("openwop.event_seq", integer(moment.sequence)),
        ],
        ..Event::default()
    });
    let link = span.link.map(|(trace_id, span_id)| Link {
        trace_id: trace_id.to_be_bytes().to_vec(),
        span_id: span_id.to_be_bytes().to_vec(),
        ..Link::default()
    });
    Sent {
        trace_id: span.trace_id.to_be_bytes().to_vec(),
        span_id: span.span_id.to_be_bytes().to_vec(),
        parent_span_id: span.parent_id.map(|id| id.to_be_bytes().to_vec()).unwrap_or_default(),
        name: span.name.clone(),
        kind: SpanKind::Internal.into(),
        start_time_unix_nano: nanoseconds(span.start),
        end_time_unix_nano: nanoseconds(span.end),
        attributes: span.attributes.iter().map(|(name, attribute)| key(name, value(attribute))).collect(),
        events: events.collect(),
        dropped_events_count: span.moments_left_out,
        links: link.into_iter().collect(),
        status,
        ..Sent::default()
    }
}

const fn nanoseconds(moment: Timestamp) -> u64 {
    moment.0.saturating_mul(1_000_000)
}

fn value(attribute: &Attribute) -> Value {
    match attribute {
        Attribute::Text(text) => Value::StringValue(text.clone()),
        Attribute::Texts(texts) => Value::ArrayValue(ArrayValue {
            values: texts
                .iter()
                .map(|text| AnyValue { value: Some(Value::StringValue(text.clone())) })
                .collect(),
        }),
        Attribute::Integer(number) => integer(*number),
        Attribute::Number(number) => Value::DoubleValue(*number),
        Attribute::Flag(flag) => Value::BoolValue(*flag),
    }
}

/// The protocol has only signed integers; our values are far below their limit.
fn integer(number: u64) -> Value {
    Value::IntValue(i64::try_from(number).unwrap_or(i64::MAX))
}

fn key(name: &str, value: Value) -> KeyValue {
    KeyValue { key: name.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

fn text(name: &str, text: &str) -> KeyValue {
    key(name, Value::StringValue(text.to_owned()))
}
