//! `openskill health`: checks the gateway or a worker.

use std::time::Duration;

use openskill_net::tls::install_provider;
use reqwest::Client;
use reqwest::redirect::Policy;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::client;
use crate::args::HealthArgs;
use crate::exit::Failure;
use crate::settings::Settings;
use crate::terminal::print_out;

/// The timeout of a worker's response.
const TIMEOUT: Duration = Duration::from_secs(5);

pub(super) async fn run(health: &HealthArgs, settings: &Settings) -> Result<(), Failure> {
    if let Some(address) = &health.worker {
        return check_worker(address).await;
    }
    let mut health = HealthClient::new(client::connect(settings).await?);
    let answer = health.check(HealthCheckRequest::default()).await.map_err(client::into_failure(settings))?;
    if answer.into_inner().status() == ServingStatus::Serving {
        print_out("ready\n");
        return Ok(());
    }
    Err(Failure::gateway(&settings.base_url, "is not ready: it is draining, or no worker is up"))
}

/// Checks a worker at its metrics address. In a mesh, the worker's call port accepts only gateways.
async fn check_worker(address: &str) -> Result<(), Failure> {
    let url = format!("http://{address}/healthz");
    install_provider();
    // Connect without a proxy and in plain text. Certificates are not loaded, since the system may have none.
    let client = Client::builder().no_proxy().redirect(Policy::none()).tls_certs_only([]).timeout(TIMEOUT).build();
    let failed = |reason: String| Failure::NotReady(format!("the worker at {address} {reason}"));
    let unreachable = |error: reqwest::Error| {
        let sources = std::iter::successors(std::error::Error::source(&error), |error| error.source());
        let reason = sources.last().map_or_else(|| error.to_string(), ToString::to_string);
        failed(format!("cannot be reached: {reason}"))
    };
    let answer = client.map_err(unreachable)?.get(&url).send().await.map_err(unreachable)?;
    if answer.status().is_success() {
        print_out("ready\n");
        return Ok(());
    }
    Err(failed(format!("is not ready: it answers {}", answer.status())))
}
