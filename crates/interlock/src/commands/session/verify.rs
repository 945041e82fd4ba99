//! `interlock session verify`.

use std::collections::BTreeSet;
use std::sync::Arc;

use guide::record::SessionId;
use guided::Verifier;
use guided::view::salvage;
use ports::sessions::{ChainState, SessionStore, StoreError};
use serde::Serialize;
use serde_json::{Value, json};

use super::{NO_LOG, lookup};
use crate::arguments::SessionVerify;
use crate::failure::{ExitStatus, Failure};
use crate::output::{self, BAD, Cell, GOOD, Layout, Table};
use crate::progress::Progress;
use crate::service;
use crate::settings::Settings;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Verified {
    session_id: SessionId,
    sound: bool,
    health: String,
    /// The reason code, if the log is damaged.
    reason: Option<&'static str>,
    file: Option<String>,
    events: usize,
    objects: usize,
    chain: Chain,
    /// All problems, each with its code.
    problems: Vec<Value>,
}

/// What the chain of a session says about its log.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Chain {
    /// `intact`, `missing`, `broken`, or `unchecked` where the log is damaged already.
    state: &'static str,
    /// The first event that was recorded with the chain, if it is intact. Events before it are authentic since then.
    #[serde(skip_serializing_if = "Option::is_none")]
    begun_at_event: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

/// Whether the step of a token is in the log. The token itself is not repeated.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CheckedToken {
    /// Which of the tokens that were given, from 1 on.
    number: usize,
    found: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

pub(super) async fn run(arguments: &SessionVerify, settings: &Settings) -> Result<ExitStatus, Failure> {
    let store = service::open_sessions(settings)?;
    let tokens = check_tokens(&arguments.token, settings, &store).await;
    let ids: Vec<SessionId> = if arguments.ids.is_empty() && tokens.is_empty() {
        store.sessions().await?
    } else {
        let of_tokens = tokens.iter().filter_map(|token| token.session_id.as_ref());
        let mut ids = BTreeSet::new();
        for id in arguments.ids.iter().chain(of_tokens) {
            ids.insert(lookup::session(&*store, id).await?);
        }
        ids.into_iter().collect()
    };
    let mut progress = Progress::over(ids.len(), "verifying sessions");
    let mut verified = Vec::with_capacity(ids.len());
    for id in ids {
        verified.push(verify(&*store, id, arguments.require_chain).await?);
        progress.step();
    }
    drop(progress);
    let sound = verified.iter().all(|session| session.sound) && tokens.iter().all(|token| token.found);
    if arguments.answering.json {
        let mut answer = json!({"sound": sound, "sessions": verified});
        if !tokens.is_empty() {
            answer["tokens"] = json!(tokens);
        }
        output::json(&answer, Layout::Compact)?;
    } else {
        let mut text =
            if verified.is_empty() && !tokens.is_empty() { String::new() } else { words(&verified) };
        for token in tokens.iter().filter(|token| !token.found) {
            let message = token.message.as_deref().unwrap_or_default();
            text += &format!("\n{BAD}token {}{BAD:#}: {}\n", token.number, output::clean(message));
        }
        output::text(&text)?;
    }
    Ok(ExitStatus::success_if(sound))
}

/// Looks for the steps that tokens were issued for.
async fn check_tokens(
    tokens: &[String],
    settings: &Settings,
    store: &Arc<dyn SessionStore>,
) -> Vec<CheckedToken> {
    if tokens.is_empty() {
        return Vec::new();
    }
    let catalogue = service::catalogue(settings);
    let guided = service::guided(catalogue, Arc::clone(store), Verifier::none());
    let mut checked = Vec::with_capacity(tokens.len());
    for (position, token) in tokens.iter().enumerate() {
        checked.push(match guided.locate(token).await {
            Ok(session) => CheckedToken {
                number: position + 1,
                found: true,
                session_id: Some(session.as_str().to_owned()),
                code: None,
                message: None,
            },
            Err(refusal) => {
                let envelope = refusal.envelope();
                let named = envelope.details().get("sessionId").and_then(Value::as_str);
                let session = named.and_then(|id| SessionId::parse(id).ok());
                // A session that no longer exists cannot be checked.
                let exists = match &session {
                    Some(id) => store.revision(id.clone()).await.is_ok_and(|revision| revision.is_some()),
                    None => false,
                };
                CheckedToken {
                    number: position + 1,
                    found: false,
                    session_id: session.filter(|_| exists).map(|id| id.as_str().to_owned()),
                    code: Some(envelope.code().to_owned()),
                    message: Some(envelope.message().to_owned()),
                }
            }
        });
    }
    checked
}

