//! Nodes of storage, databases, files and messages: converts a configuration and inputs to one call of a surface, and its result to outputs.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use canon::time::Timestamp;
use flow::definition::{CalledType, Family};
use flow::state::RunError;
use serde_json::{Map, Value, json};
use surfaces::{Code, Surface, SurfaceCall, SurfaceError, Surfaces, Tenant};

use super::{NodeRequest, Performed};

/// Separates a namespace from a key, so that they cannot overlap. No namespace contains it.
const SEPARATOR: char = '\u{1f}';

/// Executes a node on a surface. The surface remembers the effect ids of its changes, so the call can be repeated.
pub(super) async fn perform(surfaces: &Surfaces, called: CalledType, asked: NodeRequest<'_>) -> Performed {
    let outcome = match request(called, asked) {
        Ok(call) => {
            if asked.again
                && let Err(error) = asked.ledger.retry(asked.invocation.as_str()).await
            {
                return Performed::plain(Err(error.into_failure()));
            }
            surfaces.call(call).await
        }
        Err(error) => Err(error),
    };
    let namespace = asked.call.config.get("namespace").and_then(Value::as_str);
    Performed::plain(outcome.map(|value| outputs(called, namespace, value)).map_err(failed))
}

/// The error of a node whose call was refused.
fn failed(error: SurfaceError) -> RunError {
    let failed = RunError::new(error.code.as_str(), error.message);
    match error.capability {
        Some(capability) => failed.with(json!({"capability": capability})),
        None => failed,
    }
}

/// The call of a node.
fn request(called: CalledType, asked: NodeRequest<'_>) -> Result<SurfaceCall, SurfaceError> {
    let Family::Surface { surface, op } = called.family() else {
        return Err(SurfaceError::missing(format!("host.{called}")));
    };
    let surface =
        Surface::parse(surface.as_str()).ok_or_else(|| SurfaceError::missing(format!("host.{surface}")))?;
    Ok(SurfaceCall {
        tenant: Tenant::new(asked.tenant.as_str())?,
        surface,
        op: op.to_owned(),
        args: arguments(called, &asked.call.config, &asked.call.inputs)?,
        effect: Some(asked.invocation.to_string()),
        now: Timestamp(asked.now.0),
    })
}

/// The arguments of the surface: the configuration and the inputs, under the names of the surface.
fn arguments(
    called: CalledType,
    config: &Map<String, Value>,
    inputs: &Map<String, Value>,
) -> Result<Map<String, Value>, SurfaceError> {
    let mut args = config.clone();
    args.extend(inputs.clone());
    match called {
        CalledType::KvGet
        | CalledType::KvSet
        | CalledType::KvDelete
        | CalledType::KvIncrement
        | CalledType::KvCas
        | CalledType::CacheGet
        | CalledType::CachePut
        | CalledType::CacheEvict => in_namespace(&mut args, "key")?,
        CalledType::KvList => {
            args.entry("prefix").or_insert_with(|| json!(""));
            in_namespace(&mut args, "prefix")?;
        }
        CalledType::QueueEnqueue | CalledType::QueueDequeue => rename(&mut args, "queue", "subject"),
        CalledType::MessagePublish | CalledType::MessageConsume => {
            rename(&mut args, "topic", "subject");
            // The consumer group of the node's trigger. In a run that was not started by a message, the node is an ordinary consumer.
            args.remove("consumerGroup");
        }
        CalledType::MessageAck | CalledType::MessageNack | CalledType::MessageDeadLetter => {
            rename(&mut args, "messageId", "deliveryToken");
        }
        CalledType::StreamSubscribe => drop(args.remove("consumerGroup")),
        CalledType::SearchIndex => {
            let document = json!({"id": args.remove("id"), "fields": args.remove("document")});
            args.insert("docs".to_owned(), json!([document]));
        }
        CalledType::SearchQuery => {
            rename(&mut args, "query", "q");
            rename(&mut args, "limit", "k");
        }
        CalledType::VectorUpsert => {
            rename(&mut args, "collection", "namespace");
            rename(&mut args, "records", "items");
        }
        CalledType::VectorQuery | CalledType::VectorDelete => rename(&mut args, "collection", "namespace"),
        CalledType::BlobPresign => {
            rename(&mut args, "ttlSeconds", "expiresInSeconds");
            args.entry("expiresInSeconds").or_insert_with(|| json!(900));
            if let Some(operation) = args.remove("operation") {
                args.insert(
                    "method".to_owned(),
                    operation.as_str().unwrap_or("get").to_ascii_uppercase().into(),
                );
            }
        }
        CalledType::FilesWrite => file(&mut args)?,
        // Registration allows only `id`, which the surface always uses.
        CalledType::TableUpsert => drop(args.remove("keyColumns")),
        CalledType::TableUpdate => rename(&mut args, "update", "patch"),
        _ => {}
    }
    Ok(args)
}

