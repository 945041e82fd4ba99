//! `interlock compose`.

use std::io;

use composition::Input;
use serde_json::Value;

use crate::arguments::Compose;
use crate::failure::{Answer, Failure};
use crate::input;
use crate::output::{self, Layout};

/// Composes, or explains one key.
pub(crate) fn run(arguments: &Compose) -> Result<Answer, Failure> {
    let source = arguments.file.as_deref().and_then(input::source);
    let value = input::json(source)?;
    let input = Input::from_value(input_of(value)).map_err(|cause| {
        // The reader refuses such nesting first; this only keeps the types honest.
        Failure::unreadable(source, io::Error::new(io::ErrorKind::InvalidData, cause))
    })?;
    let layout = if arguments.pretty { Layout::Indented } else { Layout::Compact };

    let Some(key) = &arguments.explain else {
        let outcome = composition::compose(&input);
        output::json(&outcome, layout)?;
        return Ok(Answer::yes_if(outcome.is_ok()));
    };
    let explanation = composition::explain(&input, key);
    if arguments.json {
        output::json(&explanation, layout)?;
    } else {
        output::text(&explanation)?;
    }
    Ok(Answer::yes_if(explanation.shown))
}

/// The input itself, also when it comes wrapped as a fixture.
fn input_of(mut value: Value) -> Value {
    let is_fixture = |members: &serde_json::Map<String, Value>| {
        members.len() == 3 && ["id", "input", "expect"].iter().all(|name| members.contains_key(*name))
    };
    match value
        .as_object_mut()
        .filter(|members| is_fixture(members))
        .and_then(|members| members.remove("input"))
    {
        Some(input) => input,
        None => value,
    }
}
