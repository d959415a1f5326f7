//! Sends one event, only to addresses that the operator allows, and follows no redirects.

use std::error::Error;
use std::time::Duration;

use openskill_net::egress::cause::{cause, refusal};
use openskill_net::egress::client::Clients;
use openskill_net::egress::transport::{LookUpError, SendError};
use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::{Method, Request};

use super::{Target, refusal_text};

/// How long an attempt may take, from the lookup of the name to the head of the answer.
pub(super) const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// The answer to an event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// None if there was none.
    pub(super) status: Option<u16>,
    /// Why the event was not accepted, without text of the server. Empty if it was.
    pub(super) failure: String,
    /// When the server wants the next attempt.
    pub(super) retry_after: Option<Duration>,
}

impl Answer {
    pub(super) fn failed(failure: String) -> Self {
        Self { failure, ..Self::default() }
    }

    fn from_status(status: u16, headers: &HeaderMap) -> Self {
        let failure = match status {
            200..300 => String::new(),
            300..400 => format!("status {status}: redirects are not followed"),
            _ => format!("status {status}"),
        };
        // Servers that send a date get the usual pause.
        let seconds = headers.get(RETRY_AFTER).and_then(|it| it.to_str().ok()?.trim().parse().ok());
        Self { status: Some(status), failure, retry_after: seconds.map(Duration::from_secs) }
    }
}

/// Posts an event. Dropping the future closes the connection.
pub(super) async fn send(clients: &Clients, target: Target, headers: HeaderMap, body: String) -> Answer {
    let sending = async {
        let client = clients.get(target.reach).await.map_err(|error| {
            tracing::error!(error, "an HTTP client for webhooks cannot be created");
            "the gateway has no HTTP client".to_owned()
        })?;
        let mut request = Request::new(Method::POST, target.url);
        *request.headers_mut() = headers;
        *request.body_mut() = Some(body.into());
        client.execute(request).await.map_err(|error| reason(&error))
    };
    match tokio::time::timeout(SEND_TIMEOUT, sending).await {
        Ok(Ok(response)) => Answer::from_status(response.status().as_u16(), response.headers()),
        Ok(Err(failure)) => Answer::failed(failure),
        Err(_) => Answer::failed(format!("no answer within {} s", SEND_TIMEOUT.as_secs())),
    }
}

/// Says in words why there was no answer.
fn reason(error: &SendError) -> String {
    let error: &(dyn Error + 'static) = error;
    if let Some(refusal) = refusal(error) {
        return refusal_text(refusal);
    }
    if cause::<LookUpError>(error).is_some() {
        return "the name cannot be resolved".to_owned();
    }
    match cause::<std::io::Error>(error) {
        // An error of TLS, whose kind says nothing.
        Some(failed) if failed.kind() == std::io::ErrorKind::InvalidData => "no secure connection".to_owned(),
        Some(failed) => failed.kind().to_string(),
        None => "the connection broke before an answer".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_2xx_accepts_an_event_and_a_pause_is_in_seconds() {
        let answer = |status, retry_after: &str| {
            let headers = [(RETRY_AFTER, retry_after.parse().unwrap())];
            let answer = Answer::from_status(status, &headers.into_iter().collect());
            (answer.failure, answer.retry_after.map(|it| it.as_secs()))
        };
        for (status, retry_after, failure, seconds) in [
            (204, "", "", None),
            (302, "", "status 302: redirects are not followed", None),
            (503, "7", "status 503", Some(7)),
            (429, "-1", "status 429", None),
            (500, "Tue, 01 Dec 2026 00:00:00 GMT", "status 500", None),
        ] {
            assert_eq!(answer(status, retry_after), (failure.to_owned(), seconds), "{status}");
        }
    }
}
