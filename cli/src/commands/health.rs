//! `openskill health`.

use std::process::ExitCode;

use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::client;
use crate::exit::Failure;
use crate::settings::Settings;
use crate::terminal::say;

pub(super) async fn run(settings: &Settings) -> Result<ExitCode, Failure> {
    let mut health = HealthClient::new(client::connect(settings).await?);
    let answer = health.check(HealthCheckRequest::default()).await.map_err(client::refused(settings))?;
    if answer.into_inner().status() == ServingStatus::Serving {
        say("ready\n");
        return Ok(ExitCode::SUCCESS);
    }
    Err(Failure::Gateway {
        url: settings.base_url.clone(),
        reason: "is not ready: it is draining, or no worker is up".to_owned(),
    })
}
