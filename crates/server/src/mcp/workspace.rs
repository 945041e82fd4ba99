//! The client's workspace, for calls that do not name one.
//!
//! It is used only over standard input and output, where the client started this program on the same machine:
//! the first of its roots, or else the directory that the program was started in.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::service::Peer;
use tokio::sync::OnceCell;

/// How long to wait for a client's roots.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// The folder, once it is known.
#[derive(Debug, Default)]
pub(super) struct DefaultWorkspace {
    folder: Mutex<Option<PathBuf>>,
    /// Set once the client answered the request for its roots, or the time limit was reached.
    asked: OnceCell<()>,
}

impl DefaultWorkspace {
    pub(super) fn of(folder: Option<PathBuf>) -> Self {
        Self { folder: Mutex::new(folder), asked: OnceCell::new() }
    }

    pub(super) fn get(&self) -> Option<PathBuf> {
        self.folder.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until the folder is known. The first caller requests the roots of a client that has them: clients send
    /// their first calls right after `initialized`, and those must not use another folder than the later ones. Without a
    /// default, as over HTTP, nothing is requested.
    pub(super) async fn known(&self, peer: &Peer<RoleServer>) {
        self.asked.get_or_init(|| self.ask(peer)).await;
    }

    #[expect(
        deprecated,
        reason = "clients of the editions before the newest still name their folder this way"
    )]
    async fn ask(&self, peer: &Peer<RoleServer>) {
        let has_roots = peer.peer_info().is_some_and(|info| info.capabilities.roots.is_some());
        if self.get().is_none() || !has_roots {
            return;
        }
        let Ok(Ok(roots)) = tokio::time::timeout(ANSWER_TIMEOUT, peer.list_roots()).await else { return };
        if let Some(folder) = roots.roots.iter().find_map(|root| folder_of(&root.uri)) {
            *self.folder.lock().unwrap_or_else(PoisonError::into_inner) = Some(folder);
        }
    }
}

/// The folder of a `file:` URI, if it is on this machine.
fn folder_of(uri: &str) -> Option<PathBuf> {
    let path = uri.strip_prefix("file://")?;
    let path = path.strip_prefix("localhost").unwrap_or(path);
    let path = PathBuf::from(decoded(path)?);
    (path.is_absolute() && path.is_dir()).then_some(path)
}

/// Decodes percent-encoding; `None` if the result is not UTF-8.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        match (first, behind) {
            (b'%', [high, low, more @ ..]) => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16);
                let value = digit(high)? * 16 + digit(low)?;
                bytes.push(u8::try_from(value).ok()?);
                rest = more;
            }
            (b'%', _) => return None,
            (byte, more) => {
                bytes.push(*byte);
                rest = more;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn uris_of_folders() {
        let folder = tempfile::tempdir().unwrap();
        let spaced = folder.path().join("my work");
        std::fs::create_dir(&spaced).unwrap();
        let address = |path: &Path| format!("file://{}", path.display()).replace(' ', "%20");
        for (name, uri, expected) in [
            ("a folder", address(&spaced), Some(spaced.clone())),
            ("with a host", address(&spaced).replace("file://", "file://localhost"), Some(spaced.clone())),
            ("not there", address(&folder.path().join("gone")), None),
            ("another scheme", "https://example.com/".to_owned(), None),
            ("another host", "file://server/share".to_owned(), None),
            ("half an escape", "file:///tmp/%2".to_owned(), None),
            ("not UTF-8", "file:///tmp/%ff".to_owned(), None),
        ] {
            assert_eq!(folder_of(&uri), expected, "{name}");
        }
    }
}
