//! Egress rules: a skill may reach the public internet and the hosts that its manifest allows. Does no I/O.
//!
//! The manifest names hosts, but others control what a name resolves to and where a redirect leads. So the rules
//! apply to the address to which the client connects: [`Reach::check_address`] is called by the client's resolver,
//! and [`Reach::for_url`] for a URL whose host is an address. Nothing is resolved after the check.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

use crate::egress::allow::{Allowed, Net};

/// The kinds of addresses outside the public internet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressKind {
    /// Unspecified: `0.0.0.0/8` and `::`.
    Unspecified,
    /// The local machine: `127.0.0.0/8` and `::1`.
    Loopback,
    /// A private network, such as `10.0.0.0/8` and `fc00::/7`.
    Private,
    /// Carrier-grade NAT: `100.64.0.0/10`.
    Shared,
    /// Link-local: `169.254.0.0/16` and `fe80::/10`.
    LinkLocal,
    /// A cloud's metadata service, which provides credentials.
    Metadata,
    /// Multicast: `224.0.0.0/4` and `ff00::/8`.
    Multicast,
    /// Broadcast: `255.255.255.255`.
    Broadcast,
    /// Reserved for documentation, such as `192.0.2.0/24`.
    Documentation,
    /// Reserved for network benchmarks: `198.18.0.0/15`.
    Benchmarking,
    /// Reserved for any other purpose.
    Reserved,
}

/// Why a connection is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EgressRefusal {
    /// The host is an address that skills may not reach, or resolves to one.
    #[error("'{host}' is {kind}, which a skill may reach only if its manifest allows it (http.allow)")]
    Address {
        /// The host as written in the URL.
        host: String,
        /// The kind of the address.
        kind: AddressKind,
    },
    /// The scheme is neither `http` nor `https`.
    #[error("a skill may use http and https, not '{0}'")]
    Scheme(String),
    /// A redirect from `https` to `http`.
    #[error("the server redirected from https to http, which would send the request unencrypted")]
    Downgrade,
    /// A redirect would send a body to another origin, or repeat a change there.
    #[error("the server redirected the request with its method and body to another origin")]
    OtherOrigin,
}

/// The allowed destinations for one host and port. All skills with an empty allow list share the same value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Reach {
    /// Networks that are allowed in addition to the public internet.
    nets: Vec<Net>,
    /// Whether the allow list names the host.
    by_name: bool,
}

impl Reach {
    /// Returns what is allowed for the host of this URL.
    ///
    /// # Errors
    /// The scheme is neither `http` nor `https`, or the host itself is an address or a name that skills may not
    /// reach.
    pub fn for_url(url: &Url, allowed: &Allowed) -> Result<Self, EgressRefusal> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(EgressRefusal::Scheme(url.scheme().to_owned()));
        }
        let port = url.port_or_known_default().unwrap_or_default();
        let reach = Self { nets: allowed.nets(port), by_name: false };
        let refused = |host: String, kind| Err(EgressRefusal::Address { host, kind });
        match url.host() {
            Some(Host::Domain(name)) => {
                let plain = name.trim_end_matches('.').to_ascii_lowercase();
                let by_name = allowed.has_name(&plain, port);
                if !by_name && is_metadata_name(&plain) {
                    return refused(plain, AddressKind::Metadata);
                }
                Ok(Self { by_name, ..reach })
            }
            Some(Host::Ipv4(address)) => reach.check_address(&address.to_string(), address.into()).map(|()| reach),
            Some(Host::Ipv6(address)) => reach.check_address(&address.to_string(), address.into()).map(|()| reach),
            None => refused(String::new(), AddressKind::Unspecified),
        }
    }

    /// Checks an address to which `host` resolved.
    ///
    /// # Errors
    /// Skills may not connect to the address.
    pub fn check_address(&self, host: &str, address: IpAddr) -> Result<(), EgressRefusal> {
        let Some(kind) = kind(address) else { return Ok(()) };
        let plain = address.to_canonical();
        let allowed = match kind {
            // The metadata service provides credentials, so it must be allowed by its exact address, not by a
            // network.
            AddressKind::Metadata => self.nets.iter().any(|net| net.is_exactly(plain) || net.is_exactly(address)),
            _ if self.nets.iter().any(|net| net.contains(plain) || net.contains(address)) => true,
            AddressKind::Unspecified | AddressKind::Multicast | AddressKind::Broadcast | AddressKind::Reserved => false,
            _ => self.by_name,
        };
        if allowed { Ok(()) } else { Err(EgressRefusal::Address { host: host.to_owned(), kind }) }
    }
}

