//! `interlock database`.

use canon::error::Envelope;
use postgres::schema::{self, Version};
use serde_json::{Value, json};

use crate::arguments::{DatabaseCommand, Globals};
use crate::commands::serve::runtime;
use crate::commands::serve::store::{database_url, resolved, unusable};
use crate::failure::{CommandErrorCode, ExitStatus, Failure};
use crate::output::{self, Layout};
use crate::settings::Settings;

pub(crate) fn run(command: &DatabaseCommand, globals: &Globals) -> Result<ExitStatus, Failure> {
    let target = command.target();
    let url = match &target.database {
        Some(text) => Some(resolved(text)?),
        None => database_url(&Settings::load(globals)?)?,
    };
    let url = url.ok_or_else(|| {
        Envelope::new(CommandErrorCode::ConfigInvalid, "no database is set")
            .suggest("Pass --database, or set `database.url` in the settings.")
    })?;
    let done = runtime()?.block_on(execute(command, &url)).map_err(|error| unusable(&error))?;
    if target.answering.json {
        output::json(&done.document, Layout::Compact)?;
    } else {
        output::text(&done.words)?;
    }
    Ok(ExitStatus::Success)
}

struct Done {
    document: Value,
    words: String,
}

async fn execute(command: &DatabaseCommand, url: &str) -> Result<Done, postgres::OpenError> {
    Ok(match command {
        DatabaseCommand::Init(_) => {
            let version = match schema::init(url).await? {
                Version::Empty => 0,
                Version::Schema(version) => version,
            };
            Done {
                document: json!({"schema": version}),
                words: format!("The tables are ready: schema version {version}."),
            }
        }
        DatabaseCommand::Migrate(_) => {
            let (from, to) = schema::migrate(url).await?;
            let words = if from == to {
                format!("The tables already have schema version {to}.")
            } else {
                format!("The tables were upgraded from schema version {from} to {to}.")
            };
            Done { document: json!({"from": from, "to": to}), words }
        }
        DatabaseCommand::Check(_) => {
            let found = schema::inspect(url).await?;
            let host = match &found.host {
                Some((name, version)) => format!("Host {name} (version {version}) uses it."),
                None => "No host uses it.".to_owned(),
            };
            let words = format!("PostgreSQL {}, schema version {}. {host}", found.server, found.schema);
            let host = found.host.map(|(name, version)| json!({"name": name, "version": version}));
            Done { document: json!({"server": found.server, "schema": found.schema, "host": host}), words }
        }
    })
}
