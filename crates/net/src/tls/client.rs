//! Opening TLS connections.

use std::io::{Error, ErrorKind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::client::{ResolvesClientCert, Resumption, WebPkiServerVerifier};
use rustls::pki_types::ServerName;
use rustls::sign::CertifiedKey;
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::expiry::Time;
use super::facts::{chain_validity, described, validities};
use super::named::NamedServers;
use super::reload::{Contents, FileError, Made, Reloaded, Term};
use super::shown::Shown;
use super::{pem, provider};

/// The files of a client, in PEM.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientFiles {
    /// The authorities that it trusts. None: those of the system.
    pub authorities: Option<PathBuf>,
    /// Its own certificate, followed by those that sign it, and its private key. None: it shows none.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// How long a server that asked for a certificate gets to refuse it. One that speaks HTTP/2 says something at once.
const REFUSAL: Duration = Duration::from_millis(500);

/// What the files were made into.
#[derive(Debug)]
struct Used {
    config: Arc<ClientConfig>,
    shown: Arc<Shown>,
    expiry: Option<Time>,
}

/// Makes TLS connections of connected sockets, for HTTP/2. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Connector {
    config: Arc<Reloaded<Used>>,
    /// The name that each server must have. None: that of its address.
    name: Option<ServerName<'static>>,
}

impl Connector {
    /// For servers that have the name of their address.
    ///
    /// # Errors
    /// A file can't be read or used, or the key is not that of the certificate.
    pub fn load(name: &'static str, files: ClientFiles) -> Result<Self, FileError> {
        Ok(Self { config: load(name, files, false)?, name: None })
    }

    /// For the workers of a mesh: wherever they are, each must have this name among the alternative names of its certificate.
    /// TLS 1.3 alone, and no session is resumed.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn for_mesh(
        name: &'static str,
        files: ClientFiles,
        server_name: ServerName<'static>,
    ) -> Result<Self, FileError> {
        Ok(Self { config: load(name, files, true)?, name: Some(server_name) })
    }

    /// Takes changes of the files, until it is dropped. Connections that are open stay as they are.
    pub async fn follow(self) {
        self.config.follow().await;
    }

    /// Whether the files have something else now that cannot be used: what was read before stays in use.
    pub fn is_stale(&self) -> bool {
        self.config.is_stale()
    }

    /// When its own certificate ends, or the first one of its chain that does. None if it shows none.
    pub fn expiry(&self) -> Option<Time> {
        self.config.current().expiry
    }

    /// For an HTTP client that does its own handshakes. Later changes of the files do not reach it.
    pub fn client_config(&self) -> ClientConfig {
        (*self.config.current().config).clone()
    }

    /// Shakes hands. The caller bounds the time. `host`: a name or an IP address, without brackets.
    ///
    /// # Errors
    /// The server can't be trusted, or refuses this client. The message says why.
    pub async fn connect<S>(&self, stream: S, host: &str) -> Result<TlsStream<S>, Error>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let name = match &self.name {
            Some(name) => name.clone(),
            None => ServerName::try_from(host.to_owned())
                .map_err(|_| Error::new(ErrorKind::InvalidInput, format!("'{host}' is not a valid server name")))?,
        };
        let used = self.config.current();
        let mut stream = TlsConnector::from(Arc::clone(&used.config)).connect(name, stream).await?;
        if used.shown.was_asked() {
            // Over TLS 1.3, the server looks at the certificate after this side has finished. Its refusal may be on the way.
            if let Ok(Err(error)) = tokio::time::timeout(REFUSAL, stream.fill_buf()).await {
                return Err(error);
            }
        }
        Ok(stream)
    }
}

fn load(name: &'static str, files: ClientFiles, is_mesh: bool) -> Result<Arc<Reloaded<Used>>, FileError> {
    let ClientFiles { authorities, identity } = &files;
    let own = identity.iter().flat_map(|(certificate, key)| [certificate, key]);
    let paths = authorities.iter().chain(own).cloned().collect();
    Reloaded::load(name, paths, move |contents| config(&files, is_mesh, contents))
}

fn config(files: &ClientFiles, is_mesh: bool, contents: &Contents) -> Result<Made<Used>, FileError> {
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
    let (mut about, mut ends) = (String::new(), None);
    let own = match &files.identity {
        None => None,
        Some((certificate, key)) => {
            let chain = pem::chain(next()).map_err(|reason| FileError::new(certificate, reason))?;
            let validity = chain_validity(&chain);
            (about, ends) = (described(&chain), validity.map(|it| it.ends));
            terms.push(Term { file: certificate.clone(), any_of: validity.into_iter().collect() });
            let private = pem::key(next()).map_err(|reason| FileError::new(key, reason))?;
            let unusable = |error: rustls::Error| {
                FileError::new(key, format!("it cannot be used with '{}': {error}", certificate.display()))
            };
            Some(CertifiedKey::from_der(chain, private, &provider()).map_err(unusable)?)
        }
    };
    let shown = Arc::new(Shown::new(own));
    let mut config = builder.with_client_cert_resolver(Arc::clone(&shown) as Arc<dyn ResolvesClientCert>);
    config.alpn_protocols = vec![b"h2".to_vec()];
    if is_mesh {
        config.resumption = Resumption::disabled();
    }
    Ok(Made { value: Used { config: Arc::new(config), shown, expiry: ends }, about, terms })
}
