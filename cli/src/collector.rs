//! The OTLP client of this process, for spans and for metrics: over gRPC, or over HTTP with protobuf.
//!
//! Each message is sent once, within its timeout, over a persistent connection. The response says how much of the
//! message the collector rejected. A client never follows redirects: its headers are secrets of one collector.

use std::error::Error as _;
use std::time::Duration;

use reqwest::Client;
use reqwest::redirect::Policy;

use crate::settings::otlp::destination::{Destination, Protocol};
use crate::settings::{SettingProblem, SettingProblems};

mod export;
mod grpc;
mod http;

pub(crate) use export::{Export, Rejection, SendError};

/// A client for one signal. Its connection belongs to the runtime that sends first.
#[derive(Debug)]
pub(crate) struct Collector {
    client: Client,
    protocol: Protocol,
    endpoint: String,
    timeout: Duration,
}

impl Collector {
    /// Creates a client without connecting.
    ///
    /// # Errors
    /// The certificates are unusable, or the system has none.
    pub(crate) fn new(destination: &Destination) -> Result<Self, SettingProblems> {
        let client = client(destination).map_err(|error| {
            let sources = std::iter::successors(error.source(), |&error| error.source());
            let reason = sources.fold(error.to_string(), |reason, source| format!("{reason}: {source}"));
            let (name, origin) = (destination.setting.to_owned(), "settings".to_owned());
            SettingProblems(vec![SettingProblem { name, origin, reason }])
        })?;
        let (protocol, endpoint, timeout) = (destination.protocol, destination.endpoint.clone(), destination.timeout);
        Ok(Self { client, protocol, endpoint, timeout })
    }

    /// Sends a message. Returns the part that the collector rejected, or `None` if it accepted the whole message.
    ///
    /// # Errors
    /// The collector rejected the message, or did not confirm that it accepted it.
    pub(crate) async fn send<E: Export>(&self, message: E) -> Result<Option<Rejection>, SendError> {
        let exchange = async {
            match self.protocol {
                Protocol::Grpc => grpc::exchange(&self.client, &self.endpoint, message).await,
                Protocol::HttpProtobuf => http::exchange(&self.client, &self.endpoint, &message).await,
            }
        };
        let answered = tokio::time::timeout(self.timeout, exchange).await;
        Ok(E::rejection(answered.map_err(|_| SendError::Late(self.timeout))??))
    }
}

fn client(destination: &Destination) -> reqwest::Result<Client> {
    // Fails if another thread has already installed a provider.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = Client::builder()
        .redirect(Policy::none())
        .user_agent(concat!("openskill/", env!("CARGO_PKG_VERSION")))
        .default_headers(destination.headers.clone());
    if destination.protocol == Protocol::Grpc {
        // Proxies for HTTP/1.1 cannot forward gRPC.
        builder = builder.http2_prior_knowledge().no_proxy();
    }
    if destination.endpoint.starts_with("http:") {
        // Plain HTTP needs no certificates, and the system may have none.
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