/// Returns the kind of an address, or `None` if it is on the public internet.
pub fn kind(address: IpAddr) -> Option<AddressKind> {
    match address {
        IpAddr::V4(address) => kind_v4(address),
        IpAddr::V6(address) => kind_v6(address),
    }
}

/// Returns whether this is the name of a cloud's metadata service, whatever it resolves to.
fn is_metadata_name(name: &str) -> bool {
    let names =
        ["metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal"];
    names.contains(&name)
}

/// Metadata services of most clouds, credential services for Amazon's containers and pods, and metadata services
/// of Alibaba, Azure and Oracle.
const METADATA_V4: [[u8; 4]; 6] = [
    [169, 254, 169, 254],
    [169, 254, 170, 2],
    [169, 254, 170, 23],
    [100, 100, 100, 200],
    [168, 63, 129, 16],
    [192, 0, 0, 192],
];

fn kind_v4(address: Ipv4Addr) -> Option<AddressKind> {
    let [a, b, c, _] = address.octets();
    Some(match (a, b, c) {
        _ if METADATA_V4.contains(&address.octets()) => AddressKind::Metadata,
        (0, ..) => AddressKind::Unspecified,
        (127, ..) => AddressKind::Loopback,
        (10, ..) | (172, 16..=31, _) | (192, 168, _) => AddressKind::Private,
        (100, 64..=127, _) => AddressKind::Shared,
        (169, 254, _) => AddressKind::LinkLocal,
        (192, 0, 2) | (198, 51, 100) | (203, 0, 113) => AddressKind::Documentation,
        (198, 18..=19, _) => AddressKind::Benchmarking,
        (224..=239, ..) => AddressKind::Multicast,
        _ if address.is_broadcast() => AddressKind::Broadcast,
        (192, 0, 0) | (192, 88, 99) | (240.., ..) => AddressKind::Reserved,
        _ => return None,
    })
}

fn kind_v6(address: Ipv6Addr) -> Option<AddressKind> {
    let parts = address.segments();
    let v4 = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    Some(match parts {
        [0, 0, 0, 0, 0, 0, 0, 0] => AddressKind::Unspecified,
        [0, 0, 0, 0, 0, 0, 0, 1] => AddressKind::Loopback,
        // IPv4-mapped, NAT64 and 6to4 addresses: the embedded IPv4 address decides.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            return kind_v4(v4(high, low));
        }
        // Teredo: the address contains the server's IPv4 address and the client's with inverted bits.
        [0x2001, 0, server_high, server_low, _, _, high, low] => {
            return kind_v4(v4(server_high, server_low)).or(kind_v4(v4(!high, !low)));
        }
        // Amazon's metadata service, its credential service for pods, and Google's metadata service.
        [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254 | 0x23] | [0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254] => AddressKind::Metadata,
        [0xfc00..=0xfdff, ..] => AddressKind::Private,
        [0xfe80..=0xfebf, ..] => AddressKind::LinkLocal,
        // Site-local addresses, which are deprecated but still in use.
        [0xfec0..=0xfeff, ..] => AddressKind::Private,
        [0xff00..=0xffff, ..] => AddressKind::Multicast,
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => AddressKind::Documentation,
        [0x2001, 2, 0, ..] => AddressKind::Benchmarking,
        // The remaining IETF protocol assignments, except for a few anycast services.
        [0x2001, 0x3..=0x1ff, ..] => AddressKind::Reserved,
        [0x2001, 1, ..] => AddressKind::Reserved,
        // Global unicast, the only allocated range: `2000::/3`.
        [0x2000..=0x3fff, ..] => return None,
        _ => AddressKind::Reserved,
    })
}

