//! `interlock key`.

mod api_key;
mod list;
mod revoke;

use guide::token::Keyring;
use serde_json::{Value, json};
use system::{Entropy as _, SystemEntropy};

use crate::arguments::{Globals, KeyCommand};
use crate::commands::serve::store::shared_sessions;
use crate::failure::{ExitStatus, Failure};
use crate::output::{self, Cell, DIM, GOOD, Layout, Table};
use crate::service;
use crate::settings::Settings;

pub(crate) fn run(command: &KeyCommand, globals: &Globals) -> Result<ExitStatus, Failure> {
    let settings = Settings::load(globals)?;
    let keyring = match command {
        KeyCommand::New(new) => return api_key::run(new, &settings),
        KeyCommand::Revoke(revoke) => return revoke::run(revoke, &settings),
        KeyCommand::List(answering) => return list::run(*answering, &settings),
        KeyCommand::Rotate(_) => {
            let mut entropy = [0; 32];
            SystemEntropy
                .fill(&mut entropy)
                .map_err(|cause| Failure::Unreadable { name: "the system's entropy".to_owned(), cause })?;
            let rotated = match shared_sessions(&settings)? {
                Some(stores) => ports::wait(ports::wait(stores.open(None))?.rotate_keys(entropy))?,
                None => service::open_files(&settings)?.rotate_keys(entropy)?,
            };
            Some(rotated)
        }
    };
    if command.answering().json {
        output::json(&document(keyring.as_ref()), Layout::Compact)?;
    } else {
        output::text(&words(keyring.as_ref(), true))?;
    }
    Ok(ExitStatus::Success)
}

fn document(keyring: Option<&Keyring>) -> Value {
    let previous = keyring.and_then(|keyring| keyring.previous.as_ref());
    json!({
        "current": keyring.map(|keyring| keyring.current.fingerprint()),
        "previous": previous.map(guide::token::Key::fingerprint),
    })
}

fn words(keyring: Option<&Keyring>, rotated: bool) -> String {
    let Some(keyring) = keyring else {
        return "No signing key yet. The first session or `interlock key rotate` creates one.".to_owned();
    };
    let mut table = Table::new(&["key", "fingerprint", "tokens"]);
    table.row([
        Cell::styled("current", GOOD),
        keyring.current.fingerprint().into(),
        "signs and is accepted".into(),
    ]);
    if let Some(previous) = &keyring.previous {
        table.row([
            Cell::styled("previous", DIM),
            previous.fingerprint().into(),
            "accepted until the next rotation".into(),
        ]);
    }
    let mut words = table.to_string();
    if rotated {
        words.push_str(
            "\nThe keys were rotated. Sessions are not affected: `resume_session` issues new tokens.\n",
        );
    }
    words
}
