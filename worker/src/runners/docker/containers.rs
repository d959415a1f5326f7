//! Lists and removes containers by label.

use std::collections::HashMap;

use bollard::Docker;
use bollard::errors::Error;
use bollard::query_parameters::{ListContainersOptionsBuilder, RemoveContainerOptionsBuilder};

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
            if openskill_log::admits("a container was not removed") {
                tracing::warn!(name, %error, "a container could not be removed");
            }
            false
        }
    }
}
