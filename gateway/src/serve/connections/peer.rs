//! The peer of a connection.

use std::net::{IpAddr, Ipv6Addr};

/// The remote address: an IPv4 address, or the /64 network of an IPv6 address, because one host may own the whole
/// /64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Peer(IpAddr);

impl Peer {
    pub(crate) fn from_address(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(address) if !address.is_loopback() => {
                Self(IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64))))
            }
            address => Self(address),
        }
    }

    /// Whether the peer is this machine. All local users look alike.
    pub(crate) fn is_loopback(self) -> bool {
        self.0.is_loopback()
    }
}

impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
