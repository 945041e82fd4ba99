//! Whether a call that SQLite failed may be made again.

use rusqlite::ErrorCode;

/// The file is there, but not for the host.
pub(crate) const CLOSED: &str =
    "the host may not open or write its file, and calls fail until the operator lets it";
/// It passes by itself, or may.
pub(crate) const AGAIN: &str = "the call may be made again";

/// What is to be done about it, at the end of a sentence.
pub(crate) fn outlook(cause: &rusqlite::Error) -> &'static str {
    match cause.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            "its file is damaged, and calls fail until the operator restores it"
        }
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => CLOSED,
        Some(ErrorCode::DiskFull) => "there is no room; the call may be made again once there is some",
        Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch | ErrorCode::TooBig) => {
            "the store does not take this, and the same call fails again"
        }
        // Whoever is busy or was interrupted is not for ever, and so is a disk that failed once.
        _ => AGAIN,
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    #[test]
    fn only_what_may_pass_by_itself_is_to_be_made_again() {
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
            let said = outlook(&rusqlite::Error::SqliteFailure(ffi::Error::new(code), None));
            assert_eq!(said.contains("may be made again"), again, "{code}: {said}");
        }
    }
}
