//! The OpenAPI document, generated from the route table.

mod schemas;
mod shapes;
mod source;

use flow::run::RunStatus;
use runs::Scope;
use serde_json::{Map, Value, json};

use self::schemas::schemas;
use self::shapes::Shape;
use self::source::Source;
use super::route::{Access, Body, Method, Parameter, Route};
use super::routes::{self, Gates};

/// The pattern of a path parameter: no slash, no control character, no directory and no action.
const NAME: &str = r"^(?!\.{1,2}$)(?!:)[^/\\\u0000-\u001f\u007f-\u009f]+$";

/// The media type of a pack archive.
pub(super) const ARCHIVE: &str = "application/tar+gzip";

pub(super) fn document(public_url: &str, gates: Gates) -> Value {
    let mut paths = Map::new();
    for route in routes::served(gates) {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.as_str().to_ascii_lowercase()] = operation(route);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Interlock",
            "summary": "A host for durable workflow runs.",
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": public_url}],
        "paths": paths,
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "schemas": schemas(),
        },
    })
}

fn operation(route: &Route) -> Value {
    let shape = shapes::of(route.operation).unwrap_or_default();
    let mut operation = json!({
        "operationId": operation_id(route),
        "summary": route.summary,
        "parameters": parameters(route, &shape),
        "responses": responses(route, &shape),
    });
    match route.access {
        Access::Public | Access::Token => operation["security"] = json!([]),
        Access::Guided => operation["security"] = json!([{"bearer": []}]),
        Access::Offered => operation["security"] = json!([{"bearer": [Scope::ManifestRead.as_str()]}]),
        Access::Either(one, other) => {
            operation["security"] = json!([{"bearer": [one.as_str()]}, {"bearer": [other.as_str()]}]);
        }
        Access::Key(scopes) => {
            let scopes: Vec<_> = scopes.iter().map(|scope| scope.as_str()).collect();
            operation["security"] = json!([{"bearer": scopes}]);
        }
    }
    if route.body != Body::None {
        let content = match route.body {
            Body::Archive => json!({ARCHIVE: {}}),
            Body::Object => json!({"application/octet-stream": {}}),
            _ => json!({"application/json": {"schema": shape.request.map(Source::refer)}}),
        };
        operation["requestBody"] = json!({
            "required": route.body != Body::Optional,
            "content": content,
        });
    }
    operation
}

/// The operation id. Ids are unique in the document, so the second spelling of a path has its own.
fn operation_id(route: &Route) -> String {
    let first = routes::served(Gates::ALL).find(|other| other.operation == route.operation);
    match first {
        Some(first) if first.path != route.path => format!("{}ByColon", route.operation),
        _ => route.operation.to_owned(),
    }
}

/// All possible replies.
fn responses(route: &Route, shape: &Shape) -> Value {
    let mut responses = json!({});
    for status in [route.success].iter().chain(shape.also) {
        let mut succeeded = json!({"description": route.summary});
        if *status == 304 {
            succeeded["description"] = "Not modified since the `ETag` in `If-None-Match`.".into();
        } else if *status == 202 && shape.also.contains(status) {
            succeeded["description"] = "Accepted; the reply has no body.".into();
        } else if !route.media.is_empty() {
            let schema = shape.answer.filter(|_| route.media == "application/json").map(Source::refer);
            succeeded["content"][route.media] = schema.map_or(json!({}), |schema| json!({"schema": schema}));
        }
        if shape.streams && *status == route.success {
            // A client that gets messages before the reply gets all of them in a stream.
            succeeded["content"]["text/event-stream"] = json!({});
        }
        if route.media == "text/event-stream" && shape.answer.is_some() {
            // A client that accepts only JSON gets what was recorded so far.
            succeeded["content"]["application/json"] = json!({"schema": shape.answer.map(Source::refer)});
        }
        responses[status.to_string()] = succeeded;
    }
    for status in shape.refusals(route) {
        responses[status.to_string()] = json!({
            "description": why(status),
            "content": {"application/json": {"schema": shape.trouble.unwrap_or(Source::Document("Error")).refer()}},
        });
    }
    responses
}

