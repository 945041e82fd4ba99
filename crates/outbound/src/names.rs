//! Where the addresses of a name come from.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;

/// The addresses that a name has.
pub type Found<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'a>>;

/// Resolves names. A port, so that tests can play a name server that a stranger controls.
pub trait Names: Send + Sync {
    /// All addresses of a name, with the port.
    fn look_up<'a>(&'a self, name: &'a str, port: u16) -> Found<'a>;
}

/// The resolver of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemNames;

impl Names for SystemNames {
    fn look_up<'a>(&'a self, name: &'a str, port: u16) -> Found<'a> {
        Box::pin(async move { Ok(tokio::net::lookup_host((name, port)).await?.collect()) })
    }
}
