//! Access control of a gateway, and the key that this program sends to a gateway.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use http::{HeaderMap, HeaderValue};
use openskill_gateway::config::{IdentityConfig, JwtConfig, KeysConfig};
use openskill_identity::file::{self, FileError};
use openskill_identity::jwt::issuers;

use super::names;
use super::problem::{SettingProblem, SettingProblems};
use super::raw::{Origin, RawSettings};
use super::reader::Reader;

/// The authentication settings of servers and clients.
#[derive(Debug, Clone, Default)]
pub(crate) struct Access {
    /// The key file. `None`: the server requires no keys.
    pub(crate) keys: Option<PathBuf>,
    /// The file with the trusted token issuers.
    jwt: Option<PathBuf>,
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
    let file = |name| Some(reader.raw.value(name)).filter(|it| !it.is_empty()).map(PathBuf::from);
    let (keys, jwt) = (file(names::KEYS), file(names::JWT));
    let allows_anonymous = reader.one_of(names::ANONYMOUS, &[("loopback", false), ("allow", true)]);
    Access { keys, jwt, allows_anonymous, token: token(reader), headers: reader.header_list(names::HEADERS) }
}

fn token(reader: &mut Reader<'_>) -> TokenSource {
    let raw = reader.raw;
    let (text, path) = (raw.value(names::TOKEN), raw.value(names::TOKEN_FILE));
    let is_flag = |name| raw.origin(name) == Origin::Flag;
    let uses_file = match (text.is_empty(), path.is_empty()) {
        (true, true) => return TokenSource::None,
        (is_none, has_none) if is_none || has_none => is_none,
        _ if is_flag(names::TOKEN) != is_flag(names::TOKEN_FILE) => is_flag(names::TOKEN_FILE),
        _ => {
            reader.problem(names::TOKEN_FILE, "OPENSKILL_TOKEN is also set: set only one of them".to_owned());
            return TokenSource::None;
        }
    };
    if uses_file {
        return TokenSource::File(PathBuf::from(path));
    }
    match bearer(text) {
        Some(value) => TokenSource::Value(value),
        None => {
            reader.problem(names::TOKEN, "it is not a key: a key consists of visible ASCII characters".to_owned());
            TokenSource::None
        }
    }
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
        value.map(Some).map_err(|reason| file_problem(names::TOKEN_FILE, path, "setting", &reason))
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
        if self.keys.is_none() && self.jwt.is_none() {
            let is_open = |address: &SocketAddr| !address.ip().is_loopback() && !self.allows_anonymous;
            let open = addresses.iter().filter_map(|(name, address)| Some((*name, address.filter(is_open)?)));
            let problems: Vec<_> = open.map(|(name, address)| unprotected_problem(raw, name, address)).collect();
            return if problems.is_empty() { Ok(None) } else { Err(SettingProblems(problems)) };
        }
        let failed = |name: &str, path: &Path, error: &FileError| {
            file_problem(name, path, &raw.origin(name).to_string(), &error.to_string())
        };
        let keys = self.keys.clone().map(|file| match file::read(&file) {
            Ok(contents) => Ok(KeysConfig { file, contents }),
            Err(error) => Err(failed(names::KEYS, &file, &error)),
        });
        let jwt = self.jwt.clone().map(|file| match issuers::read(&file) {
            Ok(issuers) => Ok(JwtConfig { file, issuers }),
            Err(error) => Err(failed(names::JWT, &file, &error)),
        });
        Ok(Some(IdentityConfig { keys: keys.transpose()?, jwt: jwt.transpose()? }))
    }
}

fn file_problem(name: &str, path: &Path, origin: &str, reason: &str) -> SettingProblems {
    let reason = format!("'{}': {reason}", path.display());
    SettingProblems(vec![SettingProblem { name: name.to_owned(), origin: origin.to_owned(), reason }])
}

fn unprotected_problem(raw: &RawSettings, name: &'static str, address: SocketAddr) -> SettingProblem {
    let reason = format!(
        "other machines can reach {address}, and it requires no key: set OPENSKILL_KEYS to a file that `openskill keys \
         create` makes; or, if a proxy in front of it controls access, OPENSKILL_ANONYMOUS=allow"
    );
    SettingProblem { name: name.to_owned(), origin: raw.origin(name).to_string(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    fn resolved(values: &[(&'static str, &str)]) -> (Result<Settings, SettingProblems>, RawSettings) {
        let flags = values.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        let raw = RawSettings::read(&flags, |_| None, Path::new("/nonexistent"));
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
            let (settings, raw) = resolved(&[(names::ANONYMOUS, anonymous)]);
            let address = Some(address.parse().unwrap());
            let found =
                settings.unwrap().access.identity(&raw, &[(names::LISTEN, address), (names::ADMIN_LISTEN, None)]);
            match found {
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
        let (settings, _) = resolved(&[(names::TOKEN, "osk_secret")]);
        let settings = settings.unwrap();
        assert_eq!(settings.access.authorization().unwrap().unwrap(), "Bearer osk_secret");
        assert!(!format!("{settings:?}").contains("osk_secret"));
        let (settings, _) = resolved(&[(names::TOKEN, "two words")]);
        assert!(!settings.unwrap_err().to_string().contains("two words"));
        let (both, _) = resolved(&[(names::TOKEN, "a"), (names::TOKEN_FILE, "b")]);
        assert!(both.unwrap_err().to_string().contains("one of them"));
        let (missing, _) = resolved(&[(names::TOKEN_FILE, "/nonexistent")]);
        assert!(missing.unwrap().access.authorization().unwrap_err().to_string().contains("/nonexistent"));
    }
}
