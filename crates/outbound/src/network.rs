//! Address ranges in CIDR notation.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use crate::address::is_public;

/// A range of addresses: `10.0.0.0/8`, `fd00::/8`, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

/// Why a text is not a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    #[error("an address range must look like `10.0.0.0/8` or `fd00::/8`")]
    Malformed,
    #[error("the address has bits set after the prefix; use `{0}`")]
    HostBits(Network),
}

impl Network {
    /// Whether the range has this non-public address. Public addresses need no range, and a range never changes the rules for them.
    pub(crate) fn has_private(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        !is_public(address) && self.contains(address)
    }

    fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(ours), IpAddr::V4(other)) => {
                bits(u32::from(ours).into(), self.prefix, 32)
                    == bits(u32::from(other).into(), self.prefix, 32)
            }
            (IpAddr::V6(ours), IpAddr::V6(other)) => {
                bits(ours.into(), self.prefix, 128) == bits(other.into(), self.prefix, 128)
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }

    /// The same range with the address that it begins with.
    fn first(self) -> Self {
        let address = match self.address {
            IpAddr::V4(address) => {
                let first =
                    u32::from(address) & u32::MAX.checked_shl(32 - u32::from(self.prefix)).unwrap_or(0);
                IpAddr::V4(first.into())
            }
            IpAddr::V6(address) => {
                let first =
                    u128::from(address) & u128::MAX.checked_shl(128 - u32::from(self.prefix)).unwrap_or(0);
                IpAddr::V6(first.into())
            }
        };
        Self { address, ..self }
    }
}

/// The first bits of an address of this width.
fn bits(address: u128, prefix: u8, width: u8) -> u128 {
    address.checked_shr(u32::from(width.saturating_sub(prefix))).unwrap_or(0)
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| NetworkError::Malformed)?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().map_err(|_| NetworkError::Malformed)?
            }
            Some(_) => return Err(NetworkError::Malformed),
            None => width,
        };
        if prefix > width {
            return Err(NetworkError::Malformed);
        }
        let network = Self { address, prefix };
        if network == network.first() { Ok(network) } else { Err(NetworkError::HostBits(network.first())) }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.address, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_parsed_and_compared_by_their_prefix() {
        let cases = [
            ("10.0.0.0/8", "10.255.1.2", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.0.0.0/8", "::ffff:10.1.2.3", true),
            ("10.0.0.0/8", "::1", false),
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1/32", "127.0.0.2", false),
            ("fd00::/8", "fd12::1", true),
            ("fd00::/8", "fe80::1", false),
            ("0.0.0.0/0", "192.168.1.1", true),
            ("::/0", "fd00::1", true),
            // Public addresses are not private, whatever the range says.
            ("0.0.0.0/0", "8.8.8.8", false),
            ("8.8.8.0/24", "8.8.8.8", false),
        ];
        for (range, address, expected) in cases {
            let range: Network = range.parse().unwrap();
            assert_eq!(range.has_private(address.parse().unwrap()), expected, "{range} {address}");
            assert_eq!(range.to_string().parse(), Ok(range));
        }
    }

    #[test]
    fn texts_that_are_not_ranges_are_rejected() {
        for text in [
            "",
            "10",
            "10.0.0.0/33",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "10.0.0.0/-1",
            "::/129",
            "localhost",
            "10.0.0.0/8/8",
        ] {
            assert_eq!(text.parse::<Network>(), Err(NetworkError::Malformed), "{text}");
        }
        let error = "10.1.2.3/8".parse::<Network>().unwrap_err();
        assert_eq!(error.to_string(), "the address has bits set after the prefix; use `10.0.0.0/8`");
    }
}
