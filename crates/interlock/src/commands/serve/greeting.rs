//! The messages that a server prints at start.

use std::io::IsTerminal as _;

use console::SignInLinks;

use super::Opened;
use super::keys::Created;
use crate::client::own_key;
use crate::failure::Failure;
use crate::output;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Greeting {
    /// `interlock serve`: everything needed to use the server.
    Server,
    /// `interlock demo`: the address only. The demo prints a sign-in link when an approval is
    /// pending.
    Demo,
}

impl Greeting {
    /// Shows a newly created key, once.
    pub(super) fn show_key(self, created: &Created) -> Result<(), Failure> {
        match self {
            Self::Server => output::text(&format!(
                "Created an API key. It is shown once, and stored in {} for local commands:\n\n  {}\n",
                created.path.display(),
                created.key
            )),
            Self::Demo => Ok(()),
        }
    }

    /// Shows the server's addresses.
    pub(super) async fn show_address(self, opened: &Opened) -> Result<(), Failure> {
        let Opened { settings, runs, address, .. } = opened;
        let mut lines = format!(
            "Serving http://{address} from {}\nMCP for agents: {}/mcp",
            settings.data_dir.value.display(),
            runs.public_url()
        );
        if let (Self::Server, Some(link)) = (self, link_for_terminal(opened).await?) {
            let minutes = SignInLinks::LIFETIME_MINUTES;
            lines += &format!("\nSign in: {link} (single use, valid for {minutes} minutes)");
        }
        // Written at once, so that a reader that closes the pipe after the first line does not stop
        // the server.
        output::text(&lines)
    }
}

/// A sign-in link for the person at the local terminal. A link is a credential, so it is not
/// written to files or logs, and not issued for a console that is reached through another address.
async fn link_for_terminal(opened: &Opened) -> Result<Option<String>, Failure> {
    let is_reached_here = opened.address.ip().is_loopback() && opened.runs.public_url() == opened.url;
    if !is_reached_here || !std::io::stdout().is_terminal() {
        return Ok(None);
    }
    match own_key(&opened.settings) {
        Ok(key) if opened.runs.keys().authenticate(&key).await.is_ok() => {
            opened.sign_in_link(&key, "/").map(Some)
        }
        // Only keys of other tenants exist, or the local key was revoked: users sign in with their
        // own keys.
        Ok(_) | Err(_) => Ok(None),
    }
}
