//! Calls to addresses that somebody else chose.
//!
//! A caller who names an address could name one that only this machine can reach. So an address is checked twice: its text
//! when it is given, and what its name resolves to when it is called. All addresses of a name have to be public, and the
//! connection is opened to one of those that were checked, by number: nothing resolves the name a second time. Redirects are
//! never followed, and no proxy of the environment is asked.

pub mod address;
mod call;
mod exchange;
pub mod target;

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustls::pki_types::CertificateDer;

pub use self::exchange::Answer;
pub use self::target::{Target, TargetError};

/// How long a call may take, from the look-up of the name to the status of the answer.
pub const TIME_OUT: Duration = Duration::from_secs(5);

/// The addresses that a name has.
pub type Found<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'a>>;

/// Finds the addresses of names.
pub trait Names: Send + Sync {
    /// All addresses of a name, with the port.
    fn look_up<'a>(&'a self, name: &'a str, port: u16) -> Found<'a>;
}

/// The names as the system knows them.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemNames;

impl Names for SystemNames {
    fn look_up<'a>(&'a self, name: &'a str, port: u16) -> Found<'a> {
        Box::pin(async move { Ok(tokio::net::lookup_host((name, port)).await?.collect()) })
    }
}

/// Why a call did not do what it should. Messages are for the log and for dead letters; they hold nothing of the answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The text of the address is not one that may be called.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The name has no address.
    #[error("the name of the address cannot be resolved")]
    Name,
    /// The name has an address that may not be called.
    #[error("the name has an address that is not public")]
    Forbidden,
    /// Nobody answers there.
    #[error("no connection could be made")]
    Connect,
    /// The other side cannot prove who it is.
    #[error("the other side has no certificate that is trusted here")]
    Tls,
    /// What came back is no answer.
    #[error("the answer cannot be understood")]
    Answer,
    /// It took too long.
    #[error("there was no answer in {} seconds", TIME_OUT.as_secs())]
    TimeOut,
    /// An answer that is no success; a redirect is none.
    #[error("the answer has the status {0}")]
    Status(u16),
}

/// Which addresses may be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Public ones, and only with TLS: for addresses that callers choose.
    Public,
    /// Those of this machine too, and those without TLS: for tests.
    Loopback,
    /// All of them: for addresses that the operator wrote down.
    Anywhere,
}

/// How calls are made.
pub struct Outbound {
    reach: Reach,
    names: Arc<dyn Names>,
    /// Who vouches for others; those of the system where nobody is named.
    authorities: Option<Vec<CertificateDer<'static>>>,
    tls: OnceLock<Arc<rustls::ClientConfig>>,
}

impl Default for Outbound {
    fn default() -> Self {
        Self::new(Arc::new(SystemNames), false)
    }
}

impl fmt::Debug for Outbound {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Outbound").field("reach", &self.reach).finish_non_exhaustive()
    }
}

impl Outbound {
    /// Calls with these names. With `loopback` this machine may be called too, and over `http:`; only tests want that.
    pub fn new(names: Arc<dyn Names>, loopback: bool) -> Self {
        let reach = if loopback { Reach::Loopback } else { Reach::Public };
        Self { reach, names, authorities: None, tls: OnceLock::new() }
    }

    /// Calls to wherever the operator says.
    pub fn anywhere() -> Self {
        let names = Arc::new(SystemNames);
        Self { reach: Reach::Anywhere, names, authorities: None, tls: OnceLock::new() }
    }

    /// The same, where these authorities vouch for others and nobody else does: not those of the system either.
    #[must_use]
    pub fn trusting(self, authorities: Vec<CertificateDer<'static>>) -> Self {
        Self { authorities: Some(authorities), tls: OnceLock::new(), ..self }
    }

    /// Checks the text of an address.
    ///
    /// # Errors
    /// When it may not be called.
    pub fn check(&self, url: &str) -> Result<Target, TargetError> {
        Target::parse(url, self.reach)
    }
}
