//! Arguments of `database`.

use clap::{Args, Subcommand};

use super::OutputFormat;

/// Prepare and check the PostgreSQL database for runs.
#[derive(Debug, Args)]
pub(crate) struct Database {
    #[command(subcommand)]
    pub(crate) command: DatabaseCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DatabaseCommand {
    Init(DatabaseInit),
    Migrate(DatabaseMigrate),
    Check(DatabaseCheck),
}

/// Create the tables in an empty database.
///
/// The tables are in the schema `interlock`. Nothing changes if they exist.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Create the tables; the URL is in an environment variable:
    interlock database init --database env:DATABASE_URL

  Create the tables in the database from the settings:
    interlock database init")]
pub(crate) struct DatabaseInit {
    #[command(flatten)]
    pub(crate) target: DatabaseTarget,
}

/// Upgrade the tables to the version that this program needs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Before you start a new version:
    interlock database migrate --database env:DATABASE_URL")]
pub(crate) struct DatabaseMigrate {
    #[command(flatten)]
    pub(crate) target: DatabaseTarget,
}

/// Check that this program can use the database. Changes nothing.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  Show the versions of the server and of the tables, and the host that uses them:
    interlock database check --database env:DATABASE_URL")]
pub(crate) struct DatabaseCheck {
    #[command(flatten)]
    pub(crate) target: DatabaseTarget,
}

#[derive(Debug, Args)]
pub(crate) struct DatabaseTarget {
    /// The database: a URL, or `env:NAME` or `file:/path` to read the URL from. Default:
    /// `database.url` in the settings.
    #[arg(long, value_name = "URL")]
    pub(crate) database: Option<String>,

    #[command(flatten)]
    pub(crate) answering: OutputFormat,
}

impl DatabaseCommand {
    pub(crate) const fn target(&self) -> &DatabaseTarget {
        match self {
            Self::Init(init) => &init.target,
            Self::Migrate(migrate) => &migrate.target,
            Self::Check(check) => &check.target,
        }
    }
}
