//! Connection limits.
//!
//! A connection uses a file descriptor and memory until its client closes it. So there is a limit for all connections and a smaller
//! one for each address: one client cannot exhaust the connections of the others. Connections over a limit are not queued. They get
//! one of a few reserved slots, where health checks are answered and everything else gets a 503 immediately.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::AbortHandle;

use super::state::Settings;

/// The minimum time between two log lines about refused connections.
const REPORT_EVERY: Duration = Duration::from_secs(10);

/// The network by which connections are counted: an IPv4 address, or the /64 prefix of an IPv6 address, which usually belongs to one
/// customer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Network {
    V4([u8; 4]),
    V6([u16; 4]),
}

impl Network {
    pub(super) fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address.octets()),
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                Self::V6([a, b, c, d])
            }
        }
    }
}

/// Whether an address belongs to this machine.
fn is_local(address: IpAddr) -> bool {
    let address = address.to_canonical();
    address.is_loopback() || address == IpAddr::V6(Ipv6Addr::LOCALHOST)
}

#[derive(Clone, Debug)]
pub(super) struct Connections {
    most: usize,
    per_address: usize,
    per_local_address: usize,
    open: Arc<Mutex<Open>>,
}

#[derive(Debug, Default)]
struct Open {
    all: usize,
    by_network: HashMap<Network, usize>,
}

/// A slot for a connection. Dropping it frees the slot.
#[derive(Debug)]
pub(super) struct Slot {
    network: Network,
    open: Arc<Mutex<Open>>,
}

/// Why a connection got no slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// The host is at its connection limit.
    Host { limit: usize },
    /// The address is at its connection limit.
    Address { limit: usize },
}

impl Connections {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            most: settings.max_connections,
            per_address: settings.connections_per_address.max(1),
            per_local_address: settings.connections_per_local_address.max(1),
            open: Arc::default(),
        }
    }

    /// Takes a slot for a connection from an address.
    pub(super) fn admit(&self, address: IpAddr) -> Result<Slot, Full> {
        let limit = if is_local(address) { self.per_local_address } else { self.per_address };
        let network = Network::of(address);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.by_network.get(&network).is_some_and(|held| *held >= limit) {
            return Err(Full::Address { limit });
        }
        if open.all >= self.most {
            return Err(Full::Host { limit: self.most });
        }
        open.all += 1;
        *open.by_network.entry(network).or_default() += 1;
        Ok(Slot { network, open: Arc::clone(&self.open) })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.all = open.all.saturating_sub(1);
        if let Some(held) = open.by_network.get_mut(&self.network) {
            *held -= 1;
            if *held == 0 {
                open.by_network.remove(&self.network);
            }
        }
    }
}

/// The slots for connections over a limit. When all are in use, the oldest connection of the address with the most connections is
/// closed: a health check needs its slot only briefly, and an idle client must not keep one.
#[derive(Debug)]
pub(super) struct Reserve {
    most: usize,
    held: Vec<(Network, AbortHandle)>,
}

impl Reserve {
    pub(super) const fn new(most: usize) -> Self {
        Self { most, held: Vec::new() }
    }

    /// Frees a slot for one more connection.
    pub(super) fn make_room(&mut self) {
        self.held.retain(|(_, task)| !task.is_finished());
        while self.held.len() >= self.most.max(1) {
            let mut counts: HashMap<Network, usize> = HashMap::new();
            for (network, _) in &self.held {
                *counts.entry(*network).or_default() += 1;
            }
            let greatest = counts.values().max().copied().unwrap_or_default();
            let oldest = self.held.iter().position(|(network, _)| counts.get(network) == Some(&greatest));
            let (_, task) = self.held.remove(oldest.unwrap_or_default());
            task.abort();
        }
    }

    /// Adds a connection. A slot must be free.
    pub(super) fn keep(&mut self, address: IpAddr, task: AbortHandle) {
        self.held.push((Network::of(address), task));
    }
}

/// Logs refused connections, many of them in one line.
#[derive(Debug, Default)]
pub(super) struct Report {
    last: Option<Instant>,
    refused: u64,
}

impl Report {
    pub(super) fn refused(&mut self, address: IpAddr, full: Full, now: Instant) {
        self.refused += 1;
        if self.last.is_some_and(|last| now.duration_since(last) < REPORT_EVERY) {
            return;
        }
        self.last = Some(now);
        let refused = std::mem::take(&mut self.refused);
        match full {
            Full::Host { limit } => tracing::warn!(
                refused, limit, peer = %address,
                "connections were rejected: the host is at its limit; raise the limit of open files of the \
                 process"
            ),
            Full::Address { limit } => tracing::warn!(
                refused, limit, peer = %address,
                "connections were rejected: one address is at its limit; behind a proxy, raise \
                 `server.connections_per_address`"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connections(most: usize, per_address: usize, per_local_address: usize) -> Connections {
        Connections::new(&Settings {
            max_connections: most,
            connections_per_address: per_address,
            connections_per_local_address: per_local_address,
            ..Settings::default()
        })
    }

    #[test]
    fn addresses_are_counted_by_network() {
        let cases = [
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("192.0.2.1", "::ffff:192.0.2.1", true),
            ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", true),
            ("2001:db8:1:2::1", "2001:db8:1:3::1", false),
        ];
        for (one, other, same) in cases {
            let network = |text: &str| Network::of(text.parse().unwrap());
            assert_eq!(network(one) == network(other), same, "{one} and {other}");
        }
    }

    /// Finding H2: one address cannot hold every connection.
    #[test]
    fn one_address_cannot_use_the_slots_of_others() {
        let connections = connections(4, 2, 3);
        let (remote, other) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        let held: Vec<_> = (0..2).map(|_| connections.admit(remote).unwrap()).collect();
        assert_eq!(connections.admit(remote).unwrap_err(), Full::Address { limit: 2 });
        let more: Vec<_> = (0..2).map(|_| connections.admit(other).unwrap()).collect();
        let third = "192.0.2.3".parse().unwrap();
        assert_eq!(connections.admit(third).unwrap_err(), Full::Host { limit: 4 });
        drop(held);
        let local: IpAddr = "127.0.0.1".parse().unwrap();
        let held: Vec<_> = (0..2).map(|_| connections.admit(local).unwrap()).collect();
        drop(more);
        let third = connections.admit(local).unwrap();
        assert_eq!(connections.admit(local).unwrap_err(), Full::Address { limit: 3 });
        drop((held, third));
        assert!(connections.open.lock().unwrap().by_network.is_empty(), "nothing is kept of those that left");
    }

    #[tokio::test]
    async fn the_address_that_holds_the_most_makes_room() {
        let mut reserve = Reserve::new(3);
        let (flood, checker) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        let waiting = || tokio::spawn(std::future::pending::<()>());
        let tasks = [waiting(), waiting(), waiting()];
        for (address, task) in [checker, flood, flood].into_iter().zip(&tasks) {
            reserve.make_room();
            reserve.keep(address, task.abort_handle());
        }
        reserve.make_room();
        let [first, second, third] = tasks;
        assert!(second.await.unwrap_err().is_cancelled(), "the oldest of the flood is closed");
        assert!(!first.is_finished() && !third.is_finished());
        first.abort();
        third.abort();
    }
}
