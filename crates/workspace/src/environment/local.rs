//! Secrets of one machine: from environment variables or files.
//!
//! `env:NAME` is a variable of this process, `file:PATH` the content of a file without its last
//! line break. The kind of the credential is not used.

use std::fs::File;
use std::io::{ErrorKind, Read};

use zeroize::Zeroizing;

use super::secret::{Reason, SecretSource};
use super::variables::MAX_VALUE;
use crate::manifest::CredentialKind;

#[derive(Clone, Copy, Debug, Default)]
pub struct LocalSecrets;

impl SecretSource for LocalSecrets {
    fn fetch(&self, _kind: CredentialKind, source_ref: &str) -> Result<Zeroizing<String>, Reason> {
        match source_ref.split_once(':') {
            Some(("env", name)) if is_variable(name) => match std::env::var(name) {
                Ok(value) => Ok(Zeroizing::new(value)),
                Err(std::env::VarError::NotPresent) => Err(Reason::NotFound),
                Err(std::env::VarError::NotUnicode(_)) => Err(Reason::Upstream),
            },
            Some(("file", path)) if !path.is_empty() && !path.contains('\0') => read(path),
            _ => Err(Reason::BadSourceRef),
        }
    }
}

/// Whether `std::env::var` accepts the name without a panic.
fn is_variable(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

fn read(path: &str) -> Result<Zeroizing<String>, Reason> {
    let reason = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => Reason::NotFound,
        ErrorKind::PermissionDenied => Reason::Denied,
        _ => Reason::Upstream,
    };
    // Checked before opening: opening a pipe would wait for its writer.
    if !std::fs::metadata(path).map_err(reason)?.is_file() {
        return Err(Reason::BadSourceRef);
    }
    let file = File::open(path).map_err(reason)?;
    // Allocated in full, so that growing leaves no copies. One byte over the limit of a variable
    // plus a line break detects a file that is too large.
    let most = MAX_VALUE + 3;
    let mut bytes = Zeroizing::new(Vec::with_capacity(most));
    file.take(most as u64).read_to_end(&mut bytes).map_err(reason)?;
    let text = std::str::from_utf8(&bytes).map_err(|_| Reason::Upstream)?;
    let text = text.strip_suffix('\n').unwrap_or(text);
    Ok(Zeroizing::new(text.strip_suffix('\r').unwrap_or(text).to_owned()))
}
