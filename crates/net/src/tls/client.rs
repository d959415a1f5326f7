//! Opens TLS connections.

use std::io::{Error, ErrorKind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustls::client::{ResolvesClientCert, Resumption, WebPkiServerVerifier};
use rustls::pki_types::ServerName;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, SignatureScheme};
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::certificate_info::{chain_validity, describe_chain, validities};
use super::expiry::Time;
use super::named::NamedServers;
use super::reload::{Contents, FileError, Loaded, Reloadable, Term};
use super::{pem, provider};

/// The paths of a client's PEM files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientFiles {
    /// The trusted authorities. `None` trusts the system's authorities.
    pub authorities: Option<PathBuf>,
    /// The certificate chain and the private key. `None`: the client presents no certificate.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// The time that a server which requested a certificate has to reject it. An HTTP/2 server that accepts it sends a
/// frame at once.
const REFUSAL: Duration = Duration::from_millis(500);

/// The configuration loaded from the files.
#[derive(Debug)]
struct LoadedClientConfig {
    config: Arc<ClientConfig>,
    client_cert: Arc<ClientCertResolver>,
    expiry: Option<Time>,
}

/// Turns connected sockets into TLS connections for HTTP/2. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Connector {
    config: Arc<Reloadable<LoadedClientConfig>>,
    /// The name that each server certificate must have. `None` means the name in the server's address.
    name: Option<ServerName<'static>>,
}

impl Connector {
    /// Creates a connector for servers whose certificates have the name in their address. The log calls the files
    /// `name`.
    ///
    /// # Errors
    /// A file is unreadable or invalid, or the key does not match the certificate.
    pub fn load(name: &'static str, files: ClientFiles) -> Result<Self, FileError> {
        Ok(Self { config: load(name, files, false)?, name: None })
    }

    /// Creates a connector for the workers of a mesh. Whatever its address, each worker must have this name among
    /// the alternative names of its certificate. The connector uses only TLS 1.3, and never resumes a session.
    ///
    /// # Errors
    /// The same as for [`load`](Self::load).
    pub fn for_mesh(
        name: &'static str,
        files: ClientFiles,
        server_name: ServerName<'static>,
    ) -> Result<Self, FileError> {
        Ok(Self { config: load(name, files, true)?, name: Some(server_name) })
    }

    /// Reloads the files when they change, until the future is dropped. Open connections are not affected.
    pub async fn follow(self) {
        self.config.follow().await;
    }

    /// Whether the files have changed but are unusable, so that the previous content stays in use.
    pub fn is_stale(&self) -> bool {
        self.config.is_stale()
    }

    /// Returns the earliest expiry in the client's certificate chain. `None` if the client presents no
    /// certificate.
    pub fn expiry(&self) -> Option<Time> {
        self.config.current().expiry
    }

    /// Returns the configuration for an HTTP client that performs its own handshakes. It does not follow later
    /// changes of the files.
    pub fn client_config(&self) -> ClientConfig {
        (*self.config.current().config).clone()
    }

    /// Performs the handshake. The caller sets a timeout. `host` is a name or an IP address, without brackets.
    ///
    /// # Errors
    /// The server is untrusted, or rejects this client. The message contains the reason.
    pub async fn connect<S>(&self, stream: S, host: &str) -> Result<TlsStream<S>, Error>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let name = match &self.name {
            Some(name) => name.clone(),
            None => ServerName::try_from(host.to_owned())
                .map_err(|_| Error::new(ErrorKind::InvalidInput, format!("'{host}' is not a valid server name")))?,
        };
        let loaded = self.config.current();
        let mut stream = TlsConnector::from(Arc::clone(&loaded.config)).connect(name, stream).await?;
        if loaded.client_cert.was_asked.load(Ordering::Relaxed) {
            // In TLS 1.3, the server checks the client certificate after the client has finished the handshake. A
            // rejection may still be on the way.
            if let Ok(Err(error)) = tokio::time::timeout(REFUSAL, stream.fill_buf()).await {
                return Err(error);
            }
        }
        Ok(stream)
    }
}

fn load(
    name: &'static str,
    files: ClientFiles,
    is_mesh: bool,
) -> Result<Arc<Reloadable<LoadedClientConfig>>, FileError> {
    let ClientFiles { authorities, identity } = &files;
    let own = identity.iter().flat_map(|(certificate, key)| [certificate, key]);
    let paths = authorities.iter().chain(own).cloned().collect();
    Reloadable::load(name, paths, move |contents| config(&files, is_mesh, contents))
}

fn config(files: &ClientFiles, is_mesh: bool, contents: &Contents) -> Result<Loaded<LoadedClientConfig>, FileError> {
    let mut contents = contents.iter();
    let mut next = || contents.next().map(Vec::as_slice).unwrap_or_default();
    let versions = if is_mesh { &[&rustls::version::TLS13][..] } else { rustls::DEFAULT_VERSIONS };
    let of_system = |error: rustls::Error| FileError::new("the system's certificates".as_ref(), error.to_string());
    let builder =
        ClientConfig::builder_with_provider(provider()).with_protocol_versions(versions).map_err(of_system)?;
    let mut terms = Vec::new();
    let builder = match &files.authorities {
        Some(file) => {
            let unusable = |reason: String| FileError::new(file, reason);
            let (roots, authorities) = pem::authorities(next()).map_err(unusable)?;
            terms.push(Term { file: file.clone(), any_of: validities(&authorities) });
            if is_mesh {
                let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider());
                let inner = verifier.build().map_err(|error| unusable(error.to_string()))?;
                builder.dangerous().with_custom_certificate_verifier(Arc::new(NamedServers { inner }))
            } else {
                builder.with_root_certificates(roots)
            }
        }
        None => builder.with_platform_verifier().map_err(of_system)?,
    };
    let (mut description, mut ends) = (String::new(), None);
    let own = match &files.identity {
        None => None,
        Some((certificate, key)) => {
            let chain = pem::chain(next()).map_err(|reason| FileError::new(certificate, reason))?;
            let validity = chain_validity(&chain);
            (description, ends) = (describe_chain(&chain), validity.map(|it| it.ends));
            terms.push(Term { file: certificate.clone(), any_of: validity.into_iter().collect() });
            let private = pem::key(next()).map_err(|reason| FileError::new(key, reason))?;
            let unusable = |error: rustls::Error| {
                FileError::new(key, format!("it cannot be used with '{}': {error}", certificate.display()))
            };
            Some(CertifiedKey::from_der(chain, private, &provider()).map_err(unusable)?)
        }
    };
    let client_cert = Arc::new(ClientCertResolver { own: own.map(Arc::new), was_asked: AtomicBool::new(false) });
    let mut config = builder.with_client_cert_resolver(Arc::clone(&client_cert) as Arc<dyn ResolvesClientCert>);
    config.alpn_protocols = vec![b"h2".to_vec()];
    if is_mesh {
        config.resumption = Resumption::disabled();
    }
    Ok(Loaded { value: LoadedClientConfig { config: Arc::new(config), client_cert, expiry: ends }, description, terms })
}

/// Presents the client's certificate, if it has one, to servers that request it. Remembers the request.
#[derive(Debug, Default)]
struct ClientCertResolver {
    own: Option<Arc<CertifiedKey>>,
    /// Whether a server has requested a certificate.
    was_asked: AtomicBool,
}

impl ResolvesClientCert for ClientCertResolver {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.was_asked.store(true, Ordering::Relaxed);
        self.own.clone()
    }

    fn has_certs(&self) -> bool {
        // True even without a certificate: otherwise rustls does not report the server's request.
        true
    }
}
