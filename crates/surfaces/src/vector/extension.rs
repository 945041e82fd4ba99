//! Loads sqlite-vec into a connection.

use std::ffi::{c_char, c_int};
use std::ptr;

use rusqlite::{Connection, ffi};

/// The entry point of an SQLite extension.
type Entry =
    unsafe extern "C" fn(*mut ffi::sqlite3, *mut *mut c_char, *const ffi::sqlite3_api_routines) -> c_int;

/// Registers `vec0` for this connection only: workflow databases do not have it.
///
/// # Errors
/// sqlite-vec is not compatible with the linked SQLite.
#[expect(unsafe_code, reason = "the entry point of an SQLite extension is a C function")]
pub fn join_sqlite_vec(connection: &Connection) -> rusqlite::Result<()> {
    // SAFETY: the crate links the entry point of sqlite-vec and declares it without parameters; this is the type in its
    // C source. It is statically linked, so it takes no routine table. It is called with the handle of an open
    // connection, which outlives the call and is not used by another thread meanwhile, and with a null error message
    // pointer.
    let code = unsafe {
        let entry: Entry = std::mem::transmute::<*const (), Entry>(sqlite_vec::sqlite3_vec_init as *const ());
        entry(connection.handle(), ptr::null_mut(), ptr::null())
    };
    match code {
        ffi::SQLITE_OK => Ok(()),
        code => Err(rusqlite::Error::SqliteFailure(
            ffi::Error::new(code),
            Some("cannot load sqlite-vec".to_owned()),
        )),
    }
}
