//! The JSON Schemas in `docs/schemas` are up to date with the types.
#![expect(clippy::disallowed_methods, reason = "the ban on files is for the crate, not for its tests")]

use std::path::Path;

use guide::bundle::Bundle;
use guide::record::{BlockerReport, Event, EventData, ExecutionSnapshot, ManifestRecord};
use guide::workflow::compiled::CompiledWorkflow;
use guide::workflow::source::Source;
use schemars::{JsonSchema, schema_for};

fn text<T: JsonSchema>() -> String {
    let mut text = serde_json::to_string_pretty(&schema_for!(T)).expect("a schema is JSON");
    text.push('\n');
    text
}

#[test]
fn the_schemas_of_durable_types_are_up_to_date() {
    let schemas = [
        ("event.schema.json", text::<Event>()),
        ("bundle.schema.json", text::<Bundle>()),
        ("workflow-source.schema.json", text::<Source>()),
        ("event-data.schema.json", text::<EventData>()),
        ("manifest-record.schema.json", text::<ManifestRecord>()),
        ("execution-snapshot.schema.json", text::<ExecutionSnapshot>()),
        ("compiled-workflow.schema.json", text::<CompiledWorkflow>()),
        ("blocker-report.schema.json", text::<BlockerReport>()),
    ];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas");
    for (name, expected) in schemas {
        let path = folder.join(name);
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::create_dir_all(&folder).expect("the folder can be created");
            std::fs::write(&path, &expected).expect("the schema can be written");
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(found, expected, "{name} is stale: run the tests of this crate with UPDATE_DOCS=1");
    }
}
