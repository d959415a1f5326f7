//! Hosts and origins that are allowed in addition to the gateway's own.

use std::sync::Arc;

use http::Uri;
use http::uri::Authority;
use openskill_gateway::config::Sites;

use super::names;
use super::reader::Reader;

/// Reads the settings. Returns `None` if only the gateway's own hosts and origins are allowed.
pub(super) fn read(reader: &mut Reader<'_>) -> Option<Arc<Sites>> {
    let hosts = list(reader, names::ALLOWED_HOSTS, is_host, "a host name such as skills.example.com");
    let origins = list(reader, names::ALLOWED_ORIGINS, is_origin, "an origin such as https://app.example.com");
    let sites = Sites { hosts, origins };
    (sites != Sites::default()).then(|| Arc::new(sites))
}

fn list(reader: &mut Reader<'_>, name: &str, is_valid: fn(&str) -> bool, wanted: &str) -> Vec<String> {
    let items: Vec<_> = reader.raw.value(name).split(',').map(|it| it.trim().to_ascii_lowercase()).collect();
    let items: Vec<_> = items.into_iter().filter(|it| !it.is_empty()).collect();
    for item in items.iter().filter(|it| !is_valid(it)) {
        reader.problem(name, format!("'{item}' is not {wanted}"));
    }
    items
}

/// Whether a text is a complete host name. Patterns are invalid: they would be compared literally and never match.
fn is_host(text: &str) -> bool {
    !text.contains(['@', '*']) && text.parse::<Authority>().is_ok()
}

fn is_origin(text: &str) -> bool {
    let Some((scheme, host)) = text.split_once("://") else { return false };
    // Browsers never send the default port of a scheme.
    let has_default_port = match scheme {
        "http" => host.ends_with(":80"),
        "https" => host.ends_with(":443"),
        _ => return false,
    };
    !has_default_port && is_host(host) && text.parse::<Uri>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_origins_are_told_from_what_never_matches() {
        for host in ["skills.example.com", "skills.example.com:8443", "gateway", "[2001:db8::1]:80"] {
            assert!(is_host(host) && is_origin(&format!("https://{host}")), "{host}");
        }
        for host in ["*", "*.example.com", "https://example.com", "user@example.com", "example.com/skills", "a b", ""] {
            assert!(!is_host(host), "{host}");
        }
        for origin in [
            "skills.example.com",
            "ftp://example.com",
            "https://",
            "https://example.com/",
            "https://example.com:443",
            "null",
            "*",
        ] {
            assert!(!is_origin(origin), "{origin}");
        }
    }
}
