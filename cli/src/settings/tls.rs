//! Certificates of servers, of the mesh between gateways and workers, and of clients. The commands that need the
//! files read them.

use std::path::{Path, PathBuf};

use openskill_gateway::config::Source;
use openskill_net::tls::client::{ClientFiles, Connector};
use openskill_net::tls::reload::FileError;
use openskill_net::tls::server::{Acceptor, Clients, ServerFiles};
use rustls::pki_types::ServerName;

use super::names;
use super::problem::{SettingProblem, SettingProblems};
use super::raw::{Origin, RawSettings};
use super::reader::Reader;

/// The paths of certificates and keys. The files are not read yet.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tls {
    /// The certificate of the public addresses. `None`: these addresses use plain text.
    server: Option<ServerFiles>,
    mesh: Option<Mesh>,
    /// The client's files for TLS connections to the gateway.
    pub(crate) client: ClientFiles,
}

/// The certificates that gateways and workers present to each other.
#[derive(Debug, Clone)]
struct Mesh {
    authorities: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
    #[cfg_attr(
        not(feature = "worker"),
        expect(dead_code, reason = "only workers ask for it, and it is validated all the same")
    )]
    gateway_name: ServerName<'static>,
    worker_name: ServerName<'static>,
}

pub(super) fn read(reader: &mut Reader<'_>) -> Tls {
    let server = pair(reader, names::TLS_CERT, names::TLS_KEY).map(|(certificate, key)| {
        let clients = path(reader, names::TLS_CLIENT_CA).map_or(Clients::Any, Clients::SignedBy);
        ServerFiles { certificate, key, clients }
    });
    if server.is_none() && path(reader, names::TLS_CLIENT_CA).is_some() {
        reader.problem(names::TLS_CLIENT_CA, "needs OPENSKILL_TLS_CERT and OPENSKILL_TLS_KEY".to_owned());
    }
    let identity = pair(reader, names::CLIENT_CERT, names::CLIENT_KEY);
    let client = ClientFiles { authorities: path(reader, names::CA), identity };
    Tls { server, mesh: mesh(reader), client }
}

fn mesh(reader: &mut Reader<'_>) -> Option<Mesh> {
    let (authorities, pair) = (path(reader, names::MESH_CA), pair(reader, names::MESH_CERT, names::MESH_KEY));
    let (gateway_name, worker_name) =
        (server_name(reader, names::MESH_GATEWAY_NAME), server_name(reader, names::MESH_WORKER_NAME));
    match (authorities, pair) {
        (Some(authorities), Some((certificate, key))) => {
            Some(Mesh { authorities, certificate, key, gateway_name: gateway_name?, worker_name: worker_name? })
        }
        (Some(_), None) => {
            reader.problem(names::MESH_CA, "needs OPENSKILL_MESH_CERT and OPENSKILL_MESH_KEY".to_owned());
            None
        }
        (None, Some(_)) => {
            reader.problem(names::MESH_CERT, "needs OPENSKILL_MESH_CA".to_owned());
            None
        }
        (None, None) => None,
    }
}

fn path(reader: &Reader<'_>, name: &str) -> Option<PathBuf> {
    Some(reader.raw.value(name)).filter(|it| !it.is_empty()).map(PathBuf::from)
}

/// Reads a certificate and its key. Both or neither must be set.
fn pair(reader: &mut Reader<'_>, certificate: &str, key: &str) -> Option<(PathBuf, PathBuf)> {
    match (path(reader, certificate), path(reader, key)) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        (has_certificate, _) => {
            let (set, missing) = if has_certificate.is_some() { (certificate, key) } else { (key, certificate) };
            reader.problem(set, format!("needs {missing}"));
            None
        }
    }
}

