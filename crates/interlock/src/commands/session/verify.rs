//! `interlock session verify`.

use guide::record::SessionId;
use host::guided::view::salvage;
use serde::Serialize;
use serde_json::{Value, json};
use storage::StoreError;
use storage::files::SessionFiles;

use super::{NO_LOG, lookup};
use crate::arguments::SessionVerify;
use crate::failure::{Answer, Failure};
use crate::output::{self, BAD, Cell, GOOD, Layout, Table};
use crate::progress::Progress;
use crate::service;
use crate::settings::Settings;

/// What was found of one session.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Verified {
    session_id: SessionId,
    /// Whether nothing at all is wrong.
    sound: bool,
    health: String,
    /// The closed reason, if the log is damaged.
    reason: Option<&'static str>,
    file: Option<String>,
    events: usize,
    objects: usize,
    /// Everything that is wrong, each with its closed code.
    problems: Vec<Value>,
}

pub(super) fn run(arguments: &SessionVerify, settings: &Settings) -> Result<Answer, Failure> {
    let files = service::open_files_to_read(settings)?;
    let ids = if arguments.ids.is_empty() {
        files.sessions()?
    } else {
        arguments.ids.iter().map(|id| lookup::session(&files, id)).collect::<Result<_, _>>()?
    };
    let mut progress = Progress::over(ids.len(), "verifying sessions");
    let mut verified = Vec::with_capacity(ids.len());
    for id in ids {
        verified.push(verify(&files, id)?);
        progress.step();
    }
    drop(progress);
    let sound = verified.iter().all(|session| session.sound);
    if arguments.answering.json {
        output::json(&json!({"sound": sound, "sessions": verified}), Layout::Compact)?;
    } else {
        output::text(&words(&verified))?;
    }
    Ok(Answer::yes_if(sound))
}

fn verify(files: &SessionFiles, id: SessionId) -> Result<Verified, Failure> {
    let verification = match files.verify(&id) {
        Err(error @ StoreError::Unknown { .. }) => return Ok(Verified::without_a_log(id, &error)),
        verification => verification?,
    };
    let salvaged = salvage(files, &id)?;
    let mut problems = Vec::new();
    let damage = verification.health.damage();
    if let Some(damage) = damage {
        problems.push(json!({"code": damage.reason, "file": damage.file, "message": damage.problem}));
    }
    if let Some(misfit) = &salvaged.misfit {
        problems.push(json!({"code": misfit.envelope().code(), "message": misfit.to_string()}));
    }
    for problem in &verification.problems {
        problems.push(json!({"code": problem.code(), "message": problem.to_string()}));
    }
    Ok(Verified {
        session_id: id,
        sound: problems.is_empty() && verification.is_sound(),
        health: salvaged.health_name().to_owned(),
        reason: damage.map(|damage| damage.reason.as_str()),
        file: damage.map(|damage| damage.file.clone()),
        events: verification.events,
        objects: verification.objects,
        problems,
    })
}

impl Verified {
    /// A folder whose manifest is gone or empty. Nothing that the store does leaves one behind.
    fn without_a_log(session_id: SessionId, error: &StoreError) -> Self {
        Self {
            session_id,
            sound: false,
            health: NO_LOG.to_owned(),
            reason: None,
            file: Some("manifest.jsonl".to_owned()),
            events: 0,
            objects: 0,
            problems: vec![json!({
                "code": error.code(),
                "file": "manifest.jsonl",
                "message": "the folder is there, and its manifest is gone or empty",
            })],
        }
    }
}

fn words(verified: &[Verified]) -> String {
    if verified.is_empty() {
        return "There are no sessions to verify.".to_owned();
    }
    let mut table = Table::new(&["id", "health", "events", "objects", "problem"]);
    for session in verified {
        let style = if session.sound { GOOD } else { BAD };
        let row = |problem: &str| {
            [
                Cell::from(session.session_id.as_str()),
                Cell::styled(&session.health, style),
                session.events.to_string().into(),
                session.objects.to_string().into(),
                problem.into(),
            ]
        };
        if session.problems.is_empty() {
            table.row(row(""));
        }
        for problem in &session.problems {
            let text = |key: &str| problem[key].as_str().unwrap_or_default().to_owned();
            let file = if text("file").is_empty() { String::new() } else { format!(" in {}", text("file")) };
            table.row(row(&format!("{}{file}: {}", text("code"), text("message"))));
        }
    }
    let unsound = verified.iter().filter(|session| !session.sound).count();
    let verdict = match unsound {
        0 => format!("\n{GOOD}all {} are sound{GOOD:#}\n", verified.len()),
        _ => format!("\n{BAD}{unsound} of {} are not sound{BAD:#}\n", verified.len()),
    };
    table.to_string() + &verdict
}
