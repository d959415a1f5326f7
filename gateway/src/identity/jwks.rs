//! Reads the public keys of an issuer, from its server or a file: at intervals, and when a token names a key that is not known.
//!
//! Keys that can't be read again stay in use for a bounded time, so that an outage of the issuer ends no call. A set that is
//! read is what the issuer says, also if no key in it can be used: what it has no longer ends at once.

use std::path::Path;
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

use openskill_identity::jwt::issuers::KeySource;
use openskill_identity::jwt::jwk::{Key, MAX_BYTES, parse};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, Url};

use super::issuer::{LiveIssuer, MIN_INTERVAL};

/// How often keys are read from a server, and from a file.
const FROM_SERVER: Duration = Duration::from_secs(300);
const FROM_FILE: Duration = Duration::from_millis(250);

/// How long a server may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Reads keys until the issuer is dropped from the file of issuers.
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
        let read = read(issuer).await;
        // Before anybody who waits looks.
        match &read {
            Ok(keys) => {
                last_success = Some(Instant::now());
                issuer.replace(keys.clone());
            }
            Err(_) if last_success.is_some_and(|at| at.elapsed() > issuer.issuer.keep_keys) => {
                issuer.replace(Vec::new());
                last_success = None;
                tracing::error!(issuer = name, "the keys of an issuer are too old: its tokens are refused");
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
                    "the keys of an issuer were read, and none of them verifies signatures: its tokens are refused"
                ),
                Ok(keys) => tracing::info!(issuer = name, keys, "the keys of an issuer were read"),
                Err(reason) => {
                    tracing::error!(
                        issuer = name,
                        reason,
                        "the keys of an issuer cannot be read: known keys stay in use"
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

async fn read(issuer: &LiveIssuer) -> Result<Vec<Key>, String> {
    let document = match &issuer.issuer.keys {
        KeySource::File(path) => of_file(path).await?,
        KeySource::Url(url) => fetched(url, issuer.ca().map(|it| it.as_path())).await?,
    };
    parse(&document)
}

/// A file that is being written is read again a moment later.
async fn of_file(path: &Path) -> Result<Vec<u8>, String> {
    let unreadable = |error: std::io::Error| format!("'{}': {error}", path.display());
    let found = tokio::fs::metadata(path).await.map_err(unreadable)?;
    if !found.is_file() || found.len() > MAX_BYTES as u64 {
        return Err(format!("'{}' is not a file of at most {MAX_BYTES} bytes", path.display()));
    }
    tokio::fs::read(path).await.map_err(unreadable)
}

async fn fetched(url: &str, authorities: Option<&Path>) -> Result<Vec<u8>, String> {
    let client = client(authorities).await?;
    let url: Url = url.parse().map_err(|error| format!("jwks: {error}"))?;
    let failed = |error: reqwest::Error| {
        let sources = std::iter::successors(std::error::Error::source(&error), |&error| error.source());
        sources.fold(error.to_string(), |reason, source| format!("{reason}: {source}"))
    };
    let mut response = client.get(url).send().await.map_err(failed)?;
    if !response.status().is_success() {
        return Err(format!("the server of the keys answers {}", response.status()));
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

/// A client for one reading: authorities are read with the keys, which is seldom.
async fn client(authorities: Option<&Path>) -> Result<Client, String> {
    static CRYPTOGRAPHY: Once = Once::new();
    CRYPTOGRAPHY.call_once(|| {
        // Another thread may have installed one.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
    let mut builder = Client::builder()
        .https_only(true)
        .redirect(Policy::none())
        .timeout(TIMEOUT)
        .user_agent(concat!("openskill/", env!("CARGO_PKG_VERSION")));
    if let Some(path) = authorities {
        let pem = of_file(path).await?;
        let trusted = Certificate::from_pem_bundle(&pem).map_err(|error| format!("'{}': {error}", path.display()))?;
        builder = builder.tls_certs_only(trusted);
    }
    builder.build().map_err(|error| error.to_string())
}
