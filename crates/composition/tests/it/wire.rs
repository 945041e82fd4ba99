//! Results as they go over the wire, and the comparison that ignores their words.

use composition::{Input, compose};
use serde_json::Value;

/// The result of composing `input`, as JSON.
pub(crate) fn composed(input: &Value) -> Value {
    let input = Input::from_value(input.clone()).expect("test inputs are shallow");
    serde_json::to_value(compose(&input)).expect("a result is JSON")
}

/// The result without the messages of its diagnostics, which are never compared.
pub(crate) fn without_messages(mut result: Value) -> Value {
    for pointer in ["/diagnostics", "/composition/diagnostics"] {
        if let Some(Value::Array(diagnostics)) = result.pointer_mut(pointer) {
            for diagnostic in diagnostics {
                diagnostic.as_object_mut().expect("a diagnostic is an object").remove("message");
            }
        }
    }
    result
}

/// The canonical bytes of a value, large integers rounded.
pub(crate) fn canonical(value: &Value) -> String {
    canon::canonical::string_of(value)
}
