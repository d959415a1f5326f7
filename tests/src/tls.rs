//! TLS in front of a server that speaks none, with certificates that an authority of the tests signed.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use crate::repository;

/// The certificate of the authority, and those of a client with its key.
pub const AUTHORITY: &str = "authority.pem";
pub const CLIENT: &str = "client.pem";
pub const CLIENT_KEY: &str = "client.key";

/// Where a certificate or a key is.
pub fn path(name: &str) -> PathBuf {
    repository().join("tests/fixtures/tls").join(name)
}

/// Decrypts for a server, until it is dropped. Its certificate is for `localhost`.
pub struct Front {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Front {
    /// Lets every client in.
    pub async fn of(server: SocketAddr) -> Self {
        let builder = ServerConfig::builder_with_provider(default_provider().into());
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        Self::start(server, builder.with_no_client_auth()).await
    }

    /// Lets clients in that show a certificate which the authority signed.
    pub async fn for_known_clients(server: SocketAddr) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(path(AUTHORITY)).unwrap()).unwrap();
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), default_provider().into());
        let builder = ServerConfig::builder_with_provider(default_provider().into());
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        Self::start(server, builder.with_client_cert_verifier(verifier.build().unwrap())).await
    }

    async fn start(
        server: SocketAddr,
        builder: rustls::ConfigBuilder<ServerConfig, rustls::server::WantsServerCert>,
    ) -> Self {
        let certificate = CertificateDer::from_pem_file(path("server.pem")).unwrap();
        let key = PrivateKeyDer::from_pem_file(path("server.key")).unwrap();
        let mut config = builder.with_single_cert(vec![certificate], key).unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(accept(listener, Arc::new(config).into(), server));
        Self { address, task }
    }

    pub fn url(&self) -> String {
        format!("https://localhost:{}", self.address.port())
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, server: SocketAddr) {
    // The connections end with this task.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let acceptor = acceptor.clone();
        connections.spawn(async move {
            let Ok(mut client) = acceptor.accept(stream).await else { return };
            let mut server = TcpStream::connect(server).await.unwrap();
            let _ = copy_bidirectional(&mut client, &mut server).await;
        });
        while connections.try_join_next().is_some() {}
    }
}
