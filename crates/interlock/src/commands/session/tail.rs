//! `interlock session tail`.

use std::io::{self, Write as _};
use std::thread;
use std::time::Duration;

use guide::project::run_status;
use guide::record::Event;
use guide::state::SessionState;

use super::{lookup, words};
use crate::arguments::SessionTail;
use crate::failure::{Answer, Failure};
use crate::service;
use crate::settings::Settings;

/// How often the manifest is looked at: soon enough for eyes, and one `stat` is all it costs.
const INTERVAL: Duration = Duration::from_millis(250);

pub(super) fn run(arguments: &SessionTail, settings: &Settings) -> Result<Answer, Failure> {
    let files = service::open_files_to_read(settings)?;
    let id = lookup::session(&files, &arguments.id)?;
    let mut loaded = files.load(&id)?;
    let mut state = SessionState::new(id.clone());
    let mut shown = loaded.events.len().saturating_sub(arguments.lines);
    loop {
        // Looked at before reading: what is written in between is then seen as news.
        let before = files.manifest_stat(&id)?;
        if state.next_index().0 > 0 {
            loaded = files.load_since(&loaded.cursor)?;
            if loaded.events.first().is_some_and(|first| first.event_index != state.next_index()) {
                // Deleted and imported anew under the same id.
                state = SessionState::new(id.clone());
            }
            shown = 0;
        }
        for (index, event) in loaded.events.iter().enumerate() {
            state.apply(event).map_err(|error| Failure::from(error.envelope()))?;
            if index >= shown && !print(event, arguments.answering.json)? {
                return Ok(Answer::Yes);
            }
        }
        let complete =
            !state.runs().is_empty() && state.runs().iter().all(|run| run_status(&state, run).is_complete());
        if arguments.until_complete && complete {
            return Ok(Answer::Yes);
        }
        loop {
            thread::sleep(INTERVAL);
            if files.manifest_stat(&id)? != before {
                break;
            }
        }
    }
}

/// Prints an event at once. False: nobody listens any more.
fn print(event: &Event, json: bool) -> Result<bool, Failure> {
    let mut out = anstream::stdout().lock();
    let printed = if json {
        out.write_all(&event.encode()).and_then(|()| out.write_all(b"\n"))
    } else {
        writeln!(out, "{}", words::line(event))
    };
    match printed.and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(cause) if cause.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(cause) => Err(Failure::unwritable(None, cause)),
    }
}
