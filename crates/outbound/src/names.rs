//! Name resolution.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;

pub type Lookup<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'a>>;

/// Resolves names. A port, so that tests can play a hostile name server.
pub trait Names: Send + Sync {
    /// All addresses of a name, with the port.
    fn look_up<'a>(&'a self, name: &'a str, port: u16) -> Lookup<'a>;
}

#[derive(Clone, Copy, Debug, Default)]
pub struct SystemNames;

impl Names for SystemNames {
    fn look_up<'a>(&'a self, name: &'a str, port: u16) -> Lookup<'a> {
        Box::pin(async move { Ok(tokio::net::lookup_host((name, port)).await?.collect()) })
    }
}
