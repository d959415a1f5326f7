//! Certificates of servers, of the mesh between gateways and workers, and of clients. The commands that need the
//! files read them.

use std::path::{Path, PathBuf};

use openskill_gateway::config::Source;
use openskill_net::tls::client::{ClientFiles, Connector};
use openskill_net::tls::reload::FileError;
use openskill_net::tls::server::{Acceptor, Clients, ServerFiles};
use rustls::pki_types::ServerName;

use super::problem::{SettingProblem, SettingProblems};
use super::raw::{Origin, RawSettings};
use super::reader::Reader;

/// The settings that name files of the mesh.
const MESH: [&str; 3] = ["OPENSKILL_MESH_CA", "OPENSKILL_MESH_CERT", "OPENSKILL_MESH_KEY"];

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
    let authorities = reader.raw.path("OPENSKILL_TLS_CLIENT_CA");
    let server = path_pair(reader, ["OPENSKILL_TLS_CERT", "OPENSKILL_TLS_KEY"]);
    if server.is_none() && authorities.is_some() {
        reader.problem("OPENSKILL_TLS_CLIENT_CA", "needs OPENSKILL_TLS_CERT and OPENSKILL_TLS_KEY");
    }
    let clients = authorities.map_or(Clients::Any, Clients::SignedBy);
    let server = server.map(|(certificate, key)| ServerFiles { certificate, key, clients });
    let identity = path_pair(reader, ["OPENSKILL_CLIENT_CERT", "OPENSKILL_CLIENT_KEY"]);
    let client = ClientFiles { authorities: reader.raw.path("OPENSKILL_CA"), identity };
    Tls { server, mesh: mesh(reader), client }
}

fn mesh(reader: &mut Reader<'_>) -> Option<Mesh> {
    let [authorities, certificate, key] = MESH;
    let (authorities, pair) = (reader.raw.path(authorities), path_pair(reader, [certificate, key]));
    let gateway_name = server_name(reader, "OPENSKILL_MESH_GATEWAY_NAME");
    let worker_name = server_name(reader, "OPENSKILL_MESH_WORKER_NAME");
    match (authorities, pair) {
        (Some(authorities), Some((certificate, key))) => {
            return Some(Mesh {
                authorities,
                certificate,
                key,
                gateway_name: gateway_name?,
                worker_name: worker_name?,
            });
        }
        (Some(_), None) => reader.problem("OPENSKILL_MESH_CA", "needs OPENSKILL_MESH_CERT and OPENSKILL_MESH_KEY"),
        (None, Some(_)) => reader.problem("OPENSKILL_MESH_CERT", "needs OPENSKILL_MESH_CA"),
        (None, None) => {}
    }
    None
}

fn path_pair(reader: &mut Reader<'_>, names: [&str; 2]) -> Option<(PathBuf, PathBuf)> {
    reader.pair(names, "needs", |reader, name| reader.raw.path(name))
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
    let is_default = reader.raw.origin("OPENSKILL_WORKERS") == Origin::Default;
    let fitted = workers.into_iter().map(|source| match source {
        Source::Http(authority) if tls.mesh.is_some() => {
            if !is_default {
                let reason = format!("'http://{authority}' is not encrypted: use https:// with OPENSKILL_MESH_CA");
                reader.problem("OPENSKILL_WORKERS", reason);
            }
            Source::Https(authority)
        }
        Source::Https(authority) if tls.mesh.is_none() => {
            let needs = "needs OPENSKILL_MESH_CA, OPENSKILL_MESH_CERT and OPENSKILL_MESH_KEY";
            reader.problem("OPENSKILL_WORKERS", format!("'https://{authority}' {needs}"));
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
        let settings = ["OPENSKILL_TLS_CERT", "OPENSKILL_TLS_KEY", "OPENSKILL_TLS_CLIENT_CA"];
        loaded.map(Some).map_err(|error| problem(raw, &error, settings))
    }

    /// Returns TLS for a client's connections to a gateway.
    ///
    /// # Errors
    /// The files are unusable.
    pub(crate) fn connector(&self) -> Result<Connector, SettingProblems> {
        let Tls { client, .. } = self;
        Connector::load("the certificates of this client", client.clone()).map_err(|error| {
            let is_own = client.identity.as_ref().is_some_and(|(_, key)| *key == error.path);
            let name = if is_own { "OPENSKILL_CLIENT_KEY" } else { "OPENSKILL_CA" };
            SettingProblem::new(name, "setting", error.to_string()).into()
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
        let identity = Some((mesh.certificate.clone(), mesh.key.clone()));
        let files = ClientFiles { authorities: Some(mesh.authorities.clone()), identity };
        let name = "the certificate for the mesh (OPENSKILL_MESH_CERT)";
        let loaded = Connector::for_mesh(name, files, mesh.worker_name.clone());
        loaded.map(Some).map_err(|error| problem(raw, &error, MESH))
    }
}

/// Converts a file error into a problem of the setting that names the file.
fn problem(raw: &RawSettings, error: &FileError, settings: [&str; 3]) -> SettingProblems {
    let name = settings.into_iter().find(|name| Path::new(raw.value(name)) == error.path).unwrap_or(settings[0]);
    raw.problem(name, error.to_string()).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    fn resolved(values: &[(&'static str, &str)]) -> Result<Settings, String> {
        Settings::resolve(&RawSettings::for_test(values)).map_err(|it| it.to_string())
    }

    #[test]
    fn half_a_pair_and_half_a_mesh_are_reported() {
        for (values, word) in [
            (&[("OPENSKILL_TLS_CERT", "c")][..], "needs OPENSKILL_TLS_KEY"),
            (&[("OPENSKILL_TLS_KEY", "k")], "needs OPENSKILL_TLS_CERT"),
            (&[("OPENSKILL_TLS_CLIENT_CA", "a")], "needs OPENSKILL_TLS_CERT"),
            (&[("OPENSKILL_CLIENT_CERT", "c")], "needs OPENSKILL_CLIENT_KEY"),
            (&[("OPENSKILL_MESH_CA", "a")], "needs OPENSKILL_MESH_CERT"),
            (&[("OPENSKILL_MESH_CERT", "c"), ("OPENSKILL_MESH_KEY", "k")], "needs OPENSKILL_MESH_CA"),
            (&[("OPENSKILL_MESH_WORKER_NAME", "127.0.0.1")], "not a DNS name"),
        ] {
            let problem = resolved(values).unwrap_err();
            assert!(problem.contains(word), "{word}: {problem}");
        }
    }

    #[test]
    fn with_a_mesh_no_worker_is_called_in_plain_text_and_without_one_none_over_tls() {
        let mesh = [("OPENSKILL_MESH_CA", "a"), ("OPENSKILL_MESH_CERT", "c"), ("OPENSKILL_MESH_KEY", "k")];
        let workers = |text| ("OPENSKILL_WORKERS", text);
        let of = |more: &[(&'static str, &str)]| resolved(&[&mesh, more].concat()).map(|it| it.gateway.workers);
        assert_eq!(of(&[]).unwrap(), [Source::Https("127.0.0.1:9000".to_owned())]);
        assert!(of(&[workers("https://w:1,dns://w:1,unix:/w")]).is_ok());
        assert!(of(&[workers("http://w:1")]).unwrap_err().contains("not encrypted"));
        assert!(resolved(&[workers("https://w:1")]).unwrap_err().contains("OPENSKILL_MESH_CA"));
    }
}
