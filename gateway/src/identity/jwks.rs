//! Reads the public keys of an issuer, from its server or a file: at intervals, and when a token names an unknown
//! key.
//!
//! If a read fails, the old keys stay in use for a limited time, so that an outage of the issuer does not end
//! calls. A successful read replaces all keys, even if no new key is usable: missing keys end at once.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use openskill_identity::jwt::issuers::KeySource;
use openskill_identity::jwt::jwk::{MAX_BYTES, PublicKey, parse};
use openskill_net::file_watcher::read_file;
use openskill_net::tls::install_provider;
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, Url};

use super::issuer::{LiveIssuer, MIN_INTERVAL};

/// The intervals between reads from a server, and from a file.
const FROM_SERVER: Duration = Duration::from_secs(300);
const FROM_FILE: Duration = Duration::from_millis(250);

/// The timeout for a response from a server.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Reads keys until the issuer is removed from the file of issuers.
pub(super) async fn follow(issuer: Arc<LiveIssuer>) {
    let ended = issuer.ended.clone();
    tokio::select! {
        () = keep(&issuer) => {}
        () = ended.cancelled() => {}
    }
}

async fn keep(issuer: &LiveIssuer) {
    let name = &issuer.issuer.name;
    let (mut last_success, mut told) = (None::<Instant>, None::<Result<usize, String>>);
    loop {
        issuer.reading_began();
        let read = read_keys(issuer).await;
        // Update the keys before waking the requests that wait for them.
        match &read {
            Ok(keys) => {
                last_success = Some(Instant::now());
                issuer.replace(keys.clone());
            }
            Err(_) if last_success.is_some_and(|at| at.elapsed() > issuer.issuer.keep_keys) => {
                issuer.replace(Vec::new());
                last_success = None;
                tracing::error!(issuer = name, "an issuer's keys are too old: its tokens are refused");
            }
            Err(_) => {}
        }
        issuer.reading_ended();
        let is_failure = read.is_err();
        let now = read.map(|keys| keys.len());
        if told.as_ref() != Some(&now) {
            match &now {
                Ok(0) => tracing::error!(
                    issuer = name,
                    "an issuer's keys were read, but none can verify signatures: its tokens are refused"
                ),
                Ok(keys) => tracing::info!(issuer = name, keys, "an issuer's keys were read"),
                Err(reason) => {
                    tracing::error!(
                        issuer = name,
                        reason,
                        "an issuer's keys cannot be read: the known keys stay in use"
                    );
                }
            }
            told = Some(now);
        }
        let pause = match issuer.issuer.keys {
            KeySource::File(_) => FROM_FILE,
            KeySource::Url(_) if is_failure => MIN_INTERVAL,
            KeySource::Url(_) => FROM_SERVER,
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = issuer.wanted.notified() => {}
        }
    }
}

async fn read_keys(issuer: &LiveIssuer) -> Result<Vec<PublicKey>, String> {
    let document = match &issuer.issuer.keys {
        KeySource::File(path) => read(path).await?,
        KeySource::Url(url) => fetch(url, issuer.issuer.ca.as_deref()).await?,
    };
    parse(&document)
}

/// Reads the file. If it is being written, reads it again a moment later.
async fn read(path: &Path) -> Result<Vec<u8>, String> {
    let path = path.to_owned();
    let read = move || read_file(&path, MAX_BYTES as u64).map_err(|error| format!("'{}': {error}", path.display()));
    tokio::task::spawn_blocking(read).await.map_err(|error| error.to_string())?
}

async fn fetch(url: &str, authorities: Option<&Path>) -> Result<Vec<u8>, String> {
    let client = client(authorities).await?;
    let url: Url = url.parse().map_err(|error| format!("jwks: {error}"))?;
    let failed = |error: reqwest::Error| {
        let sources = std::iter::successors(std::error::Error::source(&error), |&error| error.source());
        sources.fold(error.to_string(), |reason, source| format!("{reason}: {source}"))
    };
    let mut response = client.get(url).send().await.map_err(failed)?;
    if !response.status().is_success() {
        return Err(format!("the key server answered with {}", response.status()));
    }
    let mut document = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(failed)? {
        if document.len() + piece.len() > MAX_BYTES {
            return Err(format!("it has more than {MAX_BYTES} bytes"));
        }
        document.extend_from_slice(&piece);
    }
    Ok(document)
}

/// Creates a client for one read. Reads the CA file each time, which is rare.
async fn client(authorities: Option<&Path>) -> Result<Client, String> {
    install_provider();
    let mut builder = Client::builder()
        .https_only(true)
        .redirect(Policy::none())
        .timeout(TIMEOUT)
        .user_agent(concat!("openskill/", env!("CARGO_PKG_VERSION")));
    if let Some(path) = authorities {
        let pem = read(path).await?;
        let trusted = Certificate::from_pem_bundle(&pem).map_err(|error| format!("'{}': {error}", path.display()))?;
        builder = builder.tls_certs_only(trusted);
    }
    builder.build().map_err(|error| error.to_string())
}
