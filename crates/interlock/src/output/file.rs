//! Files for people: whole or absent, and readable by their owner only.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use canon::error::Envelope;

use crate::failure::{CommandErrorCode, Failure};

/// Whether a file that is there may be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overwrite {
    /// Never.
    Refuse {
        /// What to do instead.
        advice: &'static str,
    },
    /// It may.
    Replace,
}

/// Writes a file beside its place, syncs it, and puts it there by one rename.
pub(crate) fn write_file(path: &Path, content: &[u8], overwrite: Overwrite) -> Result<(), Failure> {
    if let Overwrite::Refuse { advice } = overwrite
        && fs::symlink_metadata(path).is_ok()
    {
        return Err(exists(path, advice));
    }
    let failed = |cause: io::Error| Failure::unwritable(Some(path), cause);
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Made for its owner only, whatever the umask says.
    let mut file = tempfile::Builder::new().prefix(".interlock-").tempfile_in(folder).map_err(failed)?;
    file.write_all(content).and_then(|()| file.as_file().sync_all()).map_err(failed)?;
    match overwrite {
        Overwrite::Replace => file.persist(path).map(drop).map_err(|error| failed(error.error))?,
        // Somebody may have made the file in between, and it is not ours to replace.
        Overwrite::Refuse { advice } => match file.persist_noclobber(path) {
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(exists(path, advice));
            }
            persisted => persisted.map(drop).map_err(|error| failed(error.error))?,
        },
    }
    // Not every file system can sync a folder; the file itself is safe.
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
    Ok(())
}

fn exists(path: &Path, advice: &str) -> Failure {
    Envelope::new(CommandErrorCode::OutputExists, format!("{} is there already.", path.display()))
        .suggest(format!("{advice} Nothing was written."))
        .detail("file", path.display().to_string())
        .into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_file_is_replaced_only_when_that_was_asked_for() {
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
