//! `interlock context`.

use std::io::Read as _;

use canon::error::Envelope;
use serde_json::{Value, json};
use system::secrets::SecretReference;

use crate::api::{Api, ListRuns, block_on};
use crate::arguments::{ContextAdd, ContextCommand};
use crate::client::Client;
use crate::contexts::{Confirm, Context, Contexts, LOCAL, check_name, check_url};
use crate::failure::{CommandErrorCode, ExitStatus, Failure};
use crate::output::{self, Column, DIM, Field, GOOD, HEADING, Layout, Listing};

/// The longest key that is read from standard input.
const MAX_KEY_BYTES: u64 = 8192;

pub(crate) fn run(command: &ContextCommand) -> Result<ExitStatus, Failure> {
    let mut contexts = Contexts::load()?;
    let json = command.answering().json;
    match command {
        ContextCommand::Add(arguments) => add(arguments, &mut contexts)?,
        ContextCommand::List(_) => list(&contexts, json)?,
        ContextCommand::Use(arguments) => {
            contexts.select_later(&arguments.name)?;
            said(
                json,
                &json!({"current": arguments.name}),
                &format!("Commands now use context {HEADING}{}{HEADING:#}.", arguments.name),
            )?;
        }
        ContextCommand::Show(arguments) => {
            let context = contexts.get(&arguments.name)?;
            let document = document(context);
            let words = format!(
                "{HEADING}{}{HEADING:#}\n  {DIM}url{DIM:#}      {}\n  {DIM}key{DIM:#}      {}\n  {DIM}confirm{DIM:#}  {}",
                context.name,
                context.url,
                context.key.as_deref().unwrap_or("none"),
                document["confirm"].as_str().unwrap_or_default(),
            );
            said(json, &document, &words)?;
        }
        ContextCommand::Delete(arguments) => {
            contexts.remove(&arguments.name)?;
            said(
                json,
                &json!({"deleted": arguments.name}),
                &format!("{GOOD}Deleted{GOOD:#} context {}.", arguments.name),
            )?;
        }
    }
    Ok(ExitStatus::Success)
}

fn said(json: bool, document: &Value, words: &str) -> Result<(), Failure> {
    if json { output::json(document, Layout::Compact) } else { output::text(&words) }
}

fn document(context: &Context) -> Value {
    json!({
        "name": context.name,
        "url": context.url,
        "key": context.key,
        "ca": context.authority.as_ref().map(|path| path.display().to_string()),
        "confirm": if context.confirm == Confirm::Always { "always" } else { "bulk" },
    })
}

fn list(contexts: &Contexts, json: bool) -> Result<(), Failure> {
    let current = contexts.current().unwrap_or(LOCAL);
    if json {
        let documents: Vec<_> = contexts.all().iter().map(document).collect();
        return output::json(&json!({"current": current, "contexts": documents}), Layout::Compact);
    }
    let mut listing = Listing::new([
        Column::fixed("", 0),
        Column::fixed("NAME", 0),
        Column::text("URL", 0, 16),
        Column::text("KEY", 1, 12),
    ]);
    let mark = |name: &str| {
        Field::new(if name == current { "*" } else { "" }, if name == current { "current" } else { "" }, GOOD)
    };
    listing.row([mark(LOCAL), LOCAL.into(), "the server of the data directory".into(), "".into()]);
    for context in contexts.all() {
        let key = context.key.as_deref().unwrap_or("none");
        listing.row([
            mark(&context.name),
            context.name.as_str().into(),
            context.url.as_str().into(),
            key.into(),
        ]);
    }
    listing.print("")
}

fn add(arguments: &ContextAdd, contexts: &mut Contexts) -> Result<(), Failure> {
    let usage = |problem: String| {
        Failure::from(
            Envelope::new(CommandErrorCode::InputUnreadable, problem)
                .suggest("For example: interlock context add prod https://interlock.example --key file:PATH"),
        )
    };
    check_name(&arguments.name).map_err(usage)?;
    let url = check_url(&arguments.url).map_err(usage)?;
    if contexts.all().iter().any(|context| context.name == arguments.name) && !arguments.replace {
        let message = format!("Context `{}` already exists.", arguments.name);
        return Err(Envelope::new(CommandErrorCode::OutputExists, message)
            .suggest("Pass --replace to replace it, or choose another name.")
            .into());
    }
    if arguments.key.as_deref().is_some_and(|key| SecretReference::parse(key).is_err()) {
        // What was given may be a key, so it is not repeated.
        return Err(usage("`--key` must be env:NAME or file:PATH, never the key itself.".to_owned()));
    }
    let mut context = Context {
        name: arguments.name.clone(),
        url,
        key: arguments.key.clone(),
        authority: arguments
            .ca
            .as_ref()
            .map(|path| std::path::absolute(path).unwrap_or_else(|_| path.clone())),
        confirm: if arguments.confirm_always { Confirm::Always } else { Confirm::Bulk },
    };
    let pasted = if arguments.key_stdin { Some(pasted()?) } else { None };
    if !arguments.no_check {
        let key = match &pasted {
            Some(key) => Some(key.clone()),
            None => context.read_key()?,
        };
        check(&context, key)?;
    }
    if let Some(key) = pasted {
        context.key = Some(contexts.save_key(&context.name, &key)?);
    }
    contexts.put(&context)?;
    let words = format!(
        "{GOOD}Added{GOOD:#} context {}. Use it with --context {}, or always: interlock context use {}",
        context.name, context.name, context.name
    );
    said(arguments.answering.json, &document(&context), &words)
}

/// The key on standard input.
fn pasted() -> Result<String, Failure> {
    let mut key = String::new();
    let read = std::io::stdin().lock().take(MAX_KEY_BYTES).read_to_string(&mut key);
    read.map_err(|cause| Failure::unreadable(None, cause))?;
    match key.trim() {
        "" => Err(Envelope::new(CommandErrorCode::InputUnreadable, "Standard input has no key.")
            .suggest("Pipe the key: interlock context add prod URL --key-stdin < key-file")
            .into()),
        key => Ok(key.to_owned()),
    }
}

/// Checks that the server answers, and that it accepts the key.
fn check(context: &Context, key: Option<String>) -> Result<(), Failure> {
    let has_key = key.is_some();
    let client = Client::of_context(&context.url, key, context.read_authority()?)?;
    let api = Api::of(client, &context.name);
    block_on(async {
        api.discovery().await?;
        if has_key {
            api.runs(&ListRuns::default(), 1, None).await?;
        }
        Ok(())
    })
}
