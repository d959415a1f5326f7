//! Certificates that `openskill certs dev` made, and clients that trust them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use rustls::client::WantsClientCert;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::transport::{Channel, Endpoint};

use crate::binary;
use crate::folder::Folder;
use crate::rest::Answer;

/// A directory of certificates.
#[derive(Debug)]
pub struct Certs(Folder);

impl Certs {
    pub fn make() -> Self {
        Self::with(&[])
    }

    /// Certificates that are valid for so many days.
    pub fn for_days(days: u32) -> Self {
        Self::with(&["--days", &days.to_string()])
    }

    /// Certificates for these hosts beside `localhost`.
    pub fn for_hosts(hosts: &[&str]) -> Self {
        let flags: Vec<_> = hosts.iter().flat_map(|it| ["--host", it]).collect();
        Self::with(&flags)
    }

    fn with(flags: &[&str]) -> Self {
        let certs = Self(Folder::new());
        let made = certs.dev(flags);
        assert!(made.status.success(), "{made:?}");
        certs
    }

    /// Runs `openskill certs dev` for the directory.
    pub fn dev(&self, flags: &[&str]) -> Output {
        let mut command = Command::new(binary());
        command.args(["certs", "dev", "--dir"]).arg(self.0.path().join("made")).args(flags).env_clear();
        command.output().unwrap()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join("made").join(name)
    }

    /// The path as a setting.
    pub fn file(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    /// Puts a file in its place at once, as a careful writer does.
    pub fn replace(&self, name: &str, content: &[u8]) {
        let new = self.0.write("new", content);
        std::fs::rename(new, self.path(name)).unwrap();
    }

    /// Trusts the authority of another directory too.
    pub fn trust(&self, other: &Self) {
        self.replace("ca.pem", &[self.read("ca.pem"), other.read("ca.pem")].concat());
    }

    /// A client that trusts this authority and shows no certificate.
    pub fn client(&self) -> Client {
        self.client_as(None)
    }

    /// The same with a certificate of this directory: `client`, say.
    pub fn client_as(&self, name: Option<&str>) -> Client {
        let builder = trusting(&self.path("ca.pem"));
        let config = match name {
            None => builder.with_no_client_auth(),
            Some(name) => {
                let chain = CertificateDer::pem_file_iter(self.path(&format!("{name}.pem"))).unwrap();
                let key = PrivateKeyDer::from_pem_file(self.path(&format!("{name}.key"))).unwrap();
                builder.with_client_auth_cert(chain.map(Result::unwrap).collect(), key).unwrap()
            }
        };
        Client(config)
    }
}

fn trusting(authorities: &Path) -> ConfigBuilder<ClientConfig, WantsClientCert> {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_file_iter(authorities).unwrap() {
        roots.add(authority.unwrap()).unwrap();
    }
    let builder = ClientConfig::builder_with_provider(default_provider().into());
    builder.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots)
}

/// A client that speaks TLS.
#[derive(Debug, Clone)]
pub struct Client(ClientConfig);

impl Client {
    /// One that trusts the authorities of a file and shows no certificate.
    pub fn trusting(authorities: &Path) -> Self {
        Self(trusting(authorities).with_no_client_auth())
    }

    /// A connection with one of these protocols, after its handshake.
    pub async fn connect(&self, address: SocketAddr, protocols: &[&str]) -> std::io::Result<TlsStream<TcpStream>> {
        self.connect_to(address, "localhost", protocols).await
    }

    /// The same to a server that must have this name.
    pub async fn connect_to(
        &self,
        address: SocketAddr,
        name: &str,
        protocols: &[&str],
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let mut config = self.0.clone();
        config.alpn_protocols = protocols.iter().map(|it| it.as_bytes().to_vec()).collect();
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from(name.to_owned()).unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    /// A gRPC channel over one connection.
    pub async fn channel(&self, address: SocketAddr) -> Result<Channel, tonic::transport::Error> {
        self.channel_to(address, "localhost").await
    }

    /// The same to a server that must have this name.
    pub async fn channel_to(
        &self,
        address: SocketAddr,
        name: &'static str,
    ) -> Result<Channel, tonic::transport::Error> {
        let client = self.clone();
        let connector = tower::service_fn(move |_: Uri| {
            let client = client.clone();
            async move { client.connect_to(address, name, &["h2"]).await.map(TokioIo::new) }
        });
        // tonic refuses https where another than its own TLS connects. The server sees the origin.
        let place = format!("{name}:{}", address.port());
        let origin = format!("https://{place}").parse().unwrap();
        let endpoint = Endpoint::from_shared(format!("http://{place}")).unwrap().origin(origin);
        endpoint.connect_with_connector(connector).await
    }

    /// An HTTP/1.1 request over a connection of its own.
    pub async fn send(
        &self,
        address: SocketAddr,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        self.try_send(address, method, path, headers, body).await.unwrap()
    }

    /// The same to a server that may not be there.
    pub async fn try_send(
        &self,
        address: SocketAddr,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> std::io::Result<Answer> {
        let broken = std::io::Error::other;
        let stream = self.connect(address, &["http/1.1"]).await?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = sender.send_request(request.body(Full::new(body.into())).unwrap()).await.map_err(broken)?;
        let (parts, body) = response.into_parts();
        let body = body.collect().await.map_err(broken)?.to_bytes();
        Ok(Answer { status: parts.status.as_u16(), headers: parts.headers, body })
    }
}
