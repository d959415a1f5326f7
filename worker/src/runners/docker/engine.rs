//! The container engine: its address, its properties, its images and its containers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bollard::errors::Error;
use bollard::query_parameters::{
    CreateImageOptionsBuilder, ListContainersOptionsBuilder, RemoveContainerOptionsBuilder,
};
use bollard::{API_DEFAULT_VERSION, Docker};
use futures_util::StreamExt as _;

use crate::manifest::docker::Image;

/// The timeouts for the answer to a request, in seconds, and for a pull.
const ANSWER_WITHIN_S: u64 = 20;
const PULL_WITHIN: Duration = Duration::from_secs(600);

/// The maximum length of an engine's error text that is shown, in bytes.
const MAX_SHOWN: usize = 200;

/// A container engine at one address.
#[derive(Debug, Clone)]
pub(super) struct Engine {
    pub(super) host: String,
}

/// An image that the engine has already pulled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ResolvedImage {
    /// `sha256:...`. Containers are created from this id, even if the name later refers to another image.
    pub(super) id: String,
    pub(super) entrypoint: Vec<String>,
    pub(super) command: Vec<String>,
    /// Whether it declares volumes. These are on the host's disk, outside the read-only root.
    pub(super) has_volumes: bool,
}

impl Engine {
    /// Returns whether the engine uses this machine's kernel.
    pub(super) fn is_local(&self) -> bool {
        self.host.starts_with("unix://")
    }

    /// Creates a client. It keeps no connections between requests, so it works on any runtime and survives an
    /// engine restart.
    pub(super) fn client(&self) -> Result<Docker, Error> {
        if self.is_local() {
            Docker::connect_with_unix(&self.host, ANSWER_WITHIN_S, API_DEFAULT_VERSION)
        } else {
            Docker::connect_with_http(&self.host, ANSWER_WITHIN_S, API_DEFAULT_VERSION)
        }
    }

    /// Asks how many CPUs the engine has. `within`: the timeout.
    ///
    /// # Errors
    /// Returns the reason, for people, if the engine is unavailable.
    pub(super) async fn cpus(&self, within: Duration) -> Result<f64, String> {
        let client = self.client().map_err(|_| ABSENT.to_owned())?;
        let asked = tokio::time::timeout(within, client.info()).await;
        match asked {
            Ok(Ok(info)) => Ok(info.ncpu.unwrap_or(1).max(1) as f64),
            Ok(Err(Error::DockerResponseServerError { status_code, .. })) => {
                Err(format!("the container engine refused the request (status {status_code})"))
            }
            Ok(Err(error)) => {
                tracing::debug!(%error, "no container engine");
                Err(ABSENT.to_owned())
            }
            Err(_) => Err("the container engine does not answer".to_owned()),
        }
    }

    /// Finds an image. Returns `None` if the engine does not have it.
    pub(super) async fn find(&self, image: &Image) -> Result<Option<ResolvedImage>, Error> {
        let found = match self.client()?.inspect_image(image.reference()).await {
            Ok(found) => found,
            Err(Error::DockerResponseServerError { status_code: 404, .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let config = found.config.unwrap_or_default();
        Ok(found.id.map(|id| ResolvedImage {
            id,
            entrypoint: config.entrypoint.unwrap_or_default(),
            command: config.cmd.unwrap_or_default(),
            has_volumes: config.volumes.is_some_and(|it| !it.is_empty()),
        }))
    }

    /// Pulls an image.
    ///
    /// # Errors
    /// Returns the reason, for people, if the pull fails.
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
            Ok(Err(error)) => Err(format!("its image could not be pulled: {}", public_text(&error))),
            Err(_) => Err(format!("its image could not be pulled within {} s", PULL_WITHIN.as_secs())),
        }
    }
}

const ABSENT: &str = "no container engine answers (OPENSKILL_DOCKER_HOST)";

/// Makes an error text of an engine or registry presentable: truncates it and removes host paths.
fn public_text(error: &Error) -> String {
    let (Error::DockerResponseServerError { message: text, .. } | Error::DockerStreamError { error: text }) = error
    else {
        return "the engine did not answer".to_owned();
    };
    let clean = text.replace(char::is_control, " ");
    let words = clean.split_whitespace().map(|it| if it.starts_with('/') { "..." } else { it });
    let text = words.collect::<Vec<_>>().join(" ");
    text[..text.floor_char_boundary(MAX_SHOWN)].to_owned()
}

/// Lists the containers with this label, running or not: their names and all their labels.
pub(super) async fn list(client: &Docker, label: &str) -> Result<Vec<(String, HashMap<String, String>)>, Error> {
    let filters = HashMap::from([("label", vec![label])]);
    let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
    let found = client.list_containers(Some(options)).await?;
    let named = found.into_iter().filter_map(|it| {
        let name = it.names?.into_iter().next()?.trim_start_matches('/').to_owned();
        Some((name, it.labels.unwrap_or_default()))
    });
    Ok(named.collect())
}

/// Removes a container. Returns whether it is removed or is being removed.
pub(super) async fn remove(client: &Docker, name: &str) -> bool {
    let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
    match client.remove_container(name, Some(options)).await {
        Ok(()) | Err(Error::DockerResponseServerError { status_code: 404 | 409, .. }) => true,
        Err(error) => {
            if openskill_telemetry::log::admits("a container was not removed") {
                tracing::warn!(name, %error, "a container could not be removed");
            }
            false
        }
    }
}

/// An available image, and the number of CPUs of the engine that has it.
#[derive(Clone)]
pub(super) struct UsableImage {
    pub(super) image: Arc<ResolvedImage>,
    pub(super) cpus: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engines_words_are_bounded_and_hold_no_path() {
        let message = format!("open /var/lib/x: no\nsuch file{}", "!".repeat(1000));
        let text = public_text(&Error::DockerResponseServerError { status_code: 500, message });
        assert!(text.starts_with("open ... no such file!") && text.len() <= MAX_SHOWN, "{text}");
    }
}
