//! The OpenAPI document, generated from the route table.

mod schemas;
mod shapes;
mod source;

use flow::run::RunStatus;
use host::runs::Scope;
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
            succeeded["description"] = "It is as it was.".into();
        } else if *status == 202 && shape.also.contains(status) {
            succeeded["description"] = "It was taken note of; there is nothing to say.".into();
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
        400 => "The request is not as it has to be.",
        401 => "There is no key, or none that is good.",
        403 => "The key may not.",
        404 => "There is no such thing, or none that the caller may know of.",
        408 => "The body did not arrive in time.",
        409 => "It does not go together with what there is.",
        410 => "It is over.",
        413 => "The body is too large.",
        415 => "The body is not JSON.",
        422 => "The request is well formed and does not fit.",
        429 => "Too many requests; see Retry-After.",
        503 => "The host has too much to do, or is being stopped; see Retry-After.",
        507 => "The disk of the host is full; nothing was recorded.",
        _ => "The host failed.",
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
        ("view", _) => json!({"enum": ["full", "compact"]}),
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
            "Under the same key the same request is answered once, and with the same answer afterwards.",
            json!({"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+( +[!-~]+)*$"}),
        ),
        "X-Dedup" => {
            ("Refuses the run while another one of its scope is under way.", json!({"enum": ["enforce"]}))
        }
        "X-Force-Engine-Version" => {
            ("For keys of tests: the version of the engine.", json!({"type": "integer", "minimum": 0}))
        }
        "X-Pack-Sha256" => ("The digest of the archive, to be sure of it.", json!({"type": "string"})),
        "X-Pack-Signing-Method" => {
            ("How the manifest is signed.", json!({"enum": ["manual", "none", "sigstore"]}))
        }
        "Mcp-Session-Id" => {
            ("The session that `initialize` named.", json!({"type": "string", "maxLength": 512}))
        }
        "MCP-Protocol-Version" => {
            ("The edition of MCP that is spoken.", json!({"enum": crate::mount::EDITIONS}))
        }
        "If-None-Match" => ("The tag of the run as it is known.", json!({"type": "string"})),
        "Last-Event-ID" => {
            ("The sequence of the last event that is known.", json!({"type": "integer", "minimum": 0}))
        }
        _ => ("", json!({"type": "string"})),
    }
}

/// The parameters of a path template.
pub(super) fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('{').skip(1).filter_map(|rest| rest.split('}').next())
}
