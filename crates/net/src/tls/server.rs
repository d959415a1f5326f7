//! Accepts TLS connections with a certificate that may change while the server runs.

use std::io::{Error, ErrorKind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::certificate_info::{chain_validity, describe_chain, validities};
use super::expiry::Time;
use super::named::NamedClients;
use super::reload::{Contents, FileError, Loaded, Reloadable, Term};
use super::{pem, provider};

/// The timeout of a handshake, from its first byte.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// The ALPN names of HTTP/2 and HTTP/1.1.
const H2: &[u8] = b"h2";
const HTTP_1_1: &[u8] = b"http/1.1";

/// The clients that may connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Clients {
    /// All clients. The server requests no certificate.
    Any,
    /// Clients with a certificate signed by an authority in this file.
    SignedBy(PathBuf),
    /// Gateways of a mesh: like [`Clients::SignedBy`], but the certificate must also have this name among its
    /// alternative names. Only TLS 1.3 and HTTP/2.
    Mesh(PathBuf, ServerName<'static>),
}

impl Clients {
    fn authorities(&self) -> Option<&PathBuf> {
        match self {
            Self::Any => None,
            Self::SignedBy(file) | Self::Mesh(file, _) => Some(file),
        }
    }
}

/// The paths of a server's PEM files, and the clients that may connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFiles {
    /// The server's certificate, followed by the certificates that sign it.
    pub certificate: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
    /// The clients that may connect.
    pub clients: Clients,
}

/// The configuration loaded from the files.
#[derive(Debug)]
struct LoadedServerConfig {
    config: Arc<ServerConfig>,
    expiry: Option<Time>,
}

/// Turns accepted sockets into TLS connections. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Acceptor(Arc<Reloadable<LoadedServerConfig>>);

impl Acceptor {
    /// Loads the files. The log calls them `name`.
    ///
    /// # Errors
    /// A file is unreadable or invalid, or the key does not match the certificate.
    pub fn load(name: &'static str, files: ServerFiles) -> Result<Self, FileError> {
        let ServerFiles { certificate, key, clients } = &files;
        let paths = [certificate, key].into_iter().chain(clients.authorities()).cloned().collect();
        Reloadable::load(name, paths, move |contents| config(&files, contents)).map(Self)
    }

    /// Reloads the files when they change, until the future is dropped. Open connections are not affected.
    pub async fn follow(self) {
        self.0.follow().await;
    }

    /// Whether the files have changed but are unusable, so that the previous content stays in use.
    pub fn is_stale(&self) -> bool {
        self.0.is_stale()
    }

    /// Returns the earliest expiry in the certificate chain in use.
    pub fn expiry(&self) -> Option<Time> {
        self.0.current().expiry
    }

    /// Performs the handshake.
    ///
    /// # Errors
    /// The client disconnects, does not speak TLS, is not permitted to connect, or takes longer than
    /// [`HANDSHAKE_TIMEOUT`].
    pub async fn accept<S>(&self, stream: S) -> Result<TlsStream<S>, Error>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let accepting = TlsAcceptor::from(Arc::clone(&self.0.current().config)).accept(stream);
        tokio::time::timeout(HANDSHAKE_TIMEOUT, accepting).await.map_err(|_| Error::from(ErrorKind::TimedOut))?
    }
}

/// Whether the client chose HTTP/2. Otherwise it speaks HTTP/1.1.
pub fn is_http2<S>(stream: &TlsStream<S>) -> bool {
    stream.get_ref().1.alpn_protocol() == Some(H2)
}

fn config(files: &ServerFiles, contents: &Contents) -> Result<Loaded<LoadedServerConfig>, FileError> {
    let content = |at: usize| contents.get(at).map(Vec::as_slice).unwrap_or_default();
    let ServerFiles { certificate, key, clients } = files;
    let chain = pem::chain(content(0)).map_err(|reason| FileError::new(certificate, reason))?;
    let private = pem::key(content(1)).map_err(|reason| FileError::new(key, reason))?;
    let is_mesh = matches!(clients, Clients::Mesh(..));
    let versions = if is_mesh { &[&rustls::version::TLS13][..] } else { rustls::DEFAULT_VERSIONS };
    let builder = ServerConfig::builder_with_provider(provider());
    let builder = builder.with_protocol_versions(versions).map_err(|error| FileError::new(key, error.to_string()))?;
    let (description, validity) = (describe_chain(&chain), chain_validity(&chain));
    let mut terms = vec![Term { file: certificate.clone(), any_of: validity.into_iter().collect() }];
    let builder = match clients.authorities() {
        None => builder.with_no_client_auth(),
        Some(file) => {
            let unusable = |reason: String| FileError::new(file, reason);
            let (roots, authorities) = pem::authorities(content(2)).map_err(unusable)?;
            terms.push(Term { file: file.clone(), any_of: validities(&authorities) });
            let verifier = verifier(clients, roots).map_err(unusable)?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder.with_single_cert(chain, private).map_err(|error| {
        let reason = match error {
            rustls::Error::InconsistentKeys(_) => format!("it is not the key of '{}'", certificate.display()),
            // The message must not reveal any part of the key.
            error => format!("it cannot be used with '{}': {error}", certificate.display()),
        };
        FileError::new(key, reason)
    })?;
    if is_mesh {
        // Resumption would skip the check of the client certificate.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        config.alpn_protocols = vec![H2.to_vec()];
    } else {
        config.alpn_protocols = vec![H2.to_vec(), HTTP_1_1.to_vec()];
    }
    let expiry = validity.map(|it| it.ends);
    Ok(Loaded { value: LoadedServerConfig { config: Arc::new(config), expiry }, description, terms })
}

fn verifier(clients: &Clients, authorities: RootCertStore) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), provider());
    let verifier = verifier.build().map_err(|error| error.to_string())?;
    Ok(match clients {
        Clients::Mesh(_, name) => Arc::new(NamedClients { inner: verifier, name: name.clone() }),
        _ => verifier,
    })
}

#[cfg(test)]
mod tests {
    use super::super::reload::{check, now};
    use super::*;

    /// Concatenates files of `tests/fixtures/tls`.
    fn fixture(names: &[&str]) -> Vec<u8> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/tls/");
        names.iter().flat_map(|name| std::fs::read(format!("{path}{name}")).unwrap()).collect()
    }

    #[test]
    fn a_signer_and_authorities_that_have_expired_are_no_valid_files() {
        for (chain, authorities, expired) in [
            (&["server.pem", "authority.pem"][..], &["expired.pem", "authority.pem"][..], None),
            (&["server.pem", "expired.pem"], &["authority.pem"], Some("chain")),
            (&["server.pem"], &["expired.pem"], Some("authorities")),
        ] {
            let contents = vec![fixture(chain), fixture(&["server.key"]), fixture(authorities)];
            let clients = Clients::SignedBy("authorities".into());
            let files = ServerFiles { certificate: "chain".into(), key: "key".into(), clients };
            let terms = config(&files, &contents).unwrap().terms;
            let rejected = check(&terms, now()).err().map(|it| it.path);
            assert_eq!(rejected, expired.map(PathBuf::from), "{chain:?} {authorities:?}");
        }
    }
}