/// The outputs of a node: the members of the result, with additional names.
fn outputs(called: CalledType, namespace: Option<&str>, answer: Value) -> Value {
    let mut members = match answer {
        Value::Object(members) => members,
        other => return json!({"output": other}),
    };
    match called {
        CalledType::KvList => {
            if let (Some(namespace), Some(Value::Array(keys))) = (namespace, members.get_mut("keys")) {
                let prefix = format!("{namespace}{SEPARATOR}");
                for key in keys {
                    if let Some(short) = key.as_str().and_then(|key| key.strip_prefix(&prefix)) {
                        *key = short.into();
                    }
                }
            }
        }
        CalledType::MessageConsume | CalledType::QueueDequeue => {
            if let Some(token) = members.get("deliveryToken").cloned() {
                members.insert("messageId".to_owned(), token);
            }
        }
        _ => {}
    }
    Value::Object(members)
}

fn rename(args: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = args.remove(from) {
        args.insert(to.to_owned(), value);
    }
}

/// Puts a key into its namespace.
fn in_namespace(args: &mut Map<String, Value>, name: &str) -> Result<(), SurfaceError> {
    let Some(namespace) = args.remove("namespace") else {
        // Without a namespace, a key must not look like one in a namespace.
        let key = args.get(name).and_then(Value::as_str).unwrap_or_default();
        return match key.contains(SEPARATOR) {
            true => {
                Err(SurfaceError::new(Code::InvalidArgument, "a key must not contain the character U+001F"))
            }
            false => Ok(()),
        };
    };
    let namespace = namespace.as_str().unwrap_or_default();
    if namespace.contains(SEPARATOR) {
        let message = "`namespace` must not contain the character U+001F";
        return Err(SurfaceError::new(Code::InvalidArgument, message));
    }
    if let Some(key) = args.get(name).and_then(Value::as_str) {
        args.insert(name.to_owned(), format!("{namespace}{SEPARATOR}{key}").into());
    }
    Ok(())
}

/// Encodes the content of a file as Base64, unless the author says that it already is.
fn file(args: &mut Map<String, Value>) -> Result<(), SurfaceError> {
    let is_base64 = args.remove("encoding").is_some_and(|encoding| encoding == "base64");
    let content = args.remove("content");
    let Some(content) = content.as_ref().and_then(Value::as_str) else {
        return Err(SurfaceError::new(Code::InvalidArgument, "`content` is required and must be a string"));
    };
    let content = if is_base64 { content.to_owned() } else { STANDARD.encode(content) };
    args.insert("contentBase64".to_owned(), content.into());
    if args.remove("mode").is_some_and(|mode| mode == "create") {
        args.insert("createOnly".to_owned(), true.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finding A1: `flow` defines the inputs that a node declares, and the surface its arguments. They must match.
    #[tokio::test]
    async fn a_surface_accepts_exactly_the_inputs_that_its_nodes_declare() {
        let folder = tempfile::tempdir().unwrap();
        let surfaces = everything(folder.path());
        for called in CalledType::ALL {
            let Family::Surface { surface, op } = called.family() else { continue };
            for name in called.input_names().unwrap().into_iter().chain(["input"]) {
                let inputs = Map::from_iter([
                    (name.to_owned(), json!("x")),
                    // Checked before the surface is called.
                    ("content".to_owned(), json!("x")),
                ]);
                let inputs = inputs
                    .into_iter()
                    .filter(|(other, _)| other == name || *called == CalledType::FilesWrite);
                let args = arguments(*called, &Map::new(), &inputs.collect()).unwrap();
                let call = SurfaceCall {
                    tenant: Tenant::new("acme").unwrap(),
                    surface: Surface::parse(surface.as_str()).unwrap(),
                    op: op.to_owned(),
                    args,
                    effect: None,
                    now: Timestamp(0),
                };
                let refused = surfaces.call(call).await.err().map(|error| error.message).unwrap_or_default();
                assert_eq!(
                    refused.contains("unknown argument"),
                    name == "input",
                    "{called} {name}: {refused}"
                );
            }
        }
    }

    fn everything(folder: &std::path::Path) -> Surfaces {
        use std::sync::Arc;

        use surfaces::search::{EmbeddedSearch, SearchLimits, ServedSearch};
        use surfaces::sql::sqlite::SqliteFiles;
        use surfaces::sql::{Datasource, ServedSql, SqlLimits, Tenants};
        use surfaces::vector::{EmbeddedVectors, ServedVectors, VectorLimits};

        let mut surfaces = Surfaces::open(&surfaces::Options::new(folder)).unwrap();
        let database = Arc::new(SqliteFiles::new(folder.join("sql"), SqlLimits::default()));
        let sql = ServedSql::new([Datasource { name: "default".into(), tenants: Tenants::All, database }]);
        surfaces.serve(Surface::Sql, Arc::new(sql));
        let vectors = Arc::new(EmbeddedVectors::open(folder, VectorLimits::default()).unwrap());
        surfaces.serve(Surface::Vector, Arc::new(ServedVectors::new(vectors, VectorLimits::default())));
        let texts = Arc::new(EmbeddedSearch::open(folder, SearchLimits::default()).unwrap());
        surfaces.serve(Surface::Search, Arc::new(ServedSearch::new(texts, SearchLimits::default())));
        surfaces
    }
}
