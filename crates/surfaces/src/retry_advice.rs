//! Advice for SQLite failures: whether to retry.

use rusqlite::ErrorCode;

/// The file exists, but the host cannot access it.
pub(crate) const CLOSED: &str =
    "the host has no permission for its file; calls fail until the operator fixes it";
/// A temporary failure.
pub(crate) const AGAIN: &str = "retry the call";

/// The advice, as the end of a sentence.
pub(crate) fn retry_advice(cause: &rusqlite::Error) -> &'static str {
    match cause.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            "its file is damaged; calls fail until the operator restores it"
        }
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => CLOSED,
        Some(ErrorCode::DiskFull) => "the disk is full; retry when there is space",
        Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch | ErrorCode::TooBig) => {
            "the store does not accept this value; the same call fails again"
        }
        // Busy, interrupted and I/O errors may be temporary.
        _ => AGAIN,
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    #[test]
    fn only_temporary_failures_are_retried() {
        let cases = [
            (ffi::SQLITE_BUSY, true),
            (ffi::SQLITE_LOCKED, true),
            (ffi::SQLITE_IOERR, true),
            (ffi::SQLITE_NOMEM, true),
            (ffi::SQLITE_FULL, true),
            (ffi::SQLITE_CORRUPT, false),
            (ffi::SQLITE_NOTADB, false),
            (ffi::SQLITE_READONLY, false),
            (ffi::SQLITE_CANTOPEN, false),
            (ffi::SQLITE_CONSTRAINT_PRIMARYKEY, false),
            (ffi::SQLITE_TOOBIG, false),
        ];
        for (code, again) in cases {
            let said = retry_advice(&rusqlite::Error::SqliteFailure(ffi::Error::new(code), None));
            assert_eq!(said.contains("retry"), again, "{code}: {said}");
        }
    }
}
