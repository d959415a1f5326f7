//! Access control of a gateway: its principals, and the hosts and origins that requests may name. Also the key that
//! this program sends to a gateway.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Uri};
use openskill_gateway::config::{IdentityConfig, JwtConfig, KeysConfig, Sites};
use openskill_identity::file::{self, FileError};
use openskill_identity::jwt::issuers;

use super::problem::{SettingProblem, SettingProblems};
use super::raw::{Origin, RawSettings};
use super::reader::Reader;

/// The authentication settings of servers and clients.
#[derive(Debug, Clone, Default)]
pub(crate) struct Access {
    /// The key file. `None`: the server requires no keys.
    pub(crate) keys: Option<PathBuf>,
    /// Whether unauthenticated callers may come from other machines.
    pub(crate) allows_anonymous: bool,
    token: TokenSource,
    /// Headers for each request to a gateway. Their values are secrets.
    pub(crate) headers: HeaderMap,
}

/// The source of the key for a gateway. A file is read when the key is needed.
#[derive(Debug, Clone, Default)]
enum TokenSource {
    #[default]
    None,
    /// `Bearer …`, marked as sensitive so that it is never shown.
    Value(HeaderValue),
    File(PathBuf),
}

/// Reads the settings. The files are read later, by the commands that need them.
pub(super) fn read(reader: &mut Reader<'_>) -> Access {
    let allows_anonymous = reader.one_of("OPENSKILL_ANONYMOUS", &[("loopback", false), ("allow", true)]);
    let (keys, token) = (reader.raw.path("OPENSKILL_KEYS"), token(reader));
    Access { keys, allows_anonymous, token, headers: reader.header_list("OPENSKILL_HEADERS") }
}

fn token(reader: &mut Reader<'_>) -> TokenSource {
    let raw = reader.raw;
    let is_flag = |name| raw.origin(name) == Origin::Flag;
    let (text_is_flag, file_is_flag) = (is_flag("OPENSKILL_TOKEN"), is_flag("OPENSKILL_TOKEN_FILE"));
    let problem = match (raw.given("OPENSKILL_TOKEN"), raw.path("OPENSKILL_TOKEN_FILE")) {
        (None, None) => return TokenSource::None,
        (None, Some(path)) => return TokenSource::File(path),
        (Some(_), Some(_)) if text_is_flag == file_is_flag => {
            raw.problem("OPENSKILL_TOKEN_FILE", "OPENSKILL_TOKEN is also set: set only one of them")
        }
        (Some(_), Some(path)) if file_is_flag => return TokenSource::File(path),
        (Some(text), _) => match bearer(text) {
            Some(value) => return TokenSource::Value(value),
            None => raw.problem("OPENSKILL_TOKEN", "it is not a key: a key consists of visible ASCII characters"),
        },
    };
    reader.problems.push(problem);
    TokenSource::None
}

fn bearer(token: &str) -> Option<HeaderValue> {
    let token = token.trim();
    let is_valid = !token.is_empty() && token.bytes().all(|it| it.is_ascii_graphic());
    let mut value = HeaderValue::try_from(format!("Bearer {token}")).ok().filter(|_| is_valid)?;
    value.set_sensitive(true);
    Some(value)
}

impl Access {
    /// Returns the `authorization` header for a gateway if a key is set.
    ///
    /// # Errors
    /// The file with the key is unusable.
    pub(crate) fn authorization(&self) -> Result<Option<HeaderValue>, SettingProblems> {
        let path = match &self.token {
            TokenSource::None => return Ok(None),
            TokenSource::Value(value) => return Ok(Some(value.clone())),
            TokenSource::File(path) => path,
        };
        let read = file::text(path).map_err(|error| error.to_string());
        let value =
            read.and_then(|text| bearer(&text).ok_or_else(|| "it must contain one key and nothing else".to_owned()));
        value.map(Some).map_err(|reason| {
            let reason = format!("'{}': {reason}", path.display());
            SettingProblem::new("OPENSKILL_TOKEN_FILE", "setting", reason).into()
        })
    }

