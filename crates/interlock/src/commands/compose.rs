//! `interlock compose`.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::path::Path;

use canon::json::Limits;
use composition::Input;
use serde_json::Value;

use crate::arguments::Compose;
use crate::failure::{Answer, Failure};
use crate::output::{self, Layout};

/// Composes, or explains one key.
pub(crate) fn run(arguments: &Compose) -> Result<Answer, Failure> {
    let source = arguments.file.as_deref().filter(|path| *path != Path::new("-"));
    let bytes = read(source).map_err(|cause| Failure::unreadable(source, cause))?;
    let value =
        canon::json::read(&bytes, &Limits::default()).map_err(|cause| Failure::not_json(source, cause))?;
    drop(bytes);
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

/// Reads at most one byte more than the JSON reader takes, so that a stream without end is refused and not kept.
fn read(source: Option<&Path>) -> io::Result<Vec<u8>> {
    let limit = Limits::default().max_bytes as u64 + 1;
    let mut bytes = Vec::new();
    match source {
        Some(path) => {
            let file = File::open(path)?;
            bytes.reserve(usize::try_from(file.metadata()?.len().min(limit)).unwrap_or_default());
            file.take(limit).read_to_end(&mut bytes)?;
        }
        None => {
            let stdin = io::stdin().lock();
            if stdin.is_terminal() {
                let _ = writeln!(
                    io::stderr(),
                    "Reading JSON from standard input; Ctrl-D ends it, Ctrl-C gives up."
                );
            }
            stdin.take(limit).read_to_end(&mut bytes)?;
        }
    }
    Ok(bytes)
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
