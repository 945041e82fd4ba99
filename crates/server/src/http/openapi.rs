//! The OpenAPI document, out of the table of routes.

use serde_json::{Map, Value, json};

use super::route::{Access, Body, Route};
use super::routes;

/// The document.
pub(super) fn document(public_url: &str, seams: bool) -> Value {
    let mut paths = Map::new();
    for route in routes::served(seams) {
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
            "schemas": {"Error": error()},
        },
    })
}

fn error() -> Value {
    json!({
        "type": "object",
        "required": ["error", "message"],
        "additionalProperties": false,
        "properties": {
            "error": {"type": "string", "description": "A code out of a closed set."},
            "message": {"type": "string", "description": "A sentence that says what to do."},
            "details": {"type": "object"},
        },
    })
}

fn operation(route: &Route) -> Value {
    let refused = json!({
        "description": "Why it was refused.",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
    });
    let mut succeeded = json!({"description": route.summary});
    if !route.media.is_empty() {
        succeeded["content"][route.media] = json!({});
    }
    let mut operation = json!({
        "operationId": route.operation,
        "summary": route.summary,
        "parameters": parameters(route),
        "responses": {route.success.to_string(): succeeded, "default": refused},
    });
    match route.access {
        Access::Public | Access::Token => operation["security"] = json!([]),
        Access::Key(scopes) => {
            let scopes: Vec<_> = scopes.iter().map(|scope| scope.as_str()).collect();
            operation["security"] = json!([{"bearer": scopes}]);
        }
    }
    if route.body != Body::None {
        operation["requestBody"] = json!({
            "required": route.body != Body::Optional,
            "content": {"application/json": {"schema": {"type": "object"}}},
        });
    }
    operation
}

fn parameters(route: &Route) -> Vec<Value> {
    let in_path = names(route.path)
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}));
    let in_query = route.query.iter().map(|parameter| {
        json!({
            "name": parameter.name,
            "in": "query",
            "required": parameter.required,
            "description": parameter.about,
            "schema": {"type": parameter.kind},
        })
    });
    in_path.chain(in_query).collect()
}

/// The names in the braces of a path.
pub(super) fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('{').skip(1).filter_map(|rest| rest.split('}').next())
}
