//! The arguments that a model may pass to a surface: the inputs of the node type, but nothing that its author configures.
//!
//! Only operations that are safe without a person are included. SQL statements are not, because the author's configuration cannot restrict
//! what they access. Operations that consume messages are not either: a model that forgets a message would withhold it from other
//! consumers.

use flow::definition::CalledType;
use serde_json::{Map, Value, json};

/// Inputs: the name, the schema, and whether it is required.
type Inputs = Vec<(&'static str, Value, bool)>;

/// The inputs that a model may pass to nodes of this type; `None` if models may not use it.
pub(super) fn inputs_of(called: CalledType) -> Option<Inputs> {
    let text = || json!({"type": "string"});
    let any = || json!({"description": "Any JSON."});
    let object = |about: &str| json!({"type": "object", "description": about});
    let filter = || ("filter", object("Columns or fields, and the values to match."), false);
    let cursor =
        || ("cursor", json!({"type": "string", "description": "`nextCursor` of the previous page."}), false);
    let limit = || ("limit", json!({"type": "integer", "minimum": 1}), false);
    Some(match called {
        CalledType::KvGet | CalledType::KvDelete | CalledType::CacheGet | CalledType::CacheEvict => {
            vec![("key", text(), true)]
        }
        CalledType::KvSet | CalledType::CachePut => vec![("key", text(), true), ("value", any(), true)],
        CalledType::KvList => vec![("prefix", text(), false), limit(), cursor()],
        CalledType::KvIncrement => vec![("key", text(), true), ("delta", json!({"type": "integer"}), false)],
        CalledType::KvCas => vec![("key", text(), true), ("expect", any(), true), ("value", any(), true)],
        CalledType::TableInsert | CalledType::TableUpsert => {
            vec![("row", object("Columns and their values."), true)]
        }
        CalledType::TableUpdate => {
            vec![("id", text(), true), ("update", object("Columns and their new values."), true)]
        }
        CalledType::TableDelete => vec![("id", text(), true)],
        CalledType::TableQuery => vec![filter(), limit(), cursor()],
        CalledType::TableCount => vec![filter()],
        CalledType::SearchIndex => {
            vec![("id", text(), true), ("document", object("Fields and their strings."), true)]
        }
        CalledType::SearchQuery => vec![("query", text(), true), limit(), filter()],
        CalledType::FilesRead | CalledType::FilesDelete | CalledType::FilesStat => {
            vec![("path", text(), true)]
        }
        CalledType::FilesWrite => vec![("path", text(), true), ("content", text(), true)],
        CalledType::FilesList => vec![("path", text(), false), cursor()],
        CalledType::QueueEnqueue | CalledType::MessagePublish => vec![("payload", any(), true)],
        CalledType::StreamPublish => vec![("record", any(), true)],
        _ => return None,
    })
}

/// The schema of the arguments that a model may pass to a node with this configuration. It is closed, and excludes members that the
/// author has configured.
pub(super) fn schema(called: CalledType, config: &Map<String, Value>) -> Option<Value> {
    let inputs: Inputs =
        inputs_of(called)?.into_iter().filter(|(name, ..)| !config.contains_key(*name)).collect();
    let required: Vec<&str> = inputs.iter().filter(|input| input.2).map(|input| input.0).collect();
    let properties: Map<String, Value> =
        inputs.iter().map(|(name, schema, _)| ((*name).to_owned(), schema.clone())).collect();
    Some(json!({
        "type": "object", "additionalProperties": false, "properties": properties, "required": required,
    }))
}

#[cfg(test)]
mod tests {
    use flow::definition::Family;

    use super::*;

    #[test]
    fn models_may_use_only_surfaces_and_cannot_override_the_configuration() {
        let mut count = 0;
        for called in CalledType::ALL {
            let Some(schema) = schema(*called, &Map::new()) else { continue };
            count += 1;
            assert!(matches!(called.family(), Family::Surface { .. }), "{called}");
            ai::schema::Schema::compile(&schema).unwrap();
            let configured = called.config_schema();
            for name in configured["required"].as_array().unwrap() {
                assert!(schema["properties"].get(name.as_str().unwrap()).is_none(), "{called}: {name}");
            }
            assert!(schema["properties"].get("namespace").is_none(), "{called}");
        }
        assert!(count >= 20, "{count}");
        let config = Map::from_iter([("limit".to_owned(), json!(3))]);
        let schema = schema(CalledType::KvList, &config).unwrap();
        assert!(schema["properties"].get("limit").is_none() && schema["properties"].get("prefix").is_some());
    }
}
