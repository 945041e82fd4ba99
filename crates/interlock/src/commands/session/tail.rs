//! `interlock session tail`.

use std::io::{self, Write as _};
use std::thread;
use std::time::Duration;

use guide::project::run_status;
use guide::record::Event;
use guide::state::SessionState;

use super::{event_line, lookup};
use crate::arguments::SessionTail;
use crate::failure::{ExitStatus, Failure};
use crate::service;
use crate::settings::Settings;

/// The polling interval; each poll is a single `stat`.
const INTERVAL: Duration = Duration::from_millis(250);

pub(super) async fn run(arguments: &SessionTail, settings: &Settings) -> Result<ExitStatus, Failure> {
    let store = service::open_sessions(settings)?;
    let id = lookup::session(&*store, &arguments.id).await?;
    let mut loaded = store.load(id.clone()).await?;
    let mut state = SessionState::new(id.clone());
    let mut shown = loaded.events.len().saturating_sub(arguments.lines);
    loop {
        // Checked before reading, so that later writes are noticed.
        let before = store.revision(id.clone()).await?;
        if state.next_index().0 > 0 {
            loaded = store.load_since(loaded.cursor).await?;
            if loaded.events.first().is_some_and(|first| first.event_index != state.next_index()) {
                // The session was deleted and imported again under the same id.
                state = SessionState::new(id.clone());
            }
            shown = 0;
        }
        for (index, event) in loaded.events.iter().enumerate() {
            state.apply(event).map_err(|error| Failure::from(error.envelope()))?;
            if index >= shown && !print(event, arguments.answering.json)? {
                return Ok(ExitStatus::Success);
            }
        }
        let complete =
            !state.runs().is_empty() && state.runs().iter().all(|run| run_status(&state, run).is_complete());
        if arguments.until_complete && complete {
            return Ok(ExitStatus::Success);
        }
        loop {
            thread::sleep(INTERVAL);
            if store.revision(id.clone()).await? != before {
                break;
            }
        }
    }
}

/// Prints an event immediately. Returns false if the reader has closed the pipe.
fn print(event: &Event, json: bool) -> Result<bool, Failure> {
    let mut out = anstream::stdout().lock();
    let printed = if json {
        out.write_all(&event.encode()).and_then(|()| out.write_all(b"\n"))
    } else {
        writeln!(out, "{}", event_line::line(event))
    };
    match printed.and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(cause) if cause.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(cause) => Err(Failure::unwritable(None, cause)),
    }
}
