//! The OTLP client of this process, for spans and for metrics: over gRPC, or over HTTP with protobuf.
//!
//! A message is sent once, within its time, over a connection that is kept. The answer says how much of the message the
//! collector rejected. A client never follows redirects: its headers are secrets of one collector.

use std::error::Error as _;
use std::time::Duration;

use reqwest::Client;
use reqwest::redirect::Policy;

use crate::settings::otlp::destination::{Destination, Protocol};
use crate::settings::{Problem, Problems};

mod export;
mod grpc;
mod http;

pub(crate) use export::{Export, Rejected, SendError};

/// A client for one signal. Its connection belongs to the runtime that first sends.
#[derive(Debug)]
pub(crate) struct Collector {
    client: Client,
    protocol: Protocol,
    endpoint: String,
    timeout: Duration,
}

impl Collector {
    /// # Errors
    /// The certificates are not usable, or the system has none.
    pub(crate) fn new(destination: &Destination) -> Result<Self, Problems> {
        let client = client(destination).map_err(|error| {
            let sources = std::iter::successors(error.source(), |&error| error.source());
            let reason = sources.fold(error.to_string(), |reason, source| format!("{reason}: {source}"));
            let (name, origin) = (destination.setting.to_owned(), "settings".to_owned());
            Problems(vec![Problem { name, origin, reason }])
        })?;
        let (protocol, endpoint, timeout) = (destination.protocol, destination.endpoint.clone(), destination.timeout);
        Ok(Self { client, protocol, endpoint, timeout })
    }

    /// Sends a message. None: the collector took all of it.
    ///
    /// # Errors
    /// As far as this side knows, it took nothing.
    pub(crate) async fn send<E: Export>(&self, message: E) -> Result<Option<Rejected>, SendError> {
        let exchange = async {
            match self.protocol {
                Protocol::Grpc => grpc::exchange(&self.client, &self.endpoint, message).await,
                Protocol::HttpProtobuf => http::exchange(&self.client, &self.endpoint, &message).await,
            }
        };
        let answered = tokio::time::timeout(self.timeout, exchange).await;
        Ok(E::rejected(answered.map_err(|_| SendError::Late(self.timeout))??))
    }
}

fn client(destination: &Destination) -> reqwest::Result<Client> {
    // Another thread may have installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = Client::builder()
        .redirect(Policy::none())
        .user_agent(concat!("openskill/", env!("CARGO_PKG_VERSION")))
        .default_headers(destination.headers.clone());
    if destination.protocol == Protocol::Grpc {
        // Proxies for HTTP/1.1 cannot pass it on.
        builder = builder.http2_prior_knowledge().no_proxy();
    }
    if destination.endpoint.starts_with("http:") {
        // The system may have no certificates, and this has no need of them.
        return builder.tls_certs_only([]).build();
    }
    if let Some(trusted) = &destination.trusted {
        builder = builder.tls_certs_only(trusted.clone());
    }
    if let Some(identity) = &destination.identity {
        builder = builder.identity(identity.clone());
    }
    builder.build()
}
