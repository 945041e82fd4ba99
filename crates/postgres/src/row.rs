//! How values become columns.

use canon::digest::Digest;
use canon::time::Timestamp;
use flow::run::RunStatus;
use ports::runs::Bytes;
use tokio_postgres::Row;

use crate::error::Failure;

/// The longest snapshot that is stored in the row of its run. A longer one is stored beside its events: rewriting the row of
/// the run for every append would cost more than the append itself.
pub(crate) const SHORT_SNAPSHOT: usize = 2048;

/// A number as `bigint`. Numbers beyond its range do not occur; they are stored as the largest one.
pub(crate) fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A limit as `bigint`.
pub(crate) fn at_most(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// The status of a run that has ended.
pub(crate) fn ended(status: RunStatus) -> Option<&'static str> {
    status.is_terminal().then_some(status.as_str())
}

/// Whether a run in this state has a host that executes its effects.
pub(crate) fn is_driven(status: RunStatus) -> bool {
    match status {
        RunStatus::Pending | RunStatus::Running | RunStatus::Cancelling => true,
        RunStatus::Paused
        | RunStatus::WaitingApproval
        | RunStatus::WaitingInput
        | RunStatus::WaitingExternal
        | RunStatus::Completed
        | RunStatus::Failed
        | RunStatus::Cancelled => false,
    }
}

pub(crate) fn text<'r, T>(row: &'r Row, column: usize, new: impl FnOnce(&'r str) -> T) -> Result<T, Failure> {
    Ok(new(row.try_get(column).map_err(|_| Failure::Row)?))
}

pub(crate) fn bytes(row: &Row, column: usize) -> Result<Bytes, Failure> {
    let bytes: &[u8] = row.try_get(column).map_err(|_| Failure::Row)?;
    Ok(bytes.into())
}

pub(crate) fn unsigned(row: &Row, column: usize) -> Result<u64, Failure> {
    let number: i64 = row.try_get(column).map_err(|_| Failure::Row)?;
    u64::try_from(number).map_err(|_| Failure::Row)
}

pub(crate) fn time(row: &Row, column: usize) -> Result<Timestamp, Failure> {
    unsigned(row, column).map(Timestamp)
}

pub(crate) fn digest(row: &Row, column: usize) -> Result<Digest, Failure> {
    let bytes: &[u8] = row.try_get(column).map_err(|_| Failure::Row)?;
    Ok(Digest::from_bytes(bytes.try_into().map_err(|_| Failure::Row)?))
}
