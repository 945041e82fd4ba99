//! Finds a session by its id or a prefix.

use canon::error::Envelope;
use canon::nearest::nearest;
use guide::record::{RunId, SessionId};
use guide::state::{Run, SessionState};
use ports::sessions::{SessionStore, StoreErrorCode};
use serde_json::json;

use crate::failure::{CommandErrorCode, Failure};

const OFFERED: usize = 5;

/// The session with this id, or the only one with this prefix.
pub(super) async fn session(store: &dyn SessionStore, text: &str) -> Result<SessionId, Failure> {
    let ids = store.sessions().await?;
    let names: Vec<&str> = ids.iter().map(SessionId::as_str).collect();
    match unique(text, SessionId::PREFIX, &names) {
        Match::One(index) => Ok(ids[index].clone()),
        Match::Many(candidates) => Err(ambiguous("session", text, &candidates)),
        Match::None(near) => {
            let suggestion = if near.is_empty() {
                "Check the id with `interlock session list --all`, and check the data directory.".to_owned()
            } else {
                format!(
                    "Did you mean {}? List all sessions with `interlock session list --all`.",
                    near.join(" or ")
                )
            };
            Err(Envelope::new(
                StoreErrorCode::SessionUnknown,
                format!("Session {:?} not found.", shown(text)),
            )
            .suggest(suggestion)
            .detail("given", shown(text))
            .detail("nearest", json!(near))
            .into())
        }
    }
}

/// The run with this id, or the only one with this prefix; the first run if none is given.
pub(super) fn run<'s>(state: &'s SessionState, text: Option<&str>) -> Result<&'s Run, Failure> {
    let runs = state.runs();
    let unknown = |near: &[&str]| -> Failure {
        let ids: Vec<&str> = runs.iter().take(OFFERED).map(|run| run.id.as_str()).collect();
        let offered = if near.is_empty() { &ids[..] } else { near };
        let suggestion = if offered.is_empty() {
            "The session is damaged. Run `interlock session verify` for details.".to_owned()
        } else {
            format!("Its runs are {}.", offered.join(", "))
        };
        let what = text.map(|text| format!(" {:?}", shown(text))).unwrap_or_default();
        Envelope::new(
            CommandErrorCode::RunUnknown,
            format!("Session {} has no run{what}.", state.session_id()),
        )
        .suggest(suggestion)
        .detail("nearest", json!(near))
        .into()
    };
    let Some(text) = text else { return runs.first().ok_or_else(|| unknown(&[])) };
    let names: Vec<&str> = runs.iter().map(|run| run.id.as_str()).collect();
    match unique(text, RunId::PREFIX, &names) {
        Match::One(index) => Ok(&runs[index]),
        Match::Many(candidates) => Err(ambiguous("run", text, &candidates)),
        Match::None(near) => Err(unknown(&near)),
    }
}

enum Match<'n> {
    One(usize),
    Many(Vec<&'n str>),
    None(Vec<&'n str>),
}

/// Finds an id by its prefix, with or without the prefix of its kind.
fn unique<'n>(text: &str, prefix: &str, names: &[&'n str]) -> Match<'n> {
    let whole = if text.starts_with(prefix) { text.to_owned() } else { format!("{prefix}{text}") };
    if let Some(index) = names.iter().position(|name| *name == whole) {
        return Match::One(index);
    }
    // The kind's prefix alone matches nothing, even if there is only one id.
    let begins = |name: &&str| whole.len() > prefix.len() && name.starts_with(&whole);
    let candidates: Vec<usize> = (0..names.len()).filter(|index| begins(&names[*index])).collect();
    match candidates[..] {
        [] => Match::None(nearest(&whole, names.iter().copied(), 2)),
        [index] => Match::One(index),
        _ => Match::Many(candidates.into_iter().take(OFFERED).map(|index| names[index]).collect()),
    }
}

fn ambiguous(kind: &str, text: &str, candidates: &[&str]) -> Failure {
    Envelope::new(
        CommandErrorCode::IdAmbiguous,
        format!("The prefix {:?} matches more than one {kind}: {}.", shown(text), candidates.join(", ")),
    )
    .suggest("Type a few more characters.")
    .detail("candidates", json!(candidates))
    .into()
}

fn shown(text: &str) -> String {
    crate::output::shortened(text, 80)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unique_prefix_is_sufficient() {
        let names = ["sess_abc", "sess_abd", "sess_x", "sess_xy"];
        let found = |text: &str| match unique(text, "sess_", &names) {
            Match::One(index) => names[index].to_owned(),
            Match::Many(candidates) => format!("many: {}", candidates.join(" ")),
            Match::None(near) => format!("none: {}", near.join(" ")),
        };
        for (text, expected) in [
            ("sess_abc", "sess_abc"),
            ("abc", "sess_abc"),
            ("sess_x", "sess_x"),
            ("xy", "sess_xy"),
            ("ab", "many: sess_abc sess_abd"),
            ("abe", "none: sess_abc sess_abd"),
            ("", "none: sess_x sess_xy"),
            ("quite something else", "none: "),
        ] {
            assert_eq!(found(text), expected, "{text:?}");
        }
    }
}
