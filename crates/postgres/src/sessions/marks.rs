//! Marks of sessions.

use flow::id::{NodeId, RunId};
use guide::bundle::Salvaged;
use guide::record::SessionId;
use ports::sessions::{Ended, SessionMarks, StoreError, StoreFuture};

use super::{Sessions, database, unexpected};
use crate::error::Failure;

/// A mark that cannot be parsed counts.
pub(super) fn parse_ended(bytes: &[u8]) -> Ended {
    serde_json::from_slice(bytes).unwrap_or_else(|_| Ended {
        run_id: RunId::new("unknown"),
        node_id: NodeId::new("unknown"),
        run_status: "unknown".to_owned(),
    })
}

impl Sessions {
    /// Marks a session as ended, unless it is already.
    pub(super) async fn set_ended(
        &self,
        session: &SessionId,
        incarnation: &[u8],
        ended: &Ended,
    ) -> Result<(), StoreError> {
        let mark = serde_json::to_vec(ended).unwrap_or_default();
        let sql = "with fence as (select 1 from hosts where host_id = $1 for key share)
                   update sessions set ended = coalesce(ended, $5)
                   where tenant = $2 and session_id = $3 and incarnation = $4 and exists (select 1 from fence)
                   returning 1";
        let values: [crate::connection::Value<'_>; 5] =
            [&self.0.shared.host_id, &self.tenant(), &session.as_str(), &incarnation, &mark];
        let (rows, _) = self.write(sql, &values).await?;
        self.known(session, !rows.is_empty()).await
    }

    /// Why a row was not updated: the session does not exist, or this host was fenced.
    async fn known(&self, session: &SessionId, is_updated: bool) -> Result<(), StoreError> {
        if is_updated {
            return Ok(());
        }
        let sql = "select 1 from sessions where tenant = $1 and session_id = $2";
        if self.read(sql, &[&self.tenant(), &session.as_str()]).await?.is_empty() {
            Err(StoreError::Unknown { session: session.clone() })
        } else {
            Err(database(Failure::Fenced))
        }
    }

    async fn mark(&self, sql: &'static str, session: &SessionId) -> Result<Option<Vec<u8>>, StoreError> {
        let rows = self.read(sql, &[&self.tenant(), &session.as_str()]).await?;
        rows.first().map_or(Ok(None), |row| row.try_get(0).map_err(unexpected))
    }

    pub(super) async fn salvaged_mark(&self, session: &SessionId) -> Result<Option<Salvaged>, StoreError> {
        let sql = "select salvaged from sessions where tenant = $1 and session_id = $2";
        let parse = |bytes: Vec<u8>| {
            serde_json::from_slice(&bytes).map_err(|error| StoreError::Damaged {
                path: format!("the mark of session {session}"),
                problem: ports::Cause::of_json(&error).to_string(),
            })
        };
        self.mark(sql, session).await?.map(parse).transpose()
    }
}

impl SessionMarks for Sessions {
    fn are_kept(&self, sessions: Vec<SessionId>) -> StoreFuture<'_, Vec<bool>> {
        self.task(|this| async move {
            let ids: Vec<&str> = sessions.iter().map(SessionId::as_str).collect();
            let sql = "select coalesce(s.is_kept, false)
                       from unnest($2::text[]) with ordinality as w(id, position)
                       left join sessions s on s.tenant = $1 and s.session_id = w.id
                       order by w.position";
            let rows = this.read(sql, &[&this.tenant(), &ids]).await?;
            rows.iter().map(|row| row.try_get(0).map_err(unexpected)).collect()
        })
    }

    fn set_kept(&self, session: SessionId, kept: bool) -> StoreFuture<'_, ()> {
        self.task(move |this| async move {
            let sql = "with fence as (select 1 from hosts where host_id = $1 for key share)
                       update sessions set is_kept = $4
                       where tenant = $2 and session_id = $3 and exists (select 1 from fence) returning 1";
            let values: [crate::connection::Value<'_>; 4] =
                [&this.0.shared.host_id, &this.tenant(), &session.as_str(), &kept];
            let (rows, _) = this.write(sql, &values).await?;
            this.known(&session, !rows.is_empty()).await
        })
    }

    fn ended(&self, session: SessionId) -> StoreFuture<'_, Option<Ended>> {
        self.task(|this| async move {
            let sql = "select ended from sessions where tenant = $1 and session_id = $2";
            Ok(this.mark(sql, &session).await?.as_deref().map(parse_ended))
        })
    }

    fn salvaged(&self, session: SessionId) -> StoreFuture<'_, Option<Salvaged>> {
        self.task(|this| async move { this.salvaged_mark(&session).await })
    }
}
