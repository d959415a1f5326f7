//! The container engine: its address, and what it says of itself and of its images.

use std::time::Duration;

use bollard::errors::Error;
use bollard::query_parameters::CreateImageOptionsBuilder;
use bollard::{API_DEFAULT_VERSION, Docker};
use futures_util::StreamExt as _;

use crate::manifest::docker::Image;

/// How long the engine may take to say that it is there.
const PRESENT_WITHIN: Duration = Duration::from_secs(1);

/// How long it may take to answer a request, in seconds, and to begin a pull.
const ANSWER_WITHIN_S: u64 = 20;
const PULL_WITHIN: Duration = Duration::from_secs(600);

/// How much of an engine's words is shown.
const MAX_SHOWN: usize = 200;

/// An engine, by its address.
#[derive(Debug, Clone)]
pub(super) struct Engine {
    host: String,
}

/// What an engine has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Facts {
    /// Processors.
    pub(super) cpus: f64,
}

/// An image the engine has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// `sha256:...`: what containers are made of, whatever the name stands for later.
    pub(super) id: String,
    pub(super) entrypoint: Vec<String>,
    pub(super) command: Vec<String>,
    /// It wants folders outside of its read-only root, on the host's disk.
    pub(super) has_volumes: bool,
}

impl Engine {
    pub(super) fn new(host: &str) -> Self {
        Self { host: host.to_owned() }
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// Whether it runs on this machine's kernel.
    pub(super) fn is_local(&self) -> bool {
        self.host.starts_with("unix://")
    }

    /// A client. It keeps no connection between requests, so that it is at home on any runtime and outlives an engine
    /// that was started again.
    pub(super) fn client(&self) -> Result<Docker, Error> {
        if self.is_local() {
            Docker::connect_with_unix(&self.host, ANSWER_WITHIN_S, API_DEFAULT_VERSION)
        } else {
            Docker::connect_with_http(&self.host, ANSWER_WITHIN_S, API_DEFAULT_VERSION)
        }
    }

    /// Whether it is there, or why not, for people.
    pub(super) async fn look(&self) -> Result<Facts, String> {
        let client = self.client().map_err(|_| ABSENT.to_owned())?;
        let asked = tokio::time::timeout(PRESENT_WITHIN, client.info()).await;
        match asked {
            Ok(Ok(info)) => Ok(Facts { cpus: info.ncpu.unwrap_or(1).max(1) as f64 }),
            Ok(Err(Error::DockerResponseServerError { status_code, .. })) => {
                Err(format!("the container engine refuses to be asked (status {status_code})"))
            }
            Ok(Err(error)) => {
                tracing::debug!(%error, "no container engine");
                Err(ABSENT.to_owned())
            }
            Err(_) => Err("the container engine does not answer".to_owned()),
        }
    }

    /// The image, if the engine has it.
    pub(super) async fn find(&self, image: &Image) -> Result<Option<Found>, Error> {
        let found = match self.client()?.inspect_image(image.reference()).await {
            Ok(found) => found,
            Err(Error::DockerResponseServerError { status_code: 404, .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let config = found.config.unwrap_or_default();
        Ok(found.id.map(|id| Found {
            id,
            entrypoint: config.entrypoint.unwrap_or_default(),
            command: config.cmd.unwrap_or_default(),
            has_volumes: config.volumes.is_some_and(|it| !it.is_empty()),
        }))
    }

    /// Fetches an image.
    ///
    /// # Errors
    /// Why not, for people.
    pub(super) async fn pull(&self, image: &Image) -> Result<(), String> {
        let mut client = self.client().map_err(|_| ABSENT.to_owned())?;
        client.set_timeout(PULL_WITHIN);
        let options = CreateImageOptionsBuilder::default().from_image(image.reference()).build();
        let pulled = tokio::time::timeout(PULL_WITHIN, async {
            let mut steps = std::pin::pin!(client.create_image(Some(options), None, None));
            while let Some(step) = steps.next().await {
                step?;
            }
            Ok::<_, Error>(())
        });
        match pulled.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(format!("its image could not be pulled: {}", shown(&error))),
            Err(_) => Err(format!("its image could not be pulled within {} s", PULL_WITHIN.as_secs())),
        }
    }
}

const ABSENT: &str = "no container engine answers (OPENSKILL_DOCKER_HOST)";

/// An engine's or a registry's words, for people: bounded, and without the host's paths.
fn shown(error: &Error) -> String {
    let (Error::DockerResponseServerError { message: text, .. } | Error::DockerStreamError { error: text }) = error
    else {
        return "the engine did not answer".to_owned();
    };
    let clean = text.replace(char::is_control, " ");
    let words = clean.split_whitespace().map(|it| if it.starts_with('/') { "..." } else { it });
    let text = words.collect::<Vec<_>>().join(" ");
    text[..text.floor_char_boundary(MAX_SHOWN)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engines_words_are_bounded_and_hold_no_path() {
        let message = format!("open /var/lib/x: no\nsuch file{}", "!".repeat(1000));
        let text = shown(&Error::DockerResponseServerError { status_code: 500, message });
        assert!(text.starts_with("open ... no such file!") && text.len() <= MAX_SHOWN, "{text}");
    }
}
