//! `interlock hook`.

mod answer;

use std::io::Read as _;
use std::path::Path;

use host::system::{Clock as _, SystemClock};
use serde_json::Value;

use self::answer::{Event, answer};
use crate::arguments::{Globals, Hook};
use crate::failure::{Answer, Failure};
use crate::output;
use crate::service;
use crate::settings::Settings;

/// The longest event that is read. A tool call can carry a whole file.
const EVENT_BYTES: u64 = 16 << 20;

/// Answers one event of a client. Whatever goes wrong, the client goes on without us: a hook that fails would stop every
/// conversation, those without a run included.
pub(crate) fn run(arguments: &Hook, globals: &Globals) -> Result<Answer, Failure> {
    let reply = reply(arguments, globals);
    if let Some(reply) = reply {
        output::text(&reply)?;
    }
    Ok(Answer::Yes)
}

fn reply(arguments: &Hook, globals: &Globals) -> Option<Value> {
    let mut text = String::new();
    std::io::stdin().take(EVENT_BYTES).read_to_string(&mut text).ok()?;
    let sent: Value = serde_json::from_str(&text).ok()?;
    let event = Event::read(&sent)?;
    let settings = Settings::load(globals).ok()?;
    // A directory that is not there has no run, and looking must not make it.
    if !settings.data_dir.value.join("sessions").is_dir() {
        return None;
    }
    let workspace = event.workspace.clone().or_else(|| std::env::current_dir().ok())?;
    let run = open_run(&settings, &workspace)?;
    answer(arguments.client, &event, &run, SystemClock.now_ms())
}

fn open_run(settings: &Settings, workspace: &Path) -> Option<host::guided::OpenRun> {
    service::open_guided(settings).ok()?.open_run(workspace).ok()?
}