async fn verify(store: &dyn SessionStore, id: SessionId, require_chain: bool) -> Result<Verified, Failure> {
    let verification = match store.verify(id.clone()).await {
        Err(error @ StoreError::Unknown { .. }) => return Ok(Verified::without_a_log(id, &error)),
        verification => verification?,
    };
    let salvaged = salvage(store, &id).await?;
    let mut problems = Vec::new();
    let damage = verification.health.damage();
    if let Some(damage) = damage {
        problems.push(json!({"code": damage.reason, "file": damage.file, "message": damage.problem}));
    }
    if let Some(misfit) = &salvaged.misfit {
        problems.push(json!({"code": misfit.envelope().code(), "message": misfit.to_string()}));
    }
    match &verification.chain {
        ChainState::Broken { reason, problem } => {
            problems.push(json!({"code": reason, "file": "chain.jsonl", "message": problem}));
        }
        ChainState::Missing if require_chain => problems.push(json!({
            "code": "chain_missing", "file": "chain.jsonl", "message": "the session has no chain",
        })),
        ChainState::Intact { begun_at } if require_chain && begun_at.0 > 0 => problems.push(json!({
            "code": "chain_begun_late", "file": "chain.jsonl",
            "message": format!("the chain began when the session had {} events", begun_at.0),
        })),
        ChainState::Missing | ChainState::Unchecked | ChainState::Intact { .. } => {}
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
        chain: Chain::of(&verification.chain),
        problems,
    })
}

impl Chain {
    const fn of(state: &ChainState) -> Self {
        let (begun_at_event, reason) = match state {
            ChainState::Intact { begun_at } => (Some(begun_at.0), None),
            ChainState::Broken { reason, .. } => (None, Some(reason.as_str())),
            ChainState::Missing | ChainState::Unchecked => (None, None),
        };
        Self { state: state.as_str(), begun_at_event, reason }
    }

    fn words(&self) -> String {
        match self.begun_at_event {
            Some(event) if event > 0 => format!("{} from event {event}", self.state),
            Some(_) | None => self.state.to_owned(),
        }
    }
}

impl Verified {
    /// A folder without a valid manifest. The store itself never leaves one behind.
    fn without_a_log(session_id: SessionId, error: &StoreError) -> Self {
        Self {
            session_id,
            sound: false,
            health: NO_LOG.to_owned(),
            reason: None,
            file: Some("manifest.jsonl".to_owned()),
            events: 0,
            objects: 0,
            chain: Chain::of(&ChainState::Unchecked),
            problems: vec![json!({
                "code": error.code(),
                "file": "manifest.jsonl",
                "message": "the folder exists, but its manifest is missing or empty",
            })],
        }
    }
}

fn words(verified: &[Verified]) -> String {
    if verified.is_empty() {
        return "No sessions to verify.".to_owned();
    }
    let mut table = Table::new(&["id", "health", "events", "objects", "chain", "problem"]);
    for session in verified {
        let style = if session.sound { GOOD } else { BAD };
        let row = |problem: &str| {
            [
                Cell::from(session.session_id.as_str()),
                Cell::styled(&session.health, style),
                session.events.to_string().into(),
                session.objects.to_string().into(),
                session.chain.words().into(),
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
        0 => format!("\n{GOOD}all {} sessions are valid{GOOD:#}\n", verified.len()),
        _ => format!("\n{BAD}{unsound} of {} sessions are damaged or edited{BAD:#}\n", verified.len()),
    };
    let without = verified.iter().filter(|session| session.chain.state == "missing").count();
    let hint = match without {
        0 => String::new(),
        _ => format!(
            "{without} have no chain yet, so an edit would not be detected; the next step begins one.\n"
        ),
    };
    table.to_string() + &verdict + &hint
}
