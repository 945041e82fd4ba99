//! SQLite datasources: a file per tenant and datasource.
//!
//! Each tenant has a folder and each datasource a file in it, so no statement can reach another tenant's data: the file
//! has none, and the authorizer denies attaching another. The file has one host table, `interlock_effects`, which
//! workflow statements cannot access.

mod authorizer;
mod files;
mod run;
mod values;

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::FutureExt as _;

use self::files::Files;
pub(crate) use self::run::check_effect;
use super::{Dialect, Sql, SqlLimits, StatementResult, Work};
use crate::call::Scope;
use crate::error::{Code, SurfaceError};
use crate::scan_pool;
use crate::served::PortFuture;

/// SQLite files in a directory.
pub struct SqliteFiles {
    files: Files,
    limits: Arc<SqlLimits>,
}

impl SqliteFiles {
    /// Creates the datasource. Files are created on demand.
    pub fn new(directory: impl Into<PathBuf>, limits: SqlLimits) -> Self {
        let limits = Arc::new(limits);
        Self { files: Files::new(directory.into(), limits.open_files), limits }
    }

    async fn carry_out(
        &self,
        scope: &Scope,
        datasource: &str,
        work: Work,
    ) -> Result<Vec<StatementResult>, SurfaceError> {
        let (slot, spare) = self.files.slot(&scope.tenant, datasource);
        let mut slot = slot.lock_owned().await;
        let (tenant, scope, limits) = (&scope.tenant, scope.clone(), Arc::clone(&self.limits));
        let path = self.files.path(tenant, datasource);
        let done = scan_pool::run(tenant, move || {
            drop(spare);
            // It is returned only after the work ended normally, so an interrupted connection is never reused.
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
            let message = "the database failed with an internal error; nothing was changed";
            Err(SurfaceError::new(Code::SurfaceUnavailable, message))
        })
    }
}

impl Sql for SqliteFiles {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    fn run<'a>(
        &'a self,
        scope: &'a Scope,
        datasource: &'a str,
        work: Work,
    ) -> PortFuture<'a, Vec<StatementResult>> {
        self.carry_out(scope, datasource, work).boxed()
    }
}
