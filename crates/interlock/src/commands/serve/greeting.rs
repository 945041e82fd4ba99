//! What a server prints when it starts.

use std::io::IsTerminal as _;

use console::SignInLinks;

use super::Opened;
use super::keys::Created;
use crate::client::own_key;
use crate::failure::Failure;
use crate::output;

/// Which program prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Greeting {
    /// `interlock serve`: everything that is needed to use the server.
    Server,
    /// `interlock demo`: the address. The demo prints its own sign-in link when there is something to decide.
    Demo,
}

impl Greeting {
    /// Shows a key that was created just now, once.
    pub(super) fn show_key(self, created: &Created) -> Result<(), Failure> {
        match self {
            Self::Server => output::text(&format!(
                "Created an API key. It is shown once, and kept in {} for this machine:\n\n  {}\n",
                created.path.display(),
                created.key
            )),
            Self::Demo => Ok(()),
        }
    }

    /// Shows where the server can be reached.
    pub(super) fn show_address(self, opened: &Opened) -> Result<(), Failure> {
        let Opened { settings, runs, address, .. } = opened;
        let mut lines = format!(
            "Serving http://{address} from {}\nAgents speak MCP to {}/mcp",
            settings.data_dir.value.display(),
            runs.public_url()
        );
        if let (Self::Server, Some(link)) = (self, link_for_terminal(opened)?) {
            let minutes = SignInLinks::LIFETIME_MINUTES;
            lines += &format!("\nSign in: {link} (works once, within {minutes} minutes)");
        }
        // One text: a reader that takes the first line and leaves does not end the server.
        output::text(&lines)
    }
}

/// A sign-in link for the person at the terminal of this machine. A link is a credential, so it is not written to a file or a log,
/// and a console that is reached through another address is signed in to there.
fn link_for_terminal(opened: &Opened) -> Result<Option<String>, Failure> {
    let is_reached_here = opened.address.ip().is_loopback() && opened.runs.public_url() == opened.url;
    if !is_reached_here || !std::io::stdout().is_terminal() {
        return Ok(None);
    }
    match own_key(&opened.settings) {
        Ok(key) if opened.runs.authenticate(&key).is_ok() => opened.sign_in_link(&key, "/").map(Some),
        // Only keys of others, or one that was revoked: people sign in with what they have.
        Ok(_) | Err(_) => Ok(None),
    }
}