impl fmt::Display for AddressKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unspecified => "the unspecified address",
            Self::Loopback => "this machine itself (loopback)",
            Self::Private => "in a private network",
            Self::Shared => "in a provider's shared network",
            Self::LinkLocal => "in the local network (link-local)",
            Self::Metadata => "a cloud metadata service",
            Self::Multicast => "a multicast group",
            Self::Broadcast => "the broadcast address",
            Self::Documentation => "a documentation address",
            Self::Benchmarking => "in a benchmarking network",
            Self::Reserved => "a reserved address",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(address: &str) -> Option<AddressKind> {
        kind(address.parse().unwrap_or_else(|_| panic!("{address}")))
    }

    fn allowed(entries: &[&str]) -> Allowed {
        Allowed::parse(&entries.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>()).unwrap()
    }

    fn go(url: &str, entries: &[&str]) -> Result<Reach, EgressRefusal> {
        Reach::for_url(&Url::parse(url).unwrap(), &allowed(entries))
    }

    #[test]
    fn the_public_internet_is_open() {
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "192.0.1.0",
            "2606:4700:4700::1111",
            "2001:4860:4860::8888",
            "::ffff:8.8.8.8",
            "2002:0808:0808::1",
            "64:ff9b::808:808",
        ] {
            assert_eq!(of(address), None, "{address}");
        }
    }

    #[test]
    fn every_range_outside_the_public_internet_is_recognized() {
        for (kind, addresses) in [
            (AddressKind::Unspecified, &["0.0.0.0", "0.255.255.255", "::"][..]),
            (AddressKind::Loopback, &["127.0.0.0", "127.0.0.1", "127.255.255.255", "::1"]),
            (
                AddressKind::Private,
                &[
                    "10.0.0.0",
                    "10.255.255.255",
                    "172.16.0.0",
                    "172.31.255.255",
                    "192.168.0.0",
                    "192.168.255.255",
                    "fc00::",
                    "fdff:ffff::1",
                    "fec0::1",
                ],
            ),
            (AddressKind::Shared, &["100.64.0.0", "100.127.255.255"]),
            (AddressKind::LinkLocal, &["169.254.0.0", "169.254.255.255", "fe80::1", "febf:ffff::1"]),
            (
                AddressKind::Metadata,
                &[
                    "169.254.169.254",
                    "100.100.100.200",
                    "168.63.129.16",
                    "192.0.0.192",
                    "169.254.170.2",
                    "169.254.170.23",
                    "fd00:ec2::254",
                    "fd00:ec2::23",
                    "fd20:ce::254",
                ],
            ),
            (AddressKind::Multicast, &["224.0.0.0", "239.255.255.255", "ff02::1"]),
            (AddressKind::Broadcast, &["255.255.255.255"]),
            (AddressKind::Documentation, &["192.0.2.1", "198.51.100.255", "203.0.113.0", "2001:db8::1", "3fff:fff::1"]),
            (AddressKind::Benchmarking, &["198.18.0.0", "198.19.255.255", "2001:2::1"]),
            (
                AddressKind::Reserved,
                &[
                    "240.0.0.0",
                    "255.255.255.254",
                    "192.0.0.1",
                    "192.88.99.1",
                    "::2",
                    "::7f00:1",
                    "100::1",
                    "2001:10::1",
                    "64:ff9b:1::a00:1",
                    "4000::1",
                    "2001:1::1",
                ],
            ),
        ] {
            for address in addresses {
                assert_eq!(of(address), Some(kind), "{address}");
            }
        }
    }

    #[test]
    fn an_ipv4_address_in_other_clothes_is_what_it_is() {
        for (address, expected) in [
            ("::ffff:127.0.0.1", AddressKind::Loopback),
            ("::ffff:169.254.169.254", AddressKind::Metadata),
            ("::ffff:10.0.0.1", AddressKind::Private),
            ("2002:7f00:1::", AddressKind::Loopback),
            ("2002:a9fe:a9fe::1", AddressKind::Metadata),
            ("64:ff9b::7f00:1", AddressKind::Loopback),
            ("64:ff9b::a9fe:a9fe", AddressKind::Metadata),
            // Teredo: a public server with the client 10.0.0.1 (inverted bits), and vice versa.
            ("2001:0:808:808::f5ff:fffe", AddressKind::Private),
            ("2001:0:a00:1::f7f7:f7f7", AddressKind::Private),
        ] {
            assert_eq!(of(address), Some(expected), "{address}");
        }
        assert_eq!(of("2001:0:808:808::f7f7:f7f7"), None);
    }

    #[test]
    fn every_spelling_of_an_address_is_recognized() {
        for url in [
            "http://127.0.0.1/",
            "http://0x7f.1/",
            "http://2130706433/",
            "http://017700000001/",
            "http://127.1/",
            "http://127.0.0.1./",
            "http://[::1]/",
            "http://[::ffff:127.0.0.1]/",
            "http://[0:0:0:0:0:ffff:7f00:1]/",
            "http://%31%32%37.0.0.1/",
            "http://１２７.0.0.1/",
        ] {
            let refused = go(url, &[]);
            assert!(
                matches!(refused, Err(EgressRefusal::Address { kind: AddressKind::Loopback, .. })),
                "{url}: {refused:?}"
            );
        }
        for url in ["http://0/", "http://[::]/", "http://0.0.0.0:80/"] {
            assert!(
                matches!(go(url, &[]), Err(EgressRefusal::Address { kind: AddressKind::Unspecified, .. })),
                "{url}"
            );
        }
    }

    #[test]
    fn a_clouds_metadata_is_refused_by_name_and_by_address() {
        for url in [
            "http://metadata.google.internal/computeMetadata/v1/",
            "http://METADATA.google.internal./",
            "http://metadata/",
            "http://169.254.169.254/latest/",
            "http://0xa9fea9fe/",
            "http://[fd00:ec2::254]/",
            "http://100.100.100.200/",
        ] {
            assert!(matches!(go(url, &[]), Err(EgressRefusal::Address { kind: AddressKind::Metadata, .. })), "{url}");
        }
        // An allowed network does not cover the metadata service, however wide it is. Only its exact address does.
        assert!(go("http://169.254.169.254/", &["169.254.0.0/16", "0.0.0.0/0"]).is_err());
        assert!(go("http://169.254.169.254/", &["169.254.169.254"]).is_ok());
        let by_name = go("http://metadata.google.internal/", &["metadata.google.internal"]).unwrap();
        assert!(by_name.check_address("metadata.google.internal", "169.254.169.254".parse().unwrap()).is_err());
    }

    #[test]
    fn only_http_and_https_are_allowed() {
        for url in ["ftp://example.com/", "file:///etc/passwd", "gopher://example.com/", "data:,x"] {
            assert!(matches!(go(url, &[]), Err(EgressRefusal::Scheme(_))), "{url}");
        }
        assert!(go("https://example.com/", &[]).is_ok());
    }

    #[test]
    fn a_manifest_allows_exactly_one_host_and_port() {
        assert!(go("http://127.0.0.1:9001/", &["127.0.0.1:9001"]).is_ok());
        assert!(go("http://[::ffff:127.0.0.1]:9001/", &["127.0.0.1:9001"]).is_ok());
        assert!(go("http://127.0.0.1:9002/", &["127.0.0.1:9001"]).is_err());
        assert!(go("http://127.0.0.2:9001/", &["127.0.0.1:9001"]).is_err());
        assert!(go("http://10.1.2.3:5000/", &["10.1.0.0/16"]).is_ok());
        assert!(go("http://10.2.2.3:5000/", &["10.1.0.0/16"]).is_err());
    }

    #[test]
    fn a_name_is_checked_by_the_addresses_it_resolves_to() {
        let reach = |url: &str, entries: &[&str]| go(url, entries).unwrap();
        let loopback = "127.0.0.1".parse().unwrap();
        let check = |reach: &Reach, address| reach.check_address("localhost", address).is_ok();
        assert!(!check(&reach("http://localhost:9001/", &[]), loopback));
        assert!(!check(&reach("http://localhost:9001/", &["localhost:9002", "other:9001"]), loopback));
        assert!(check(&reach("http://localhost:9001/", &["localhost:9001"]), loopback));
        assert!(check(&reach("http://localhost:9001/", &["127.0.0.1:9001"]), loopback));
        assert!(!check(&reach("http://localhost:9001/", &["127.0.0.1:9002"]), loopback));
        let named = reach("http://localhost:9001/", &["localhost:9001"]);
        for never in ["0.0.0.0", "224.0.0.1", "255.255.255.255", "169.254.169.254", "240.0.0.1"] {
            assert!(!check(&named, never.parse().unwrap()), "{never}");
        }
        assert!(check(&named, "8.8.8.8".parse().unwrap()));
    }
}
