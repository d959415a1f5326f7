//! The `allow` list of a manifest: hosts outside the public internet that a skill may reach.
//!
//! An entry is a host name or an address, optionally with a port (`127.0.0.1:9001`, `[::1]:9001`,
//! `internal.example.com:8443`). Without a port, it covers the ports 80 and 443. A network (`10.1.0.0/16`) covers
//! all ports.

use std::net::IpAddr;

use url::{Host, Url};

/// The maximum number of entries.
const MAX_ENTRIES: usize = 64;

/// The ports covered by an entry without a port.
const DEFAULT_PORTS: [u16; 2] = [80, 443];

/// A network: the addresses whose first `prefix` bits match `address`. For a single address, `prefix` covers all
/// bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Net {
    address: IpAddr,
    prefix: u8,
}

/// A parsed `allow` list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Allowed(Vec<Entry>);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Entry {
    host: HostPattern,
    ports: Ports,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum HostPattern {
    /// A host name in lower case, serialized as in the URL standard.
    Name(String),
    Net(Net),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Ports {
    All,
    Default,
    One(u16),
}

impl Net {
    /// Returns whether the network contains the address.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        let differ = match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => u128::from(own.to_bits() ^ other.to_bits()) << 96,
            (IpAddr::V6(own), IpAddr::V6(other)) => own.to_bits() ^ other.to_bits(),
            _ => return false,
        };
        differ.leading_zeros() >= u32::from(self.prefix)
    }

    /// Returns whether the network consists of exactly this address.
    pub(crate) fn is_exactly(&self, address: IpAddr) -> bool {
        self.address == address && self.prefix == bits(address)
    }
}

impl Allowed {
    /// Parses a list of entries.
    ///
    /// # Errors
    /// An entry is invalid. The message names it and the valid forms.
    pub fn parse(entries: &[String]) -> Result<Self, String> {
        if entries.len() > MAX_ENTRIES {
            return Err(format!("must have at most {MAX_ENTRIES} entries"));
        }
        let entries = entries.iter().map(|text| {
            entry(text).ok_or_else(|| {
                format!("'{text}' is not host:port, address:port, host, address, or a network such as 10.1.0.0/16")
            })
        });
        entries.collect::<Result<_, _>>().map(Self)
    }

    /// Returns whether the list contains the host of a URL as it is written there, before any lookup.
    pub fn has_host(&self, url: &Url) -> bool {
        let port = url.port_or_known_default().unwrap_or_default();
        let has_address = |address: IpAddr| self.nets(port).iter().any(|net| net.contains(address.to_canonical()));
        match url.host() {
            Some(Host::Domain(name)) => self.has_name(name.trim_end_matches('.'), port),
            Some(Host::Ipv4(address)) => has_address(address.into()),
            Some(Host::Ipv6(address)) => has_address(address.into()),
            None => false,
        }
    }

    /// Returns whether the list contains this host name with this port.
    pub(crate) fn has_name(&self, name: &str, port: u16) -> bool {
        self.0.iter().any(|it| it.ports.has(port) && matches!(&it.host, HostPattern::Name(own) if own == name))
    }

    /// Returns the networks that cover this port, sorted and unique.
    pub(crate) fn nets(&self, port: u16) -> Vec<Net> {
        let nets = self.0.iter().filter(|it| it.ports.has(port)).filter_map(|it| match it.host {
            HostPattern::Net(net) => Some(net),
            HostPattern::Name(_) => None,
        });
        let mut nets: Vec<_> = nets.collect();
        nets.sort_unstable();
        nets.dedup();
        nets
    }
}

impl Ports {
    fn has(self, port: u16) -> bool {
        match self {
            Self::All => true,
            Self::Default => DEFAULT_PORTS.contains(&port),
            Self::One(own) => own == port,
        }
    }
}

fn entry(text: &str) -> Option<Entry> {
    if let Some((address, prefix)) = text.split_once('/') {
        let address = address.parse::<IpAddr>().ok()?;
        let plain = !prefix.is_empty() && prefix.bytes().all(|it| it.is_ascii_digit());
        let prefix = prefix.parse().ok().filter(|it| plain && *it <= bits(address))?;
        return Some(Entry { host: HostPattern::Net(Net { address, prefix }), ports: Ports::All });
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(Entry { host: HostPattern::Net(Net { address, prefix: bits(address) }), ports: Ports::Default });
    }
    let (host, ports) = match text.rsplit_once(':') {
        Some((host, port)) => (host, Ports::One(port.parse().ok().filter(|it| *it != 0)?)),
        None => (text, Ports::Default),
    };
    let host = match Host::parse(host).ok()? {
        Host::Domain(name) if name.contains('*') => return None,
        Host::Domain(name) => HostPattern::Name(name.trim_end_matches('.').to_owned()),
        Host::Ipv4(address) => HostPattern::Net(Net { address: address.into(), prefix: 32 }),
        Host::Ipv6(address) => HostPattern::Net(Net { address: address.into(), prefix: 128 }),
    };
    Some(Entry { host, ports })
}

fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[&str]) -> Result<Allowed, String> {
        Allowed::parse(&entries.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_host_is_allowed_with_its_port_alone() {
        let allowed = list(&["Internal.Example.com:8443", "plain.example."]).unwrap();
        assert!(allowed.has_name("internal.example.com", 8443));
        assert!(!allowed.has_name("internal.example.com", 443));
        assert!(!allowed.has_name("a.internal.example.com", 8443));
        assert!(allowed.has_name("plain.example", 80) && allowed.has_name("plain.example", 443));
        assert!(!allowed.has_name("plain.example", 8080));
    }

    #[test]
    fn networks_have_their_addresses() {
        let allowed = list(&["10.1.0.0/16", "[::1]:9001", "127.0.0.1:9001", "fd00::/8", "192.168.0.7"]).unwrap();
        let has = |address: &str, port| {
            let address = address.parse().unwrap();
            allowed.nets(port).iter().any(|net| net.contains(address))
        };
        assert!(has("10.1.255.255", 1) && !has("10.2.0.0", 1));
        assert!(has("127.0.0.1", 9001) && !has("127.0.0.1", 9002) && !has("127.0.0.2", 9001));
        assert!(has("::1", 9001) && !has("::1", 80) && has("fdff::1", 5));
        assert!(has("192.168.0.7", 443) && !has("192.168.0.7", 8080));
        assert_eq!(list(&["0.0.0.0/0", "0.0.0.0/0"]).unwrap().nets(1).len(), 1);
        let has_host = |url: &str| allowed.has_host(&Url::parse(url).unwrap());
        assert!(
            has_host("http://10.1.2.3:5/") && has_host("http://[::ffff:10.1.2.3]/") && has_host("http://[::1]:9001/")
        );
        assert!(!has_host("http://10.2.0.1/") && !has_host("http://localhost:9001/"));
    }

    #[test]
    fn what_names_nobody_is_refused() {
        for bad in [
            "",
            ":80",
            "a:0",
            "a:99999",
            "a:b",
            "10.0.0.0/33",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "::/129",
            "*.example.com",
            "http://a",
            "a b",
            "host/8",
            "a:80:90",
            "[::1",
            "10.0.0.0/8:80",
        ] {
            assert!(list(&[bad]).is_err(), "{bad}");
        }
    }
}
