//! Who may use a gateway, and the key that this program shows to one.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use http::{HeaderMap, HeaderValue};
use openskill_gateway::config::{IdentityConfig, JwtConfig, KeysConfig};
use openskill_identity::file::{self, FileError};
use openskill_identity::jwt::issuers;

use super::names;
use super::problem::{Problem, Problems};
use super::raw::{Origin, Raw};
use super::reader::Reader;

/// The settings of identity, on both sides.
#[derive(Debug, Clone, Default)]
pub(crate) struct Access {
    /// The file of keys. None: nobody is asked for a key.
    pub(crate) keys: Option<PathBuf>,
    /// The file of issuers of tokens.
    jwt: Option<PathBuf>,
    /// Whether callers that nobody identifies may come from other machines.
    pub(crate) allows_anonymous: bool,
    token: Token,
    /// Headers for each request to a gateway. Their values are secrets.
    pub(crate) headers: HeaderMap,
}

/// Where the key is that is shown to a gateway. It is read when it is needed.
#[derive(Debug, Clone, Default)]
enum Token {
    #[default]
    None,
    /// `Bearer …`, marked as sensitive: it is not shown.
    Value(HeaderValue),
    File(PathBuf),
}

/// Reads the settings. The files are read by those who need them.
pub(super) fn read(reader: &mut Reader<'_>) -> Access {
    let file = |name| Some(reader.raw.value(name)).filter(|it| !it.is_empty()).map(PathBuf::from);
    let (keys, jwt) = (file(names::KEYS), file(names::JWT));
    let allows_anonymous = reader.one_of(names::ANONYMOUS, &[("loopback", false), ("allow", true)]);
    Access { keys, jwt, allows_anonymous, token: token(reader), headers: reader.header_list(names::HEADERS) }
}

fn token(reader: &mut Reader<'_>) -> Token {
    let raw = reader.raw;
    let (text, path) = (raw.value(names::TOKEN), raw.value(names::TOKEN_FILE));
    let is_flag = |name| raw.origin(name) == Origin::Flag;
    let uses_file = match (text.is_empty(), path.is_empty()) {
        (true, true) => return Token::None,
        (is_none, has_none) if is_none || has_none => is_none,
        _ if is_flag(names::TOKEN) != is_flag(names::TOKEN_FILE) => is_flag(names::TOKEN_FILE),
        _ => {
            reader.problem(names::TOKEN_FILE, "OPENSKILL_TOKEN is set too: set one of them".to_owned());
            return Token::None;
        }
    };
    if uses_file {
        return Token::File(PathBuf::from(path));
    }
    match bearer(text) {
        Some(value) => Token::Value(value),
        None => {
            reader.problem(names::TOKEN, "it is not a key: visible ASCII characters".to_owned());
            Token::None
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
    /// The `authorization` header for a gateway, if a key is set.
    ///
    /// # Errors
    /// The file of the key can't be used.
    pub(crate) fn authorization(&self) -> Result<Option<HeaderValue>, Problems> {
        let path = match &self.token {
            Token::None => return Ok(None),
            Token::Value(value) => return Ok(Some(value.clone())),
            Token::File(path) => path,
        };
        let read = file::text(path).map_err(|error| error.to_string());
        let value =
            read.and_then(|text| bearer(&text).ok_or_else(|| "it must contain one key and nothing else".to_owned()));
        value.map(Some).map_err(|reason| of_file(names::TOKEN_FILE, path, "setting", &reason))
    }

    /// Who may use a server that listens on these addresses, each with the name of its setting.
    ///
    /// # Errors
    /// The file of keys can't be used; or other machines reach an address, and nobody is asked for a key.
    pub(crate) fn identity(
        &self,
        raw: &Raw,
        addresses: &[(&'static str, Option<SocketAddr>)],
    ) -> Result<Option<IdentityConfig>, Problems> {
        if self.keys.is_none() && self.jwt.is_none() {
            let is_open = |address: &SocketAddr| !address.ip().is_loopback() && !self.allows_anonymous;
            let open = addresses.iter().filter_map(|(name, address)| Some((*name, address.filter(is_open)?)));
            let problems: Vec<_> = open.map(|(name, address)| unprotected(raw, name, address)).collect();
            return if problems.is_empty() { Ok(None) } else { Err(Problems(problems)) };
        }
        let failed = |name: &str, path: &Path, error: &FileError| {
            of_file(name, path, &raw.origin(name).to_string(), &error.to_string())
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

fn of_file(name: &str, path: &Path, origin: &str, reason: &str) -> Problems {
    let reason = format!("'{}': {reason}", path.display());
    Problems(vec![Problem { name: name.to_owned(), origin: origin.to_owned(), reason }])
}

fn unprotected(raw: &Raw, name: &'static str, address: SocketAddr) -> Problem {
    let reason = format!(
        "other machines reach {address}, and nobody is asked for a key: set OPENSKILL_KEYS to a file that `openskill keys \
         create` makes; or, if something in front of it controls who gets there, OPENSKILL_ANONYMOUS=allow"
    );
    Problem { name: name.to_owned(), origin: raw.origin(name).to_string(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    fn resolved(values: &[(&'static str, &str)]) -> (Result<Settings, Problems>, Raw) {
        let flags = values.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        let raw = Raw::read(&flags, |_| None, Path::new("/nonexistent"));
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
