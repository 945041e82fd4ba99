//! `interlock hook`.

mod refusals;
mod response;
mod shell;

use std::io::Read as _;
use std::path::Path;

use guided::Verifier;
use serde_json::Value;
use system::{Clock as _, SystemClock};

use self::refusals::RefusalCounts;
use self::response::{Event, EventKind, respond};
use crate::arguments::{Globals, Hook};
use crate::failure::{ExitStatus, Failure};
use crate::output;
use crate::service;
use crate::settings::Settings;

/// The longest event, in bytes. A tool call can contain a whole file.
const EVENT_BYTES: u64 = 16 << 20;

/// Answers one event of a client. On any error it prints nothing, because a failing hook would stop
/// every conversation, including those without a run.
pub(crate) fn run(arguments: &Hook, globals: &Globals) -> Result<ExitStatus, Failure> {
    let reply = reply(arguments, globals);
    if let Some(reply) = reply {
        output::text(&reply)?;
    }
    Ok(ExitStatus::Success)
}

fn reply(arguments: &Hook, globals: &Globals) -> Option<Value> {
    let mut text = String::new();
    std::io::stdin().take(EVENT_BYTES).read_to_string(&mut text).ok()?;
    let sent: Value = serde_json::from_str(&text).ok()?;
    let event = Event::read(&sent)?;
    let settings = Settings::load(globals).ok()?;
    // A missing directory has no run, and the hook must not create it.
    if !settings.data_dir.value.join("sessions").is_dir() {
        return None;
    }
    let workspace = event.workspace.clone().or_else(|| std::env::current_dir().ok())?;
    let run = open_run(&settings, &workspace)?;
    let response = respond(arguments.client, &event, &run, SystemClock.now_ms())?;
    if let EventKind::Stop { sent_back } = event.kind {
        let counts = RefusalCounts::of(&settings.data_dir.value);
        let position = run.resume_call.params.to_string();
        if !counts.may_refuse(&event.conversation, &position, sent_back) {
            return None;
        }
    }
    Some(response)
}

fn open_run(settings: &Settings, workspace: &Path) -> Option<guided::OpenRun> {
    let guided = service::open_guided(settings, Verifier::none()).ok()?;
    ports::wait(guided.open_run(workspace)).ok()?
}