fn server_name(reader: &mut Reader<'_>, name: &str) -> Option<ServerName<'static>> {
    let value = reader.raw.value(name);
    let found = ServerName::try_from(value.to_owned()).ok().filter(|it| matches!(it, ServerName::DnsName(_)));
    if found.is_none() {
        reader.problem(name, format!("'{value}' is not a DNS name"));
    }
    found
}

/// Reports worker addresses that do not match the mesh: with a mesh, all TCP connections to workers are encrypted.
/// Adapts the default address instead of reporting it.
pub(super) fn match_to_mesh(reader: &mut Reader<'_>, tls: &Tls, workers: Vec<Source>) -> Vec<Source> {
    let is_default = reader.raw.origin(names::WORKERS) == Origin::Default;
    let fitted = workers.into_iter().map(|source| match source {
        Source::Http(authority) if tls.mesh.is_some() && is_default => Source::Https(authority),
        Source::Http(authority) if tls.mesh.is_some() => {
            let reason = format!("'http://{authority}' is not encrypted: use https:// with OPENSKILL_MESH_CA");
            reader.problem(names::WORKERS, reason);
            Source::Https(authority)
        }
        Source::Https(authority) if tls.mesh.is_none() => {
            let reason =
                format!("'https://{authority}' needs OPENSKILL_MESH_CA, OPENSKILL_MESH_CERT and OPENSKILL_MESH_KEY");
            reader.problem(names::WORKERS, reason);
            Source::Https(authority)
        }
        source => source,
    });
    fitted.collect()
}

impl Tls {
    /// Returns TLS for the public addresses of a server. `None` means plain text.
    ///
    /// # Errors
    /// The files are unusable.
    pub(crate) fn acceptor(&self, raw: &RawSettings) -> Result<Option<Acceptor>, SettingProblems> {
        let Some(files) = &self.server else { return Ok(None) };
        let loaded = Acceptor::load("the TLS certificate (OPENSKILL_TLS_CERT)", files.clone());
        loaded.map(Some).map_err(|error| problem(raw, &error, &[names::TLS_CERT, names::TLS_KEY, names::TLS_CLIENT_CA]))
    }

    /// Returns TLS for a client's connections to a gateway.
    ///
    /// # Errors
    /// The files are unusable.
    pub(crate) fn connector(&self) -> Result<Connector, SettingProblems> {
        let Tls { client, .. } = self;
        Connector::load("the certificates of this client", client.clone()).map_err(|error| {
            let is_own = client.identity.as_ref().is_some_and(|(_, key)| *key == error.path);
            let name = if is_own { names::CLIENT_KEY } else { names::CA };
            let (name, origin) = (name.to_owned(), "setting".to_owned());
            SettingProblems(vec![SettingProblem { name, origin, reason: error.to_string() }])
        })
    }

    /// Returns the scheme of the public addresses.
    #[cfg(feature = "worker")]
    pub(crate) fn scheme(&self) -> &'static str {
        if self.server.is_some() { "https" } else { "http" }
    }

    /// Returns TLS for a worker at a TCP address. `None` means plain text.
    ///
    /// # Errors
    /// The files are unusable.
    #[cfg(feature = "worker")]
    pub(crate) fn mesh_acceptor(&self, raw: &RawSettings) -> Result<Option<Acceptor>, SettingProblems> {
        let Some(mesh) = &self.mesh else { return Ok(None) };
        let clients = Clients::Mesh(mesh.authorities.clone(), mesh.gateway_name.clone());
        let files = ServerFiles { certificate: mesh.certificate.clone(), key: mesh.key.clone(), clients };
        let loaded = Acceptor::load("the certificate for the mesh (OPENSKILL_MESH_CERT)", files);
        loaded.map(Some).map_err(|error| problem(raw, &error, MESH))
    }

    /// Returns TLS for a gateway's connections to workers at TCP addresses. `None` means plain text.
    ///
    /// # Errors
    /// The files are unusable.
    pub(crate) fn mesh_connector(&self, raw: &RawSettings) -> Result<Option<Connector>, SettingProblems> {
        let Some(mesh) = &self.mesh else { return Ok(None) };
        let files = ClientFiles {
            authorities: Some(mesh.authorities.clone()),
            identity: Some((mesh.certificate.clone(), mesh.key.clone())),
        };
        let name = "the certificate for the mesh (OPENSKILL_MESH_CERT)";
        let loaded = Connector::for_mesh(name, files, mesh.worker_name.clone());
        loaded.map(Some).map_err(|error| problem(raw, &error, MESH))
    }
}

const MESH: &[&str] = &[names::MESH_CA, names::MESH_CERT, names::MESH_KEY];

/// Converts a file error into a problem of the setting that names the file.
fn problem(raw: &RawSettings, error: &FileError, settings: &[&str]) -> SettingProblems {
    let name = settings.iter().find(|name| Path::new(raw.value(name)) == error.path);
    let name = name.or(settings.first()).copied().unwrap_or_default();
    SettingProblems(vec![SettingProblem {
        name: name.to_owned(),
        origin: raw.origin(name).to_string(),
        reason: error.to_string(),
    }])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    fn resolved(values: &[(&'static str, &str)]) -> Result<Settings, String> {
        let flags = values.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        Settings::resolve(&RawSettings::read(&flags, |_| None, Path::new("/nonexistent"))).map_err(|it| it.to_string())
    }

    #[test]
    fn half_a_pair_and_half_a_mesh_are_reported() {
        for (values, word) in [
            (&[(names::TLS_CERT, "c")][..], "needs OPENSKILL_TLS_KEY"),
            (&[(names::TLS_KEY, "k")], "needs OPENSKILL_TLS_CERT"),
            (&[(names::TLS_CLIENT_CA, "a")], "needs OPENSKILL_TLS_CERT"),
            (&[(names::CLIENT_CERT, "c")], "needs OPENSKILL_CLIENT_KEY"),
            (&[(names::MESH_CA, "a")], "needs OPENSKILL_MESH_CERT"),
            (&[(names::MESH_CERT, "c"), (names::MESH_KEY, "k")], "needs OPENSKILL_MESH_CA"),
            (&[(names::MESH_WORKER_NAME, "127.0.0.1")], "not a DNS name"),
        ] {
            let problem = resolved(values).unwrap_err();
            assert!(problem.contains(word), "{word}: {problem}");
        }
    }

    #[test]
    fn with_a_mesh_no_worker_is_called_in_plain_text_and_without_one_none_over_tls() {
        let mesh = [(names::MESH_CA, "a"), (names::MESH_CERT, "c"), (names::MESH_KEY, "k")];
        let workers = |text| (names::WORKERS, text);
        let of = |more: &[(&'static str, &str)]| resolved(&[&mesh, more].concat()).map(|it| it.workers);
        assert_eq!(of(&[]).unwrap(), [Source::Https("127.0.0.1:9000".to_owned())]);
        assert!(of(&[workers("https://w:1,dns://w:1,unix:/w")]).is_ok());
        assert!(of(&[workers("http://w:1")]).unwrap_err().contains("not encrypted"));
        assert!(resolved(&[workers("https://w:1")]).unwrap_err().contains("OPENSKILL_MESH_CA"));
    }
}
