//! Hosts and origins that an operator allows in addition to the gateway's own.

/// The hosts and origins that requests may name, in addition to IP addresses and `localhost`. In lower case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sites {
    /// The host names under which the gateway is served. Without a port, any port matches.
    pub hosts: Vec<String>,
    /// The origins whose web pages may call the gateway, such as `https://app.example`.
    pub origins: Vec<String>,
}

impl Sites {
    /// Whether a request may name this host. The host may include a port.
    pub(crate) fn has_host(&self, host: &str) -> bool {
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        self.hosts.iter().any(|it| it.eq_ignore_ascii_case(host) || it.eq_ignore_ascii_case(name))
    }

    /// Whether pages of this origin may call the gateway.
    pub(crate) fn has_origin(&self, origin: &str) -> bool {
        self.origins.iter().any(|it| it.eq_ignore_ascii_case(origin))
    }
}
