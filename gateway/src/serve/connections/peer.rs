//! Who is at the other end of a connection.

use std::net::{IpAddr, Ipv6Addr};

/// Who connects: an IPv4 address, or the /64 network of an IPv6 address, which one host can have as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Peer(IpAddr);

impl Peer {
    pub(crate) fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(address) if !address.is_loopback() => {
                Self(IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64))))
            }
            address => Self(address),
        }
    }

    /// Whether it is this machine, with all its users.
    pub(crate) fn is_loopback(self) -> bool {
        self.0.is_loopback()
    }
}

impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
