//! Where the schema of a body comes from.

use std::borrow::Cow;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

/// The schema of a body, by its name in the document.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source {
    /// Derived from the type that is read or written.
    Type { name: fn() -> Cow<'static, str>, schema: fn(&mut SchemaGenerator) -> Schema },
    /// Describes a document that is passed through unchanged: a stored one, or one that another part of the program writes.
    Document(&'static str),
}

impl Source {
    /// The schema of a type.
    pub(super) const fn of<T: JsonSchema>() -> Self {
        Self::Type { name: T::schema_name, schema: |generator| generator.subschema_for::<T>() }
    }

    pub(super) fn name(self) -> Cow<'static, str> {
        match self {
            Self::Type { name, .. } => name(),
            Self::Document(name) => name.into(),
        }
    }

    /// A reference to it.
    pub(super) fn refer(self) -> Value {
        json!({"$ref": format!("{PATH}{}", self.name())})
    }
}

/// The location of schemas in the document.
pub(super) const PATH: &str = "#/components/schemas/";

/// Derives the schemas of types, and of the types in them.
pub(super) struct Derived {
    requests: SchemaGenerator,
    replies: SchemaGenerator,
}

impl Derived {
    pub(super) fn new() -> Self {
        let settings = || {
            SchemaSettings::draft2020_12().with(|settings| {
                settings.definitions_path = "/components/schemas".into();
                settings.meta_schema = None;
            })
        };
        Self {
            requests: settings().for_deserialize().into_generator(),
            replies: settings().for_serialize().into_generator(),
        }
    }

    pub(super) fn add_request(&mut self, source: Source) {
        add(&mut self.requests, source);
    }

    pub(super) fn add_reply(&mut self, source: Source) {
        add(&mut self.replies, source);
    }

    pub(super) fn into_schemas(mut self) -> Map<String, Value> {
        let mut schemas = self.requests.take_definitions(true);
        schemas.extend(self.replies.take_definitions(true));
        schemas
    }
}

fn add(generator: &mut SchemaGenerator, source: Source) {
    match source {
        // This returns a reference; the generator keeps the schema itself.
        Source::Type { schema, .. } => drop(schema(generator)),
        Source::Document(_) => {}
    }
}
