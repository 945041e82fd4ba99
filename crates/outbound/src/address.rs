//! Public address ranges.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether an address is public: not this machine, a local network, or a special-purpose range.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// Whether an address is this machine, in any form.
pub fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !(matches!(a, 0 | 10 | 127 | 224..)
        || (a == 100 && (64..128).contains(&b)) // carrier-grade NAT
        || (a == 169 && b == 254) // link-local, including cloud metadata
        || (a == 172 && (16..32).contains(&b))
        || (a == 192 && b == 168)
        || (a == 192 && b == 0 && matches!(c, 0 | 2)) // protocol assignments, documentation
        || (a == 192 && b == 88 && c == 99) // 6to4 relays
        || (a == 198 && (b == 18 || b == 19)) // benchmarking
        || (a == 198 && b == 51 && c == 100)
        || (a == 203 && b == 0 && c == 113))
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, ..] = address.segments();
    // Global unicast addresses start with the bits 001. That excludes loopback, link-local, site-local, private and
    // multicast addresses, and mapped IPv4 addresses.
    if a & 0xe000 != 0x2000 {
        return false;
    }
    !((a == 0x2001 && (b < 0x0200 || b == 0x0db8)) // tunnels, protocol assignments, documentation
        || a == 0x2002 // embedded IPv4
        || a == 0x3ffe
        || (a == 0x3fff && b < 0x1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classifies_addresses() {
        let public =
            ["1.1.1.1", "8.8.8.8", "172.15.0.1", "172.32.0.1", "100.63.0.1", "2606:4700::1111", "2a00::1"];
        let private = [
            "0.0.0.0",
            "10.1.2.3",
            "127.0.0.1",
            "127.255.255.254",
            "100.64.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.9",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:8.8.8.8",
            "64:ff9b::a00:1",
            "100::1",
            "fc00::1",
            "fd12:3456::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
        ];
        for text in public {
            assert!(is_public(text.parse().unwrap()), "{text}");
        }
        for text in private {
            assert!(!is_public(text.parse().unwrap()), "{text}");
        }
        for text in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            assert!(is_loopback(text.parse().unwrap()), "{text}");
        }
    }
}
