//! The stores that workflows can use: those of the data directory, and servers in the settings.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use canon::error::Envelope;
use surfaces::nats::{NatsOptions, NatsQueue};
use surfaces::search::{EmbeddedSearch, SearchLimits, ServedSearch};
use surfaces::sql::postgres::{Postgres, PostgresOptions};
use surfaces::sql::sqlite::SqliteFiles;
use surfaces::sql::{DEFAULT_DATASOURCE, Datasource, ServedSql, SqlLimits, Tenants};
use surfaces::vector::{EmbeddedVectors, ServedVectors, VectorLimits};
use surfaces::{Limits, OpenError, Options, Surface, Surfaces, Tenant};
use system::secrets::Secrets;

use super::super::TENANT;
use crate::failure::{CommandErrorCode, Failure};
use crate::settings::Settings;

/// Opens them. Signed blob URLs start with the server's public URL.
pub(super) fn open(
    settings: &Settings,
    public_url: &str,
    secrets: &dyn Secrets,
) -> Result<Surfaces, Failure> {
    let directory = settings.data_dir.value.join("surfaces");
    let mut options = Options::new(&directory);
    options.presigned = format!("{public_url}/v1/blobs/");
    let opened = embedded(&options, &directory).map_err(|error| unopened(&directory, &error));
    let mut surfaces = opened?;
    let embedded = SqliteFiles::new(directory.join("sql"), SqlLimits::default());
    let mut databases = vec![Datasource {
        name: DEFAULT_DATASOURCE.to_owned(),
        tenants: Tenants::All,
        database: Arc::new(embedded),
    }];
    for (name, members) in &settings.datasources.value {
        let wrong = |message: &str, help: &str| -> Failure {
            let message = format!("`datasources.{name}`: {message}");
            Envelope::new(CommandErrorCode::ConfigInvalid, message).suggest(help).into()
        };
        let url = url(members, secrets).map_err(|message| {
            wrong(&message, "Use `url = \"secret:NAME\"` and add the secret to the table `secrets`.")
        })?;
        match members.get("kind").map(String::as_str) {
            Some("postgres") => {
                let database = Postgres::new(&PostgresOptions::new(url), SqlLimits::default());
                let database = database.map_err(|error| wrong(&error.to_string(), "Fix the URL."))?;
                let tenants = tenants(members).map_err(|message| wrong(&message, "Fix `tenants`."))?;
                databases.push(Datasource { name: name.clone(), tenants, database: Arc::new(database) });
            }
            Some("nats") => {
                let queue = connect(url).map_err(|message| wrong(&message, "Fix the URL."))?;
                surfaces.serve_queue(Arc::new(queue));
            }
            _ => {
                return Err(wrong(
                    "`kind` must be `postgres` or `nats`",
                    "Set `kind` to the type of the server.",
                ));
            }
        }
    }
    surfaces.serve(Surface::Sql, Arc::new(ServedSql::new(databases)));
    Ok(surfaces)
}

fn embedded(options: &Options, directory: &Path) -> Result<Surfaces, OpenError> {
    let mut surfaces = Surfaces::open(options)?;
    let vectors = Arc::new(EmbeddedVectors::open(directory, VectorLimits::default())?);
    surfaces.serve(Surface::Vector, Arc::new(ServedVectors::new(vectors, VectorLimits::default())));
    let texts = Arc::new(EmbeddedSearch::open(directory, SearchLimits::default())?);
    surfaces.serve(Surface::Search, Arc::new(ServedSearch::new(texts, SearchLimits::default())));
    Ok(surfaces)
}

/// The URL of a server. It contains a password, so it is a secret.
fn url(members: &BTreeMap<String, String>, secrets: &dyn Secrets) -> Result<String, String> {
    let reference = members.get("url").and_then(|url| url.strip_prefix("secret:"));
    let name = reference.ok_or("`url` must be a reference, such as `secret:orders-url`")?;
    let value = secrets
        .resolve(&flow::id::Tenant::new(TENANT), name)
        .map_err(|error| format!("`secret:{name}`: {error}"))?;
    Ok(value.expose().to_owned())
}

/// The tenants that can use a database; all if none is named.
fn tenants(members: &BTreeMap<String, String>) -> Result<Tenants, String> {
    let Some(names) = members.get("tenants") else { return Ok(Tenants::All) };
    let names = names.split(',').map(|name| Tenant::new(name.trim()));
    names.collect::<Result<_, _>>().map(Tenants::Only).map_err(|error| error.message)
}

/// A queue on a server.
fn connect(url: String) -> Result<NatsQueue, String> {
    let Ok(threads) = tokio::runtime::Handle::try_current() else {
        return Err("only `interlock serve` and `interlock demo` can use a queue server".to_owned());
    };
    let connecting = async { NatsQueue::connect(&NatsOptions { url }, &Limits::default()).await };
    threads.block_on(connecting).map_err(|error| error.message)
}

fn unopened(directory: &Path, error: &OpenError) -> Failure {
    let newer = matches!(error, OpenError::Newer { .. });
    let code =
        if newer { storage::StoreErrorCode::StoreNewerVersion } else { storage::StoreErrorCode::StoreIo };
    let help = match newer {
        true => "Use the newer version of interlock that wrote it.",
        false => "Check that the data directory is writable and that the disk is not full.",
    };
    Envelope::new(code, error.to_string())
        .suggest(help)
        .detail("folder", directory.display().to_string())
        .into()
}
