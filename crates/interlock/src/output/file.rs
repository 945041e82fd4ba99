//! Writes output files atomically, readable only by their owner.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use canon::error::Envelope;

use crate::failure::{CommandErrorCode, Failure};

/// Whether an existing file may be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overwrite {
    Refuse {
        /// What to do instead.
        advice: &'static str,
    },
    Replace,
}

/// Writes a temporary file, syncs it, and renames it to its final name.
pub(crate) fn write_file(path: &Path, content: &[u8], overwrite: Overwrite) -> Result<(), Failure> {
    if let Overwrite::Refuse { advice } = overwrite
        && fs::symlink_metadata(path).is_ok()
    {
        return Err(exists(path, advice));
    }
    let failed = |cause: io::Error| Failure::unwritable(Some(path), cause);
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Owner-only, regardless of the umask.
    let mut file = tempfile::Builder::new().prefix(".interlock-").tempfile_in(folder).map_err(failed)?;
    file.write_all(content).and_then(|()| file.as_file().sync_all()).map_err(failed)?;
    match overwrite {
        Overwrite::Replace => file.persist(path).map(drop).map_err(|error| failed(error.error))?,
        // The file may have been created meanwhile; do not replace it.
        Overwrite::Refuse { advice } => match file.persist_noclobber(path) {
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(exists(path, advice));
            }
            persisted => persisted.map(drop).map_err(|error| failed(error.error))?,
        },
    }
    // Not every file system can sync a folder; the file itself is synced.
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
    Ok(())
}

fn exists(path: &Path, advice: &str) -> Failure {
    Envelope::new(CommandErrorCode::OutputExists, format!("{} already exists.", path.display()))
        .suggest(format!("{advice} Nothing was written."))
        .detail("file", path.display().to_string())
        .into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn an_existing_file_is_replaced_only_with_force() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.json");
        let refuse = Overwrite::Refuse { advice: "Choose another." };
        write_file(&path, b"one", refuse).unwrap();
        assert!(matches!(write_file(&path, b"two", refuse), Err(Failure::Refused(_))));
        assert_eq!(fs::read(&path).unwrap(), b"one");
        write_file(&path, b"three", Overwrite::Replace).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"three");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
    }
}
