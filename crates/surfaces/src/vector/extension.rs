//! The one place where sqlite-vec is joined to a connection.

use std::ffi::{c_char, c_int};
use std::ptr;

use rusqlite::{Connection, ffi};

/// What every extension of SQLite is entered by.
type Entry =
    unsafe extern "C" fn(*mut ffi::sqlite3, *mut *mut c_char, *const ffi::sqlite3_api_routines) -> c_int;

/// Makes `vec0` known to this connection, and to no other: databases of workflows do not have it.
///
/// # Errors
/// When sqlite-vec does not go with the SQLite of this program.
#[expect(unsafe_code, reason = "extensions of SQLite are entered through its interface in C")]
pub fn join_sqlite_vec(connection: &Connection) -> rusqlite::Result<()> {
    // SAFETY: the crate links the entry of sqlite-vec and declares it without its parameters; this is the type that its C source gives it.
    // It is built into the program, so it takes no table of routines. It is called with the handle of an open connection, which outlives the
    // call and is used by no other thread meanwhile, and with no place for a message.
    let code = unsafe {
        let entry: Entry = std::mem::transmute::<*const (), Entry>(sqlite_vec::sqlite3_vec_init as *const ());
        entry(connection.handle(), ptr::null_mut(), ptr::null())
    };
    match code {
        ffi::SQLITE_OK => Ok(()),
        code => Err(rusqlite::Error::SqliteFailure(
            ffi::Error::new(code),
            Some("sqlite-vec cannot be joined".to_owned()),
        )),
    }
}
