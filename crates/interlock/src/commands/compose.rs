//! `interlock compose`.

use std::io;

use composition::Input;
use serde_json::Value;

use crate::arguments::Compose;
use crate::failure::{ExitStatus, Failure};
use crate::input;
use crate::output::{self, Layout};

pub(crate) fn run(arguments: &Compose) -> Result<ExitStatus, Failure> {
    let source = arguments.file.as_deref().and_then(input::source);
    let value = input::json(source)?;
    let input = Input::from_value(input_of(value)).map_err(|cause| {
        // Unreachable in practice: the JSON reader rejects such nesting first.
        Failure::unreadable(source, io::Error::new(io::ErrorKind::InvalidData, cause))
    })?;
    let layout = if arguments.pretty { Layout::Indented } else { Layout::Compact };

    let Some(key) = &arguments.explain else {
        let outcome = composition::compose(&input);
        output::json(&outcome, layout)?;
        return Ok(ExitStatus::success_if(outcome.is_ok()));
    };
    let explanation = composition::explain(&input, key);
    if arguments.json {
        output::json(&explanation, layout)?;
    } else {
        output::text(&explanation)?;
    }
    Ok(ExitStatus::success_if(explanation.shown))
}

/// The input; a fixture is unwrapped.
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
