//! Webhooks: tells a server that its owner named of the end of an operation, as a signed CloudEvent.
//!
//! ```text
//! Store (deliveries that are due) -> deliver (claims them) -> event, signature -> send -> retry (what is next) -> Store
//! ```
//!
//! - [`deliver`]: claims deliveries, and makes an attempt of each; [`event`]: what is sent; [`signature`]: proves who
//!   sent it
//! - [`send`]: one request, only where the operator allows; [`retry`]: what follows from its answer

pub(crate) mod deliver;
mod event;
mod retry;
mod send;
mod signature;

use openskill_net::egress::allow::Allowed;
use openskill_net::egress::reach::{EgressRefusal, Reach};
use openskill_store::deliveries::{Delivery, DeliveryState};
use reqwest::Url;

pub use signature::SigningKeys;

/// The maximum length of a URL, in bytes.
const MAX_URL_BYTES: usize = 2048;

/// How webhooks are signed, and where they may go.
#[derive(Debug, Clone)]
pub struct WebhookConfig {
    /// The keys of signatures.
    pub keys: SigningKeys,
    /// Servers outside the public internet, and those that need no TLS.
    pub allow: Allowed,
}

/// Where an event may go.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) url: Url,
    /// The addresses to which its name may resolve.
    reach: Reach,
}

impl WebhookConfig {
    /// Checks a URL. What its name resolves to is checked at each attempt.
    ///
    /// # Errors
    /// In words, why no event may go there.
    pub(super) fn target(&self, text: &str) -> Result<Target, String> {
        if text.len() > MAX_URL_BYTES {
            return Err(format!("the webhook has more than {MAX_URL_BYTES} bytes"));
        }
        let url = Url::parse(text).map_err(|_| "the webhook is not a URL such as https://example.com/ended")?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err("the webhook must not contain a user or a password: check the signature instead".to_owned());
        }
        if url.scheme() != "https" && !(url.scheme() == "http" && self.allow.has_host(&url)) {
            return Err("the webhook must be an https:// URL, unless OPENSKILL_WEBHOOK_ALLOW has its host".to_owned());
        }
        let reach = Reach::for_url(&url, &self.allow).map_err(|refusal| refusal_text(&refusal))?;
        Ok(Target { url, reach })
    }
}

impl Target {
    /// The host and port, by which attempts are shared.
    pub(super) fn host(&self) -> String {
        let port = self.url.port_or_known_default().unwrap_or_default();
        format!("{}:{port}", self.url.host_str().unwrap_or_default())
    }
}

/// Says in words why an event may not go to an address.
fn refusal_text(refusal: &EgressRefusal) -> String {
    match refusal {
        EgressRefusal::Address { host, kind } => {
            format!("the webhook's host '{host}' is {kind}: OPENSKILL_WEBHOOK_ALLOW must have it")
        }
        other => other.to_string(),
    }
}

/// Says in words what became of a webhook.
pub(super) fn describe(delivery: &Delivery) -> String {
    let Delivery { state, attempts, failure, .. } = delivery;
    let reason = if failure.is_empty() { String::new() } else { format!(": {failure}") };
    match state {
        DeliveryState::Idle => "waits for the end".to_owned(),
        DeliveryState::Waiting if *attempts == 0 => "waiting".to_owned(),
        DeliveryState::Waiting => format!("waiting (attempt {attempts}{reason})"),
        DeliveryState::Delivered => "delivered".to_owned(),
        DeliveryState::Failed => format!("failed (attempt {attempts}{reason})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(allow: &[&str]) -> WebhookConfig {
        let allow: Vec<_> = allow.iter().map(|it| (*it).to_owned()).collect();
        let keys = SigningKeys::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLpSw").unwrap();
        WebhookConfig { keys, allow: Allowed::parse(&allow).unwrap() }
    }

    #[test]
    fn an_event_goes_to_public_https_servers_and_to_those_that_are_allowed() {
        let allow = ["receiver.internal:9000", "10.1.0.0/16", "localhost:9000"];
        for (url, host) in [
            ("https://example.com/ended?token=x", "example.com:443"),
            ("https://Example.com:8443", "example.com:8443"),
            ("http://receiver.internal:9000/", "receiver.internal:9000"),
            ("http://10.1.2.3:5/", "10.1.2.3:5"),
        ] {
            assert_eq!(config(&allow).target(url).map(|it| it.host()), Ok(host.to_owned()), "{url}");
        }
        for (url, reason) in [
            ("ended", "not a URL"),
            ("ftp://example.com/", "must be an https:// URL"),
            ("http://example.com/", "must be an https:// URL"),
            ("http://receiver.internal/", "must be an https:// URL"),
            ("https://u@example.com/", "a user or a password"),
            ("https://:p@example.com/", "a user or a password"),
            ("https://10.2.0.1/", "OPENSKILL_WEBHOOK_ALLOW"),
            ("https://[::1]/", "OPENSKILL_WEBHOOK_ALLOW"),
            ("https://0x7f.1/", "OPENSKILL_WEBHOOK_ALLOW"),
            ("https://metadata.google.internal/", "OPENSKILL_WEBHOOK_ALLOW"),
        ] {
            let refusal = config(&allow).target(url).unwrap_err();
            assert!(refusal.contains(reason), "{url}: {refusal}");
        }
        let long = format!("https://example.com/{}", "x".repeat(MAX_URL_BYTES));
        assert!(config(&allow).target(&long).unwrap_err().contains("2048 bytes"));
    }

    #[test]
    fn a_name_is_refused_where_it_resolves_to() {
        let target = config(&["localhost:9000"]).target("https://localhost/").unwrap();
        let refusal = target.reach.check_address("localhost", "127.0.0.1".parse().unwrap()).unwrap_err();
        assert!(refusal_text(&refusal).contains("'localhost' is this machine itself"), "{refusal}");
    }
}
