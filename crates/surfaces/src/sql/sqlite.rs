//! SQLite: a file for each tenant and datasource.
//!
//! A tenant is a folder and a datasource is a file in it, so no statement can name another tenant's data: there is nothing of it in the
//! file, and the authorizer refuses to attach another one. The file holds one table of the host, `interlock_effects`, which no statement of a
//! workflow may read or change.

mod authorizer;
mod files;
mod run;
mod values;

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::FutureExt as _;

use self::files::Files;
pub(crate) use self::run::check_effect;
use super::{Dialect, Outcome, Sql, SqlLimits, Work};
use crate::apart;
use crate::call::Scope;
use crate::error::{Code, SurfaceError};
use crate::served::Answer;

/// Files of SQLite below a directory.
pub struct SqliteFiles {
    files: Files,
    limits: Arc<SqlLimits>,
}

impl SqliteFiles {
    /// Files below that directory, which are made when they are needed.
    pub fn new(directory: impl Into<PathBuf>, limits: SqlLimits) -> Self {
        let limits = Arc::new(limits);
        Self { files: Files::new(directory.into(), limits.open_files), limits }
    }

    async fn carry_out(
        &self,
        scope: &Scope,
        datasource: &str,
        work: Work,
    ) -> Result<Vec<Outcome>, SurfaceError> {
        let (slot, spare) = self.files.slot(&scope.tenant, datasource);
        let mut slot = slot.lock_owned().await;
        let (tenant, scope, limits) = (&scope.tenant, scope.clone(), Arc::clone(&self.limits));
        let path = self.files.path(tenant, datasource);
        let done = apart::run(tenant, move || {
            drop(spare);
            // It goes back only when the work ends in order, so a connection that somebody left in the middle is never used again.
            let mut connection = match slot.take() {
                Some(connection) => connection,
                None => run::Connected::open(&path, &limits)?,
            };
            let outcome = connection.run(&scope, &work, &limits);
            if connection.is_settled() {
                *slot = Some(connection);
            }
            outcome
        });
        done.await.unwrap_or_else(|| {
            let message = "the database met a mistake of this program; nothing changed";
            Err(SurfaceError::new(Code::SurfaceUnavailable, message))
        })
    }
}

impl Sql for SqliteFiles {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    fn run<'a>(&'a self, scope: &'a Scope, datasource: &'a str, work: Work) -> Answer<'a, Vec<Outcome>> {
        self.carry_out(scope, datasource, work).boxed()
    }
}