    /// Returns the access rules of a server that listens on these addresses. Each address comes with the name of
    /// its setting.
    ///
    /// # Errors
    /// The key file is unusable, or an address that requires no key is reachable from other machines.
    pub(crate) fn identity(
        &self,
        raw: &RawSettings,
        addresses: &[(&'static str, Option<SocketAddr>)],
    ) -> Result<Option<IdentityConfig>, SettingProblems> {
        let reason = |error: FileError| error.to_string();
        let keys = raw.read_file("OPENSKILL_KEYS", |path| {
            Ok(KeysConfig { file: path.to_owned(), contents: file::read(path).map_err(reason)? })
        })?;
        let jwt = raw.read_file("OPENSKILL_JWT", |path| {
            Ok(JwtConfig { file: path.to_owned(), issuers: issuers::read(path).map_err(reason)? })
        })?;
        if keys.is_some() || jwt.is_some() {
            return Ok(Some(IdentityConfig { keys, jwt }));
        }
        let is_open = |address: &SocketAddr| !address.ip().is_loopback() && !self.allows_anonymous;
        let open = addresses.iter().filter_map(|(name, address)| Some((*name, address.filter(is_open)?)));
        let problems: Vec<_> = open.map(|(name, address)| unprotected_problem(raw, name, address)).collect();
        if problems.is_empty() { Ok(None) } else { Err(SettingProblems(problems)) }
    }
}

fn unprotected_problem(raw: &RawSettings, name: &str, address: SocketAddr) -> SettingProblem {
    let reason = format!(
        "other machines can reach {address}, and it requires no key: set OPENSKILL_KEYS to a file that `openskill keys \
         create` makes; or, if a proxy in front of it controls access, OPENSKILL_ANONYMOUS=allow"
    );
    raw.problem(name, reason)
}

/// Reads the hosts and origins that are allowed in addition to the gateway's own. Returns `None` if there are none.
pub(super) fn sites(reader: &mut Reader<'_>) -> Option<Arc<Sites>> {
    let hosts = site_list(reader, "OPENSKILL_ALLOWED_HOSTS", is_host, "a host name such as skills.example.com");
    let wanted = "an origin such as https://app.example.com";
    let origins = site_list(reader, "OPENSKILL_ALLOWED_ORIGINS", is_origin, wanted);
    let sites = Sites { hosts, origins };
    (sites != Sites::default()).then(|| Arc::new(sites))
}

fn site_list(reader: &mut Reader<'_>, name: &str, is_valid: fn(&str) -> bool, wanted: &str) -> Vec<String> {
    let items: Vec<_> = reader.raw.list(name).map(str::to_ascii_lowercase).collect();
    for item in items.iter().filter(|it| !is_valid(it)) {
        reader.problem(name, format!("'{item}' is not {wanted}"));
    }
    items
}

/// Whether a text is a host, with or without a port. Patterns are invalid: they would be compared literally and never
/// match.
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
    use crate::settings::Settings;

    fn resolved(values: &[(&'static str, &str)]) -> (Result<Settings, SettingProblems>, RawSettings) {
        let raw = RawSettings::for_test(values);
        (Settings::resolve(&raw), raw)
    }

    #[test]
    fn an_address_that_other_machines_reach_needs_keys_or_an_explicit_word() {
        for (anonymous, address, is_fine) in [
            ("loopback", "127.0.0.1:1", true),
            ("loopback", "[::1]:1", true),
            ("loopback", "0.0.0.0:1", false),
            ("loopback", "192.0.2.1:1", false),
            ("allow", "0.0.0.0:1", true),
        ] {
            let (settings, raw) = resolved(&[("OPENSKILL_ANONYMOUS", anonymous)]);
            let address = Some(address.parse().unwrap());
            let addresses = [("OPENSKILL_LISTEN", address), ("OPENSKILL_ADMIN_LISTEN", None)];
            match settings.unwrap().access.identity(&raw, &addresses) {
                Ok(found) => assert!(is_fine && found.is_none(), "{anonymous} {address:?}"),
                Err(problems) => {
                    let text = problems.to_string();
                    assert!(
                        !is_fine && text.contains("OPENSKILL_KEYS") && text.contains("OPENSKILL_ANONYMOUS"),
                        "{text}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_key_is_shown_to_the_gateway_and_to_nobody_else() {
        let (settings, _) = resolved(&[("OPENSKILL_TOKEN", "osk_secret")]);
        let settings = settings.unwrap();
        assert_eq!(settings.access.authorization().unwrap().unwrap(), "Bearer osk_secret");
        assert!(!format!("{settings:?}").contains("osk_secret"));
        let (settings, _) = resolved(&[("OPENSKILL_TOKEN", "two words")]);
        assert!(!settings.unwrap_err().to_string().contains("two words"));
        let (both, _) = resolved(&[("OPENSKILL_TOKEN", "a"), ("OPENSKILL_TOKEN_FILE", "b")]);
        assert!(both.unwrap_err().to_string().contains("one of them"));
        let (missing, _) = resolved(&[("OPENSKILL_TOKEN_FILE", "/nonexistent")]);
        assert!(missing.unwrap().access.authorization().unwrap_err().to_string().contains("/nonexistent"));
    }

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