/// The description of an error status.
const fn why(status: u16) -> &'static str {
    match status {
        400 => "The request is invalid.",
        401 => "The key is missing, unknown, expired or revoked.",
        403 => "The key lacks a required scope.",
        404 => "Not found, or not visible to this key.",
        408 => "The body did not arrive in time.",
        409 => "The request conflicts with the current state.",
        410 => "The resource has expired or was already used.",
        413 => "The body is too large.",
        415 => "The body is not JSON.",
        422 => "The request is well-formed, but its contents cannot be processed.",
        429 => "Too many requests. Retry after the time in `Retry-After`.",
        503 => "The host is overloaded or shutting down. Retry after the time in `Retry-After`.",
        507 => "The disk of the host is full; nothing was recorded.",
        _ => "Internal error of the host.",
    }
}

fn parameters(route: &Route, shape: &Shape) -> Vec<Value> {
    let in_path = names(route.path).map(|name| {
        let schema = json!({"type": "string", "pattern": NAME});
        json!({"name": name, "in": "path", "required": true, "schema": schema})
    });
    let in_query = route.query.iter().map(|parameter| {
        json!({
            "name": parameter.name,
            "in": "query",
            "required": parameter.required,
            "description": parameter.about,
            "schema": bounds(parameter),
        })
    });
    let key = (route.method == Method::Post).then_some("Idempotency-Key");
    let in_header = shape.headers.iter().copied().chain(key).map(|name| {
        let (about, schema) = header(name);
        json!({"name": name, "in": "header", "required": false, "description": about, "schema": schema})
    });
    in_path.chain(in_query).chain(in_header).collect()
}

/// The schema of a query parameter.
fn bounds(parameter: &Parameter) -> Value {
    let within = |least: i64, most: i64| json!({"type": "integer", "minimum": least, "maximum": most});
    match (parameter.name, parameter.kind) {
        ("timeout", _) => within(0, 60),
        ("bufferMs", _) => within(0, 5000),
        ("lastSequence", _) => json!({"type": "integer", "minimum": -1}),
        ("fromSeq" | "toSeq", _) => within(0, 1 << 53),
        ("maxEvents", _) => json!({"type": "integer", "minimum": 0}),
        ("status", _) => json!({"enum": RunStatus::ALL.map(RunStatus::as_str)}),
        ("source", _) => json!({"enum": ["node-pack", "workflow", "mcp", "connector", "host-extension"]}),
        ("view", _) => json!({"enum": ["standard", "compact"]}),
        ("streamMode", _) => {
            json!({"type": "string", "pattern": "^(values|(updates|messages|debug)(,(updates|messages|debug))*)$"})
        }
        (_, "integer") => json!({"type": "integer", "minimum": 1}),
        ("against", kind) => json!({"type": kind, "minLength": 1}),
        (_, kind) => json!({"type": kind}),
    }
}

/// The description and the schema of a header.
fn header(name: &str) -> (&'static str, Value) {
    match name {
        "Idempotency-Key" => (
            "A repeated request with the same key is executed once; later calls get the recorded reply.",
            json!({"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+( +[!-~]+)*$"}),
        ),
        "X-Dedup" => {
            ("Rejects the run while another run with the same scope is active.", json!({"enum": ["enforce"]}))
        }
        "X-Force-Engine-Version" => {
            ("Test keys only: the engine version to use.", json!({"type": "integer", "minimum": 0}))
        }
        "X-Pack-Sha256" => {
            ("The SHA-256 digest of the archive; the host verifies it.", json!({"type": "string"}))
        }
        "X-Pack-Signing-Method" => {
            ("How the manifest is signed.", json!({"enum": ["manual", "none", "sigstore"]}))
        }
        "Mcp-Session-Id" => {
            ("The session id from the reply to `initialize`.", json!({"type": "string", "maxLength": 512}))
        }
        "MCP-Protocol-Version" => ("The MCP protocol version.", json!({"enum": crate::mount::EDITIONS})),
        "If-None-Match" => ("The `ETag` of the run that the client has.", json!({"type": "string"})),
        "Last-Event-ID" => (
            "The sequence number of the last event that the client has.",
            json!({"type": "integer", "minimum": 0}),
        ),
        _ => ("", json!({"type": "string"})),
    }
}

/// The parameters of a path template.
pub(super) fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('{').skip(1).filter_map(|rest| rest.split('}').next())
}
