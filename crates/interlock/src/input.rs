//! Reads a named file or standard input.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::path::Path;

use canon::json::Limits;
use serde_json::Value;

use crate::failure::Failure;

/// The file; `-` is standard input.
pub(crate) fn source(path: &Path) -> Option<&Path> {
    Some(path).filter(|path| *path != Path::new("-"))
}

pub(crate) fn name(source: Option<&Path>) -> String {
    source.map_or_else(|| "standard input".to_owned(), |path| path.display().to_string())
}

/// Reads at most one byte more than `limit`, so that an endless stream is rejected instead of
/// stored. `what` is named in the prompt on a terminal.
pub(crate) fn read(source: Option<&Path>, what: &str, limit: usize) -> Result<Vec<u8>, Failure> {
    let limit = limit as u64 + 1;
    let read = || -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        match source {
            Some(path) => {
                let file = File::open(path)?;
                bytes.reserve(usize::try_from(file.metadata()?.len().min(limit)).unwrap_or_default());
                file.take(limit).read_to_end(&mut bytes)?;
            }
            None => {
                let stdin = io::stdin().lock();
                if stdin.is_terminal() {
                    let _ = writeln!(
                        io::stderr(),
                        "Reading {what} from standard input. Press Ctrl-D to finish or Ctrl-C to cancel."
                    );
                }
                stdin.take(limit).read_to_end(&mut bytes)?;
            }
        }
        Ok(bytes)
    };
    read().map_err(|cause| Failure::unreadable(source, cause))
}

pub(crate) fn json(source: Option<&Path>) -> Result<Value, Failure> {
    let bytes = read(source, "JSON", Limits::DEFAULT.max_bytes)?;
    canon::json::read(&bytes, &Limits::DEFAULT).map_err(|cause| Failure::not_json(source, cause))
}
