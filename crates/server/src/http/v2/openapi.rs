//! `GET /openapi.json`: the operations of version 2, generated from the table.

use http::HeaderValue;
use http::header::CACHE_CONTROL;
use serde_json::{Map, Value, json};

use super::super::exchange::CheckedRequest;
use super::super::response;
use super::super::route::{Access, Body, HandlerResult, Method, Route};
use super::routes::ROUTES;

/// `GET /openapi.json`
pub(super) async fn answer(call: CheckedRequest) -> HandlerResult {
    let mut response = response::json(200, &document(call.state.runs.public_url()));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=300"));
    Ok(response)
}

fn document(public_url: &str) -> Value {
    let mut paths = Map::new();
    for route in ROUTES {
        let methods = paths.entry(route.path).or_insert_with(|| json!({}));
        methods[route.method.as_str().to_ascii_lowercase()] = operation(route);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Interlock, version 2 of the OpenWOP protocol",
            "version": openwop::Major::V2.version(),
            "description": "Send `OpenWOP-Version: 2.0`. Version 1 is at /v1/openapi.json.",
        },
        "servers": [{"url": public_url}],
        "paths": paths,
        "components": {
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Error": {
                "type": "object",
                "required": ["error", "message"],
                "properties": {"error": {"type": "string"}, "message": {"type": "string"}, "details": {"type": "object"}},
                "additionalProperties": false,
            }},
        },
    })
}

fn operation(route: &Route) -> Value {
    let mut parameters: Vec<Value> = route
        .path
        .split('{')
        .skip(1)
        .filter_map(|rest| rest.split_once('}'))
        .map(|(name, _)| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
        .collect();
    parameters.extend(route.query.iter().map(|parameter| {
        json!({
            "name": parameter.name, "in": "query", "required": parameter.required,
            "description": parameter.about, "schema": {"type": parameter.kind},
        })
    }));
    if route.method != Method::Get && route.access != Access::Public {
        parameters.push(json!({
            "name": "Idempotency-Key", "in": "header", "required": false,
            "schema": {"type": "string", "pattern": "^[A-Za-z0-9._~-]{22,128}$"},
        }));
    }
    let mut success = json!({"description": route.summary});
    if !route.media.is_empty() {
        success["content"] = json!({route.media: {"schema": {}}});
    }
    let mut operation = json!({
        "operationId": route.operation,
        "summary": route.summary,
        "parameters": parameters,
        "responses": {
            route.success.to_string(): success,
            "default": {
                "description": "An error.",
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
            },
        },
        "security": match route.access {
            Access::Public | Access::Token => json!([]),
            Access::Key(_) | Access::Either(..) | Access::Guided | Access::Offered => json!([{"key": []}]),
        },
    });
    let required = match route.body {
        Body::None => None,
        Body::Optional => Some(false),
        _ => Some(true),
    };
    if let Some(required) = required {
        operation["requestBody"] =
            json!({"required": required, "content": {"application/json": {"schema": {"type": "object"}}}});
    }
    operation
}
